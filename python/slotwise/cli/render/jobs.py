"""Tables of jobs: the batch view, the views of running, idle and held jobs, header and footer of ``q``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from slotwise.cli.render.autoformat import span
from slotwise.cli.render.table import Column, table

JOBS_HEADING = " ID      OWNER          SUBMITTED       RUN_TIME ST PRI SIZE   CMD\n"
_LETTERS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S"}
_UNIVERSES = {1: "standard", 5: "vanilla", 7: "scheduler", 9: "grid", 10: "java", 11: "parallel", 12: "local", 13: "vm"}

#: What the views read.
ATTRIBUTES = [
    "ClusterId", "ProcId", "Owner", "QDate", "JobStatus", "JobUniverse", "RequestCpus", "RequestMemory", "NumJobStarts",
    "LastRemoteHost", "RemoteHost", "HoldReason", "HoldReasonCode", "HoldReasonSubCode", "EnteredCurrentStatus",
    "RemoteWallClockTime", "ShadowBday", "JobPrio", "MemoryUsage", "ResidentSetSize", "ImageSize", "Cmd", "Args",
    "Arguments", "AutoClusterId", "RequestDisk", "Requirements",
]  # fmt: skip


def header(totals: dict[str, Any]) -> str:
    """``-- Schedd: name : <address> @ MM/DD/YY HH:MM:SS``."""
    now = datetime.fromtimestamp(totals["Now"]).strftime("%m/%d/%y %H:%M:%S")
    return f"\n\n-- Schedd: {totals['Schedd']} : <{totals['Address']}> @ {now}\n"


def footer(totals: dict[str, Any]) -> str:
    """The three sentences that monitors parse."""
    return (
        f"\nTotal for query: {_sentence(totals['Query'])} \n"
        f"Total for {totals['User']}: {_sentence(totals['Mine'])} \n"
        f"Total for all users: {_sentence(totals['All'])}\n\n"
    )


def _sentence(row: dict[str, int]) -> str:
    return (
        f"{row['Jobs']} jobs; {row['Completed']} completed, {row['Removed']} removed, {row['Idle']} idle, "
        f"{row['Running']} running, {row['Held']} held, {row['Suspended']} suspended"
    )


def batch_table(rows: Sequence[dict[str, Any]], width: int) -> str:
    """One line a batch; the column HOLD only when a job is held, or nothing is shown."""
    held = not rows or any(row["Hold"] for row in rows)
    columns = [
        Column("OWNER", width=5, most=14),
        Column("BATCH_NAME", width=10, most=0 if not width else 32),
        Column("SUBMITTED", right=True, width=11),
        Column("DONE", right=True, width=6),
        Column("RUN", right=True, width=6),
        Column("IDLE", right=True, width=6),
        *([Column("HOLD", right=True, width=6)] if held else []),
        Column("TOTAL", right=True, width=6),
        Column("JOB_IDS"),
    ]
    cells = []
    for row in rows:
        counts = [row["Done"], row["Run"], row["Idle"], *([row["Hold"]] if held else []), row["Total"]]
        cells.append(
            [
                row["Owner"],
                row["BatchName"],
                _submitted(row["QDate"]),
                *(str(n) if n else "_" for n in counts),
                row["JobIds"],
            ]
        )
    return table(columns, cells, width=width)


def _submitted(when: Any) -> str:
    if not isinstance(when, (int, float)):
        return ""
    moment = datetime.fromtimestamp(when)
    return f"{moment.month}/{moment.day:<2} {moment:%H:%M}"


def _id(ad: Any) -> str:
    return f"{ad.get('ClusterId'):>4}.{ad.get('ProcId'):<3}"


def _number(ad: Any, name: str, default: float = 0) -> float:
    value = ad.eval(name) if name in ad else default
    return value if isinstance(value, (int, float)) else default


def _text(ad: Any, name: str) -> str:
    value = ad.get(name)
    return value if isinstance(value, str) else ""


def _run_time(ad: Any, now: float) -> str:
    total = _number(ad, "RemoteWallClockTime")
    if ad.get("JobStatus") in (2, 6, 7):
        total += max(0.0, now - _number(ad, "ShadowBday", now))
    return span(total)


def view(name: str, ads: Iterable[Any], now: float, width: int) -> str:
    """The table of ``-run``, ``-idle``, ``-hold`` or ``-hold-codes``."""
    return _VIEWS[name](list(ads), now, width)


def _run(ads: list[Any], now: float, width: int) -> str:
    columns = [Column("ID", width=8), Column("OWNER", width=14, most=14), Column("SUBMITTED", right=True, width=11),
               Column("RUN_TIME", right=True, width=12), Column("HOST(S)")]  # fmt: skip
    rows = [
        [_id(ad), _text(ad, "Owner"), _submitted(ad.get("QDate")), _run_time(ad, now), _text(ad, "RemoteHost")]
        for ad in ads
    ]
    return table(columns, rows, width=width)


def _idle(ads: list[Any], now: float, width: int) -> str:
    columns = [Column("ID", width=8), Column("OWNER", width=14, most=14), Column("UNIVERSE", width=9),
               Column("CPUS", right=True), Column("MEMORY", right=True, width=8), Column("STARTS", right=True),
               Column("LAST_HOST")]  # fmt: skip
    rows = [
        [
            _id(ad),
            _text(ad, "Owner"),
            _UNIVERSES.get(ad.get("JobUniverse"), "?"),
            str(int(_number(ad, "RequestCpus", 1))),
            f"{_number(ad, 'RequestMemory'):.1f} MB",
            str(int(_number(ad, "NumJobStarts"))),
            _text(ad, "LastRemoteHost"),
        ]
        for ad in ads
    ]
    return table(columns, rows, width=width)


def _hold(ads: list[Any], now: float, width: int) -> str:
    columns = [Column("ID", width=8), Column("OWNER", width=14, most=14), Column("HELD_SINCE", right=True, width=11),
               Column("CODE/SUB", right=True), Column("HOLD_REASON")]  # fmt: skip
    rows = [
        [
            _id(ad),
            _text(ad, "Owner"),
            _submitted(ad.get("EnteredCurrentStatus")),
            f"{ad.get('HoldReasonCode', 0)}/{ad.get('HoldReasonSubCode', 0)}",
            _text(ad, "HoldReason"),
        ]
        for ad in ads
    ]
    return table(columns, rows, width=width)


def _hold_codes(ads: list[Any], now: float, width: int) -> str:
    seen: dict[tuple[Any, Any], Any] = {}
    for ad in ads:
        seen.setdefault((ad.get("HoldReasonCode"), ad.get("HoldReasonSubCode")), ad)
    return _hold(list(seen.values()), now, width)


_VIEWS = {"run": _run, "idle": _idle, "hold": _hold, "hold-codes": _hold_codes}


def jobs(ads: Iterable[Any], now: float) -> str:
    """Rows of the table of jobs, from ads."""
    lines = []
    for ad in ads:
        command = " ".join(
            part for part in (_text(ad, "Cmd").rpartition("/")[2], _text(ad, "Args") or _text(ad, "Arguments")) if part
        )
        memory = ad.eval("MemoryUsage") if "MemoryUsage" in ad else None
        size = memory if isinstance(memory, (int, float)) else _number(ad, "ImageSize") / 1024
        submitted = _submitted(ad.get("QDate"))
        lines.append(
            f"{_id(ad)} {_text(ad, 'Owner'):<14.14} {submitted:>11} {_run_time(ad, now):>12} "
            f"{_LETTERS.get(ad.get('JobStatus'), '?'):<2} {int(_number(ad, 'JobPrio')):<3d} {size:6.1f} {command}\n"
        )
    return "".join(lines)


def autoclusters(ads: Iterable[Any]) -> str:
    """Counts of jobs that ask for the same."""
    counts: dict[tuple[str, ...], int] = {}
    for ad in ads:
        key = (
            _UNIVERSES.get(ad.get("JobUniverse"), "?"),
            f"{_number(ad, 'RequestCpus', 1):g}",
            f"{_number(ad, 'RequestMemory'):g}",
            f"{_number(ad, 'RequestDisk'):g}",
            str(ad.lookup("Requirements")) if "Requirements" in ad else "undefined",
        )
        counts[key] = counts.get(key, 0) + 1
    columns = [Column("ID", right=True, width=4), Column("COUNT", right=True), Column("UNIVERSE", width=9),
               Column("CPUS", right=True), Column("MEMORY", right=True), Column("DISK", right=True),
               Column("REQUIREMENTS")]  # fmt: skip
    rows = [[str(n), str(counts[key]), *key] for n, key in enumerate(counts, 1)]
    return table(columns, rows)
