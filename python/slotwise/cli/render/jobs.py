"""The batch view of ``q``, its header, and its sentences of totals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from slotwise.cli.render.printas import Scene, batch_name
from slotwise.cli.render.table import Column, table

JOBS_HEADING = " ID      OWNER            SUBMITTED     RUN_TIME ST PRI   SIZE CMD\n"


def header(totals: dict[str, Any]) -> str:
    """``-- Schedd: name : <address> @ MM/DD/YY HH:MM:SS``."""
    now = datetime.fromtimestamp(totals["Now"]).strftime("%m/%d/%y %H:%M:%S")
    return f"\n\n-- Schedd: {totals['Schedd']} : <{totals['Address']}> @ {now}\n"


def footer(totals: dict[str, Any], *, own: bool = True) -> str:
    """The three sentences that monitors parse; ``own``: with that of the caller's own jobs."""
    mine = f"Total for {totals['User']}: {sentence(totals['Mine'])} \n" if own else ""
    return f"\nTotal for query: {sentence(totals['Query'])} \n{mine}Total for all users: {sentence(totals['All'])}\n\n"


def sentence(row: dict[str, int]) -> str:
    """Counts of jobs in words that monitors parse."""
    return (
        f"{row['Jobs']} jobs; {row['Completed']} completed, {row['Removed']} removed, {row['Idle']} idle, "
        f"{row['Running']} running, {row['Held']} held, {row['Suspended']} suspended"
    )


def batch_table(rows: Sequence[dict[str, Any]], width: int, *, as_htcondor: bool = False) -> str:
    """One line a batch; the column HOLD only when a job is held, or nothing is shown. ``as_htcondor``: where lines are
    cut, the first columns are as wide as those of HTCondor's tool."""
    wide = as_htcondor and width > 0
    held = not rows or any(row["Hold"] for row in rows)
    columns = [
        Column("OWNER", width=8 if wide else 5, most=14),
        Column("BATCH_NAME", width=11 if wide else 10, most=0 if not width else 32),
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


_COUNTED = {1: "Idle", 2: "Running", 3: "Removed", 4: "Completed", 5: "Held", 6: "Running", 7: "Suspended"}


def counted(ads: Sequence[Any]) -> dict[str, int]:
    """Jobs by state."""
    counts = dict.fromkeys(("Jobs", *_COUNTED.values()), 0)
    for ad in ads:
        name = _COUNTED.get(ad.get("JobStatus"))
        if name is not None:
            counts[name] += 1
            counts["Jobs"] += 1
    return counts


def batch_rows(ads: Sequence[Any], *, as_submitted: bool = False) -> list[dict[str, Any]]:
    """Rows of the batch view, made of ads. ``as_submitted``: totals are what the clusters' ads say of their jobs, as
    HTCondor's tool shows them, and not the number of ads."""
    batches: dict[tuple[str, str], list[Any]] = {}
    scene = Scene(0.0)
    for ad in ads:
        batches.setdefault((str(ad.get("Owner") or ""), batch_name(None, ad, scene) or ""), []).append(ad)
    rows = [_batch_row(owner, name, members) for (owner, name), members in batches.items()]
    if as_submitted:
        for row, members in zip(rows, batches.values(), strict=True):
            procs = {ad.get("ClusterId"): ad.get("TotalSubmitProcs") for ad in members}
            row["Done"], row["Total"] = 0, sum(count for count in procs.values() if isinstance(count, int))
    return rows


def _batch_row(owner: str, name: str, members: Sequence[Any]) -> dict[str, Any]:
    counts = counted(members)
    ids = sorted((ad.get("ClusterId", 0), ad.get("ProcId", 0)) for ad in members)
    first, last = ids[0], ids[-1]
    if first == last:
        text = f"{first[0]}.{first[1]}"
    else:
        text = f"{first[0]}.{first[1]}" + (f"-{last[1]}" if first[0] == last[0] else f" ... {last[0]}.{last[1]}")
    return {
        "Owner": owner,
        "BatchName": name,
        "QDate": min((ad.get("QDate", 0) for ad in members), default=0),
        "Done": counts["Completed"],
        "Run": counts["Running"] + counts["Suspended"],
        "Idle": counts["Idle"],
        "Hold": counts["Held"],
        "Total": counts["Jobs"],
        "JobIds": text,
    }
