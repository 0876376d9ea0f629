"""Ads of the past in files: a file in long form, its rotated parts, a job event log, the history files of the pool.

HTCondor writes a line of three stars and some facts behind each ad (``*** Offset = ... ``); in epoch files its
first word is the kind of ad (``*** EPOCH ClusterId=1 ...``).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Parsed
from slotwise.cli.jobs.eventlog_ads import job_ads
from slotwise.cli.jobs.queues import owner_of
from slotwise.cli.render import jobviews
from slotwise.cli.render.layout import Item, Layout
from slotwise.daemon.history_file import parts_of, read_ads, whole_records
from slotwise.daemon.library import Wanted, find
from slotwise.errors import HostError, NotFoundError, UsageError
from slotwise.model.job_id import JobId, last_of_history
from slotwise.table import AdTable, unpack_ads
from slotwise.wire.gen import schedd_pb2

_TRANSFERS = {"I": "INPUT", "O": "OUTPUT", "C": "CHECKPOINT"}
#: Options that name histories; of one group at most.
_HISTORIES = (("schedd",), ("startd",), ("daemon",), ("epochs", "transfer-history"))
#: A file of the runs of one job (JOB_EPOCH_HISTORY_DIR); the last number is when a reader took it to delete it.
_RUNS = re.compile(r"job\.runs\.(\d+)\.(\d+)(?:\.(\d+))?\.ads")
DAEMON = Layout((
    Item("RecordWriteDate", "TIMESTAMP", printas="QDATE", width=11, left=True, instead="??"),
    Item("(RecentDaemonCoreDutyCycle ?: 0) * 100", "DUTY_CYCLE", printf="%7.2f%%", width=10),
    *(Item(name, heading, printf=f"%{len(heading)}{'.2f' if 'MB' in heading else 'd'}", width=len(heading))
      for name, heading in (
        ("TotalRunningJobs", "RunningJobs"), ("TotalIdleJobs", "  IdleJobs"), ("TotalHeldJobs", "  HeldJobs"),
        ("TransferQueueNumDownloading", "Download"), ("TransferQueueNumWaitingToDownload", "Waiting"),
        ("FileTransferMBWaitingToDownload", "WaitingMB"), ("TransferQueueNumUploading", "  Upload"),
        ("TransferQueueNumWaitingToUpload", "Waiting"), ("FileTransferMBWaitingToUpload", "WaitingMB"))),
))  # fmt: skip


class Source(Struct, frozen=True):
    """Files to read, the newest last; ``types``: only ads of these kinds (upper case); ``deletes``: files once read."""

    files: tuple[Path, ...]
    layout: Layout | None = None
    types: frozenset[str] = frozenset()
    is_event_log: bool = False
    #: Jobs come in the order in which the log has them, as from HTCondor's tool.
    is_as_logged: bool = False
    deletes: bool = False
    #: Another daemon is asked, and not a file read: its kind, and the knob that names its history.
    daemon: str = ""
    knob: str = ""
    #: The librarian's library, which tells where the records of some jobs are.
    library: Path | None = None

    @classmethod
    def of(cls, parsed: Parsed, inv: Invocation) -> Source | None:
        """What the options name, or None: the schedd is asked.

        :raises UsageError: when the pool keeps no such history, or options contradict each other.
        :raises NotFoundError: when there is no such file or directory.
        """
        jobs = jobviews.VIEWS["history"]
        types = chosen_types(parsed)
        _check_histories(parsed)
        of_daemon = _of_daemon(parsed, inv)
        if parsed.has("name") or parsed.has("pool"):
            _check_remote(parsed)
            if is_of_runs(parsed):
                return None
            for option, daemon, knob, columns in (
                ("startd", "startd", "STARTD_HISTORY", jobs),
                ("daemon", "schedd", of_daemon, DAEMON),
            ):
                if parsed.has(option):
                    if types:
                        raise UsageError(f"-type chooses among records of runs, and -{option} has none")
                    return cls((), columns, daemon=daemon, knob=knob)
        if (name := parsed.value("userlog")) is not None:
            return cls((inv.path(name),), jobs, is_event_log=True, is_as_logged=bool(inv.called))
        if (name := parsed.value("file")) is not None:
            return cls((inv.path(name),), jobs, types)
        if parsed.has("directory"):
            layout = None if parsed.has("transfer-history") else jobs
            return cls(_files_of_jobs(parsed, inv), layout, types, deletes=_deletes(parsed))
        if (name := parsed.value("search")) is not None:
            return cls(tuple(parts_of(inv.path(name))), jobs, types)
        for option, knob, layout in (
            ("local", "HISTORY", jobs),
            ("startd", "STARTD_HISTORY", jobs),
            ("daemon", of_daemon, DAEMON),
            ("epochs", "JOB_EPOCH_HISTORY", jobs),
            ("transfer-history", "JOB_EPOCH_HISTORY", None),
        ):
            if parsed.has(option):
                if knob == "JOB_EPOCH_HISTORY" and _is_closed(Path(_knob(knob, option, inv))):
                    # Anybody may read HTCondor's file; ours is the access point's own, and anybody may ask that.
                    return None
                library = _library(parsed, inv) if knob == "HISTORY" and not types else None
                return cls(tuple(_configured(knob, option, inv)), layout, types, library=library)
        return None


def _library(parsed: Parsed, inv: Invocation) -> Path | None:
    """The librarian's library, where it is to be used."""
    knobs = inv.knobs()
    path = knobs.get_str("LIBRARIAN_DATABASE").strip()
    if not path or not knobs.get_bool("USING_LIBRARIAN") or parsed.has("no-librarian"):
        return None
    return Path(path) if os.access(path, os.R_OK) else None


def _of_daemon(parsed: Parsed, inv: Invocation) -> str:
    """The knob that names the history of a daemon's own ad: the schedd's, or that of ``-daemon:NAME``.

    :raises NotFoundError: nothing keeps that history.
    """
    name = next((one.letters for one in reversed(parsed.all("daemon")) if one.letters), "schedd").upper()
    knob = f"{name}_DAEMON_HISTORY"
    if name != "SCHEDD" and not inv.knobs().get(knob):
        raise NotFoundError(f"No daemon history to read: {knob} undefined", hint="schedds keep one of themselves")
    return knob


def is_of_runs(parsed: Parsed) -> bool:
    """Whether the options name the history of runs."""
    return parsed.has("epochs") or parsed.has("transfer-history")


def _check_remote(parsed: Parsed) -> None:
    for name in ("local", "directory"):
        if parsed.has(name):
            raise UsageError(f"-{name} reads files of this host, and -name or -pool asks another", hint="omit one")


def chosen_types(parsed: Parsed) -> frozenset[str]:
    """The kinds of ads that are asked for, in upper case; empty for all.

    :raises UsageError: for a kind of transfer that there is not.
    """
    if parsed.has("transfer-history"):
        letters = "".join(one.letters for one in parsed.all("transfer-history")).upper() or "IOC"
        unknown = set(letters) - set(_TRANSFERS)
        if unknown:
            raise UsageError(f"-transfer-history:{letters}: {sorted(unknown)[0]} is unknown", hint="I, O or C")
        return frozenset(_TRANSFERS[letter] for letter in letters)
    given = {word.strip().upper() for one in parsed.all("type") for word in one.values[0].split(",")}
    if "TRANSFER" in given:
        given = given - {"TRANSFER"} | set(_TRANSFERS.values())
    if given:
        return frozenset() if "ALL" in given else frozenset(given)
    return frozenset({"EPOCH"}) if parsed.has("epochs") else frozenset()


def _check_histories(parsed: Parsed) -> None:
    named = [next((name for name in group if parsed.has(name)), "") for group in _HISTORIES]
    chosen = [name for name in named if name]
    if len(chosen) > 1:
        raise UsageError(f"-{chosen[0]} and -{chosen[1]} name different histories", hint="leave one of them out")


def _deletes(parsed: Parsed) -> bool:
    """Whether files are deleted once they are read (``-epochs:d``).

    :raises UsageError: when they would not be read to their ends.
    """
    if not any("d" in one.letters.lower() for one in parsed.all("epochs")):
        return False
    for name in ("limit", "scanlimit", "since", "completedsince"):
        if parsed.has(name):
            raise UsageError(f"-epochs:d deletes the files, and -{name} does not read all of them", hint="omit one")
    return True


def _files_of_jobs(parsed: Parsed, inv: Invocation) -> tuple[Path, ...]:
    """The files of runs in a directory, those of the jobs that are asked for, by the jobs' ids."""
    if not is_of_runs(parsed):
        raise UsageError("-directory reads the history of runs only", hint="-epochs -directory")
    searched = parsed.value("search")
    value = str(inv.path(searched)) if searched is not None else _knob("JOB_EPOCH_HISTORY_DIR", "directory", inv)
    directory = Path(value)
    if not directory.is_dir():
        raise NotFoundError(f"-directory: {value} is not a directory")
    ids = {word for word in parsed.words if word[:1].isdigit()}
    everything = len(ids) < len(parsed.words)  # an owner's jobs are in any of them
    found = []
    for path in directory.iterdir():
        match = _RUNS.fullmatch(path.name)
        if match is None:
            continue
        cluster, proc, reader = match.groups()
        if everything or not ids or cluster in ids or f"{cluster}.{proc}" in ids:
            found.append((int(cluster), int(proc), reader is None, path.name, path))
    return tuple(path for *_, path in sorted(found))


def _knob(knob: str, option: str, inv: Invocation) -> str:
    value = inv.knobs().get(knob)
    if not value:
        raise UsageError(f"-{option}: {knob} is not set, so no such history is kept", hint=f"set {knob}")
    return value


def _is_closed(path: Path) -> bool:
    """Whether this account may not read a file, or not look whether it is there."""
    return not os.access(path.parent, os.X_OK) or (path.exists() and not os.access(path, os.R_OK))


def _configured(knob: str, option: str, inv: Invocation) -> list[Path]:
    value = _knob(knob, option, inv)
    found = parts_of(Path(value))
    if not found:
        raise NotFoundError(f"-{option}: there is no file {value} yet ({knob})")
    return found


def read_sources(source: Source, query: schedd_pb2.HistoryQuery, inv: Invocation) -> Iterator[ClassAd]:
    """The ads that the query selects, the newest (last) first unless forwards.

    :raises NotFoundError: when a file cannot be read, or the daemon that is asked keeps no such history.
    """
    return _selected(_fetched(source, query, inv) if source.daemon else _of_files(source, query), query)


def _of_files(source: Source, query: schedd_pb2.HistoryQuery) -> Iterator[ClassAd]:
    for path in source.files if query.forwards else reversed(source.files):
        with _taken(path) if source.deletes else nullcontext(path) as place:
            found = _indexed(source, place, query)
            if found is None:
                yield from _read(source, place, forwards=query.forwards)
            else:
                yield from found


def _indexed(source: Source, path: Path, query: schedd_pb2.HistoryQuery) -> Iterator[ClassAd] | None:
    """The ads of the jobs that are asked for by id or owner, and some others, by the library; None: all are read."""
    jobs = query.jobs
    # -since and -scanlimit count all ads that are read; the library has owners without their domains.
    if (
        source.library is None
        or query.since
        or query.scan_limit
        or query.completed_since
        or any("@" in owner for owner in jobs.owners)
    ):
        return None
    wanted = Wanted(tuple(map(JobId.parse, jobs.ids)), tuple(jobs.owners))
    if not (wanted.ids or wanted.owners):
        return None
    try:
        with ExitStack() as held:
            stream = held.enter_context(path.open("rb"))
            places = find(source.library, stream, wanted)
            if places is not None:
                return _at(places if query.forwards else places[::-1], stream, held.pop_all())
    except (OSError, HostError, OverflowError):  # the last: no job has such an id
        pass
    return None


def _at(places: list[int], stream: BinaryIO, held: ExitStack) -> Iterator[ClassAd]:
    """The ads of the records that begin there; the file, which may have another name by then, is closed at the end."""
    with held:
        for place in places:
            for record in islice(whole_records(stream, place), 1):
                yield from record.ads()


def _fetched(source: Source, query: schedd_pb2.HistoryQuery, inv: Invocation) -> Iterator[ClassAd]:
    """The ads of a history that another daemon keeps of itself; asking for it needs ADMINISTRATOR there."""
    from slotwise.client import past
    from slotwise.client.call import NewestPieces
    from slotwise.wire.gen import daemon_pb2_grpc

    pieces = NewestPieces(past.MOST)
    for piece in inv.stub(daemon_pb2_grpc.DaemonStub, source.daemon).FetchLog(past.request(source.knob)):
        pieces.append(piece)
    ads = past.newest_first(pieces)
    return iter(list(ads)[::-1]) if query.forwards else ads


def _selected(ads: Iterator[ClassAd], query: schedd_pb2.HistoryQuery) -> Iterator[ClassAd]:
    from slotwise.cli.jobs.queues import where

    constraint = where(schedd_pb2.JobQuery(query=query.query, jobs=query.jobs))
    stop = _stop(query)
    left = query.query.limit or -1
    scanned = 0
    for ad in ads:
        if left == 0 or (query.scan_limit and scanned >= query.scan_limit):
            return
        scanned += 1
        if stop is not None and stop.eval(ad) is True:
            return
        if constraint and not unpack_ads(AdTable.of([ad]).query(constraint)):
            continue
        left -= 1
        yield ad


@contextmanager
def _taken(path: Path) -> Iterator[Path]:
    """A file of runs under a name to which the access point does not write; deleted unless reading it fails.

    After a failure, later readers find it under that name.

    :raises NotFoundError: when it cannot be renamed or deleted.
    """
    match = _RUNS.fullmatch(path.name)
    aside = (
        path if match is None or match[3] else path.with_name(f"{path.name.removesuffix('.ads')}.{time.time_ns()}.ads")
    )
    try:
        path.rename(aside)
        yield aside
        aside.unlink()
    except OSError as error:
        raise NotFoundError(f"cannot delete {path}: {error.strerror}") from None


def _read(source: Source, path: Path, *, forwards: bool) -> Iterator[ClassAd]:
    if source.is_event_log:
        ads = job_ads(path, left=True, owner=owner_of(path))
        yield from ads if forwards or source.is_as_logged else reversed(ads)
        return
    try:
        yield from read_ads(path, source.types, forwards=forwards)
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from None


def _stop(query: schedd_pb2.HistoryQuery) -> ExprTree | None:
    """What ends the reading: a job id, an expression, or a time of completion."""
    clauses = []
    since = query.since.strip()
    if since:
        clauses.append(last_of_history(since))
    if query.completed_since:
        clauses.append(f"CompletionDate <= {query.completed_since}")
    return ExprTree(" || ".join(f"({text})" for text in clauses)) if clauses else None
