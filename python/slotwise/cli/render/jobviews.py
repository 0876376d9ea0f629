"""The views of jobs that ``q`` and ``history`` show one line a job: their columns (manual page of condor_q)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.classad.values import whole
from slotwise.cli.render import colours
from slotwise.cli.render.layout import Item, Layout, ranges

_ID = (
    Item("ClusterId", " ID", printf="%4d.", width=5, left=True, suffix=False),
    Item("ProcId", "", printf="%-3d", width=3, left=True, prefix=False),
)
_OWNER = Item("Owner", "OWNER", "OWNER", width=14, most=14, left=True, instead="??")
_SUBMITTED = Item("QDate", "SUBMITTED", "QDATE", width=11, instead="??")
_RUN_TIME = Item("RemoteUserCpu", "RUN_TIME", "RUN_TIME", width=12)
_STATUS = Item("JobStatus", "ST", "JOB_STATUS", width=2, left=True, colour=colours.job_status)
_REST = (
    Item("JobPrio", "PRI", width=3, left=True, instead="0"),
    Item("ImageSize", "SIZE", "MEMORY_USAGE", width=4),
    Item("Cmd", "CMD", "JOB_DESCRIPTION", left=True),
)
#: ``-run``, ``-idle``, ``-hold``: only jobs in that state.
RUNNING = "JobStatus == 2 || JobStatus == 6 || JobStatus == 7"

DIGEST = Item("JobMaterializeDigestFile", "DIGEST", left=True, instead="_")

VIEWS: dict[str, Layout] = {
    "nobatch": Layout((*_ID, _OWNER, _SUBMITTED, _RUN_TIME, _STATUS, *_REST)),
    "cputime": Layout((*_ID, _OWNER, _SUBMITTED, replace(_RUN_TIME, heading="CPU_TIME", printas="CPU_SPENT"),
                       _STATUS, *_REST)),
    "dag": Layout((*_ID, Item("Owner", "OWNER/NODENAME", "DAG_OWNER", width=17, left=True), _SUBMITTED, _RUN_TIME,
                   _STATUS, *_REST)),
    "run": Layout((*_ID, _OWNER, _SUBMITTED, _RUN_TIME,
                   Item("RemoteHost", "HOST(S)", "REMOTE_HOST", left=True, instead="??")), summary=False,
                  where=RUNNING),
    "idle": Layout((
        *_ID, _OWNER,
        Item("JobUniverse", "UNIVERSE", "JOB_UNIVERSE", width=9, left=True),
        Item("RequestCpus", "CPUS", width=4, instead="?"),
        Item("RequestMemory", "MEMORY", width=6, instead="?"),
        Item("NumShadowStarts ?: 0", "STARTS", width=6),
        Item("LastRemoteHost", "LAST_HOST", left=True),
    ), summary=False, where="JobStatus == 1"),
    "hold": Layout((
        *_ID, _OWNER,
        Item("EnteredCurrentStatus", "HELD_SINCE ", "QDATE", width=11, instead="??"),
        Item("HoldReasonCode", "CODE", printf="%d", width=4, instead="?", suffix=False),
        Item("HoldReasonSubCode", "/SUB", printf="/%-3d", width=4, left=True, instead=" ", prefix=False),
        Item("HoldReason", "HOLD_REASON", left=True, instead="??"),
    ), where="JobStatus == 5"),
    "hold-codes": Layout((
        _OWNER,
        Item("HoldReasonCode", "CODE", printf="%d", width=4, instead="?", suffix=False),
        Item("HoldReasonSubCode", "/SUB", printf="/%-3d", width=4, left=True, instead=" ", prefix=False),
        Item("JobCount", "COUNT", printf="%d", width=6),
        Item("OldestJobId", "OLDEST_JOB_ID", left=True),
        Item("EnteredCurrentStatus", "HELD_SINCE ", "QDATE", width=11, instead="??"),
        Item("HoldReason", "HOLD_REASON", left=True, instead="??"),
    ), summary=False, where="JobStatus == 5", group_by=(("HoldReasonCode", False), ("HoldReasonSubCode", False))),
    "io": Layout((
        *_ID, _OWNER,
        Item("NumJobStarts", "RUNS", printf="%4d", width=4, instead="?"),
        _STATUS,
        Item("BytesRecvd", " INPUT", "READABLE_BYTES", instead="??"),
        Item("BytesSent", " OUTPUT", "READABLE_BYTES", instead="??"),
        Item("BytesRecvd + BytesSent", " RATE     ", "READABLE_BYTES", instead="??"),
        Item("JobUniverse", "MISC", "BUFFER_IO_MISC", left=True),
    ), where="TransferQueued =?= true || TransferringOutput =?= true || TransferringInput =?= true"),
    "grid": Layout((
        *_ID, _OWNER,
        Item("GridJobStatus", "STATUS", "GRID_STATUS", width=10, left=True, instead="?"),
        Item("GridResource", "GRID->MANAGER    HOST", "GRID_RESOURCE", width=27, left=True, instead="?"),
        Item("GridJobId", "GRID_JOB_ID", "GRID_JOB_ID", left=True, instead="?"),
    ), summary=False, where="JobUniverse == 9"),
    "factory": Layout((
        replace(_ID[0], width=8, suffix=True), _OWNER, _SUBMITTED,
        *(Item(name, heading, printf="%d", width=6, instead="_") for name, heading in (
            ("JobMaterializeLimit", "LIMIT"), ("JobsPresent", "PRESNT"), ("JobsRunning", "RUN "), ("JobsIdle", "IDLE"),
            ("JobsHeld", "HOLD"), ("JobMaterializeNextProcId", "NEXTID"))),
        Item("JobMaterializePaused ?: JobFactoryPaused", "MODE", "JOB_FACTORY_MODE", left=True, instead="_"),
        Item("JobBatchName", "BATCH_NAME", left=True, instead="_"),
    ), summary=False),
    "jobset": Layout((
        Item("JobSetId", "JOBSETID", width=8), Item("JobSetName", "NAME", left=True),
        Item("Owner", "OWNER", left=True),
        *(Item(name, heading, width=max(7, len(heading))) for name, heading in (
            ("NumCompleted", "COMPLETE"), ("NumRemoved", "REMOVED"), ("NumIdle", "IDLE"), ("NumRunning", "RUNNING"),
            ("NumHeld", "HELD"))),
    ), summary=False, where="JobSetId isnt undefined && ProcId is undefined"),
    "actions": Layout((
        Item("ActionId", "ID", width=4), Item("User", "USER", left=True), Item("Action", "ACTION", width=8, left=True),
        Item("StartedAt", "STARTED", "QDATE", width=11), Item("JobsTotal", "JOBS", width=9),
        Item("JobsDone", "DONE", width=9), Item("100 * JobsDone / JobsTotal", "%", width=4),
        Item("Reason", "REASON", left=True),
    ), summary=False),
    "autocluster": Layout((
        Item("AutoClusterId", "ID", width=5, instead="?"), Item("JobCount", "COUNT", width=5),
        Item("JobUniverse", "UNIVERSE", "JOB_UNIVERSE", width=8, left=True, instead="??"),
        Item("RequestCpus", "CPUS", width=4, instead="??"), Item("RequestMemory", "MEMORY", width=6, instead="??"),
        Item("RequestDisk", "DISK", width=8, instead="??"),
        Item("Requirements", "REQUIREMENTS", printf="%r", left=True),
    ), summary=False),
    "history": Layout((
        *_ID, _OWNER, _SUBMITTED,
        Item("RemoteWallClockTime", "RUN_TIME", "RUNTIME", width=12, instead="?"),
        _STATUS,
        Item("CompletionDate > 0 ? CompletionDate : undefined", "COMPLETED", "QDATE", width=11, instead=" "),
        Item("Cmd", "CMD", "JOB_COMMAND", left=True),
    )),
}  # fmt: skip


def of_htcondors_history(*, named: bool) -> Layout:
    """The history as HTCondor's tool shows it, whose column of ids is wider. ``named``: whether ads name a command."""
    usual = VIEWS["history"]
    command = usual.items[-1] if named else Item('"???"', "CMD", left=True)
    return replace(usual, items=(Item("ClusterId", " ID", "JOB_ID", width=12, left=True), *usual.items[2:-1], command))


def below_their_dags(ads: Iterable[ClassAd]) -> list[ClassAd]:
    """Jobs by cluster and proc, each DAG followed by the jobs of its nodes, those of DAGs within it among them. Each
    tells how many DAGs are above it (DAGDepth), by which DAG_OWNER indents the names of nodes."""
    found = list(ads)
    drivers = {whole(ad.get("ClusterId")): whole(ad.get("DAGManJobId") or 0) for ad in found}

    def place(ad: ClassAd) -> tuple[list[int], int]:
        cluster = whole(ad.get("ClusterId"))
        path = [cluster]
        driver = drivers[cluster]
        while driver in drivers and driver not in path:
            path.append(driver)
            driver = drivers[driver]
        ad["DAGDepth"] = len(path) - 1
        return path[::-1], whole(ad.get("ProcId"))

    return sorted(found, key=place)


def by_hold_code(ads: Iterable[ClassAd]) -> list[ClassAd]:
    """The first held job of each owner and kind of reason, with the number of those like it."""
    found: dict[tuple[str, ...], ClassAd] = {}
    for ad in ads:
        key = tuple(str(ad.get(name)) for name in ("Owner", "HoldReasonCode", "HoldReasonSubCode"))
        first = found.get(key)
        if first is None:
            first = found[key] = ad.copy()
            first["JobCount"], first["OldestJobId"] = 0, f"{ad.get('ClusterId')}.{ad.get('ProcId')}"
        first["JobCount"] = whole(first["JobCount"]) + 1
    return list(found.values())


_ALIKE = ("JobUniverse", "RequestCpus", "RequestMemory", "RequestDisk", "Requirements")


def by_autocluster(ads: Iterable[ClassAd]) -> list[ClassAd]:
    """The first job of each autocluster (of jobs that ask for the same, before they have one), with counts and ids."""
    found = grouped(ads, lambda ad: (str(ad.get("AutoClusterId")), *(_asked(ad, name) for name in _ALIKE)))
    for place, ad in enumerate(found, 1):
        ad.setdefault("AutoClusterId", place)
    return found


def grouped(ads: Iterable[ClassAd], key_of: Callable[[ClassAd], tuple[str, ...]]) -> list[ClassAd]:
    """One ad a group, in order of their first jobs."""
    found: dict[tuple[str, ...], tuple[ClassAd, list[str]]] = {}
    for ad in ads:
        _, ids = found.setdefault(key_of(ad), (ad.copy(), []))
        ids.append(f"{ad.get('ClusterId')}.{ad.get('ProcId')}")
    for first, ids in found.values():
        first["JobCount"], first["JobIds"] = len(ids), ranges(ids)
    return [first for first, _ in found.values()]


def _asked(ad: ClassAd, name: str) -> str:
    """An amount that may depend on the job's number is what it comes to; Requirements are their text."""
    amount = ad.eval(name) if name.startswith("Request") and name in ad else None
    return str(amount) if isinstance(amount, int | float) else _unevaluated(ad, name)


def _unevaluated(ad: ClassAd, name: str) -> str:
    return str(ad.lookup(name)) if name in ad else "undefined"
