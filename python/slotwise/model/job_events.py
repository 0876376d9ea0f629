"""The text of job event log entries, in HTCondor's format (manual, "Job Event Log Codes").

Pure: each function returns a whole entry, ending with the line of three dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct, field

from slotwise.model.durations import days_and_time

END = "...\n"
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class DateForm(Struct, frozen=True):
    """How event times print (DEFAULT_USERLOG_FORMAT_OPTIONS)."""

    iso: bool = True
    utc: bool = False
    sub_second: bool = False

    @classmethod
    def parse(cls, options: str | None) -> DateForm:
        """From the words of the knob; unknown ones are ignored."""
        words = {word.upper() for word in (options or "").replace(",", " ").split()}
        return cls(iso="LEGACY" not in words, utc="UTC" in words, sub_second="SUB_SECOND" in words)


_USUAL_FORM = DateForm()


@lru_cache(maxsize=64)
def _second(at: int, form: DateForm) -> str:
    moment = datetime.fromtimestamp(at, UTC) if form.utc else datetime.fromtimestamp(at)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if form.iso else "%m/%d %H:%M:%S")


def stamp(at: float, form: DateForm = _USUAL_FORM) -> str:
    """The date and time of an entry."""
    text = _second(int(at), form)
    if form.sub_second:
        text += f".{int((at % 1) * 1000):03d}"
    return text + "Z" if form.utc and form.iso else text


class Frame(Struct, frozen=True):
    """What every entry begins with."""

    cluster: int
    proc: int
    when: str
    #: The number of the node of a parallel job.
    node: int = 0

    def head(self, number: int) -> str:
        """``NNN (CCC.PPP.SSS) date time `` of an entry."""
        return f"{number:03d} ({self.cluster:03d}.{self.proc:03d}.{self.node:03d}) {self.when} "


def one_line(text: str) -> str:
    """A text of a user or of an execution point on one line, without control characters: they become blanks.

    It could write events of its own else, or act on the terminal of whoever reads the log.
    """
    if text.isprintable():
        return text
    lines = text.splitlines()
    if len(lines) > 1 or lines != [text]:
        text = " ".join(lines)
    return _CONTROL.sub(" ", text)


def _name(text: str) -> str:
    """The name or address of a slot, as an execution point gives it: one word."""
    return "_".join(one_line(text).split())


def cpu_line(user_s: float, system_s: float) -> str:
    """``Usr d hh:mm:ss, Sys d hh:mm:ss``."""
    return f"Usr {_days(user_s)}, Sys {_days(system_s)}"


def _days(seconds: float) -> str:
    return days_and_time(seconds).replace("+", " ")


def submitted(frame: Frame, host: str, log_notes: str = "", user_notes: str = "", warnings: str = "") -> str:
    """Event 0."""
    lines = [f"{frame.head(0)}Job submitted from host: <{host}>\n"]
    for note in (log_notes, user_notes):
        if note:
            lines.append(f"    {one_line(note)[:8191]}\n")
    if warnings:
        lines.append(
            "    WARNING: Committed job submission into the queue with the following warning(s): "
            f"{one_line(warnings)[:8110]}\n"
        )
    return "".join(lines) + END


def executing(frame: Frame, host: str, slot_name: str, properties: Mapping[str, str]) -> str:
    """Event 1; ``properties`` are attribute texts, sorted by the caller's names."""
    return f"{frame.head(1)}Job executing on host: <{_name(host)}>\n{_place(slot_name, properties)}{END}"


def executing_together(frame: Frame) -> str:
    """Event 1 of a parallel job, once all of its nodes execute."""
    return f"{frame.head(1)}Job executing on host: MPI_job\n{END}"


def node_executing(frame: Frame, host: str, slot_name: str, properties: Mapping[str, str]) -> str:
    """Event 14: the node that the frame names executes. ``properties``: as for event 1."""
    place = _place(slot_name, properties)
    return f"{frame.head(14)}Node {frame.node} executing on host: <{_name(host)}>\n{place}{END}"


def _place(slot_name: str, properties: Mapping[str, str]) -> str:
    """The lines of an entry that say on which slot a job executes."""
    names = sorted(properties, key=str.lower)
    rows = "".join(f"\t{one_line(name)} = {one_line(properties[name])}\n" for name in names)
    return (f"\tSlotName: {_name(slot_name)}\n" if slot_name else "") + rows


def executable_error(frame: Frame, linked_wrongly: bool = False) -> str:
    """Event 2: the executable could not be started."""
    text = "(1) Job not properly linked for Condor.\n" if linked_wrongly else "(0) Job file not executable.\n"
    return f"{frame.head(2)}{text}{END}"


class Usage(Struct, frozen=True):
    """CPU seconds, bytes and resources that the entries about an ended run show."""

    user_s: float = 0.0
    system_s: float = 0.0
    total_user_s: float = 0.0
    total_system_s: float = 0.0
    #: Where no shadow looks on, the usage of the run is local.
    local_user_s: float = 0.0
    local_system_s: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    total_sent: float = 0.0
    total_received: float = 0.0
    #: Resource -> (usage, request, allocated, assigned); numbers, text or None.
    resources: Mapping[str, tuple[float | int | None, float | int | None, float | int | None, str]] = field(
        default_factory=dict
    )


_UNITS = {
    "Memory": "Memory (MB)",
    "Disk": "Disk (KB)",
    "Gpus": "Gpus (Average)",
    "GpusMemory": "GpusMemory (MB)",
    "TimeExecute": "TimeExecute (s)",
    "TimeSlotBusy": "TimeSlotBusy (s)",
}


def _column(values: list[float | int | None]) -> list[str]:
    """One column: reals with two decimals; whole numbers padded so that they end where the points are."""
    texts = []
    for value in values:
        if value is None:
            texts.append("")
        elif isinstance(value, float) and value != int(value):
            texts.append(f"{value:.2f}")
        else:
            texts.append(str(int(value)))
    if any("." in text for text in texts):
        texts = [text if "." in text or not text else text + "   " for text in texts]
    return texts


def resources_table(
    resources: Mapping[str, tuple[float | int | None, float | int | None, float | int | None, str]],
) -> str:
    """The table of partitionable resources; empty without rows."""
    if not resources:
        return ""
    names = sorted(resources, key=str.lower)
    use, request, allocated = (_column([resources[name][i] for name in names]) for i in range(3))  # type: ignore[misc]
    assigned = [f'"{one_line(resources[name][3])}"' if resources[name][3] else "" for name in names]
    wide_use = max(8, *map(len, use))
    wide_request = max(8, *map(len, request))
    wide_allocated = max(9, *map(len, allocated))
    shown = [_UNITS.get(name) or one_line(name) for name in names]
    wide_name = max(len("Memory (MB)") + 1, *map(len, names)) + 8
    heading = "Assigned" if any(assigned) else ""
    rows = [
        f"\tPartitionable Resources : {'Usage':>{wide_use}} {'Request':>{wide_request}} "
        f"{'Allocated':>{wide_allocated}} {heading}\n"
    ]
    for i in range(len(names)):
        rows.append(
            f"\t   {shown[i]:<{wide_name}} : {use[i]:>{wide_use}} {request[i]:>{wide_request}} "
            f"{allocated[i]:>{wide_allocated}} {assigned[i]}\n"
        )
    return "".join(rows)


def _ending(normal: bool, code: int, core: str) -> str:
    if normal:
        return f"\t(1) Normal termination (return value {code})\n"
    core_line = f"\t(1) Corefile in: {one_line(core)}\n" if core else "\t(0) No core file\n"
    return f"\t(0) Abnormal termination (signal {code})\n{core_line}"


def terminated(frame: Frame, *, normal: bool, code: int, usage: Usage, core: str = "") -> str:
    """Event 5."""
    ending, used = _ending(normal, code, core), _used(usage, "Job")
    return f"{frame.head(5)}Job terminated.\n{ending}{used}{resources_table(usage.resources)}{END}"


def node_terminated(frame: Frame, *, normal: bool, code: int, usage: Usage, core: str = "") -> str:
    """Event 15: the node that the frame names has ended by itself. As in HTCondor it has no table of resources."""
    return f"{frame.head(15)}Node {frame.node} terminated.\n{_ending(normal, code, core)}{_used(usage, 'Node')}{END}"


def _used(usage: Usage, by: str) -> str:
    """The lines of an end that say what was used by the job, or by a node of it."""
    run = cpu_line(usage.user_s, usage.system_s)
    total = cpu_line(usage.total_user_s, usage.total_system_s)
    local, none = cpu_line(usage.local_user_s, usage.local_system_s), cpu_line(0, 0)
    return (
        f"\t\t{run}  -  Run Remote Usage\n\t\t{local}  -  Run Local Usage\n"
        f"\t\t{total}  -  Total Remote Usage\n\t\t{none}  -  Total Local Usage\n"
        f"\t{usage.sent:.0f}  -  Run Bytes Sent By {by}\n\t{usage.received:.0f}  -  Run Bytes Received By {by}\n"
        f"\t{usage.total_sent:.0f}  -  Total Bytes Sent By {by}\n"
        f"\t{usage.total_received:.0f}  -  Total Bytes Received By {by}\n"
    )


def evicted(
    frame: Frame,
    *,
    usage: Usage,
    reason: str = "",
    code: int = 0,
    subcode: int = 0,
    requeued: tuple[bool, int] | None = None,
) -> str:
    """Event 4. ``requeued`` is (normal, exit code or signal) when the job ended by itself but runs again.

    Such an entry has no table of resources, as in HTCondor.
    """
    codes = f" Code {code} Subcode {subcode}" if code else ""
    kind = "(0) Job terminated and was requeued" if requeued else "(0) CPU times"
    text = (
        f"{frame.head(4)}Job was evicted.{codes}\n\t{kind}\n"
        f"\t\t{cpu_line(usage.user_s, usage.system_s)}  -  Run Remote Usage\n"
        f"\t\t{cpu_line(usage.local_user_s, usage.local_system_s)}  -  Run Local Usage\n"
        f"\t{usage.sent:.0f}  -  Run Bytes Sent By Job\n\t{usage.received:.0f}  -  Run Bytes Received By Job\n"
    )
    if requeued:
        text += _ending(requeued[0], requeued[1], "")
        return text + (f"\t{one_line(reason)}\n" if reason else "") + END
    if reason:
        text += f"\tReason: {one_line(reason)}\n"
    return text + resources_table(usage.resources) + END


def image_size(frame: Frame, size_kib: int, memory_mib: int, resident_kib: int, proportional_kib: int) -> str:
    """Event 6; a negative number is left out."""
    text = f"{frame.head(6)}Image size of job updated: {size_kib}\n"
    if memory_mib >= 0:
        text += f"\t{memory_mib}  -  MemoryUsage of job (MB)\n"
    if resident_kib >= 0:
        text += f"\t{resident_kib}  -  ResidentSetSize of job (KB)\n"
    if proportional_kib >= 0:
        text += f"\t{proportional_kib}  -  ProportionalSetSize of job (KB)\n"
    return text + END


def shadow_exception(frame: Frame, message: str, sent: float = 0, received: float = 0) -> str:
    """Event 7."""
    return (
        f"{frame.head(7)}Shadow exception!\n\t{one_line(message)}\n"
        f"\t{sent:.0f}  -  Run Bytes Sent By Job\n\t{received:.0f}  -  Run Bytes Received By Job\n{END}"
    )


def generic(frame: Frame, text: str) -> str:
    """Event 8: a line that the job itself asked for."""
    line = one_line(text)[:127]
    # Three dots where a line's text begins end the entry for HTCondor's readers.
    return f"{frame.head(8)}{'- ' if line.lstrip().startswith('...') else ''}{line}\n{END}"


def aborted(frame: Frame, reason: str) -> str:
    """Event 9."""
    return f"{frame.head(9)}Job was aborted.\n" + (f"\t{one_line(reason)}\n" if reason else "") + END


def suspended(frame: Frame, processes: int) -> str:
    """Event 10."""
    return f"{frame.head(10)}Job was suspended.\n\tNumber of processes actually suspended: {processes}\n{END}"


def unsuspended(frame: Frame) -> str:
    """Event 11."""
    return f"{frame.head(11)}Job was unsuspended.\n{END}"


def dataflow_skipped(frame: Frame) -> str:
    """Event 46."""
    return f"{frame.head(46)}Dataflow job was skipped.\n{END}"


def held(frame: Frame, reason: str, code: int, subcode: int) -> str:
    """Event 12."""
    return (
        f"{frame.head(12)}Job was held.\n\t{one_line(reason) or 'Reason unspecified'}\n"
        f"\tCode {code} Subcode {subcode}\n{END}"
    )


def released(frame: Frame, reason: str) -> str:
    """Event 13."""
    return f"{frame.head(13)}Job was released.\n" + (f"\t{one_line(reason)}\n" if reason else "") + END


def remote_error(frame: Frame, slot: str, message: str, code: int, subcode: int) -> str:
    """Event 21: the starter could not run the job, or not to its end."""
    codes = f"\tCode {code} Subcode {subcode}\n" if code else ""
    return f"{frame.head(21)}Error from starter on {_name(slot)}:\n\t{one_line(message)}\n{codes}{END}"


def starter_message(frame: Frame, slot: str, message: str) -> str:
    """Event 21 without an error: what a hook that prepared the job has to say."""
    return f"{frame.head(21)}Message from starter on {_name(slot)}:\n\t{one_line(message)}\n{END}"


def disconnected(frame: Frame, reason: str, startd: str, address: str) -> str:
    """Event 22."""
    return (
        f"{frame.head(22)}Job disconnected, attempting to reconnect\n    {one_line(reason)[:8191]}\n"
        f"    Trying to reconnect to {_name(startd)} <{_name(address)}>\n{END}"
    )


def reconnected(frame: Frame, slot: str, startd: str, starter: str) -> str:
    """Event 23."""
    return (
        f"{frame.head(23)}Job reconnected to {_name(slot)}\n    startd address: <{_name(startd)}>\n"
        f"    starter address: <{_name(starter)}>\n{END}"
    )


def reconnect_failed(frame: Frame, reason: str, slot: str) -> str:
    """Event 24."""
    return (
        f"{frame.head(24)}Job reconnection failed\n    {one_line(reason)[:8191]}\n"
        f"    Can not reconnect to {_name(slot)}, rescheduling job\n{END}"
    )


def attribute_changed(frame: Frame, name: str, old: str | None, new: str) -> str:
    """Event 33."""
    name = one_line(name)
    if old is None:
        return f"{frame.head(33)}Setting job attribute {name} to {one_line(new)}\n{END}"
    return f"{frame.head(33)}Changing job attribute {name} from {one_line(old)} to {one_line(new)}\n{END}"


def cluster_submitted(frame: Frame, host: str, log_notes: str = "", user_notes: str = "") -> str:
    """Event 35: a cluster whose jobs are made later."""
    notes = "".join(f"    {one_line(note)[:8191]}\n" for note in (log_notes, user_notes) if note)
    return f"{frame.head(35)}Cluster submitted from host: <{host}>\n{notes}{END}"


def cluster_removed(frame: Frame, made: int, total: int, notes: str = "") -> str:
    """Event 36: the last job of such a cluster has left."""
    how = "Complete" if made >= total else "Incomplete"
    text = f"{frame.head(36)}Cluster removed\n\tMaterialized {made} jobs from {total} items.\t{how}\n"
    return text + (f"\t{one_line(notes)}\n" if notes else "") + END


def factory_paused(frame: Frame, reason: str, pause_code: int, hold_code: int) -> str:
    """Event 37."""
    text = f"{frame.head(37)}Job Materialization Paused\n\t{one_line(reason)}\n\tPauseCode {pause_code}\n"
    return text + (f"\tHoldCode {hold_code}\n" if hold_code else "") + END


def factory_resumed(frame: Frame, reason: str) -> str:
    """Event 38."""
    return f"{frame.head(38)}Job Materialization Resumed\n\t{one_line(reason)}\n{END}"


TRANSFER_STAGES = {
    "input_queued": "Entered queue to transfer input files",
    "input_started": "Started transferring input files",
    "input_finished": "Finished transferring input files",
    "output_queued": "Entered queue to transfer output files",
    "output_started": "Started transferring output files",
    "output_finished": "Finished transferring output files",
}


def transfer(frame: Frame, stage: str, host: str = "", queued_s: int = -1) -> str:
    """Event 40, one of :data:`TRANSFER_STAGES`."""
    text = f"{frame.head(40)}{TRANSFER_STAGES[stage]}\n"
    if queued_s >= 0:
        text += f"\tSeconds spent in queue: {queued_s}\n"
    if host:
        text += f"\tTransferring to host: <{_name(host)}>\n"
    return text + END


COMMON_STAGES = {
    "TransferQueued": "Entered queue to transfer common files",
    "TransferStarted": "Started transferring common files",
    "TransferFinished": "Finished transferring common files",
    "WaitStarted": "Started waiting for previous job to transfer common files",
    "WaitFinished": "Finished waiting for previous job to transfer common files",
}


def common_files(frame: Frame, stage: str) -> str:
    """Event 47, one of :data:`COMMON_STAGES`."""
    return f"{frame.head(47)}Common files event: {stage}\n\t{COMMON_STAGES[stage]}\n{END}"


def split_entries(text: str) -> Iterable[str]:
    """The whole entries of a piece of log."""
    start = 0
    for end in re.finditer(r"(?m)^\.\.\.\n", text):  # a line of them: texts may end with three dots
        yield text[start : end.end()]
        start = end.end()
