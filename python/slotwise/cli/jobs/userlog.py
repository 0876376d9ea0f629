"""``slotwise userlog``: what the runs of jobs have cost, by their event logs (manual page of condor_userlog)."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.jobs.logged_events import entries
from slotwise.errors import UsageError
from slotwise.model import job_event_reader
from slotwise.model.durations import days_and_time
from slotwise.model.job_event_reader import Entry
from slotwise.model.job_id import JobId

USAGE = """usage: slotwise userlog [options] LOG ...
  What the runs of jobs have cost, by run, by host and by job. Good time is what a run has not lost by its end.
  -total                no line for each run
  -raw                  the lines of runs alone
  -evict                only runs that ended by an eviction; -all: again all
  -j CLUSTER[.PROC]     only runs of these jobs
  -hostname             names of hosts in place of addresses
  -debug                say which entries do not fit together
  -json                 runs for programs; times in seconds"""
_OPTIONS = [
    Option("help", 1),
    Option("hostname", 2),
    Option("total", 1),
    Option("raw", 1),
    Option("debug", 1),
    Option("evict", 1),
    Option("all", 1),
    Option("json", 2),
    Option("j", 1, 1),
]
_EXECUTE, _EXECUTABLE_ERROR, _CHECKPOINTED, _EVICTED, _TERMINATED = 1, 2, 3, 4, 5
_SHADOW_EXCEPTION, _RECONNECT_FAILED = 7, 24
_ENDS = (_EXECUTABLE_ERROR, _EVICTED, _TERMINATED, _SHADOW_EXCEPTION, _RECONNECT_FAILED)
_CPU = re.compile(r"Usr {0} {0}:{0}:{0}, Sys {0} {0}:{0}:{0}".format(r"(\d{1,9})"))

Job = tuple[int, int]


class Run(Struct, frozen=True):
    """One run of a job. Times are in seconds; ``good_s`` is the part that its end has not lost."""

    job: Job
    host: str
    start: int
    end: int
    good_s: int
    cpu_s: int
    evicted: bool

    @property
    def wall_s(self) -> int:
        """How long it took."""
        return self.end - self.start


class Sum(Struct):
    """Runs of a job or on a host, added up."""

    runs: int = 0
    kills: int = 0
    wall_s: int = 0
    good_s: int = 0
    cpu_s: int = 0

    def add(self, run: Run) -> None:
        """Take a run in. One that has lost some of its time counts as killed."""
        self.runs += 1
        self.kills += run.wall_s != run.good_s
        self.wall_s += run.wall_s
        self.good_s += run.good_s
        self.cpu_s += run.cpu_s

    def merge(self, other: Sum) -> None:
        """Take another sum in."""
        self.runs += other.runs
        self.kills += other.kills
        self.wall_s += other.wall_s
        self.good_s += other.good_s
        self.cpu_s += other.cpu_s


class RunReader(Struct):
    """Puts the entries of one log together to runs. Pure."""

    #: What does not fit together, in words.
    warnings: list[str] = field(default_factory=list)
    _executing: dict[Job, tuple[int, str]] = field(default_factory=dict)
    _checkpoints: dict[Job, tuple[int, int]] = field(default_factory=dict)

    def take(self, entry: Entry) -> Run | None:
        """The run that an entry ends, if it ends one."""
        job = (entry.cluster, entry.proc)
        if entry.number == _EXECUTE:
            self._execute(job, entry)
        elif entry.number == _CHECKPOINTED:
            self._checkpoints[job] = (job_event_reader.seconds(entry.time), _cpu(job_event_reader.event_ad(entry)))
        elif entry.number in _ENDS:
            return self._end(job, entry)
        return None

    def _execute(self, job: Job, entry: Entry) -> None:
        host = str(job_event_reader.event_ad(entry).get("ExecuteHost", ""))
        before = self._executing.get(job)
        if before is not None:
            if before[1] == host:
                self.warnings.append(
                    f"warning: discarding execute event (job {_id(job)})\n  found before evict or termination event "
                    "for previous execute event."
                )
                return
            self.warnings.append(
                f"warning: discarding execute event (job {_id(job)})\n  with no corresponding evict or termination "
                "event."
            )
        self._executing[job] = (job_event_reader.seconds(entry.time), host)

    def _end(self, job: Job, entry: Entry) -> Run | None:
        started = self._executing.pop(job, None)
        if started is None:
            what = {_EVICTED: "evicted job", _TERMINATED: "terminated job"}.get(entry.number, "job")
            self.warnings.append(f"internal error: can't find execute event for {what} {_id(job)}!")
            return None
        start, host = started
        end = job_event_reader.seconds(entry.time)
        ad = job_event_reader.event_ad(entry)
        if entry.number == _TERMINATED or (entry.number == _EVICTED and ad.get("Checkpointed") is True):
            kept, cpu_s = end, _cpu(ad)
        else:
            kept, cpu_s = self._checkpoints.get(job, (0, 0))
            if kept < start:
                kept, cpu_s = start, 0
        run = Run(job, _address(host), start, end, kept - start, cpu_s, entry.number == _EVICTED)
        if run.wall_s < 0 or run.good_s < 0:
            self.warnings.append(
                f"internal error: negative time computed for {_id(job)}!\n  (records around the turn of the year are "
                "not handled correctly)"
            )
            return None
        return run


def _id(job: Job) -> str:
    return f"{job[0]}.{job[1]}"


def _address(host: str) -> str:
    """The address in ``<address:port?...>``, in brackets where it has colons itself."""
    found = re.match(r"<?(\[[^\]]*\]|[^:>?]*)", host)
    return found[1] if found else ""


def _cpu(ad: ClassAd) -> int:
    """CPU seconds of the run, user and system."""
    found = _CPU.search(str(ad.get("RunRemoteUsage", "")))
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(found[n]) + int(found[n + 4]) for n in range(1, 5))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def main(args: list[str], inv: Invocation) -> int:
    """Show what runs have cost."""
    parsed = parse(args, _OPTIONS)
    if inv.called and not args:
        htcondor_words.usage(inv)
        return 1
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if not parsed.words:
        raise UsageError("which event log?", hint="slotwise userlog LOG ...")
    runs: list[Run] = []
    was_read = False
    status = 0
    for name in parsed.words:
        path = inv.path(name)
        if not os.access(path, os.R_OK):
            error = 13 if path.exists() else 2
            inv.err(f"Can't access file: {name} (errno={error})" if inv.called else f"ERROR: cannot read {path}")
            status = 0 if inv.called else 1  # as HTCondor's tool
            continue
        was_read = True
        reader = RunReader()
        runs += _chosen(parsed, (run for entry in entries(path) if (run := reader.take(entry)) is not None))
        if parsed.has("debug"):
            for warning in reader.warnings:
                inv.err(warning)
    if parsed.has("json"):
        inv.out(json.dumps([_row(run) for run in runs]))
    elif was_read:
        _show(parsed, runs, inv)
    return status


def _row(run: Run) -> dict[str, str | int | bool]:
    return {
        "ClusterId": run.job[0], "ProcId": run.job[1], "Host": run.host, "Start": run.start, "End": run.end,
        "WallTime": run.wall_s, "GoodTime": run.good_s, "CpuTime": run.cpu_s, "Evicted": run.evicted,
    }  # fmt: skip


def _chosen(parsed: Parsed, runs: Iterable[Run]) -> Iterable[Run]:
    """The runs that the options name; the last of -all, -evict and -j counts."""
    evicted_only = False
    job: JobId | None = None
    for given in parsed.options:
        if given.name == "all":
            evicted_only, job = False, None
        elif given.name == "evict":
            evicted_only = True
        elif given.name == "j":
            job = JobId.match(given.values[0].removesuffix("."))
            if job is None:
                raise UsageError(f"{given.values[0]!r} is not a job id", hint="-j CLUSTER or -j CLUSTER.PROC")
    for run in runs:
        named = job is None or run.job == (job.cluster, run.job[1] if job.proc is None else job.proc)
        if named and not (evicted_only and not run.evicted):
            yield run


def _show(parsed: Parsed, runs: list[Run], inv: Invocation) -> None:
    names = _Names(parsed.has("hostname"))
    raw = parsed.has("raw")
    if runs and not parsed.has("total"):
        if not raw:
            inv.out(
                f"\n{'Job':<8} {'Host':<15} {'Start Time':<11} {'Evict Time':<11} {'Wall Time':>9} {'Good Time':>9} "
                f"{'CPU Usage':>9}"
            )
        for run in runs:
            inv.out(
                f"{_id(run.job):<8.8} {names.of(run.host):<15.15} {_date(run.start):>11} {_date(run.end):>11} "
                f"{_days(run.wall_s):>9} {_days(run.good_s):>9} {_days(run.cpu_s):>9}"
            )
    if raw:
        return
    hosts: dict[str, Sum] = {}
    jobs: dict[Job, Sum] = {}
    total = Sum()
    for run in runs:
        hosts.setdefault(run.host, Sum()).add(run)
        jobs.setdefault(run.job, Sum()).add(run)
    headings = ("Wall Time", "Good Time", "CPU Usage", "Avg Alloc", "Avg Lost")
    inv.out(f"\n{'Host/Job':<15} " + " ".join(f"{word:>9}" for word in headings) + f" {'Goodput':>7} {'Util.':>6}\n")
    for host, part in sorted(hosts.items()):
        inv.out(_line(names.of(host), part))
    inv.out()
    for job, part in sorted(jobs.items()):
        inv.out(_line(_id(job), part))
        total.merge(part)
    inv.out("\n" + _line("Total", total))


def _line(name: str, part: Sum) -> str:
    lost = (part.wall_s - part.good_s) // part.kills if part.kills else 0
    times = (part.wall_s, part.good_s, part.cpu_s, part.wall_s // part.runs if part.runs else 0, lost)
    goodput = part.good_s / part.wall_s * 100 if part.wall_s else 0.0
    used = part.cpu_s / part.good_s * 100 if part.good_s else 0.0
    return f"{name:<15.15} " + " ".join(f"{_days(s):>9.9}" for s in times) + f" {goodput:6.1f}% {used:5.1f}%"


def _days(seconds: int) -> str:
    return f"{days_and_time(seconds)[:-3]:>9}"


def _date(at: int) -> str:
    moment = datetime.fromtimestamp(at)
    return f"{moment.month:2}/{moment.day:<2} {moment:%H:%M}"


class _Names:
    """Hosts as they are shown: addresses, or names where they are wanted and known."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._known: dict[str, str] = {}

    def of(self, host: str) -> str:
        if not self._wanted:
            return host
        if host not in self._known:
            try:
                self._known[host] = socket.gethostbyaddr(host.strip("[]"))[0]
            except OSError:
                self._known[host] = host
        return self._known[host]
