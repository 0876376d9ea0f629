"""``slotwise wait``: wait for jobs by their event log, as scripts do with condor_wait. Needs no daemon."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from msgspec import Struct, field

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, UnknownOptionError, parse
from slotwise.cli.host.condor_names import version
from slotwise.errors import UsageError
from slotwise.model.job_id import NodeId

_OPTIONS = [
    Option("help", 1),
    Option("num", 1, 1),
    Option("wait", 1, 1),
    Option("status", 1),
    Option("echo", 1),
    Option("allevents", 2),
    Option("debug", 1),
    Option("version", 1),
    Option("check"),
    Option("json"),
]
_HEAD = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.(\d+)\) ")
_HELP = """usage: slotwise wait [options] LOG [CLUSTER[.PROC]]
Waits until the jobs of an event log have ended. Jobs that are held are named, with the reason, and waited for.
  -num N             until so many have ended
  -wait SECONDS      no longer than this; the exit status is 1 then
  -check             the exit status is 3 when one of them was removed or ended with another status than 0
  -status, -echo     print what happens, or the entries of the log
  -json              print the jobs that have ended as one JSON array"""
#: The exit status of ``-check`` when a job did not end well.
_NOT_WELL = 3
_EXIT = re.compile(r"\((?:1\) Normal termination \(return value (-?\d+)\)|0\) Abnormal termination \(signal (\d+)\))")
_ENDS = {5: "completed", 9: "removed"}
_HELD = 12
_SHOWN = {0: "submitted", 1: "executing", 4: "evicted", 12: "held", 13: "released", **_ENDS}


class Progress(Struct):
    """Jobs seen in a log, and those that ended."""

    cluster: int | None = None
    proc: int | None = None
    seen: set[tuple[int, int]] = field(default_factory=set)
    ended: set[tuple[int, int]] = field(default_factory=set)
    #: How those ended, by HTCondor's attributes.
    outcomes: dict[tuple[int, int], dict[str, object]] = field(default_factory=dict)
    #: HTCondor's tool does not wait for jobs that the log has nothing of.
    as_htcondor: bool = False

    def take(self, entry: str) -> tuple[int, tuple[int, int]] | None:
        """Take one entry in; returns its number and job if it is about a job that is waited for."""
        found = _HEAD.match(entry)
        if found is None:
            return None
        number, cluster, proc, _ = (int(text) for text in found.groups())
        if (self.cluster is not None and cluster != self.cluster) or (self.proc is not None and proc != self.proc):
            return None
        job = (cluster, proc)
        if number == 0:
            self.seen.add(job)
        elif number in _ENDS:
            self.seen.add(job)
            self.ended.add(job)
            self.outcomes[job] = _outcome(number, job, entry)
        return number, job

    @property
    def went_well(self) -> bool:
        """Whether every job that has ended did so by itself, with status 0."""
        return all(how.get("ExitCode") == 0 for how in self.outcomes.values())

    @property
    def done(self) -> bool:
        """Whether every job seen has ended, and there was one."""
        return (bool(self.seen) or self.as_htcondor) and self.seen <= self.ended


def _outcome(number: int, job: tuple[int, int], entry: str) -> dict[str, object]:
    """How a job ended, from its last event: its exit code or signal, or that it was removed."""
    found: dict[str, object] = {"ClusterId": job[0], "ProcId": job[1], "Removed": number != 5}
    if number == 5 and (how := _EXIT.search(entry)) is not None:
        code, signal = how.groups()
        found |= {"ExitCode": int(code)} if code is not None else {"ExitSignal": int(signal)}
    return found


def main(args: list[str], inv: Invocation) -> int:
    """Wait until the jobs of a log are done: status 0, or 1 when time runs out."""
    parsed = parse(args, _OPTIONS)
    if inv.called and parsed.has("version"):
        version([], inv)
        return 1  # as HTCondor's tool
    if inv.called and not parsed.words and not parsed.has("help"):
        htcondor_words.usage(inv)
        return 1
    if parsed.has("help") or not parsed.words:
        inv.out(_HELP)
        return 0 if parsed.has("help") else 1
    if inv.called and (parsed.has("json") or parsed.has("check")):
        raise UnknownOptionError("-json" if parsed.has("json") else "-check")
    progress = Progress(as_htcondor=bool(inv.called))
    if len(parsed.words) > 1:
        named = NodeId.match(parsed.words[1])
        if inv.called and len(parsed.words) > 2:
            inv.err(f"Extra argument: {parsed.words[2]}")
            htcondor_words.usage(inv)
            return 1
        if named is None:
            if inv.called:
                inv.err(f"Couldn't understand job number: {parsed.words[1]}")
                return 1
            raise UsageError(f"{parsed.words[1]!r} is not a job id")
        progress.cluster, progress.proc = named.job
    if inv.called and parsed.has("num") and not (parsed.value("num") or "").strip("0").isdigit():
        inv.err("-num must be greater than zero")
        htcondor_words.usage(inv)
        return 1
    wanted = parsed.number("num")
    limit = None if inv.called and not (parsed.value("wait") or "").isdigit() else parsed.number("wait")
    deadline = time.monotonic() + limit if limit is not None else None
    path = inv.path(parsed.words[0])
    if not path.exists():
        if inv.called:
            inv.err(f"Couldn't open {parsed.words[0]}: No such file or directory")
            return 1
        raise UsageError(f"cannot open the event log {path}")
    if inv.called and (parsed.value("wait") or "").startswith("-"):
        inv.out("Time expired.")
        return 1
    if _follow(path, progress, wanted, deadline, parsed.has("status"), parsed.has("echo"), inv):
        if parsed.has("json"):
            inv.out(json.dumps([progress.outcomes[job] for job in sorted(progress.outcomes)]))
            return 0 if progress.went_well or not parsed.has("check") else _NOT_WELL
        some = f"Specifed number of jobs ({wanted}) done." if inv.called else f"{len(progress.ended)} jobs done."
        if not (inv.called and parsed.has("allevents")):
            inv.out("All jobs done." if wanted is None else some)
        if not parsed.has("check") or progress.went_well:
            return 0
        for job, how in sorted(progress.outcomes.items()):
            if how.get("ExitCode") != 0:
                inv.err(f"Job {job[0]}.{job[1]} {_said_of(how)}")
        return _NOT_WELL
    inv.out("Time expired.")
    return 1


def _said_of(how: dict[str, object]) -> str:
    if how["Removed"]:
        return "was removed"
    return f"was killed by signal {how['ExitSignal']}" if "ExitSignal" in how else f"exited with {how.get('ExitCode')}"


def _hold_line(entry: str, job: tuple[int, int]) -> str:
    """What is said of a job that is held meanwhile: it may stay so for ever."""
    lines = [line.strip() for line in entry.splitlines()[1:] if line.strip()]
    reason = lines[0] if lines else "no reason is given"
    return f"Job {job[0]}.{job[1]} is held: {reason} (`slotwise analyze {job[0]}.{job[1]}` says what to do)"


def _status_line(entry: str, number: int, job: tuple[int, int], *, as_htcondor: bool) -> str:
    """What ``-status`` says of an event; HTCondor's tool adds the sub-process, and where a job executes."""
    if not as_htcondor:
        return f"{job[0]}.{job[1]} {_SHOWN[number]}"
    what = {9: "aborted"}.get(number, _SHOWN[number])
    if number == 1:
        what += f" on host {entry.partition('host: ')[2].partition(chr(10))[0].strip()}"
    return f"{job[0]}.{job[1]}.0 {what}"


_DATE = re.compile(r"^(\d{3} \([\d.]+\)) \d{4}-(\d\d)-(\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)?Z?")


def _with_old_date(entry: str) -> str:
    """An event with its time as HTCondor's tool shows it: month and day, without the year."""
    return _DATE.sub(r"\1 \2/\3 \4", entry)


def _follow(
    path: Path,
    progress: Progress,
    wanted: int | None,
    deadline: float | None,
    status: bool,
    echo: bool,
    inv: Invocation,
) -> bool:
    """Read the log as it grows; false when time ran out."""
    pending = ""
    wait_s = 0.02
    with path.open(errors="replace", newline="") as stream:
        while True:
            piece = stream.read()
            if piece:
                wait_s = 0.02
                pending += piece.replace("\r\n", "\n")
                *entries, pending = pending.split("\n...\n")
                for entry in entries:
                    taken = progress.take(entry)
                    if echo and taken:
                        inv.out(_with_old_date(entry) if progress.as_htcondor else entry, end="\n...\n")
                    if taken and taken[0] == _HELD and not progress.as_htcondor:
                        inv.err(_hold_line(entry, taken[1]))
                        inv.stderr.flush()
                    if status and taken and taken[0] in _SHOWN:
                        inv.out(_status_line(entry, *taken, as_htcondor=progress.as_htcondor))
                    if wanted is not None and len(progress.ended) >= wanted:
                        return True
            if progress.done and wanted is None:
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            if not piece:
                inv.stdout.flush()
                time.sleep(wait_s)
                wait_s = min(wait_s * 1.5, 0.5)
