"""Files of a job at the execution point: inputs into the scratch directory, outputs out of it.

Everything is opened with the job's own rights, so that a link in the scratch directory reaches nothing that the job
could not reach itself. Names on the wire are relative; the access point decides where they go (remaps). Manual,
"File transfer".
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from slotwise.daemon.host_faults import is_shortage
from slotwise.daemon.user_paths import open_path
from slotwise.errors import SlotwiseError, UsageError
from slotwise.execution.exit_status import MAX_OUTPUT_EXCEEDED, TRANSFER_OUTPUT_ERROR, End, held
from slotwise.execution.job_view import NULL_FILE, STDERR_NAME, STDOUT_NAME, JobView, TransferRules
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.failures import scratch_failure
from slotwise.starter.messages import FilePiece
from slotwise.transfer import depth

#: Bytes of a piece of a large file.
PIECE = 512 * 1024
#: Names that never go back as outputs.
_OURS = frozenset(
    {
        STDOUT_NAME,
        STDERR_NAME,
        "condor_exec.exe",
        ".job.ad",
        ".machine.ad",
        ".update.ad",
        ".update.ad.tmp",
        ".chirp.config",
        ".job_wrapper_failure",
        ".plugin.out",
        "docker_stderror",
        ".vm_report",
        ".vm_note",
        ".docker_sock",
    }
)


#: Top-level files by name: modification time in ns, size.
Listing = dict[str, tuple[int, int]]


class Inbox:
    """Takes input files piece by piece into a scratch directory."""

    def __init__(self, scratch: Path, identity: Identity) -> None:
        self._scratch = scratch
        self._identity = identity
        self._open: tuple[str, int] | None = None
        #: Bytes, and whole files.
        self.received = self.files = 0

    def take(self, piece: FilePiece) -> None:
        """Write one piece.

        :raises OSError: when the file system refuses it (full, read-only, no right).
        :raises UsageError: when the name leads out of the scratch directory.
        """
        relative = safe_name(os.fsdecode(piece.name))
        with rights_of(self._identity):
            if piece.directory:
                self._scratch.joinpath(relative).mkdir(parents=True, exist_ok=True)
                return
            fd = self._file(relative, piece)
            data = memoryview(piece.data)
            while data:
                data = data[os.pwrite(fd, data, piece.offset + len(piece.data) - len(data)) :]
            if piece.last:
                self.files += 1
                self._close()
        self.received += len(piece.data)

    def _file(self, relative: str, piece: FilePiece) -> int:
        if self._open is not None and self._open[0] == relative and piece.offset > 0:
            return self._open[1]
        self._close()
        path = self._scratch / relative
        if "/" in relative:
            path.parent.mkdir(parents=True, exist_ok=True)
        mode = (piece.mode & 0o777) or 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        if piece.offset == 0 and self._is_kept(path):
            path.unlink()
        fd = open_path(path, flags | (os.O_TRUNC if piece.offset == 0 else 0), mode)
        self._open = (relative, fd)
        os.fchmod(fd, mode | 0o600)
        return fd

    def _is_kept(self, path: Path) -> bool:
        """Whether a file is there that is kept for other jobs, too, or was: it is not the job's to write."""
        if not path.is_file() or path.is_symlink():
            return False
        state = path.stat()
        return state.st_nlink > 1 or self._identity.uid not in (None, state.st_uid)

    def _close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def close(self) -> None:
        """Close what a broken transfer left open."""
        self._close()


def replace_file(scratch: Path, name: str, data: bytes, identity: Identity) -> tuple[int, int]:
    """Put a file into the scratch directory of a running job, whole at any moment; its modification time and size.

    The job may have put anything under either name, so neither is followed.

    :raises OSError: when the file system refuses it.
    """
    path, fresh = scratch / name, scratch / f".{name}.renewed"
    with rights_of(identity):
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(open_path(fresh, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            status = os.fstat(file.fileno())
        fresh.rename(path)
    return status.st_mtime_ns, status.st_size


def safe_name(name: str) -> str:
    """A relative name that stays below its directory, and not too far below.

    :raises UsageError: when it does not.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise UsageError(f"the file name {name!r} leads out of the scratch directory")
    if depth.is_too_deep(str(path)):
        raise UsageError(f"the file name {name[:100]!r}... is {depth.TOO_DEEP}")
    return str(path)


def listing(scratch: Path, identity: Identity) -> Listing:
    """The top-level files as they are now, to know later which are new or changed."""
    found: Listing = {}
    with rights_of(identity), os.scandir(scratch) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_file():
                    status = entry.stat()
                    found[entry.name] = (status.st_mtime_ns, status.st_size)
    return found


class Output(Struct, frozen=True):
    """A file or directory to send: where it is, and its name for the access point."""

    path: Path
    name: str
    mode: int
    size: int
    directory: bool = False


class OutputError(SlotwiseError):
    """An output cannot be had; ``end`` is what the run ends with, ``found`` what can be sent all the same."""

    code = "output"

    def __init__(self, end: End, found: Sequence[Output] = ()) -> None:
        super().__init__(end.reason)
        self.end = end
        self.found = list(found)


def choose(
    job: JobView,
    scratch: Path,
    before: Listing,
    identity: Identity,
    *,
    streams_only: bool,
    elsewhere: Container[str] = (),
) -> list[Output]:
    """What goes back: standard output and error, unless they went while the job ran, then what the job's rules say.
    ``streams_only``: of a job that has failed, whose outputs go on success only; its FailureFiles go all the same.
    A listed output in ``elsewhere`` may be missing: it goes to a URL.

    :raises OutputError: when a listed output is missing (hold 12) or there is too much (hold 33); with the others, and
        with no more than standard output and error.
    """
    rules = job.transfer
    problem: End | None = None
    with rights_of(identity):
        streams = list(_streams(job, scratch))
        found = list(streams)
        if streams_only:
            failed = replace(job, transfer=replace(rules, output_files=rules.failure_files))
            listed, problem = _listed(failed, scratch, elsewhere)
            found += listed
        else:
            if rules.output_files is None:
                kept = {name for name, stream in job.stream_files().items() if not stream.sent} | {job.proxy_name}
                found += _new_or_changed(scratch, before, _OURS | kept)
            else:
                listed, problem = _listed(job, scratch, elsewhere)
                found += listed
            found += _manifest(job, scratch, {output.name for output in found})
    deep = next((output for output in found if depth.is_too_deep(output.name)), None)
    if deep is not None:
        end = _missing(deep.path, OSError(errno.ENAMETOOLONG, depth.TOO_DEEP))
        raise OutputError(end, streams)
    total = _mib(found)
    if 0 <= rules.max_output_mib < total:
        end = held(
            f"The job's output files are {total:.1f} MB together, more than the {rules.max_output_mib} MB allowed",
            MAX_OUTPUT_EXCEEDED,
        )
        raise OutputError(end, streams if _mib(streams) <= rules.max_output_mib else ())
    if problem is not None:
        raise OutputError(problem, found)
    return found


def _manifest(job: JobView, scratch: Path, named: Set[str]) -> list[Output]:
    """The directory of the job's manifest, unless the job lists it itself."""
    path = scratch / job.manifest
    if not job.manifest or path.is_symlink() or not path.is_dir():
        return []
    return [output for output in _tree(path, job.manifest, job.transfer) if output.name not in named]


def _mib(outputs: Iterable[Output]) -> float:
    return sum(output.size for output in outputs) / (1024 * 1024)


def choose_checkpoint(job: JobView, scratch: Path, before: Listing, identity: Identity) -> list[Output]:
    """What a checkpoint consists of: standard output and error, and what the job lists for it, else its outputs.

    :raises OutputError: when a listed file is missing.
    """
    rules = job.checkpoint
    job = replace(job, manifest="")
    if rules is not None and rules.files is not None:
        job = replace(job, transfer=replace(job.transfer, output_files=rules.files, relative_paths=True))
    return choose(job, scratch, before, identity, streams_only=False)


def _streams(job: JobView, scratch: Path) -> Iterator[Output]:
    for name, rules in job.stream_files().items():
        path = scratch / name
        if rules.sent and not rules.live and path.is_file():
            yield _output(path, name)


def _output(path: Path, name: str) -> Output:
    status = path.stat()
    return Output(path, name, stat.S_IMODE(status.st_mode), status.st_size)


def _new_or_changed(scratch: Path, before: Listing, excluded: Set[str]) -> list[Output]:
    found: list[Output] = []
    with os.scandir(scratch) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name in excluded:
                continue
            try:
                if not entry.is_file():
                    continue
                status = entry.stat()
            except OSError:
                continue  # a dangling link is not a file
            if before.get(entry.name) == (status.st_mtime_ns, status.st_size):
                continue
            found.append(Output(Path(entry.path), entry.name, stat.S_IMODE(status.st_mode), status.st_size))
    return found


def is_absent(path: Path, identity: Identity) -> bool:
    """Whether there is no such output, with the job's own rights."""
    with rights_of(identity):
        return not path.exists()


def _listed(job: JobView, scratch: Path, elsewhere: Container[str]) -> tuple[list[Output], End | None]:
    """The outputs that the job lists, and what it ends with when one cannot be had."""
    found: list[Output] = []
    problem: End | None = None
    streams = {
        PurePosixPath(name).name
        for name, rules in ((job.stdout, job.output), (job.stderr, job.error))
        if name != NULL_FILE and rules.sent
    }
    for wanted in job.transfer.output_files or ():
        if "://" in wanted:
            continue
        path = Path(wanted) if wanted.startswith("/") else scratch / wanted
        try:
            found += _wanted(path, wanted, job.transfer)
        except OutputError as error:
            problem = problem or error.end
        except OSError as error:
            if wanted in elsewhere and isinstance(error, FileNotFoundError):
                continue
            if wanted not in streams:  # standard output under its own name goes as such
                problem = problem or _missing(path, error)
    return found, problem


def _wanted(path: Path, wanted: str, rules: TransferRules) -> list[Output]:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return _tree(path, wanted, rules)
    if not stat.S_ISREG(status.st_mode):
        raise _no_file()
    name = _wire_name(wanted, rules)
    parents = _parents(name, path) if "/" in name else []
    return [*parents, Output(path, name, stat.S_IMODE(status.st_mode), status.st_size)]


def _missing(path: Path, error: OSError) -> End:
    """What becomes of a job whose output cannot be read: it is held, unless the starter's shortage is the reason."""
    if is_shortage(error.errno):
        return scratch_failure(error)
    return held(
        f"reading from file {path}: (errno {error.errno}) {error.strerror}",
        TRANSFER_OUTPUT_ERROR,
        error.errno or errno.ENOENT,
    )


def _no_file() -> OSError:
    """Pipes, sockets and devices are not outputs: reading one may block, or never end."""
    return OSError(errno.EINVAL, "not a regular file")


def _wire_name(wanted: str, rules: TransferRules) -> str:
    """The name at the access point: the last part, or the whole relative path if that is to be kept."""
    if rules.relative_paths and not wanted.startswith("/"):
        return str(PurePosixPath(wanted))
    return PurePosixPath(wanted).name


def _parents(name: str, path: Path) -> list[Output]:
    """The directories that lead to ``path``, as far as ``name`` has them."""
    found, place = [], path.parent
    for parent in list(PurePosixPath(name).parents)[:-1]:
        found.append(_directory(place, str(parent)))
        place = place.parent
    return found[::-1]


def _directory(path: Path, name: str) -> Output:
    """A directory goes with its rights: what it keeps from others here, it keeps from them there."""
    return Output(path, name, stat.S_IMODE(path.stat().st_mode), 0, True)


def _tree(path: Path, wanted: str, rules: TransferRules) -> list[Output]:
    """A directory with all below it; with a slash at its end only what is in it, unless relative paths are kept."""
    top = "" if wanted.endswith("/") and not rules.relative_paths else _wire_name(wanted, rules)
    found = [*_parents(top, path), _directory(path, top)] if top else []
    open_still = [(path, PurePosixPath(top))]
    while open_still:
        place, inside = open_still.pop()
        try:
            with os.scandir(place) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            # A tree deeper than a path may be long, or one that the job may not read itself.
            raise OutputError(_missing(place, error)) from None
        below = []
        for entry in ordered:
            name = inside / entry.name
            if entry.is_dir(follow_symlinks=False):
                found.append(_directory(Path(entry.path), str(name)))
                below.append((Path(entry.path), name))
            else:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        found.append(_output(Path(entry.path), str(name)))
        open_still += reversed(below)
    return found


def pieces(outputs: list[Output], identity: Identity, problems: list[End]) -> Iterator[FilePiece]:
    """The pieces of all outputs in order. The rights are taken and given back around each read.

    A file that cannot be read, or no longer, is left out, or never gets its last piece: ``problems`` says why.
    """
    for output in outputs:
        name = os.fsencode(output.name)
        if output.directory:
            yield FilePiece(name=name, mode=output.mode, directory=True, last=True)
            continue
        offset = 0
        fd = -1
        try:
            with rights_of(identity):
                fd = open_path(output.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            left = size_of(fd)
            last = False
            while not last:
                data = os.read(fd, min(PIECE, left))
                left -= len(data)
                last = not data or left == 0
                yield FilePiece(name=name, mode=output.mode, data=data, last=last, offset=offset)
                offset += len(data)
        except OSError as error:
            problems.append(_missing(output.path, error))
        finally:
            if fd >= 0:
                os.close(fd)


def size_of(fd: int) -> int:
    """Bytes of an open file now; what somebody adds while it is sent does not go with it.

    :raises OSError: when it is not a regular file, whatever the name was a moment ago.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise _no_file()
    return status.st_size
