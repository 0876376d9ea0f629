"""Pieces of a running job's files, read with the job's own rights."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from slotwise.daemon.user_paths import open_path
from slotwise.errors import SlotwiseError
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.messages import Peek, PeekedStream, PeekFile
from slotwise.starter.sessions.launch import SPEC, read_fields

#: The most bytes of one file in one answer.
_MOST = 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def look(directory: RunDirectory, identity: Identity, request: Peek) -> Peek:
    """The pieces that are asked for; what cannot be read says why.

    :param identity: whose rights files are read with.
    """
    most = min(request.max_bytes or 1024, _MOST)
    spec = dict(read_fields(directory.control / SPEC))
    return Peek(tuple(_answer(directory.scratch, identity, file, spec, most) for file in request.files), most)


def _answer(scratch: Path, identity: Identity, file: PeekFile, spec: dict[str, str], most: int) -> PeekFile:
    answer = replace(file, offset=0)
    try:
        with rights_of(identity):
            offset, data = _piece(_opened(scratch, file, spec), file.offset, most)
    except OSError as error:
        return replace(answer, error=error.strerror or str(error))
    except SlotwiseError as error:
        return replace(answer, error=str(error))
    return replace(answer, offset=offset, data=data)


def _opened(scratch: Path, file: PeekFile, spec: dict[str, str]) -> int:
    if file.which is PeekedStream.OUTPUT:
        return open_path(spec["stdout"], _FLAGS)
    if file.which is PeekedStream.ERROR:
        return open_path(spec["stderr"], _FLAGS)
    path = PurePosixPath(file.name)
    parts = (path.relative_to(scratch) if path.is_relative_to(scratch) else path).parts
    if not parts or (path.is_absolute() and not path.is_relative_to(scratch)) or ".." in parts:
        raise SlotwiseError("not a file in the job's directory")
    return _below(scratch, parts)


def _below(top: Path, parts: tuple[str, ...]) -> int:
    """Open a file without following a link anywhere: it might lead to what only the starter may read."""
    at = os.open(top, _FLAGS | os.O_DIRECTORY)
    for place, part in enumerate(parts):
        kind = 0 if place == len(parts) - 1 else os.O_DIRECTORY
        try:
            following = os.open(part, _FLAGS | os.O_NOFOLLOW | kind, dir_fd=at)
        finally:
            os.close(at)
        at = following
    return at


def _piece(fd: int, offset: int, most: int) -> tuple[int, bytes]:
    """Where the piece begins, and its bytes. A file that became shorter is read from its beginning."""
    with open(fd, "rb", buffering=0) as stream:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        at = max(0, status.st_size - most) if offset < 0 else offset if offset <= status.st_size else 0
        return at, os.pread(stream.fileno(), most, at)
