"""Files of a job at the access point: what its ad says of them, and those that go out.

Read in worker threads, with the owner's rights. What comes back is in :mod:`slotwise.schedd.transfer.results`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slotwise.classad import ClassAd, SpecialValue
from slotwise.errors import SlotwiseError
from slotwise.model.reason_codes import Hold
from slotwise.schedd.user_files import safe_open
from slotwise.schedd.user_files.owner_rights import as_owner

PIECE = 512 * 1024
#: Files up to this size travel, and are kept, in one piece.
SMALL_MOST = 256 * 1024
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
    #: The proxy certificate that goes with the job.
    proxy: str = ""
    remaps: Mapping[str, str] = field(default_factory=dict)
    preserve_relative: bool = False
    #: should_transfer_files: YES, IF_NEEDED or NO.
    transfer: str = "YES"
    fallback_account: str = "nobody"
    #: Directory of the schedd's own with files of an evicted run, or "".
    spooled: str = ""
    #: Output and error of a former run are gone on with.
    appends: bool = False
    #: Files of the job are not to be read on their way (``encrypt_input_files``).
    secret: bool = False
    #: Bounds in MiB on what moves, less than 0: none.
    max_input_mib: float = -1
    max_output_mib: float = -1

    @property
    def moves_inputs(self) -> bool:
        """Whether anything could have to be sent."""
        return self.transfer != "NO" and bool(
            self.executable or self.inputs or self.proxy or self.stdin or self.spooled
        )


def file_plan(ad: ClassAd, account: str, fallback_account: str, limits_mib: tuple[float, float] = (-1, -1)) -> FilePlan:
    """What a job's ad, with ``$$()`` filled in, says about its files, which are ``account``'s.

    :param limits_mib: bounds on input and output for jobs that set none.
    """

    def value(name: str) -> object:
        return ad.eval(name) if name in ad else None

    def text(name: str) -> str:
        found = value(name)
        return found if isinstance(found, str) else ""

    def limit(name: str, default: float) -> float:
        found = value(name)
        return float(found) if isinstance(found, int | float) and not isinstance(found, SpecialValue) else default

    sends_executable = ad.get("TransferExecutable", True) is not False
    return FilePlan(
        owner=account,
        iwd=text("Iwd") or "/",
        executable=text("Cmd") if sends_executable else "",
        stdin="" if ad.get("TransferIn", True) is False or is_null(text("In")) else text("In"),
        stdout=text("Out"),
        stderr=text("Err"),
        inputs=split_list(text("TransferInput")),
        remaps=parse_remaps(text("TransferOutputRemaps")),
        preserve_relative=ad.get("PreserveRelativePaths", False) is True,
        transfer=(text("ShouldTransferFiles") or "IF_NEEDED").upper(),
        fallback_account=fallback_account,
        appends=ad.get("WantFTOnCheckpoint") is True or ad.get("EraseOutputAndErrorOnRestart") is False,
        proxy=text("x509userproxy"),
        secret=any(text(name) for name in ("EncryptInputFiles", "EncryptOutputFiles", "x509userproxy")),
        max_input_mib=limit("MaxTransferInputMB", limits_mib[0]),
        max_output_mib=limit("MaxTransferOutputMB", limits_mib[1]),
    )


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
                if plan.appends or entry.name not in (STDOUT, STDERR):
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
    if plan.proxy and plan.proxy not in plan.inputs:
        yield os.path.join(plan.iwd, plan.proxy), os.path.basename(plan.proxy), False
    for name in plan.inputs:
        if "://" in name:
            continue  # fetched by a plugin at the execution point
        path = os.path.join(plan.iwd, name)
        if plan.preserve_relative and not os.path.isabs(name):
            yield path, os.path.normpath(name), False  # a slash at its end means nothing then
        elif name.endswith("/"):
            yield path, "", False
        else:
            yield path, os.path.basename(name), False


def _pieces(path: str, name: str, *, executable: bool = False) -> Iterator[Piece]:
    state = os.stat(path)
    if stat.S_ISDIR(state.st_mode):
        if name and os.path.islink(path):  # it may lead anywhere, or round in circles
            raise OSError(errno.ELOOP, "links to directories are not transferred; name the directory itself", path)
        yield from _directory(path, name, state.st_mode)
        return
    mode = stat.S_IMODE(state.st_mode) | (0o111 if executable else 0)
    if state.st_size <= SMALL_MOST:
        # The owner's right to read is checked each time, whoever read the file before.
        descriptor = safe_open.regular(path)
        try:
            state = os.fstat(descriptor)  # of the file that is read, whatever the path led to a moment ago
            identity = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
            known = _cache.get((path, name))
            if known is not None and known[0] == identity and known[1].mode == mode:
                yield known[1]
                return
            data = b""
            while chunk := os.read(descriptor, SMALL_MOST + 1):
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
    with open(safe_open.regular(path), "rb") as stream:
        offset, last = 0, False
        # What somebody adds while it is sent does not go with it: a log that grows as fast as it goes has no end.
        left = os.fstat(stream.fileno()).st_size
        while not last:
            data = stream.read(min(PIECE, left))
            left -= len(data)
            last = not data or left == 0
            yield Piece(name, mode, data, offset, last)
            offset += len(data)


def _directory(path: str, name: str, mode: int) -> Iterator[Piece]:
    if name:
        yield Piece(name, stat.S_IMODE(mode), b"", 0, True, directory=True)
    for entry in sorted(os.scandir(path), key=lambda e: e.name):
        if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):  # no file, and nothing is missed without it
            yield from _pieces(entry.path, os.path.join(name, entry.name))


def _input_error(path: str, error: OSError) -> TransferError:
    return TransferError(
        f"reading from file {error.filename or path}: (errno {error.errno or 0}) {error.strerror or error}",
        int(Hold.TRANSFER_INPUT_ERROR),
        error.errno or 0,
    )


def named(error: TransferError, access_point: str, slot: str) -> TransferError:
    """The error as the job's owner reads it: with the places that the files moved between, worded like HTCondor's."""
    inputs = error.hold_code == Hold.TRANSFER_INPUT_ERROR
    if not inputs and error.hold_code != Hold.TRANSFER_OUTPUT_ERROR:
        return error
    word, doing = ("input", "sending files to") if inputs else ("output", "receiving files from")
    message = (
        f"Transfer {word} files failure at access point {access_point} while {doing} execution point {slot}. "
        f"Details: {error.message}"
    )
    return TransferError(message, error.hold_code, error.subcode)
