"""``slotwise check-userlogs``: whether entries of event logs fit together (manual page of condor_check_userlogs)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.jobs.logged_events import merged
from slotwise.client.event_log import EventLog
from slotwise.errors import NotFoundError, UsageError
from slotwise.model import job_event_reader
from slotwise.model.job_event_reader import Entry

USAGE = """usage: slotwise check-userlogs [-json] LOG ...
  Tells every entry of the logs, in order of time, and which do not fit together: a job that executes and was never
  submitted, one that ends twice or not at all. Status 0 if all fit, 1 if not.
  -json                 only the findings, for programs"""
_OPTIONS = [Option("help", 1), Option("usage", 1), Option("json", 1)]
_SUBMIT, _EXECUTE, _EXECUTABLE_ERROR, _TERMINATED, _ABORTED, _HELD, _POST_SCRIPT = 0, 1, 2, 5, 9, 12, 16
_CLUSTER_SUBMIT, _CLUSTER_REMOVE = 35, 36
#: HTCondor's names of events, by number.
NAMES = (
    "SUBMIT", "EXECUTE", "EXECUTABLE_ERROR", "CHECKPOINTED", "JOB_EVICTED", "JOB_TERMINATED", "IMAGE_SIZE",
    "SHADOW_EXCEPTION", "GENERIC", "JOB_ABORTED", "JOB_SUSPENDED", "JOB_UNSUSPENDED", "JOB_HELD", "JOB_RELEASED",
    "NODE_EXECUTE", "NODE_TERMINATED", "POST_SCRIPT_TERMINATED", "GLOBUS_SUBMIT", "GLOBUS_SUBMIT_FAILED",
    "GLOBUS_RESOURCE_UP", "GLOBUS_RESOURCE_DOWN", "REMOTE_ERROR", "JOB_DISCONNECTED", "JOB_RECONNECTED",
    "JOB_RECONNECT_FAILED", "GRID_RESOURCE_UP", "GRID_RESOURCE_DOWN", "GRID_SUBMIT", "JOB_AD_INFORMATION",
    "JOB_STATUS_UNKNOWN", "JOB_STATUS_KNOWN", "JOB_STAGE_IN", "JOB_STAGE_OUT", "ATTRIBUTE_UPDATE", "PRESKIP",
    "CLUSTER_SUBMIT", "CLUSTER_REMOVE", "FACTORY_PAUSED", "FACTORY_RESUMED", "NONE", "FILE_TRANSFER", "RESERVE_SPACE",
    "RELEASE_SPACE", "FILE_COMPLETE", "FILE_USED", "FILE_REMOVED", "DATAFLOW_JOB_SKIPPED", "COMMON_FILES",
)  # fmt: skip
#: How much HTCondor's tool says in the sentence at the end; characters.
_MOST = 1024

Process = tuple[int, int, int]
#: The node of a DAG whose jobs could not be submitted: its POST script has this id.
_NEVER_SUBMITTED: Process = (-1, 0, 0)


class _Counts(Struct):
    submitted: int = 0
    aborted: int = 0
    terminated: int = 0
    post_scripts: int = 0

    @property
    def ended(self) -> int:
        return self.aborted + self.terminated


class EventOrder(Struct):
    """Which entries do not fit to those before them. Pure."""

    _jobs: dict[Process, _Counts] = field(default_factory=dict)

    def take(self, entry: Entry) -> str:
        """What is wrong with an entry; empty if nothing is. Of several findings the last counts, as in HTCondor."""
        if entry.number in (_CLUSTER_SUBMIT, _CLUSTER_REMOVE):
            return ""
        process = (entry.cluster, entry.proc, entry.subproc)
        seen = self._jobs.setdefault(process, _Counts())
        found = ""
        if entry.number == _SUBMIT:
            seen.submitted += 1
            if seen.submitted != 1:
                found = f"submitted, submit count != 1 ({seen.submitted})"
            if seen.ended:
                found = f"submitted, total end count != 0 ({seen.ended})"
        elif entry.number == _EXECUTE:
            if not seen.submitted:
                found = "executing, submit count < 1 (0)"
            if seen.ended:
                found = f"executing, total end count != 0 ({seen.ended})"
        elif entry.number in (_ABORTED, _TERMINATED):
            seen.aborted += entry.number == _ABORTED
            seen.terminated += entry.number == _TERMINATED
            if not seen.submitted:
                found = "ended, submit count < 1 (0)"
            if seen.ended != 1:
                found = f"ended, total end count != 1 ({seen.ended})"
            if seen.post_scripts:
                found = f"ended, post script count != 0 ({seen.post_scripts})"
        elif entry.number == _POST_SCRIPT:
            seen.post_scripts += 1
            found = _post_script(process, seen)
        return _finding(process, found) if found else ""

    def at_the_end(self) -> Iterator[str]:
        """What is wrong with jobs as a whole, by their ids."""
        for process, seen in sorted(self._jobs.items()):
            if _script_of_no_job(process, seen) or process[2] != 0:
                continue  # of a parallel job the first node tells enough
            found = ""
            if seen.submitted != 1:
                found = f"ended, submit count != 1 ({seen.submitted})"
            if seen.ended != 1:
                found = f"ended, total end count != 1 ({seen.ended})"
            if seen.post_scripts > 1:
                found = f"ended, post script count > 1 ({seen.post_scripts})"
            if found:
                yield _finding(process, found)


def _script_of_no_job(process: Process, seen: _Counts) -> bool:
    return process == _NEVER_SUBMITTED and not seen.submitted and not seen.terminated and seen.post_scripts > 0


def _post_script(process: Process, seen: _Counts) -> str:
    if _script_of_no_job(process, seen):
        return ""
    found = ""
    if not seen.submitted:
        found = "post script ended, submit count < 1 (0)"
    if not seen.ended:
        found = "post script ended, total end count < 1 (0)"
    if seen.post_scripts > 1:
        found = f"post script ended, post script count > 1 ({seen.post_scripts})"
    return found


def _finding(process: Process, what: str) -> str:
    return "BAD EVENT: job ({}.{}.{}) {}".format(*process, what)


def main(args: list[str], inv: Invocation) -> int:
    """Check event logs."""
    parsed = parse(args, _OPTIONS)
    if inv.called and (not args or parsed.has("usage")):
        inv.out(f"Usage: {inv.called} <log file 1> [log file 2] ... [log file n]")
        return 0
    if parsed.has("help") or parsed.has("usage"):
        inv.out(USAGE)
        return 0
    if not parsed.words:
        raise UsageError("which event logs?", hint="slotwise check-userlogs LOG ...")
    findings = []
    paths: list[Path] = []
    for name in parsed.words:
        path = inv.path(name)
        try:
            EventLog(path).close()
        except NotFoundError as error:
            findings.append(f"Error monitoring log file {name}: {error.message}")
            inv.err(findings[-1])
            continue
        paths.append(path)
    order = EventOrder()
    counts = _Submitted()
    told = 0
    for entry in merged(paths):
        told += 1
        found = order.take(entry)
        if found:
            findings.append(found)
            if not parsed.has("json"):
                inv.err(found)
        text = counts.take(entry)
        if not parsed.has("json"):
            inv.out(text)
    last = list(order.at_the_end())
    findings += last
    if parsed.has("json"):
        inv.out(json.dumps({"Okay": not findings, "Events": told, "Submitted": counts.total, "Findings": findings}))
        return 1 if findings else 0
    inv.out("Log outcome: ULOG_NO_EVENT ")
    if last:
        inv.err(_joined(last))
        inv.err("CheckAllJobs() result: EVENT_ERROR")
    inv.out("Log(s) have error(s)" if findings else "Log(s) are okay")
    return 1 if findings else 0


def _joined(findings: list[str]) -> str:
    """One sentence of all; cut behind the one with which it gets too long."""
    text = ""
    for finding in findings:
        if len(text) > _MOST:
            return text + " ..."
        text += ("; " if text else "") + finding
    return text


class _Submitted(Struct):
    """How many jobs were submitted, and how many of these have not ended."""

    total: int = 0
    net: int = 0

    def take(self, entry: Entry) -> str:
        """The lines that tell an entry."""
        name = NAMES[entry.number] if entry.number < len(NAMES) else "FUTURE_EVENT"
        text = f"Log event: ULOG_{name} ({entry.cluster}.{entry.proc}.{entry.subproc})"
        if entry.number == _HELD:
            ad = job_event_reader.event_ad(entry)
            text += f" (code={ad.get('HoldReasonCode', 0)} subcode={ad.get('HoldReasonSubCode', 0)})"
        if entry.number == _SUBMIT:
            self.total += 1
            self.net += 1
            text += f' ("{job_event_reader.event_ad(entry).get("LogNotes", "")}")'
        elif entry.number in (_TERMINATED, _ABORTED, _EXECUTABLE_ERROR):
            self.net -= 1
        else:
            return text
        return f"{text}\n Total submitted: {self.total}; net submitted: {self.net}\n"
