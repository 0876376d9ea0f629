"""Places the output files of a run at the access point, each atomically.

All of this runs in worker threads, with the owner's rights. A file is written under a temporary name in its directory
and renamed when it is complete, so that nobody sees half of one; one that is sent again replaces itself. All that were
placed are flushed before the end of the run is acknowledged, upon which its starter deletes its copies.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from slotwise import durable_files
from slotwise.daemon.host_faults import is_shortage, waited_out
from slotwise.daemon.user_paths import open_path
from slotwise.model.reason_codes import Hold
from slotwise.schedd.transfer.files import STDERR, STDOUT, FilePlan, TransferError
from slotwise.schedd.user_files.owner_rights import SCHEDD, as_owner
from slotwise.transfer import depth, safe_open
from slotwise.transfer.lists import is_null
from slotwise.transfer.pieces import SMALL_MOST, Piece

#: Suffixes of a directory in SPOOL while it is written, and while its successor replaces it.
_FRESH, _FORMER = ".new", ".old"
#: The most bytes and files of a run that are kept in memory until its end; further ones go to the disk.
_MOST_KEPT, _MOST_KEPT_FILES = 8 * 1024 * 1024, 2000
#: The longest file name, in bytes.
_MOST_NAME = 255


def destination(plan: FilePlan, name: str) -> str | None:
    """The path of an output file that the starter calls ``name``; None when it is discarded.

    :raises TransferError: for a name that leads out of the scratch directory.
    """
    if name == STDOUT:
        return None if is_null(plan.stdout) else _placed(plan, plan.stdout)
    if name == STDERR:
        return None if is_null(plan.stderr) else _placed(plan, plan.stderr)
    if os.path.isabs(name) and name in (plan.stdout, plan.stderr):
        return name
    plain = os.path.normpath(name)
    if os.path.isabs(name) or plain == ".." or plain.startswith("../"):
        raise TransferError(
            f"the starter sent a file with the name {name!r}", int(Hold.TRANSFER_OUTPUT_ERROR), errno.EINVAL
        )
    if depth.is_too_deep(plain):
        raise TransferError(
            f"the starter sent a file that is {depth.TOO_DEEP}: {name[:100]!r}...",
            int(Hold.TRANSFER_OUTPUT_ERROR),
            errno.ENAMETOOLONG,
        )
    if (target := plan.remaps.get(name) or plan.remaps.get(plain)) is not None:
        return None if "://" in target or is_null(target) else os.path.join(plan.iwd, target)
    head, slash, rest = plain.partition("/")
    if slash and head in plan.remaps:
        return os.path.join(plan.iwd, plan.remaps[head], rest)
    return os.path.join(plan.iwd, plain)


def _placed(plan: FilePlan, name: str) -> str:
    return os.path.join(plan.iwd, plan.remaps.get(name) or plan.remaps.get(os.path.basename(name)) or name)


def spooled_files(directory: str) -> str:
    """``directory`` if it has files for the next run, else ""; an interrupted replacement of it is undone first."""
    if not os.path.isdir(directory) and os.path.isdir(directory + _FORMER):
        os.rename(directory + _FORMER, directory)
    return directory if os.path.isdir(directory) else ""


def present_files(directory: Path) -> Path:
    """Where the files for the next run are now: put aside for a moment, and after an interrupted replacement."""
    former = directory.with_name(directory.name + _FORMER)
    return former if former.is_dir() and not directory.is_dir() else directory


def _fill(source: str, target: str) -> None:
    """Link what is in ``source`` but not in ``target`` into ``target``."""
    with os.scandir(source) as found:
        entries = list(found)
    for entry in entries:
        path = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False) and os.path.isdir(path):
            _fill(entry.path, path)
        elif os.path.lexists(path):
            continue
        elif entry.is_dir(follow_symlinks=False):
            shutil.copytree(entry.path, path, copy_function=os.link, symlinks=True)
        else:
            os.link(entry.path, path, follow_symlinks=False)


#: Errors of a rename out of a user's directory that is not permitted.
_NOT_OURS = (errno.EACCES, errno.EPERM)


class Results:
    """The output files of a run as they arrive; placed together at its end."""

    def __init__(self, plan: FilePlan, run_id: str, *, flushes: bool = True) -> None:
        """
        :param flushes: files are on the disk once they are placed (SLOTWISE_OUTPUT_FSYNC).
        """
        self._flushes = flushes
        self._plan = self._sent_with = plan
        self._suffix = ".sw-" + run_id.replace("#", "-")
        #: (mode, content) of files that arrived in one piece, by name.
        self._small: dict[str, tuple[int, bytes]] = {}
        self._directories: dict[str, int] = {}
        #: (temporary file, mode) of files that arrive in many pieces, by name.
        self._large: dict[str, tuple[str, int]] = {}
        #: Names of those whose last piece has arrived; incomplete files are not placed.
        self._whole: set[str] = set()
        #: The bytes in memory.
        self._kept = 0
        self._dropped = False
        self._lock = threading.Lock()
        self.bytes = 0
        #: Set when the limit on output is exceeded; further files are ignored.
        self.failure: TransferError | None = None
        #: Errors of files that cannot be written, by name.
        self._failed: dict[str, TransferError] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to place."""
        return not (self._small or self._directories or self._large or self._failed or self.failure)

    def is_small(self, piece: Piece) -> bool:
        """Whether the piece is a directory or a whole small file for which there is room in memory.

        Beyond that, small files are written at once, like large ones.
        """
        if piece.directory:
            return True
        if not (piece.last and piece.offset == 0 and len(piece.data) <= SMALL_MOST):
            return False
        return self._kept + len(piece.data) <= _MOST_KEPT and len(self._small) < _MOST_KEPT_FILES

    def keep(self, name: str, mode: int, data: bytes, *, directory: bool) -> None:
        """Keep a whole small file or a directory in memory."""
        if directory:
            self._directories[name] = mode
        else:
            self._count(len(data))
            if self.failure is None:
                self._small[name] = (mode, data)
                self._kept += len(data)

    def _count(self, size: int) -> None:
        self.bytes += size
        most = self._plan.max_output_mib
        if 0 <= most < self.bytes / 1048576 and self.failure is None:
            text = f"Max total output file size exceeded: limit {most:g} MB"
            self.failure = TransferError(text, int(Hold.MAX_TRANSFER_OUTPUT), 0)

    def write(self, name: str, mode: int, data: bytes, offset: int, *, last: bool = True) -> None:
        """Write a piece of a large file to its temporary name (worker thread).

        A pipe or device gets it directly.
        """
        with self._lock:
            self._count(len(data))
            if self.failure is not None or self._dropped or name in self._failed:
                return
            if last:
                self._whole.add(name)
            target: str | None = None
            try:
                target = destination(self._plan, name)
                if target is not None:
                    write = partial(self._write, name, target, mode, data, offset)
                    with as_owner(self._plan.owner, self._plan.fallback_account):
                        waited_out(write)
            except TransferError as error:
                self._failed[name] = error
            except OSError as error:
                self._failed[name] = _output_error(target or name, error)
                self._forget(name)  # on a full disk, makes room for the others

    def _write(self, name: str, target: str, mode: int, data: bytes, offset: int) -> None:
        if name not in self._large:
            make_parents(target, self._plan.iwd)
            if is_special(target):
                safe_open.write_special(target, data)
                return
            self._large[name] = (self._beside(_real(target)), mode)
        temporary, _ = self._large[name]
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if offset == 0 else 0)
        descriptor = safe_open.regular(temporary, flags)
        try:
            write_all(descriptor, data, offset)
        finally:
            os.close(descriptor)

    def _forget(self, name: str) -> None:
        if name in self._large:
            with as_owner(self._sent_with.owner, self._sent_with.fallback_account):
                _unlink(self._large.pop(name)[0])

    def _beside(self, target: str) -> str:
        """The temporary name of a file: in its directory, and within the length limit of names."""
        directory, name = os.path.split(target)
        if len(os.fsencode(name + self._suffix)) > _MOST_NAME:
            name = hashlib.sha256(os.fsencode(name)).hexdigest()
        return os.path.join(directory, name + self._suffix)

    def place_in_spool(self, directory: str) -> None:
        """Keep all files in a directory in SPOOL for the next run, atomically (worker thread).

        Files kept there before stay unless they were sent again. Large files were written beside their destinations,
        with the owner's rights, and are moved.

        :raises TransferError: 12 with the errno of the first file that cannot be written.
        """
        if self.failure is not None:
            self.discard()
            raise self.failure
        fresh, former = directory + _FRESH, directory + _FORMER
        self._plan = replace(self._plan, owner=SCHEDD, iwd=fresh, stdout=STDOUT, stderr=STDERR, remaps={})
        try:
            waited_out(partial(_remove, fresh))
            os.makedirs(fresh, mode=0o700)
            self.place()
            if kept := spooled_files(directory):
                waited_out(partial(_fill, kept, fresh))
                waited_out(partial(_remove, former))
                os.rename(kept, former)
            os.rename(fresh, directory)
            if self._flushes:
                waited_out(partial(durable_files.synchronise, os.path.dirname(directory)))
        except OSError as error:
            self.discard()
            raise _output_error(directory, error) from None
        except TransferError:
            self.discard()
            raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(former, ignore_errors=True)

    def place(self) -> None:
        """Place all complete files (worker thread).

        :raises TransferError: 12 with the errno of the first file that cannot be written, once all others are placed;
            33 over the limit on output.
        """
        failures = [] if self.failure is None else [self.failure]
        failures += self._failed.values()
        placed: list[str] = []

        def put(name: str, act: Callable[[str], None]) -> None:
            """Place one file; a failure does not keep the others from being placed."""
            target = name
            try:
                found = destination(self._plan, name)
                if found:
                    target = found
                    waited_out(partial(act, found))
                    placed.append(found)
            except TransferError as error:
                failures.append(error)
            except OSError as error:
                failures.append(_output_error(target, error))

        with as_owner(self._plan.owner, self._plan.fallback_account):
            for name, mode in sorted(self._directories.items()):
                put(name, partial(_make_directory, mode=mode))
            for name, (mode, data) in self._small.items():
                put(name, partial(self._put, data=data, mode=mode))
            for name, (temporary, mode) in list(self._large.items()):
                if name in self._whole and name not in self._failed:
                    put(name, partial(self._move, temporary, mode=mode))
            try:
                waited_out(partial(self._flush, placed))
            except OSError as error:
                failures.append(_output_error(self._plan.iwd, error))
        self.discard()
        if failures:
            raise failures[0]

    def _flush(self, placed: list[str]) -> None:
        """Have the disk hold what was placed, and the streams of standard output and error, which came before."""
        if not self._flushes:
            return
        for name in (STDOUT, STDERR):
            with contextlib.suppress(TransferError):
                if target := destination(self._plan, name):
                    placed.append(target)
        durable_files.flush((_real(path) for path in placed), below=self._plan.iwd)

    def _put(self, target: str, data: bytes, mode: int) -> None:
        """Write a small file. An existing one that is special (a terminal, a pipe) is written to, not replaced."""
        make_parents(target, self._plan.iwd)
        if is_special(target):
            safe_open.write_special(target, data)
            return
        real = _real(target)
        temporary = self._beside(real)
        descriptor = safe_open.regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            try:
                write_all(descriptor, data, 0)
                os.fchmod(descriptor, (mode & 0o777) or 0o644)
            finally:
                os.close(descriptor)
            os.rename(temporary, real)
        except OSError:
            _unlink(temporary)
            raise

    def _move(self, temporary: str, target: str, mode: int) -> None:
        """Move a large file to its destination, which is in SPOOL when it is kept for the next run.

        There, the schedd's own rights apply; but the temporary file is in a directory where its owner may have replaced
        it with something else.
        """
        make_parents(target, self._plan.iwd)
        target = _real(target)
        with as_owner(self._sent_with.owner, self._sent_with.fallback_account):
            found = open_path(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(found, "rb") as stream:
            state = os.fstat(stream.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), temporary)
            try:
                with as_owner(self._sent_with.owner, self._sent_with.fallback_account):
                    os.fchmod(stream.fileno(), (mode & 0o777) or 0o644)
                os.rename(temporary, target)
            except OSError as error:
                # The account of a daemon that is not root may not move a file of another user.
                if error.errno != errno.EXDEV and not (self._plan.owner is SCHEDD and error.errno in _NOT_OURS):
                    raise
                _copy(stream, target, mode)
                with as_owner(self._sent_with.owner, self._sent_with.fallback_account):
                    _unlink(temporary)
                return
            moved = os.lstat(target)
            if (moved.st_dev, moved.st_ino) != (state.st_dev, state.st_ino):
                _unlink(target)
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), temporary)

    def discard(self) -> None:
        """Remove temporary files, and ignore further pieces (worker thread)."""
        with self._lock, as_owner(self._sent_with.owner, self._sent_with.fallback_account):
            self._dropped = True
            for temporary, _ in self._large.values():
                _unlink(temporary)
            self._large.clear()
            self._small.clear()


def _copy(stream: BinaryIO, target: str, mode: int) -> None:
    descriptor = open_path(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as copy:
        shutil.copyfileobj(stream, copy)
        os.fchmod(descriptor, (mode & 0o777) or 0o644)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


def make_parents(target: str, iwd: str) -> None:
    """Create the directories of a file that are below the job's initial directory; others must exist."""
    parent = os.path.dirname(target)
    if parent.startswith(iwd.rstrip("/") + "/") and os.path.isdir(iwd):
        _make_directories(parent)


def _make_directories(path: str) -> None:
    """Create a directory and its missing parents, with the usual mode, whatever the daemon's umask."""
    if not os.path.isdir(path):
        _make_directories(os.path.dirname(path))
        os.mkdir(path)
        os.chmod(path, 0o755)


def _make_directory(target: str, mode: int) -> None:
    """Create a directory with its mode at the execution point. An existing one keeps its own."""
    if not os.path.isdir(target):
        _make_directories(target)
        os.chmod(target, (mode & 0o777) | 0o700)


def is_special(target: str) -> bool:
    """Whether the file is written to instead of being replaced: a terminal, a pipe.

    :raises OSError: for a directory.
    """
    try:
        existing = os.stat(target).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(existing):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return not stat.S_ISREG(existing)


def _real(target: str) -> str:
    """The file that is really written: where a symbolic link leads."""
    return os.path.realpath(target) if os.path.islink(target) else target


def _remove(directory: str) -> None:
    """Remove a directory, as far as it goes.

    :raises OSError: this process has no descriptor or memory for it.
    """

    def failed(_function: object, _path: object, info: tuple[object, BaseException, object]) -> None:
        if isinstance(info[1], OSError) and is_shortage(info[1].errno):
            raise info[1]

    shutil.rmtree(directory, onerror=failed)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _output_error(target: str, error: OSError) -> TransferError:
    return TransferError(
        f"writing to file {target}: (errno {error.errno or 0}) {error.strerror or error}",
        int(Hold.TRANSFER_OUTPUT_ERROR),
        error.errno or 0,
    )
