"""The functions behind ``PRINTAS`` in print-format tables: a value, or an ad, as people read it.

HTCondor manual, "Print Format Tables", the list of built-in functions. Each takes the evaluated value, the ad and the
scene, and gives text, or None where there is nothing to show.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from slotwise.classad import ClassAd, SpecialValue, Value
from slotwise.classad.values import whole
from slotwise.cli.render.autoformat import moment, text_of
from slotwise.model.durations import days_and_time

UNIVERSES = {
    1: "standard", 4: "pvm", 5: "vanilla", 7: "scheduler", 8: "mpi", 9: "grid", 10: "java", 11: "parallel", 12: "local",
    13: "vm",
}  # fmt: skip
STATUSES = {1: "Idle", 2: "Running", 3: "Removed", 4: "Completed", 5: "Held", 6: "XFerOut", 7: "Suspended"}
_STATUS_LETTERS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S"}
_FACTORY_MODES = {0: "Norm", 1: "Held", 2: "Done", 3: "Gone", -1: "Errs"}
_STATE_LETTERS = {
    "None": "~", "Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Shutdown": "S",
    "Delete": "X", "Backfill": "F", "Drained": "D",
}  # fmt: skip
_ACTIVITY_LETTERS = {
    "None": "0", "Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s", "Benchmarking": "e",
    "Killing": "k", "Cleaning": "c",
}  # fmt: skip


class Scene(Struct, frozen=True):
    """What functions need beside the ad: the time, and how run times are counted."""

    now: float
    #: Only the current run counts, not those before it.
    current_run: bool = False
    #: Name of the schedd that was asked, for jobs that run there.
    schedd: str = ""


Function = Callable[[Value, ClassAd, Scene], str | None]


def number(ad: ClassAd, name: str) -> float | None:
    """A numeric attribute, evaluated; None when it is not a number."""
    return plain_number(ad.eval(name)) if name in ad else None


def plain_number(value: Value) -> float | None:
    """A number; None for anything else, UNDEFINED and truth values too."""
    return value if isinstance(value, int | float) and not isinstance(value, bool | SpecialValue) else None


def text(ad: ClassAd, name: str) -> str | None:
    """A string attribute, evaluated; None when it is not a string."""
    value = ad.eval(name) if name in ad else None
    return value if isinstance(value, str) else None


# ---- times


def _date(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    at = plain_number(value)
    return moment(at) if at is not None and at > 0 else None


def _due_date(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    left, heard = plain_number(value), number(ad, "LastHeardFrom")
    return None if left is None or heard is None else moment(heard + left)


def _elapsed(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    at, heard = plain_number(value), number(ad, "LastHeardFrom")
    return None if at is None or heard is None else days_and_time(heard - at)


def _uptime(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Since a daemon started: until now, not until its last ad (some daemons send one every five minutes)."""
    at = plain_number(value)
    return None if at is None else days_and_time(max(scene.now, number(ad, "LastHeardFrom") or 0) - at)


def _activity_time(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    at, heard = plain_number(value), number(ad, "MyCurrentTime") or number(ad, "LastHeardFrom")
    return None if at is None or heard is None else days_and_time(heard - at)


def _span(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    seconds = plain_number(value)
    return None if seconds is None else days_and_time(seconds)


# ---- sizes and numbers

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def size(amount: float, unit: int = 0) -> str:
    """An amount of ``_UNITS[unit]`` in the largest unit that leaves more than one."""
    while abs(amount) >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}"


def _size(unit: int) -> Function:
    def shown(value: Value, ad: ClassAd, scene: Scene) -> str | None:
        amount = plain_number(value)
        return None if amount is None else size(amount, unit)

    return shown


def _load(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    amount = plain_number(value)
    return None if amount is None else f"{amount:.3f}"


def _cpu_util(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    used, committed = number(ad, "RemoteUserCpu"), number(ad, "CommittedTime")
    return f"{used / committed:.1f}" if used is not None and committed is not None and committed > 0 else None


# ---- lists


def _elements(value: Value) -> list[str] | None:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return [text_of(one) for one in value]
    return None


def _members(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    found = _elements(value)
    return None if found is None else str(len(found))


def _strings(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    found = _elements(value)
    return None if found is None else ", ".join(found)


def unique(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """The elements of a list, each once."""
    found = _elements(value)
    return None if found is None else ", ".join(dict.fromkeys(one for one in found if one != "undefined")) or None


# ---- jobs


def job_status(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """The letters of a job's state: ``<`` and ``>`` while files move, ``q`` while they wait, ``c`` in cool-down."""
    status = plain_number(ad.get("JobStatus"))
    if status is None:
        return None
    letter = _STATUS_LETTERS.get(int(status), "?")
    queued = "q" if ad.get("TransferQueued") is True else ""
    if status == 2 and ad.get("TransferringInput") is True:
        return "<" + queued
    if status == 6 or (status == 2 and ad.get("TransferringOutput") is True):
        return queued + ">"
    cool_down = number(ad, "JobCoolDownExpiration")
    return "Ic" if status == 1 and cool_down is not None and cool_down > scene.now else letter


def _status_raw(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    status = plain_number(value)
    return None if status is None else STATUSES.get(int(status), "Unk")


def _universe(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    universe = plain_number(value)
    return None if universe is None else UNIVERSES.get(int(universe), "Unknown").capitalize()


def _factory_mode(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    mode = plain_number(value)
    return None if mode is None else _FACTORY_MODES.get(int(mode), "Unk")


def _job_id(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    cluster, proc = plain_number(ad.get("ClusterId")), plain_number(ad.get("ProcId"))
    return None if cluster is None else f"{cluster}.{'' if proc is None else proc}"


def owner(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """The job's owner."""
    return text(ad, "Owner")


def dag_owner(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Owner, or for the nodes of a DAG the node's name, indented by the DAGs above it (DAGDepth, where it is known)."""
    node = text(ad, "DAGNodeName")
    if node is None or "DAGManJobId" not in ad:
        return text(ad, "Owner")
    return f"{' ' * max(1, whole(ad.get('DAGDepth')))}|-{node}"


def command(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Name of the executable and its arguments."""
    name = text(ad, "Cmd")
    words = text(ad, "Arguments") or text(ad, "Args")
    return None if name is None else " ".join(part for part in (name.rpartition("/")[2], words) if part)


def description(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """The job's description in brackets, or its command."""
    said = text(ad, "MATCH_EXP_JobDescription") or text(ad, "JobDescription")
    return f"({said})" if said else command(value, ad, scene)


def batch_name(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """The batch the job belongs to."""
    name = text(ad, "JobBatchName")
    if name:
        return name
    cluster = plain_number(ad.get("DAGManJobId")) or plain_number(ad.get("ClusterId"))
    return None if cluster is None else f"ID: {int(cluster)}"


def memory(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Memory use in MiB: measured, or the size of the image."""
    used = number(ad, "MemoryUsage")
    image = number(ad, "ImageSize")
    return f"{used:.1f}" if used is not None else None if image is None else f"{image / 1024:.1f}"


def run_time(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Time since the current run began, with that of all former runs unless only the current one counts."""
    total = 0.0 if scene.current_run else number(ad, "RemoteWallClockTime") or 0.0
    if ad.get("JobStatus") in (2, 6, 7):
        total += max(0.0, scene.now - (number(ad, "ShadowBday") or scene.now))
    return days_and_time(total)


def cpu_time(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """CPU time if any was reported, else the run time."""
    used = number(ad, "RemoteUserCpu")
    return days_and_time(used) if used else run_time(value, ad, scene)


def cpu_spent(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """CPU time alone."""
    return days_and_time(number(ad, "RemoteUserCpu") or 0.0)


def host(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Where the job runs."""
    universe = plain_number(ad.get("JobUniverse"))
    if universe in (7, 12):
        return scene.schedd or None
    if universe == 9:
        return text(ad, "EC2RemoteVirtualMachineName") or text(ad, "GridResource")
    return text(ad, "RemoteHost")


def transfer(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """What the job's files are doing."""
    ways = [way for way, name in (("in", "TransferringInput"), ("out", "TransferringOutput")) if ad.get(name) is True]
    words = ["queued"] * (ad.get("TransferQueued") is True) + ways
    return "transfer=" + ",".join(words) if words else ""


def _grid_status(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    status = ad.get("GridJobStatus")
    if isinstance(status, str):
        return status
    found = plain_number(status)
    return None if found is None else STATUSES.get(int(found), "Unk").upper()


def _grid_resource(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    words = (text(ad, "GridResource") or "").split()
    if not words:
        return None
    kind, where = words[0], words[1] if len(words) > 1 else ""
    manager = words[1] if kind == "batch" and len(words) > 1 else "[?]"
    return f"{kind}->{manager} {re.sub(r'^[a-z]+://', '', where).partition('/')[0]}"


def _grid_job_id(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    named = text(ad, "GridJobId")
    return None if named is None else named.split()[-1]


# ---- machines


def activity_code(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """State and activity as two letters."""
    state, activity = text(ad, "State"), text(ad, "Activity")
    return (_STATE_LETTERS.get(state, "?") if state else "#") + (
        _ACTIVITY_LETTERS.get(activity, "?") if activity else "#"
    )


def platform(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """Architecture and system, short: ``x64/Debian12``."""
    arch, system = text(ad, "Arch"), text(ad, "OpSysAndVer") or text(ad, "OpSysShortName") or text(ad, "OpSys")
    if arch is None and system is None:
        return None
    return f"{ {'X86_64': 'x64', 'INTEL': 'x86'}.get(arch or '', arch or '?') }/{system or '?'}"


def version(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    """The number in a version text."""
    found = re.search(r"(?<!\d)\d++(?:\.\d++)+", value) if isinstance(value, str) else None
    return found.group() if found else None


def _condor_platform(value: Value, ad: ClassAd, scene: Scene) -> str | None:
    found = re.search(r"\$CondorPlatform:\s*(\S+)\s*\$", value) if isinstance(value, str) else None
    return found.group(1) if found else value if isinstance(value, str) else None


FUNCTIONS: dict[str, Function] = {
    "ACTIVITY_CODE": activity_code,
    "ACTIVITY_TIME": _activity_time,
    "BATCH_NAME": batch_name,
    "BUFFER_IO_MISC": transfer,
    "CONDOR_PLATFORM": _condor_platform,
    "CONDOR_VERSION": version,
    "CPU_SPENT": cpu_spent,
    "CPU_TIME": cpu_time,
    "CPU_UTIL": _cpu_util,
    "DAG_OWNER": dag_owner,
    "DATE": _date,
    "DUE_DATE": _due_date,
    "ELAPSED_TIME": _elapsed,
    "UPTIME": _uptime,
    "GRID_JOB_ID": _grid_job_id,
    "GRID_RESOURCE": _grid_resource,
    "GRID_STATUS": _grid_status,
    "JOB_COMMAND": command,
    "JOB_DESCRIPTION": description,
    "JOB_FACTORY_MODE": _factory_mode,
    "JOB_ID": _job_id,
    "JOB_STATUS": job_status,
    "JOB_STATUS_RAW": _status_raw,
    "JOB_UNIVERSE": _universe,
    "LOAD_AVG": _load,
    "MEMBER_COUNT": _members,
    "MEMORY_USAGE": memory,
    "OWNER": owner,
    "PLATFORM": platform,
    "QDATE": _date,
    "READABLE_BYTES": _size(0),
    "READABLE_KB": _size(1),
    "READABLE_MB": _size(2),
    "REMOTE_HOST": host,
    "RUNTIME": _span,
    "RUN_TIME": run_time,
    "STRINGS_FROM_LIST": _strings,
    "TIME": _span,
    "UNIQUE": unique,
}

_RUN = ("JobStatus", "RemoteWallClockTime", "ShadowBday")
_COMMAND = ("Cmd", "Args", "Arguments")
_STATE = ("JobStatus", "TransferringInput", "TransferringOutput", "TransferQueued", "JobCoolDownExpiration")
_SYSTEM = ("Arch", "OpSys", "OpSysAndVer", "OpSysShortName")
#: What the functions read of an ad beside the value.
READS: dict[str, tuple[str, ...]] = {
    "ACTIVITY_CODE": ("State", "Activity"),
    "ACTIVITY_TIME": ("MyCurrentTime", "LastHeardFrom"),
    "BATCH_NAME": ("JobBatchName", "DAGManJobId", "ClusterId"),
    "BUFFER_IO_MISC": _STATE,
    "CPU_TIME": ("RemoteUserCpu", *_RUN),
    "CPU_SPENT": ("RemoteUserCpu",),
    "CPU_UTIL": ("RemoteUserCpu", "CommittedTime"),
    "DAG_OWNER": ("Owner", "DAGNodeName", "DAGManJobId"),
    "DUE_DATE": ("LastHeardFrom",),
    "ELAPSED_TIME": ("LastHeardFrom",),
    "GRID_JOB_ID": ("GridJobId",),
    "GRID_RESOURCE": ("GridResource",),
    "GRID_STATUS": ("GridJobStatus",),
    "JOB_COMMAND": _COMMAND,
    "JOB_DESCRIPTION": ("JobDescription", "MATCH_EXP_JobDescription", *_COMMAND),
    "JOB_ID": ("ClusterId", "ProcId"),
    "JOB_STATUS": _STATE,
    "MEMORY_USAGE": ("MemoryUsage", "ResidentSetSize", "ImageSize"),
    "OWNER": ("Owner",),
    "PLATFORM": _SYSTEM,
    "REMOTE_HOST": ("RemoteHost", "JobUniverse", "GridResource", "EC2RemoteVirtualMachineName"),
    "RUN_TIME": _RUN,
}
