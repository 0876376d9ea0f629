"""Files of a job at the access point: which go out, what they hold, and where results are put.

All of this runs in worker threads, with the owner's rights. A result is written under a temporary name in its directory
and renamed when it is whole, so that nobody sees half of one, and a result that comes again replaces itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from slotwise.errors import SlotwiseError
from slotwise.schedd.codes import Hold
from slotwise.schedd.rights import as_owner

PIECE = 512 * 1024
_CACHED_MOST = 256 * 1024
STDOUT = "_condor_stdout"
STDERR = "_condor_stderr"


class TransferError(SlotwiseError):
    """A file of the job cannot be read or written: the job is held with ``hold_code`` and ``subcode`` (errno)."""

    code = "transfer"

    def __init__(self, message: str, hold_code: int, subcode: int) -> None:
        super().__init__(message)
        self.hold_code = hold_code
        self.subcode = subcode


@dataclass(frozen=True)
class FilePlan:
    """What a job's ad says about its files. Names are as in the ad."""

    owner: str
    iwd: str
    executable: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    inputs: tuple[str, ...] = ()
    remaps: Mapping[str, str] = field(default_factory=dict)
    preserve_relative: bool = False
    #: should_transfer_files: YES, IF_NEEDED or NO.
    transfer: str = "YES"
    fallback_account: str = "nobody"
    #: Directory of the schedd's own with files of an evicted run, or "".
    spooled: str = ""
    #: Bounds in MiB on what moves, less than 0: none.
    max_input_mib: float = -1
    max_output_mib: float = -1

    @property
    def any_input(self) -> bool:
        """Whether anything could have to be sent."""
        return bool(self.executable or self.inputs or self.stdin or self.spooled)


@dataclass(frozen=True)
class Piece:
    """Part of a file on its way to the job."""

    name: str
    mode: int
    data: bytes
    offset: int
    last: bool
    directory: bool = False


def is_null(name: str) -> bool:
    """Whether a file name of the ad means: no file."""
    return name in ("", "/dev/null", "NUL")


def split_list(text: str) -> tuple[str, ...]:
    """The names of a transfer list: separated by commas, blanks around them dropped."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def parse_remaps(text: str) -> dict[str, str]:
    """``a=b; c=d/e`` as a mapping; a backslash makes the next character plain."""
    remaps: dict[str, str] = {}
    words: list[str] = [""]
    source: str | None = None
    escaped = False
    for char in text + ";":
        if escaped:
            words[-1] += char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "=" and source is None:
            source, words = words[-1].strip(), [""]
        elif char == ";":
            if source:
                remaps[source] = words[-1].strip()
            source, words = None, [""]
        else:
            words[-1] += char
    return remaps


#: Contents of small files sent often (executables above all), by identity of the file.
_cache: dict[tuple[str, str], tuple[tuple[int, int, int, int], Piece]] = {}


def input_pieces(plan: FilePlan) -> Iterator[Piece]:
    """Every input file, piece by piece. Reads as the owner.

    :raises TransferError: 14 when the working directory is missing, 13 for anything that cannot be read, 32 when it is
        more than the job may send.
    """
    total = 0
    for piece in _all_pieces(plan):
        total += len(piece.data)
        if 0 <= plan.max_input_mib < total / 1048576:
            raise TransferError(
                f"Max total input file size exceeded: limit {plan.max_input_mib:g} MB",
                int(Hold.MAX_TRANSFER_INPUT),
                0,
            )
        yield piece


def _all_pieces(plan: FilePlan) -> Iterator[Piece]:
    with as_owner(plan.owner, plan.fallback_account):
        _check_iwd(plan.iwd)
        for path, name, executable in _inputs(plan):
            try:
                yield from _pieces(path, name, executable=executable)
            except OSError as error:
                raise _input_error(path, error) from None
    if plan.spooled:
        try:
            for entry in sorted(os.scandir(plan.spooled), key=lambda e: e.name):
                if entry.name not in (STDOUT, STDERR):
                    yield from _pieces(entry.path, entry.name)
        except OSError as error:
            raise _input_error(plan.spooled, error) from None


def _check_iwd(iwd: str) -> None:
    try:
        if not stat.S_ISDIR(os.stat(iwd).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise TransferError(
            f"Cannot access initial working directory {iwd}: {error.strerror}",
            int(Hold.IWD_ERROR),
            error.errno or 0,
        ) from None


def _inputs(plan: FilePlan) -> Iterator[tuple[str, str, bool]]:
    """(path here, name there, is the executable)."""
    if plan.executable:
        yield os.path.join(plan.iwd, plan.executable), os.path.basename(plan.executable), True
    if not is_null(plan.stdin):
        yield os.path.join(plan.iwd, plan.stdin), os.path.basename(plan.stdin), False
    for name in plan.inputs:
        if "://" in name:
            continue  # fetched by a plugin at the execution point
        path = os.path.join(plan.iwd, name)
        if name.endswith("/"):
            yield path, "", False
        elif plan.preserve_relative and not os.path.isabs(name):
            yield path, os.path.normpath(name), False
        else:
            yield path, os.path.basename(name), False


def _pieces(path: str, name: str, *, executable: bool = False) -> Iterator[Piece]:
    state = os.stat(path)
    if stat.S_ISDIR(state.st_mode):
        yield from _directory(path, name, state.st_mode)
        return
    mode = stat.S_IMODE(state.st_mode) | (0o111 if executable else 0)
    identity = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
    if state.st_size <= _CACHED_MOST:
        # The owner's right to read is checked each time, whoever read the file before.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            known = _cache.get((path, name))
            if known is not None and known[0] == identity and known[1].mode == mode:
                yield known[1]
                return
            data = b""
            while chunk := os.read(descriptor, _CACHED_MOST + 1):
                data += chunk
        finally:
            os.close(descriptor)
        piece = Piece(name, mode, data, 0, True)
        if executable:
            if len(_cache) > 200:
                _cache.clear()
            _cache[(path, name)] = (identity, piece)
        yield piece
        return
    with open(path, "rb") as stream:
        offset = 0
        data = stream.read(PIECE)
        while True:
            following = stream.read(PIECE)
            yield Piece(name, mode, data, offset, not following)
            if not following:
                return
            offset += len(data)
            data = following


def _directory(path: str, name: str, mode: int) -> Iterator[Piece]:
    if name:
        yield Piece(name, stat.S_IMODE(mode), b"", 0, True, directory=True)
    for entry in sorted(os.scandir(path), key=lambda e: e.name):
        yield from _pieces(entry.path, os.path.join(name, entry.name))


def _input_error(path: str, error: OSError) -> TransferError:
    return TransferError(
        f"Transfer input files failure at access point: reading {path}: {error.strerror or error}",
        int(Hold.TRANSFER_INPUT_ERROR),
        error.errno or 0,
    )


def destination(plan: FilePlan, name: str) -> str | None:
    """Where a result named ``name`` by the starter goes, or None when it is not wanted.

    :raises TransferError: for a name that would leave the scratch directory.
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
    if (target := plan.remaps.get(name) or plan.remaps.get(plain)) is not None:
        return None if "://" in target else os.path.join(plan.iwd, target)
    head, slash, rest = plain.partition("/")
    if slash and head in plan.remaps:
        return os.path.join(plan.iwd, plan.remaps[head], rest)
    return os.path.join(plan.iwd, plain)


def _placed(plan: FilePlan, name: str) -> str:
    return os.path.join(plan.iwd, plan.remaps.get(name) or plan.remaps.get(os.path.basename(name)) or name)


def into_spool(plan: FilePlan, directory: str) -> FilePlan:
    """Where the files of an evicted run go that the next run gets: a directory of the schedd's own."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    own = pwd.getpwuid(os.geteuid()).pw_name
    return replace(plan, owner=own, iwd=directory, stdout=STDOUT, stderr=STDERR, remaps={})


class Results:
    """Files of one run as they arrive; put in place all at once at its end."""

    def __init__(self, plan: FilePlan, run_id: str) -> None:
        self._plan = plan
        self._suffix = ".sw-" + run_id.replace("#", "-")
        #: name -> (mode, content) of files that came in one piece.
        self._small: dict[str, tuple[int, bytes]] = {}
        self._directories: dict[str, int] = {}
        #: Destination -> (temporary file, mode).
        self._large: dict[str, tuple[str, int]] = {}
        self.bytes = 0
        self.failure: TransferError | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to put in place."""
        return not (self._small or self._directories or self._large or self.failure)

    def is_small(self, piece: object) -> bool:
        """Whether the piece is a whole small file, kept in memory without touching the disk."""
        return bool(
            getattr(piece, "directory", False) or (piece.last and piece.offset == 0 and len(piece.data) <= _CACHED_MOST)  # type: ignore[attr-defined]
        )

    def keep(self, name: str, mode: int, data: bytes, *, directory: bool) -> None:
        """Take a whole small file or a directory."""
        if directory:
            self._directories[name] = mode
        else:
            self._small[name] = (mode, data)
            self._count(len(data))

    def _count(self, size: int) -> None:
        self.bytes += size
        most = self._plan.max_output_mib
        if 0 <= most < self.bytes / 1048576 and self.failure is None:
            text = f"Max total output file size exceeded: limit {most:g} MB"
            self.failure = TransferError(text, int(Hold.MAX_TRANSFER_OUTPUT), 0)

    def write(self, name: str, mode: int, data: bytes, offset: int) -> None:
        """Write a piece of a large file to its temporary name (worker thread)."""
        if self.failure is not None:
            return
        self._count(len(data))
        try:
            target = destination(self._plan, name)
            if target is None:
                return
            temporary = target + self._suffix
            with as_owner(self._plan.owner, self._plan.fallback_account):
                _make_parents(target, self._plan.iwd)
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if offset == 0 else 0)
                descriptor = os.open(temporary, flags, 0o600)
                try:
                    _write_all(descriptor, data, offset)
                finally:
                    os.close(descriptor)
            self._large[target] = (temporary, mode)
        except TransferError as error:
            self.failure = error
        except OSError as error:
            self.failure = _output_error(target or name, error)

    def place_in_spool(self, directory: str) -> None:
        """Keep everything for the next run (worker thread); large files were written beside their results' places."""
        self._plan = into_spool(self._plan, directory)
        self.place()

    def place(self) -> None:
        """Put everything in place (worker thread).

        :raises TransferError: 12 with the errno of the first file that cannot be written.
        """
        if self.failure is not None:
            self.discard()
            raise self.failure
        with as_owner(self._plan.owner, self._plan.fallback_account):
            for name, mode in sorted(self._directories.items()):
                target = destination(self._plan, name)
                if target:
                    self._guarded(target, lambda t=target, m=mode: _make_directory(t, m))
            for name, (mode, data) in self._small.items():
                target = destination(self._plan, name)
                if target:
                    self._guarded(target, lambda t=target, d=data, m=mode: self._put(t, d, m))
            for target, (temporary, mode) in self._large.items():
                self._guarded(target, lambda t=target, x=temporary, m=mode: _rename(x, t, m))

    @staticmethod
    def _guarded(target: str, act: object) -> None:
        try:
            act()  # type: ignore[operator]
        except OSError as error:
            raise _output_error(target, error) from None

    def _put(self, target: str, data: bytes, mode: int) -> None:
        """Write a small file. One that exists and is no plain file (a terminal, a pipe) is written to, not replaced."""
        _make_parents(target, self._plan.iwd)
        try:
            existing = os.lstat(target).st_mode
        except FileNotFoundError:
            existing = 0
        if existing and not stat.S_ISREG(existing) and not stat.S_ISLNK(existing):
            if stat.S_ISDIR(existing):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with open(target, "wb") as stream:
                stream.write(data)
            return
        real = os.path.realpath(target) if existing and stat.S_ISLNK(existing) else target
        temporary = real + self._suffix
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            try:
                _write_all(descriptor, data, 0)
                os.fchmod(descriptor, (mode & 0o777) or 0o644)
            finally:
                os.close(descriptor)
            os.rename(temporary, real)
        except OSError:
            _unlink(temporary)
            raise

    def discard(self) -> None:
        """Remove temporary files (worker thread)."""
        with as_owner(self._plan.owner, self._plan.fallback_account):
            for temporary, _ in self._large.values():
                _unlink(temporary)
        self._large.clear()
        self._small.clear()


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


def _make_parents(target: str, iwd: str) -> None:
    """Directories of a result below the job's directory; those elsewhere must exist."""
    parent = os.path.dirname(target)
    if parent.startswith(iwd.rstrip("/") + "/") and os.path.isdir(iwd):
        os.makedirs(parent, exist_ok=True)


def _make_directory(target: str, mode: int) -> None:
    os.makedirs(target, exist_ok=True)
    os.chmod(target, (mode & 0o777) | 0o700)


def _rename(temporary: str, target: str, mode: int) -> None:
    os.chmod(temporary, (mode & 0o777) or 0o644)
    os.rename(temporary, target)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _output_error(target: str, error: OSError) -> TransferError:
    return TransferError(
        f"Transfer output files failure at access point: writing {target}: {error.strerror or error}",
        int(Hold.TRANSFER_OUTPUT_ERROR),
        error.errno or 0,
    )
