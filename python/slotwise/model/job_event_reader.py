"""Reads entries of job event logs, in HTCondor's formats, into the attributes that HTCondor's own reader gives. Pure.

The counterpart of :mod:`slotwise.model.job_events`, which writes them. Names of attributes are those of HTCondor's
event ads (``MyType = "SubmitEvent"``, ...).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import AdSyntaxError

_HEAD = re.compile(
    r"(?P<number>\d{3}) \((?P<cluster>-?\d{1,10})\.(?P<proc>-?\d{1,10})\.(?P<subproc>-?\d{1,10})\) "
    r"(?P<date>\d{4}-\d\d-\d\d|\d\d/\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?P<rest>\S*) ?(?P<title>.*)"
)

#: Number of an event -> MyType of its ad.
TYPES = {
    0: "SubmitEvent", 1: "ExecuteEvent", 2: "ExecutableErrorEvent", 3: "CheckpointedEvent", 4: "JobEvictedEvent",
    5: "JobTerminatedEvent", 6: "JobImageSizeEvent", 7: "ShadowExceptionEvent", 8: "GenericEvent",
    9: "JobAbortedEvent", 10: "JobSuspendedEvent", 11: "JobUnsuspendedEvent", 12: "JobHeldEvent",
    13: "JobReleaseEvent", 14: "NodeExecuteEvent", 15: "NodeTerminatedEvent", 16: "PostScriptTerminatedEvent",
    21: "RemoteErrorEvent", 22: "JobDisconnectedEvent", 23: "JobReconnectedEvent", 24: "JobReconnectFailedEvent",
    28: "JobAdInformationEvent", 33: "AttributeUpdateEvent", 34: "PreSkipEvent", 35: "ClusterSubmitEvent",
    36: "ClusterRemoveEvent", 37: "FactoryPausedEvent", 38: "FactoryResumedEvent", 40: "FileTransferEvent",
    46: "DataflowJobSkippedEvent",
}  # fmt: skip


class UnreadableEventError(ValueError):
    """An entry that does not begin as an event does, or has no moment that exists."""


class Entry(Struct, frozen=True):
    """One entry of a log: what its first line says, and the lines below it without their indentation."""

    number: int
    cluster: int
    proc: int
    subproc: int
    #: ISO 8601, as HTCondor's EventTime: of the log's own clock, with a Z where the log is in UTC.
    time: str
    title: str
    lines: tuple[str, ...]
    text: str


def parse(text: str, year: int) -> Entry:
    """The entry that ``text`` is, without its line of three dots. ``year`` stands in where the log has none.

    The 29th of February belongs to the last leap year up to ``year``.

    :raises UnreadableEventError: it is none.
    """
    first, *lines = text.splitlines() or [""]
    found = _HEAD.match(first)
    if found is None:
        raise UnreadableEventError(f"not an event: {first[:80]!r}")
    date = found["date"]
    if "/" in date:
        while date == "02/29" and not calendar.isleap(year):
            year -= 1
        date = f"{year}-{date[:2]}-{date[3:]}"
    moment = f"{date}T{found['time']}{found['rest']}"
    if not _is_moment(moment):
        raise UnreadableEventError(f"not the time of an event: {moment[:80]!r}") from None
    return Entry(
        int(found["number"]), int(found["cluster"]), int(found["proc"]), int(found["subproc"]),
        moment, found["title"], tuple(line.strip() for line in lines), text,
    )  # fmt: skip


@lru_cache(maxsize=64)  # entries come many a second
def _is_moment(time: str) -> bool:
    """Whether a time is one with which whoever reads the entry can reckon, and which can be shown."""
    try:
        datetime.fromtimestamp(seconds(time))
    except (ValueError, OverflowError, OSError):
        return False
    return True


def event_ad(entry: Entry) -> ClassAd:
    """The event as HTCondor's ad."""
    ad = ClassAd({"MyType": TYPES.get(entry.number, "FutureEvent"), "EventTypeNumber": entry.number})
    ad["EventTime"] = entry.time
    ad["Cluster"], ad["Subproc"] = entry.cluster, entry.subproc
    if entry.proc >= 0:
        ad["Proc"] = entry.proc
    read = _READERS.get(entry.number)
    if read is not None:
        read(ad, entry)
    elif entry.number not in TYPES:
        ad["EventHead"] = entry.title
    return ad


def seconds(time: str) -> int:
    """The moment of an EventTime, in seconds since the epoch."""
    return int(datetime.fromisoformat(time).timestamp())


def _host(title: str) -> str:
    found = re.search(r"<[^<>]*+>", title)
    return found[0] if found else ""


def _submitted(ad: ClassAd, entry: Entry) -> None:
    ad["SubmitHost"] = _host(entry.title)
    notes = [line for line in entry.lines if line]
    warning = next((line for line in notes if line.startswith("WARNING: ")), None)
    if warning is not None:
        notes.remove(warning)
        ad["Warnings"] = warning.partition("following warning(s): ")[2] or warning
    nodes = [note for note in notes if note.startswith("DAG Node: ")]
    if nodes:
        # HTCondor keeps the node where it keeps notes.
        ad["StructuredNotes"] = ClassAd({"DAGNodeName": nodes[0].removeprefix("DAG Node: ")})
        ad["LogNotes"] = nodes[0]
    elif notes:
        ad["LogNotes"] = notes[0]
        if len(notes) > 1:
            ad["UserNotes"] = notes[1]


def _executing(ad: ClassAd, entry: Entry) -> None:
    ad["ExecuteHost"] = _host(entry.title)
    properties = ClassAd()
    for line in entry.lines:
        if line.startswith("SlotName: "):
            ad["SlotName"] = line.removeprefix("SlotName: ")
        else:
            _assign(properties, line)
    if len(properties):
        ad["ExecuteProps"] = properties


def _assign(ad: ClassAd, line: str) -> None:
    """Take ``Name = expression`` into the ad; nothing else."""
    name, equals, text = line.partition(" = ")
    if equals and name.isidentifier():
        try:
            ad[name] = ExprTree(text, old=True)
        except AdSyntaxError:
            return


def _executable_error(ad: ClassAd, entry: Entry) -> None:
    if (found := re.match(r"\((\d{1,18})\)", entry.title)) is not None:
        ad["ExecuteErrorType"] = int(found[1])


_AMOUNTS = {
    "Run Remote Usage": "RunRemoteUsage", "Run Local Usage": "RunLocalUsage",
    "Total Remote Usage": "TotalRemoteUsage", "Total Local Usage": "TotalLocalUsage",
    "Run Bytes Sent By Job": "SentBytes", "Run Bytes Received By Job": "ReceivedBytes",
    "Total Bytes Sent By Job": "TotalSentBytes", "Total Bytes Received By Job": "TotalReceivedBytes",
    "Run Bytes Sent By Job For Checkpoint": "SentBytes",
}  # fmt: skip


def _is_amount(text: str) -> bool:
    """Whether a text is a whole number that an ad can hold."""
    return re.fullmatch(r"-?\d{1,18}", text) is not None


def _usage(ad: ClassAd, lines: Sequence[str]) -> None:
    """CPU times and bytes: ``VALUE  -  What``."""
    for line in lines:
        value, dash, what = line.partition("  -  ")
        name = _AMOUNTS.get(what.strip())
        if not dash or name is None:
            continue
        if value.startswith("Usr"):
            ad[name] = value.strip()
        elif _is_amount(value.strip()):
            ad[name] = float(value)


def _resources(ad: ClassAd, lines: Sequence[str]) -> None:
    """The table of partitionable resources: used, requested, allocated by name, the devices assigned; and times."""
    start = next((n for n, line in enumerate(lines) if line.startswith("Partitionable Resources")), None)
    if start is None:
        return
    for line in lines[start + 1 :]:
        name, colon, rest = line.partition(":")
        if not colon:
            return
        name = name.split("(")[0].strip()
        cells = _cells(lines[start].partition(":")[2], rest.partition('"')[0], is_time=name.startswith("Time"))
        for attribute, cell in zip((f"{name}Usage", f"Request{name}", name), cells, strict=True):
            if re.fullmatch(r"-?\d{1,18}(\.\d+)?", cell):
                ad[attribute] = _number(cell)
        if (assigned := re.search(r'"([^"]*)"', rest)) is not None:
            ad[f"Assigned{name}"] = assigned[1]


def _cells(headings: str, row: str, *, is_time: bool) -> list[str]:
    """The cells of a row that stand below Usage, Request and Allocated, as in HTCondor by their places.

    Where a number is too wide for its column, the order counts: times are usage alone, and of two numbers none is.
    """
    ends = [found.end() for found in re.finditer("Usage|Request|Allocated", headings)]
    is_cut = any(not row[end - 1 : end].isspace() and row[end : end + 1].strip() for end in ends)
    if len(ends) == 3 and not is_cut:
        return [row[start:end].strip() for start, end in zip((0, *ends), ends, strict=False)]
    words = row.split()
    if len(words) == 1 and is_time:
        return [words[0], "", ""]
    return ["", "", "", *words][-3:] if len(words) in (2, 3) else ["", "", ""]


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _codes(ad: ClassAd, lines: Sequence[str]) -> None:
    for line in lines:
        if (found := re.fullmatch(r"Code (-?\d{1,18}) Subcode (-?\d{1,18})", line)) is not None:
            ad["HoldReasonCode"], ad["HoldReasonSubCode"] = int(found[1]), int(found[2])


def _evicted(ad: ClassAd, entry: Entry) -> None:
    flag = next((line for line in entry.lines if re.match(r"\([01]\)", line)), "(0)")
    requeued = flag.endswith("terminated and was requeued")
    ad["Checkpointed"] = flag.startswith("(1)") and not requeued
    ad["TerminatedAndRequeued"], ad["TerminatedNormally"] = requeued, False
    _usage(ad, entry.lines)
    if requeued:
        _exit(ad, entry.lines[1:])
    reason = next((line for line in entry.lines if line.startswith("Reason: ")), "")
    if reason:
        ad["Reason"] = reason.removeprefix("Reason: ")


_NORMAL = re.compile(r"\(1\) Normal termination \(return value (-?\d{1,18})\)")
_BY_SIGNAL = re.compile(r"\(0\) Abnormal termination \(signal (\d{1,18})\)")


def ending(lines: Sequence[str]) -> tuple[bool, int] | None:
    """Whether the lines of an entry tell of a normal end, and the exit status or the signal; None: of no end."""
    made = None
    for line in lines:
        if (found := _NORMAL.match(line)) is not None:
            made = True, int(found[1])
        elif (found := _BY_SIGNAL.match(line)) is not None:
            made = False, int(found[1])
    return made


def _exit(ad: ClassAd, lines: Sequence[str]) -> None:
    if (end := ending(lines)) is not None:
        ad["TerminatedNormally"] = end[0]
        ad["ReturnValue" if end[0] else "TerminatedBySignal"] = end[1]
    for line in lines:
        if (found := re.match(r"\(1\) Corefile in: (.*)", line)) is not None:
            ad["CoreFile"] = found[1]


def _terminated(ad: ClassAd, entry: Entry) -> None:
    _exit(ad, entry.lines)
    _usage(ad, entry.lines)
    _resources(ad, entry.lines)


def _image_size(ad: ClassAd, entry: Entry) -> None:
    if (found := re.search(r"(?<!\d)(\d{1,18})\s*$", entry.title)) is not None:
        ad["Size"] = int(found[1])
    for line in entry.lines:
        if (found := re.match(r"(\d{1,18})\s+-\s+(\w+) of job", line)) is not None:
            ad[found[2]] = int(found[1])


def _shadow_exception(ad: ClassAd, entry: Entry) -> None:
    if entry.lines and "  -  " not in entry.lines[0]:
        ad["Message"] = entry.lines[0]
    _usage(ad, entry.lines)


def _generic(ad: ClassAd, entry: Entry) -> None:
    ad["Info"] = entry.title


def _reason(ad: ClassAd, entry: Entry) -> None:
    if entry.lines and entry.lines[0]:
        ad["Reason"] = entry.lines[0]


def _suspended(ad: ClassAd, entry: Entry) -> None:
    if entry.lines and (found := re.search(r"(?<!\d)(\d{1,18})$", entry.lines[0])) is not None:
        ad["NumberOfPIDs"] = int(found[1])


def _held(ad: ClassAd, entry: Entry) -> None:
    if entry.lines:
        ad["HoldReason"] = entry.lines[0]
    _codes(ad, entry.lines)


def _post_script(ad: ClassAd, entry: Entry) -> None:
    _exit(ad, entry.lines)
    node = next((line for line in entry.lines if line.startswith("DAG Node: ")), "")
    if node:
        ad["DAGNodeName"] = node.removeprefix("DAG Node: ")


def _remote_error(ad: ClassAd, entry: Entry) -> None:
    if (found := re.match(r"(Error|Warning|Message) from (\S+) on (\S+):", entry.title)) is not None:
        ad["Daemon"], ad["ExecuteHost"] = found[2], found[3]
        if found[1] == "Warning":  # HTCondor's reader has none for "Message"
            ad["CriticalError"] = 0
    text = [line for line in entry.lines if not re.fullmatch(r"Code -?\d+ Subcode -?\d+", line)]
    ad["ErrorMsg"] = "\n".join(text)
    _codes(ad, entry.lines)


def _disconnected(ad: ClassAd, entry: Entry) -> None:
    ad["EventDescription"] = entry.title
    if entry.lines:
        ad["DisconnectReason"] = entry.lines[0]
    for line in entry.lines:
        if (found := re.match(r"Trying to reconnect to (\S+) (<.*>)", line)) is not None:
            ad["StartdName"], ad["StartdAddr"] = found[1], found[2]


def _reconnected(ad: ClassAd, entry: Entry) -> None:
    ad["EventDescription"] = "Job reconnected"
    ad["StartdName"] = entry.title.removeprefix("Job reconnected to ")
    for line in entry.lines:
        what, _, address = line.partition(": ")
        name = {"startd address": "StartdAddr", "starter address": "StarterAddr"}.get(what)
        if name is not None:
            ad[name] = address


def _reconnect_failed(ad: ClassAd, entry: Entry) -> None:
    ad["EventDescription"] = "Job reconnect impossible: rescheduling job"
    _reason(ad, entry)
    for line in entry.lines:
        if (found := re.match(r"Can not reconnect to (\S+), rescheduling job", line)) is not None:
            ad["StartdName"] = found[1]


def _ad_information(ad: ClassAd, entry: Entry) -> None:
    for line in entry.lines:
        _assign(ad, line)
    ad["EventTypeNumber"], ad["MyType"] = entry.number, TYPES[entry.number]


def _attribute_update(ad: ClassAd, entry: Entry) -> None:
    if (found := re.match(r"Changing job attribute (\S+) from (.*) to (.*)", entry.title)) is not None:
        ad["Attribute"], ad["Value"] = found[1], found[3]
    elif (found := re.match(r"Setting job attribute (\S+) to (.*)", entry.title)) is not None:
        ad["Attribute"], ad["Value"] = found[1], found[2]


def _cluster_submitted(ad: ClassAd, entry: Entry) -> None:
    ad["SubmitHost"] = _host(entry.title)


def _cluster_removed(ad: ClassAd, entry: Entry) -> None:
    for line in entry.lines:
        if (found := re.match(r"Materialized (\d{1,18}) jobs from (\d{1,18}) items\.\s*(.*)", line)) is not None:
            ad["NextProcId"], ad["NextRow"] = int(found[1]), int(found[2])
            ended = found[3]
            ad["Completion"] = {"Complete": 1, "Paused": 2}.get(ended, 0 if ended == "Incomplete" else -1)


def _paused(ad: ClassAd, entry: Entry) -> None:
    _reason(ad, entry)
    ad["PauseCode"] = ad["HoldCode"] = 0
    for line in entry.lines:
        word, _, number = line.partition(" ")
        if word in ("PauseCode", "HoldCode") and _is_amount(number):
            ad[word] = int(number)


_TRANSFERS = (
    "",
    "Entered queue to transfer input files", "Started transferring input files", "Finished transferring input files",
    "Entered queue to transfer output files", "Started transferring output files", "Finished transferring output files",
)  # fmt: skip


def _file_transfer(ad: ClassAd, entry: Entry) -> None:
    title = entry.title.strip()
    ad["Type"] = _TRANSFERS.index(title) if title in _TRANSFERS else 0
    for line in entry.lines:
        what, _, value = line.partition(": ")
        if what == "Transferring to host":
            ad["Host"] = value
        elif what == "Seconds spent in queue" and _is_amount(value):
            ad["QueueingDelay"] = int(value)


_READERS: dict[int, Callable[[ClassAd, Entry], None]] = {
    0: _submitted, 1: _executing, 2: _executable_error, 3: lambda ad, entry: _usage(ad, entry.lines), 4: _evicted,
    5: _terminated, 6: _image_size, 7: _shadow_exception, 8: _generic, 9: _reason, 10: _suspended, 12: _held,
    13: _reason, 16: _post_script, 21: _remote_error, 22: _disconnected, 23: _reconnected, 24: _reconnect_failed,
    28: _ad_information, 33: _attribute_update, 35: _cluster_submitted, 36: _cluster_removed, 37: _paused,
    38: _reason, 40: _file_transfer,
}  # fmt: skip
