"""``htcondor eventlog``: what became of each job of an event log, as a table, JSON or CSV, once or as the log grows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.cli.htcondor.verb import Call, Noun, Verb
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.model.durations import days_and_time

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from slotwise.client import EventLog
    from slotwise.model.job_event_reader import Entry

_SUBMIT, _EXECUTE, _EVICTED, _TERMINATED, _ABORTED = 0, 1, 4, 5, 9
#: By what ``-groupby`` groups: attributes of the slots that jobs ran in.
_GROUPS = ("GLIDEIN_ResourceName",)
_USAGE = re.compile(r"Usr (\d+) (\d+):(\d+):(\d+), *Sys (\d+) (\d+):(\d+):(\d+)")
_ADDRESS = re.compile(r"<?\[?([^>?\]]+?)\]?(?::\d+)?(?:[>?].*)?$")


class JobSummary(Struct):
    """What became of a job.

    :param host: where it ran last, and before that where it was submitted.
    :param group: the slot's value of the attribute that ``-groupby`` names.
    :param started: the minute of its last start; ``good_since``: that of its last start or eviction.
    :param ended: the minute in which its last run ended; ``cpu_s``: what the job had used by then.
    :param wall_s: the time of that run; ``good_s``: what of it was not lost to an eviction. In seconds, as ``cpu_s``.
    :param exit_code: None: it has not ended by itself.
    """

    host: str
    group: str | None = None
    evictions: int = 0
    starts: int = 0
    started: datetime | None = None
    good_since: datetime | None = None
    ended: datetime | None = None
    cpu_s: int = 0
    wall_s: int = 0
    good_s: int = 0
    exit_code: int | None = None

    def end(self, moment: datetime) -> None:
        """Its run ends."""
        self.ended = moment
        self.wall_s = _between(self.started, moment)
        self.good_s = _between(self.good_since, moment)

    def as_json(self, job: str, group: str | None) -> dict[str, object]:
        """The members of HTCondor's JSON."""
        found: dict[str, object] = {"Job ID": job, "Submitted": True, "Evictions": self.evictions}
        found |= {"Executed": self.starts > 0, "starts": self.starts, "Host": self.host}
        if group is not None and self.group is not None:
            found[group] = self.group
        if self.started is not None:
            found |= {"Start Time": _shown(self.started), "last_exec_time": _shown(self.good_since)}
        found["CPU Usage"] = self.cpu_s
        if self.ended is not None:
            found["Evict Time"] = _shown(self.ended)
        found |= {"Wall Time": self.wall_s, "Good Time": self.good_s}
        if self.ended is not None:
            found["Return Value"] = self.exit_code
        return found


def _between(begin: datetime | None, end: datetime) -> int:
    return 0 if begin is None else max(0, int((end - begin).total_seconds()))


def _shown(moment: datetime | None) -> str:
    """A minute as ``3/1/26 10:05``."""
    return "" if moment is None else f"{moment.month}/{moment.day}/{moment:%y %H:%M}"


class Summaries:
    """The jobs of a log by id, as its events come. A job whose submission is not in the log has no summary.

    :param group: the attribute of slots to keep, or None.
    """

    def __init__(self, group: str | None = None) -> None:
        self.jobs: dict[str, JobSummary] = {}
        self._group = group

    def add(self, entry: Entry, ad: ClassAd) -> None:
        """Take an event in."""
        job = f"{entry.cluster}.{entry.proc}"
        if entry.number == _SUBMIT:
            self.jobs.setdefault(job, JobSummary(_host(ad.eval("SubmitHost"))))
        elif (summary := self.jobs.get(job)) is None:
            return
        elif entry.number == _EXECUTE:
            self._start(summary, entry, ad)
        elif entry.number in (_EVICTED, _TERMINATED):
            _end(summary, entry, ad)
        elif entry.number == _ABORTED and not summary.starts:
            del self.jobs[job]

    def _start(self, summary: JobSummary, entry: Entry, ad: ClassAd) -> None:
        slot = ad.eval("SlotName")
        if isinstance(slot, str):
            summary.host = slot
        properties = ad.get("ExecuteProps")
        if self._group is not None and isinstance(properties, ClassAd):
            group = properties.eval(self._group)
            summary.group = group if isinstance(group, str) else None
        summary.started = summary.good_since = _minute(entry)
        summary.starts += 1


def _end(summary: JobSummary, entry: Entry, ad: ClassAd) -> None:
    evicted = entry.number == _EVICTED
    used = _USAGE.search(str(ad.eval("RunRemoteUsage" if evicted else "TotalRemoteUsage")))
    if used is not None:
        days, hours, minutes, seconds = (int(used[n]) + int(used[n + 4]) for n in (1, 2, 3, 4))
        summary.cpu_s = days * 86400 + hours * 3600 + minutes * 60 + seconds
    if evicted:
        summary.evictions += 1
        summary.good_since = _minute(entry)
    summary.end(_minute(entry))
    code = ad.eval("ReturnValue")
    summary.exit_code = code if isinstance(code, int) else None


def _minute(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.time).replace(second=0, microsecond=0, tzinfo=None)


def _host(address: object) -> str:
    found = _ADDRESS.match(address.strip()) if isinstance(address, str) else None
    return found[1] if found else ""


# ----------------------------------------------------------------------------------------------------------- printing


def _write(jobs: Mapping[str, JobSummary], options: Namespace, call: Call) -> None:
    if options.groupby is not None:
        text = _groups(jobs.values(), options)
    elif options.csv:
        text = _csv(jobs)
    elif options.json:
        text = json.dumps([summary.as_json(job, None) for job, summary in jobs.items()], indent=4)
    else:
        text = table(jobs)
    call.inv.out(text)


def table(jobs: Mapping[str, JobSummary]) -> str:
    """A line for each job; the headings again before each fiftieth."""
    rows = [
        (job, one.host, _shown(one.started), _shown(one.ended), str(one.evictions), *_spans(one))
        for job, one in jobs.items()
    ]
    names = ("Job ID", "Host", "Start Time", "Evict Time", "Evictions")
    widths = [max(len(name), *(len(row[n]) for row in rows), 0) + 2 for n, name in enumerate(names)] + [13] * 3
    headings = ("Job", *names[1:], "Wall Time", "Good Time", "CPU Usage")

    def line(cells: Iterable[str]) -> str:
        return "".join(f"{cell:<{width}} " for cell, width in zip(cells, widths, strict=True))

    found = [line(headings) + " "]
    for number, row in enumerate(rows, start=1):
        if number % 50 == 0:
            found.append(found[0])
        found.append(line(row))
    return "\n".join(found)


def _spans(one: JobSummary) -> tuple[str, str, str]:
    """Wall, good and processor time of a job that has ended."""
    if one.ended is None:
        return "", "", ""
    return days_and_time(one.wall_s), days_and_time(one.good_s), days_and_time(one.cpu_s)


def _csv(jobs: Mapping[str, JobSummary]) -> str:
    lines = ["Job ID,Host,Start Time,Evict Time,Evictions,Wall Time,Good Time,CPU Usage"]
    for job, one in jobs.items():
        cells = (
            job,
            one.host,
            _shown(one.started),
            _shown(one.ended),
            one.evictions,
            one.wall_s,
            one.good_s,
            one.cpu_s,
        )
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines)


class _Group(Struct):
    """The sums of the jobs of one group."""

    evictions: int = 0
    wall_s: int = 0
    good_s: int = 0
    cpu_s: int = 0
    successes: int = 0
    failures: int = 0
    starts: int = 0

    def add(self, one: JobSummary) -> None:
        self.evictions += one.evictions
        self.wall_s += one.wall_s
        self.good_s += one.good_s
        self.cpu_s += one.cpu_s
        self.starts += one.starts
        if one.exit_code is not None:
            self.successes += one.exit_code == 0
            self.failures += one.exit_code != 0

    @property
    def spans(self) -> tuple[str, str, str]:
        """Wall, good and processor time."""
        return days_and_time(self.wall_s), days_and_time(self.good_s), days_and_time(self.cpu_s)

    def as_json(self) -> dict[str, object]:
        """The members of HTCondor's JSON."""
        wall, good, cpu = self.spans
        found: dict[str, object] = {"Evictions": self.evictions, "Wall Time": wall, "Good Time": good, "CPU Usage": cpu}
        return found | {"Successes": self.successes, "Failures": self.failures, "Starts": self.starts}


def _groups(jobs: Iterable[JobSummary], options: Namespace) -> str:
    groups: dict[str, _Group] = {}
    for one in jobs:
        groups.setdefault(one.group or "", _Group()).add(one)
    if options.json:
        return json.dumps({name: one.as_json() for name, one in groups.items()}, indent=4)
    names = ("Site", "Evictions", "Wall Time", "Good Time", "CPU Usage", "Job Starts", "Job Successes", "Job Failures")
    rows = [
        (name, one.evictions, *one.spans, one.starts, one.successes, one.failures)
        for name, one in groups.items()
        if name
    ]
    if options.csv:
        return "\n".join(",".join(map(str, row)) for row in (names, *rows))
    widths = (20, 12, 12, 12, 12, 12, 14, 12)
    return "\n".join(
        " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (names, *rows)
    )


# -------------------------------------------------------------------------------------------------------------- verbs


def _check(path: Path, name: str) -> None:
    if not path.exists():
        raise NotFoundError(f"Could not find file: {name}")


def _read(options: Namespace, call: Call) -> None:
    from slotwise.client import EventLog

    jobs: dict[str, JobSummary] = {}
    for name in options.log_files:
        _check(call.inv.path(name), name)
        summaries = Summaries(options.groupby)
        with EventLog(call.inv.path(name)) as log:
            _take(log, summaries, 0.0, call)
        jobs.update(summaries.jobs)
    _write(jobs, options, call)


def _follow(options: Namespace, call: Call) -> None:
    from slotwise.client import EventLog

    _check(call.inv.path(options.log_file), options.log_file)
    summaries = Summaries(options.groupby)
    with EventLog(call.inv.path(options.log_file)) as log:
        _take(log, summaries, 0.0, call)
        try:
            while True:
                _write(summaries.jobs, options, call)
                call.inv.stdout.flush()
                _take(log, summaries, None, call)
        except KeyboardInterrupt:
            call.inv.out(" Exiting...")


def _take(log: EventLog, summaries: Summaries, wait_s: float | None, call: Call) -> None:
    """Take in what is in the log. ``wait_s``: how long the first event is waited for."""
    while True:
        try:
            found = log.next(wait_s)
        except SlotwiseError as error:
            call.debug(f"{error}")
            continue  # the next call reads behind it
        if found is None:
            return
        summaries.add(*found)
        wait_s = 0.0


def _histogram(options: Namespace, call: Call) -> None:
    raise UsageError(
        "event logs are not drawn", hint=f"`htcondor eventlog read {options.log_file}` has a line for each job"
    )


def _forms(parser: ArgumentParser) -> None:
    parser.add_argument("-json", action="store_true", help="Output logs in JSON format")
    parser.add_argument("-csv", action="store_true", help="Output logs in CSV format")
    parser.add_argument("-groupby", choices=_GROUPS, help="Group output by specified attribute")


def _read_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("log_files", nargs="*", help="Log file or space separated list of log files")
    _forms(parser)


def _follow_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("log_file", help="Log file")
    _forms(parser)


def _histogram_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("log_file", help="Log file")
    parser.add_argument("-c", "--cumulative", action="store_true")
    parser.add_argument("-i", "--instant", action="store_true")


NOUN = Noun(
    "Interacts with eventlogs",
    {
        "read": Verb("Reads an eventlog", _read, _read_arguments),
        "follow": Verb("Follows an eventlog", _follow, _follow_arguments),
        "histogram": Verb("Not available: see read", _histogram, _histogram_arguments),
    },
)
