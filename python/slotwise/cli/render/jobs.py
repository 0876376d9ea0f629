"""The batch view of ``q``, its header, and its sentences of totals."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.classad.values import number, whole
from slotwise.cli.render import colours
from slotwise.cli.render.printas import Scene, batch_name
from slotwise.cli.render.table import Column, on_terminal, table
from slotwise.client.totals import JobCounts, QueueTotals

#: A line of the table of jobs as far as the status: it stands behind the first time in days.
_STATUS_IN_LINE = re.compile(r"(.*?\d\+\d\d:\d\d:\d\d )(\S+)")
JOBS_HEADING = " ID      OWNER            SUBMITTED     RUN_TIME ST PRI   SIZE CMD\n"


class Batch(Struct, frozen=True):
    """A row of the batch view.

    :param submitted: when its first job was submitted, seconds since the epoch; None: the ads do not say.
    """

    owner: str
    name: str
    submitted: float | None
    done: int
    running: int
    idle: int
    held: int
    total: int
    job_ids: str


def with_colours(lines: str) -> str:
    """The table of jobs that a schedd has made, with the status of each job in its colour."""
    return "".join(
        match[1] + f"\033[{colour}m{match[2]}\033[0m" + line[match.end() :]
        if (match := _STATUS_IN_LINE.match(line)) and (colour := colours.job_status(match[2]))
        else line
        for line in lines.splitlines(keepends=True)
    )


def header(totals: QueueTotals, submitter: tuple[str, str] | None = None) -> str:
    """``-- Schedd: name : <address> @ MM/DD/YY HH:MM:SS``, or ``-- Submitter: name : <address> : machine @ ...``."""
    now = datetime.fromtimestamp(totals.now).strftime("%m/%d/%y %H:%M:%S")
    if submitter:
        name, machine = submitter
        return f"\n\n-- Submitter: {name} : <{totals.address}> : {machine} @ {now}\n"
    return f"\n\n-- Schedd: {totals.schedd} : <{totals.address}> @ {now}\n"


def footer(totals: QueueTotals, *, own: bool = True, width: int = 0) -> str:
    """The three sentences that monitors parse; ``own``: with that of the caller's own jobs.

    On a terminal of ``width`` columns that one of them does not fit, they are without counts of 0; 0: on none.
    """
    whose = [("query", totals.query), *([(totals.user, totals.mine)] if own else []), ("all users", totals.everyone)]
    lines = [f"Total for {name}: {sentence(counts)}" for name, counts in whose]
    if width and max(map(len, lines)) > width:
        lines = [f"Total for {name}: {sentence(counts, zeros=False)}" for name, counts in whose]
    return "\n" + " \n".join(lines) + "\n\n"


def unlogged(totals: QueueTotals) -> str:
    """What follows the footer when event logs cannot be written, else ""."""
    jobs, reason = totals.unlogged
    if not jobs:
        return ""
    which = "1 job waits for its event log" if jobs == 1 else f"{jobs} jobs wait for their event logs"
    return f"{which} (UserLogError): {reason}; it is tried again\n\n"


def sentence(counts: JobCounts, *, zeros: bool = True) -> str:
    """Counts of jobs in words that monitors parse; without ``zeros``, which people read, only those above 0."""
    states = ("completed", "removed", "idle", "running", "held", "suspended")
    shown = [f"{number} {name}" for name in states if (number := getattr(counts, name)) or zeros]
    return f"{counts.jobs} jobs" + (f"; {', '.join(shown)}" if shown else "")


def batch_table(
    batches: Sequence[Batch], width: int, *, as_htcondor: bool = False, screen: bool = False, coloured: bool = False
) -> str:
    """One line a batch; the column HOLD only when a job is held, or nothing is shown. ``as_htcondor``: where lines are
    cut, the first columns are as wide as those of HTCondor's tool. ``screen``: for a terminal of this width, escaped,
    ``coloured`` or not."""
    wide = as_htcondor and width > 0
    held = not batches or any(batch.held for batch in batches)
    columns = [
        Column("OWNER", width=8 if wide else 5, most=14 if as_htcondor or width else 0),
        Column("BATCH_NAME", width=11 if wide else 10, most=0 if not width else 32),
        Column("SUBMITTED", right=True, width=11),
        Column("DONE", right=True, width=6),
        Column("RUN", right=True, width=6, colour=colours.count_in(colours.GREEN)),
        Column("IDLE", right=True, width=6, colour=colours.count_in(colours.YELLOW)),
        *([Column("HOLD", right=True, width=6, colour=colours.count_in(colours.RED))] if held else []),
        Column("TOTAL", right=True, width=6),
        Column("JOB_IDS"),
    ]
    cells = []
    for batch in batches:
        counts = [batch.done, batch.running, batch.idle, *([batch.held] if held else []), batch.total]
        cells.append(
            [
                batch.owner,
                batch.name,
                _submitted(batch.submitted),
                *(str(n) if n else "_" for n in counts),
                batch.job_ids,
            ]
        )
    if screen:
        return on_terminal(columns, cells, width, coloured=coloured)
    return table(columns, cells, width=width)


def _submitted(when: float | None) -> str:
    if when is None:
        return ""
    moment = datetime.fromtimestamp(when)
    return f"{moment.month}/{moment.day:<2} {moment:%H:%M}"


_COUNTED = {1: "idle", 2: "running", 3: "removed", 4: "completed", 5: "held", 6: "running", 7: "suspended"}


def counted(ads: Sequence[ClassAd]) -> JobCounts:
    """Jobs by state."""
    found = Counter(_COUNTED.get(whole(ad.get("JobStatus"))) for ad in ads)
    counts = {state: found[state] for state in dict.fromkeys(_COUNTED.values())}
    return JobCounts(jobs=sum(counts.values()), **counts)


def batches_of_reply(text: bytes) -> list[Batch]:
    """The batches that a schedd has counted."""
    return [
        Batch(
            row["Owner"],
            row["BatchName"],
            _time(row["QDate"]),
            row["Done"],
            row["Run"],
            row["Idle"],
            row["Hold"],
            row["Total"],
            row["JobIds"],
        )
        for row in json.loads(text or b"[]")
    ]


def batches_of(ads: Sequence[ClassAd], *, as_submitted: bool = False) -> list[Batch]:
    """The batches of job ads. ``as_submitted``: totals are what the clusters' ads say of their jobs, as HTCondor's tool
    shows them, and not the number of ads."""
    members: dict[tuple[str, str], list[ClassAd]] = {}
    scene = Scene(0.0)
    for ad in ads:
        # A cluster is of one owner.
        owner = str(ad.get("Owner") or "") if ad.get("JobBatchName") or not as_submitted else ""
        members.setdefault((owner, batch_name(None, ad, scene) or ""), []).append(ad)
    found = [_batch(str(jobs[0].get("Owner") or ""), name, jobs) for (_, name), jobs in members.items()]
    if not as_submitted:
        return found
    shown = []
    for batch, jobs in zip(found, members.values(), strict=True):
        procs = {whole(ad.get("ClusterId")): whole(ad.get("TotalSubmitProcs")) for ad in jobs}
        shown.append(replace(batch, done=0, total=sum(procs.values())))
    return shown


def _batch(owner: str, name: str, jobs: Sequence[ClassAd]) -> Batch:
    counts = counted(jobs)
    ids = sorted((whole(ad.get("ClusterId")), whole(ad.get("ProcId"))) for ad in jobs)
    first, last = ids[0], ids[-1]
    if first == last:
        text = f"{first[0]}.{first[1]}"
    else:
        text = f"{first[0]}.{first[1]}" + (f"-{last[1]}" if first[0] == last[0] else f" ... {last[0]}.{last[1]}")
    return Batch(
        owner,
        name,
        min(number(ad.get("QDate")) for ad in jobs),
        counts.completed,
        counts.running + counts.suspended,
        counts.idle,
        counts.held,
        counts.jobs,
        text,
    )


def _time(value: object) -> float | None:
    return value if isinstance(value, int | float) else None
