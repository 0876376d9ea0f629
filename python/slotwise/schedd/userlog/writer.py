"""Writes event logs of jobs so that each entry is in its log exactly once, even after a crash at any moment.

The text, with the current size of the log, is committed (:class:`PlannedText`) in the same transaction as the change
that it reports. After the commit, the text is appended, and once the log is flushed, the plan is deleted. A schedd that
starts with plans left, or that could not write the log before, searches it from the planned offset: entries that are
there are not written again, and a partial one is completed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct

from slotwise import durable_files
from slotwise.daemon.host_faults import waited_out
from slotwise.daemon.user_paths import open_path
from slotwise.model.job_events import END, split_entries
from slotwise.schedd.user_files.owner_rights import as_owner
from slotwise.schedd.userlog.planned_text import Log, PlannedText
from slotwise.transfer import safe_open

_log = logging.getLogger(__name__)

#: How far before its end a log is searched for the entries of a former process, besides their own length, bytes: what
#: other writers have appended meanwhile is less. The log is its user's, and may have any length.
_SEARCHED = 4 << 20


#: The head of an entry: ``NNN (CCC.PPP.SSS)``.
_HEAD = re.compile(r"\d{3} \((\d+)\.(\d+)\.")
#: Errors that do not pass by themselves: the user has to do something about the path.
_LASTING = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENXIO,
    errno.EINVAL,
)


class LogFailure(Struct, frozen=True):
    """A log that could not be written, and the numbers of its texts."""

    path: str
    owner: str
    errno: int
    reason: str
    seqs: tuple[int, ...]

    @property
    def is_lasting(self) -> bool:
        """Whether the log cannot be opened until its user changes something; else, as on a full disk, it may pass."""
        return self.errno in _LASTING


class LogSizes:
    """The sizes of logs, as offsets for plans, cached to spare a system call for each entry.

    An offset may be too small, which is harmless (more is searched after a crash), but never too large: sizes grow by
    what this process wrote, and the writer notices when somebody truncates the file.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def offset(self, path: str) -> int:
        """The offset in ``path`` at or after which a new entry begins."""
        found = self._sizes.get(path)
        if found is None:
            try:
                found = os.stat(path).st_size
            except OSError:
                found = 0
            self._sizes[path] = found
        return found

    def now_at(self, path: str, size: int) -> None:
        """Note the size of a log."""
        if len(self._sizes) > 10_000:
            self._sizes.clear()
        self._sizes[path] = size


def append(
    planned: Iterable[PlannedText], sizes: LogSizes, *, fallback: str = "nobody", sync: bool = False
) -> tuple[list[int], list[LogFailure]]:
    """Append texts, log by log in order (worker thread); returns the written plans and the failures."""
    done: list[int] = []
    failures: list[LogFailure] = []
    for (path, owner), texts in _by_log(planned).items():
        seqs = tuple(text.seq for text in texts)
        try:
            text = "".join(text.text for text in texts)
            size = waited_out(partial(_append_as, owner, fallback, path, text, sync=sync))
        except OSError as error:
            failures.append(LogFailure(path, owner, error.errno or 0, _reason(path, error), seqs))
            continue
        sizes.now_at(path, size)
        done.extend(seqs)
    return done, failures


def settle(
    planned: Iterable[PlannedText], sizes: LogSizes, *, fallback: str = "nobody", sync: bool = False
) -> tuple[list[int], list[LogFailure]]:
    """Write those of the texts that are not in their logs yet: a former process, or attempt, may have written some."""
    done: list[int] = []
    failures: list[LogFailure] = []
    for (path, owner), texts in _by_log(planned).items():
        seqs = tuple(text.seq for text in texts)
        try:
            size = waited_out(partial(_complete, owner, fallback, path, texts, sync=sync))
        except OSError as error:
            failures.append(LogFailure(path, owner, error.errno or 0, _reason(path, error), seqs))
            continue
        sizes.now_at(path, size)
        done.extend(seqs)
    return done, failures


def flush(logs: Iterable[Log], *, fallback: str = "nobody") -> dict[Log, OSError]:
    """Have disks hold what was written into the logs (worker thread); returns those that they could not flush."""
    failed: dict[Log, OSError] = {}
    paths: dict[str, list[str]] = {}
    for path, owner in logs:
        paths.setdefault(owner, []).append(path)
    for owner, of_owner in paths.items():
        try:
            with as_owner(owner, fallback):
                durable_files.flush(of_owner)
        except OSError as error:
            failed.update(((path, owner), error) for path in of_owner)
    return failed


def all_failed(planned: Iterable[PlannedText], error: Exception) -> list[LogFailure]:
    """The failures of all logs of the texts, for a reason that lies in none of them."""
    return [
        LogFailure(path, owner, 0, f"Failed to write user log {path}: {error}", tuple(text.seq for text in texts))
        for (path, owner), texts in _by_log(planned).items()
    ]


def jobs_told_of(text: str) -> list[str]:
    """The keys of the jobs of which the entries of a text tell, each once."""
    heads = (_HEAD.match(entry) for entry in split_entries(text))
    return list(dict.fromkeys(f"{int(head[1])}.{int(head[2])}" for head in heads if head))


def _complete(owner: str, fallback: str, path: str, texts: list[PlannedText], *, sync: bool) -> int:
    """Append what the log lacks of the texts; returns its size."""
    with as_owner(owner, fallback):
        length = sum(len(text.text.encode("utf-8", "surrogateescape")) for text in texts)
        tail = _tail(path, min(text.offset for text in texts), length + _SEARCHED)
        missing = missing_text(tail, texts)
        return _append_text(path, missing, sync=sync) if missing else os.stat(path).st_size


def missing_text(tail: str, texts: Iterable[PlannedText]) -> str:
    """The text to append to a log that ends with ``tail``, so that it has every planned entry once.

    Entries of a log are written in order, so each is searched after the one before it.
    """
    position = 0
    missing: list[str] = []
    for text in texts:
        for entry in split_entries(text.text):
            found = tail.find(entry, position)
            if found >= 0:
                position = found + len(entry)
            else:
                missing.append(entry)
    if not missing:
        return ""
    cut = tail[tail.rfind("\n" + END) + len("\n" + END) :] if "\n" + END in tail else tail
    if cut and missing[0].startswith(cut):
        missing[0] = missing[0][len(cut) :]
    elif cut and not tail.endswith("\n"):
        missing.insert(0, "\n")
    return "".join(missing)


def _by_log(planned: Iterable[PlannedText]) -> dict[tuple[str, str], list[PlannedText]]:
    logs: dict[tuple[str, str], list[PlannedText]] = {}
    for text in planned:
        logs.setdefault((text.path, text.owner), []).append(text)
    return logs


def _append_as(owner: str, fallback: str, path: str, text: str, *, sync: bool) -> int:
    with as_owner(owner, fallback):
        return _append_text(path, text, sync=sync)


def _append_text(path: str, text: str, *, sync: bool = False) -> int:
    """Append in as few writes as the system allows; a short write (full disk) is undone."""
    # Does not wait for a reader of a named pipe: without one, the job is held, as for any log that cannot be written.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    is_new = False
    try:
        descriptor = open_path(path, flags)
    except FileNotFoundError:
        descriptor = open_path(path, flags | os.O_CREAT, 0o644)
        os.fchmod(descriptor, 0o644)  # the daemon's umask is not the user's
        is_new = True
    try:
        before = os.fstat(descriptor).st_size
        data = memoryview(text.encode("utf-8", "surrogateescape"))
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            with contextlib.suppress(OSError):  # what is there is found when it is tried again
                os.ftruncate(descriptor, before)
            raise
        state = os.fstat(descriptor)
        if sync and stat.S_ISREG(state.st_mode):
            os.fdatasync(descriptor)
            if is_new:
                durable_files.synchronise(os.path.dirname(path) or ".")
        return state.st_size
    finally:
        os.close(descriptor)


def _tail(path: str, offset: int, most: int) -> str:
    """The log from ``offset`` on, and no more than its last ``most`` bytes; empty where there is none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(safe_open.regular(path), "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if offset > size:
                offset = 0  # truncated or replaced since
            stream.seek(max(offset, size - most))
            return stream.read(most).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _reason(path: str, error: OSError) -> str:
    return f"Failed to initialize user log to {path}: {error.strerror or error}"


#: :func:`append` or :func:`settle`.
Write = Callable[..., tuple[list[int], list[LogFailure]]]
