"""One update of the library: looks at the files of the history, takes in new records, and removes old ones."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from slotwise.clock import Clock
from slotwise.daemon import database
from slotwise.daemon.history_file import ASIDE, Located, parts_of, whole_records
from slotwise.daemon.library import fingerprint
from slotwise.errors import HostError
from slotwise.librarian import decide
from slotwise.librarian.decide import Cycle, Found, Known
from slotwise.librarian.facts import Facts, facts_of
from slotwise.librarian.rules import LibrarianRules
from slotwise.librarian.store import Library

_log = logging.getLogger(__name__)
#: Records of a transaction, and the bytes after which no more are added to one.
_PIECE, _PIECE_BYTES = 500, 32 << 20
#: The size of the journal from which on it is written into the database at the end of an update.
_JOURNAL = 4 << 20
#: How a file of SQLite begins.
_HEADER = b"SQLite format 3\0"
_TIME = "%Y%m%dT%H%M%S"


class Indexer:
    """Keeps a library up to date. Its methods are called by one thread at a time, but for :meth:`stop`."""

    def __init__(self, rules: LibrarianRules, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.rules = rules
        self._clock = clock
        self._monotonic = monotonic
        self._library: Library | None = None
        self._stopped = threading.Event()
        #: Of each file, by name: inode, size and time of its last change, and the fingerprint that it had then.
        self._marks: dict[str, tuple[tuple[int, int, int], str]] = {}
        #: The size at which nothing more could be read of a file.
        self._read_at: dict[int, int] = {}
        self._unreadable: set[str] = set()
        self._collect_again = 0.0

    def stop(self) -> None:
        """Have the update that is under way end soon."""
        self._stopped.set()
        if self._library is not None:
            with suppress(sqlite3.ProgrammingError):  # it was just closed
                self._library.interrupt()

    def close(self) -> None:
        """Close the library; the next update opens it again."""
        if self._library is not None:
            self._library.close()
            self._library = None
        self._read_at.clear()

    def update(self) -> Cycle:
        """Do one update.

        :raises HostError: the library cannot be used.
        :raises sqlite3.Error, OSError: files cannot be read or written; what was taken in so far is kept.
        """
        try:
            return self._update(self._opened())
        except sqlite3.Error as error:
            path = Path(self.rules.database)
            if database.is_damage(error):
                self.close()
                if not _is_database(path):
                    raise HostError(
                        f"{path} is not a database",
                        hint="have LIBRARIAN_DATABASE name another file, or remove this one",
                        path=str(path),
                    ) from None
                _log.error(
                    "%s is damaged (%s) and was set aside as %s: records of files that are gone are lost to it",
                    path, error, database.set_aside(path),
                )  # fmt: skip
            raise

    def _opened(self) -> Library:
        path = Path(self.rules.database)
        library = self._library
        if library is not None and (library.path != path or not _is_there(path, library.inode)):
            self.close()
            library = None
        if library is None:
            rules = self.rules
            library = self._library = Library.open(
                path, Path(rules.history), busy_s=rules.busy_s, most_cached=rules.most_cached
            )
        return library

    def _update(self, library: Library) -> Cycle:
        began = self._monotonic()
        found = self._look()
        self._reconcile(library, found)
        known = {(one.inode, one.fingerprint): one for one in library.files()}
        files = [(known[key], file) for file in found if (key := (file.inode, file.fingerprint or "")) in known]
        totals = library.totals()
        waiting = decide.backlog((file, now.size) for file, now in files)
        cycle = Cycle()
        for number, (file, now) in enumerate(files):
            if not self._has_more(file, now) or self._stopped.is_set():
                continue
            if cycle.records >= self.rules.most_records:
                cycle.hit_most = True
                break
            try:
                files[number] = (self._take_in(library, file, now, cycle), now)
            except FileNotFoundError:  # put aside or removed meanwhile
                continue
            except OSError as error:
                self._note_unreadable(now.path, error)
        cycle.collected = self._collect(library)
        cycle.backlog = decide.backlog((file, now.size) for file, now in files)
        cycle.duration_ms = round((self._monotonic() - began) * 1000)
        ended = self._clock.now()
        cycle.ended_at = int(ended)
        library.add_cycle(cycle, decide.with_cycle(totals, cycle, waiting, int(ended * 1000)), self.rules.retention_s)
        if _size(Path(f"{library.path}-wal")) > _JOURNAL:
            library.checkpoint()
        return cycle

    # ------------------------------------------------------------------------------------------------------------ files

    def _look(self) -> list[Found]:
        """The files of the history, the oldest first."""
        history = Path(self.rules.history).absolute()
        os.scandir(history.parent).close()  # when it cannot be listed, that says nothing of the files
        found = []
        for path in parts_of(history):
            try:
                found.append(self._found(path, history))
            except FileNotFoundError:  # put aside or removed since the directory was read
                continue
        names = {file.path for file in found}
        self._marks = {name: mark for name, mark in self._marks.items() if name in names}
        return found

    def _found(self, path: Path, history: Path) -> Found:
        name, state = str(path), path.stat()
        rotated = _rotated_at(path, history, state.st_mtime) if path != history else None
        sign = (state.st_ino, state.st_size, state.st_mtime_ns)
        if (mark := self._marks.get(name)) is not None and mark[0] == sign:
            return Found(name, state.st_ino, state.st_size, mark[1], rotated)
        try:
            with _open(path) as stream:
                state = os.fstat(stream.fileno())
                text = fingerprint(stream)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._note_unreadable(name, error)
            return Found(name, state.st_ino, state.st_size, None, rotated)
        self._marks[name] = ((state.st_ino, state.st_size, state.st_mtime_ns), text)
        return Found(name, state.st_ino, state.st_size, text, rotated)

    def _note_unreadable(self, name: str, error: OSError) -> None:
        if name not in self._unreadable:
            _log.warning("cannot read %s: %s", name, error)
        self._unreadable.add(name)

    def _reconcile(self, library: Library, found: list[Found]) -> None:
        plan = decide.plan(library.files(), found, int(self._clock.now()))
        for gone in plan.gone:
            _log.info("%s is gone; %s of its records stay in the library until it is full", gone.path, gone.records)
            library.change_file(gone)
        for changed in plan.changed:
            _log.info("%s is what file %d is called now", changed.path, changed.file_id)
            library.change_file(changed)
        for cut in plan.cut:
            _log.warning("%s is shorter than what was read of it: reading it anew", cut.path)
            library.restart_file(cut)
        for new in plan.new:
            file = library.add_file(new.path, new.inode, new.fingerprint or "", new.rotated_at)
            _log.info("reading %s from now on (file %d)", new.path, file.file_id)
        for one in (*plan.changed, *plan.cut):
            self._read_at.pop(one.file_id, None)
        if plan.changed:
            library.checkpoint()

    # ---------------------------------------------------------------------------------------------------------- records

    def _has_more(self, file: Known, now: Found) -> bool:
        if now.rotated_at is not None and not file.is_read:
            return True
        return now.size > file.offset and self._read_at.get(file.file_id) != now.size

    def _take_in(self, library: Library, file: Known, now: Found, cycle: Cycle) -> Known:
        """Take in what is new in a file, as far as the update may; what the library has of it then."""
        with _open(Path(now.path)) as stream:
            if os.fstat(stream.fileno()).st_ino != file.inode:
                return file  # put aside meanwhile: under its new name at the next look
            records = whole_records(stream, file.offset)
            before = cycle.records
            while not self._stopped.is_set():
                piece = _piece(records, min(_PIECE, self.rules.most_records - cycle.records))
                if piece:
                    file = self._add(library, file, piece, cycle)
                elif cycle.records < self.rules.most_records:
                    self._read_at[file.file_id] = now.size
                    if now.rotated_at is not None:
                        file = decide.as_read(file)
                        library.change_file(file)
                    break
                else:
                    cycle.hit_most = True
                    break
        self._unreadable.discard(now.path)
        if cycle.records > before:
            _log.info("took in %d records of %s", cycle.records - before, now.path)
        cycle.last_file, cycle.last_offset = file.file_id, file.offset
        return file

    def _add(self, library: Library, file: Known, piece: list[Located], cycle: Cycle) -> Known:
        found: list[tuple[int, Facts]] = []
        for record in piece:
            facts = facts_of(record)
            if facts is None:
                _log.warning("%s: the record at %d does not say which job it is of", file.path, record.begin)
                cycle.lost += 1
            else:
                found.append((record.begin, facts))
        file = decide.with_records(file, (one.end - one.begin for one in piece), piece[-1].end)
        library.add_records(file, found)
        cycle.records += len(piece)
        return file

    # ---------------------------------------------------------------------------------------------------------- removal

    def _collect(self, library: Library) -> bool:
        """Remove records of files that are gone where the database is too large; whether any were."""
        rules, size = self.rules, library.size()
        now = self._monotonic()
        if not decide.is_over(size, rules.size_most, rules.high) or now < self._collect_again:
            return False
        files, records = library.removable()
        chosen = decide.to_forget(files, size, records, rules.size_most * rules.low)
        if chosen:
            library.forget(chosen)
        after = library.size()
        if after < size:
            _log.info(
                "%s had %d bytes, and has %d without %d files that are gone", library.path, size, after, len(chosen)
            )
            self._collect_again = 0.0
        else:
            _log.warning(
                "%s has %d bytes, more than LIBRARIAN_MAX_DATABASE_SIZE allows, and no file whose records could go:"
                " looking again in %g s", library.path, size, rules.backoff_s,
            )  # fmt: skip
            self._collect_again = now + rules.backoff_s
        return bool(chosen)


def _piece(records: Iterator[Located], most: int) -> list[Located]:
    """The next records, ``most`` at most, and fewer where they are large."""
    piece: list[Located] = []
    size = 0
    for record in islice(records, most):
        piece.append(record)
        size += record.end - record.begin
        if size >= _PIECE_BYTES:
            break
    return piece


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """A file of the history, which waits for nobody should it be a pipe."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        yield stream


def _rotated_at(path: Path, history: Path, changed: float) -> int:
    """When a file was put aside, as its name says; else when it was changed last."""
    suffix = path.name.removeprefix(history.name)
    if ASIDE.fullmatch(suffix):
        try:
            return int(time.mktime(time.strptime(suffix[1:16], _TIME)))
        except (ValueError, OverflowError):
            pass
    return int(changed)


def _is_database(path: Path) -> bool:
    """Whether a file has been one: what somebody named by mistake stays where it is."""
    with path.open("rb") as stream:
        return stream.read(len(_HEADER)) == _HEADER


def _is_there(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino == inode
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
