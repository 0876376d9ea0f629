"""Files of jobs over HTTP: inputs of jobs that were submitted with ``spool``, and what they have left.

Nothing of a file is kept here: pieces go on to the access point as they come, and from it as the caller takes them. The
access point writes and reads as the jobs' owner, and only below the directory of each job.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.responses import JSONResponse, Response, StreamingResponse

from slotwise.client import AsyncSchedd
from slotwise.errors import NotFoundError, UnauthenticatedError, UsageError
from slotwise.web.access import SIGN_IN
from slotwise.web.asked import Asked
from slotwise.web.job_requests import constraint_of
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.sizes import PIECE

#: Bytes of one file.
FILE_MOST = 16 << 30
_NAME_MOST = 1000


def _job(asked: Asked) -> str:
    """The id of the job or cluster that is named."""
    name: str = asked.request.path_params["job"]
    constraint_of(name)
    if not asked.access.signed_in:
        raise UnauthenticatedError(f"the files of job {name} are its user's", hint=SIGN_IN)
    return name


def _place(asked: Asked) -> str:
    """The name of the file below the job's directory.

    :raises UsageError: it is not one, or leads out of there.
    """
    name: str = asked.request.path_params["name"]
    parts = name.split("/")
    if len(name) > _NAME_MOST or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise UsageError(f"{name[:60]!r} is not a name below the job's directory", hint="as `data/input.csv`")
    return name


async def put(asked: Asked) -> Response:
    """One input file: the body of the request, as it is."""
    job, name = _job(asked), _place(asked)
    said = asked.request.headers.get("content-length", "0")
    if said.isascii() and said.isdigit() and (len(said) > 15 or int(said) > FILE_MOST):
        raise UsageError(f"the file is larger than {FILE_MOST >> 30} GiB", hint="use `slotwise submit -spool`")
    executable = asked.flag("executable")
    asked.held.enter_context(asked.bounds.files.one(asked.access.caller))
    asked.memory.take(4 * PIECE)
    size = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal size
        kept = bytearray()
        async for part in asked.request.stream():
            size += len(part)
            if size > FILE_MOST:
                raise UsageError(f"the file is larger than {FILE_MOST >> 30} GiB")
            kept += part
            while len(kept) >= PIECE:
                yield bytes(kept[:PIECE])
                del kept[:PIECE]
        yield bytes(kept)

    async with asked.pool.schedd(asked.schedd) as schedd:
        await schedd.send_input(job, name, pieces(), mode=0o755 if executable else 0o644)
    return JSONResponse({"job": job, "name": name, "bytes": size}, 201)


async def complete(asked: Asked) -> Response:
    """All inputs are there: the jobs may run."""
    async with asked.pool.schedd(asked.schedd) as schedd:
        return JSONResponse({"success": (await schedd.inputs_complete(_job(asked))).succeeded})


async def get(asked: Asked) -> Response:
    """One file that a job has left."""
    job, name = _job(asked), _place(asked)
    if "." not in job:
        raise UsageError(f"{job} is a cluster", hint="name one job, as CLUSTER.PROC")
    asked.held.enter_context(asked.bounds.files.one(asked.access.caller))
    asked.memory.take(4 * PIECE)
    schedd = await asked.held.enter_async_context(asked.pool.schedd(asked.schedd))
    found = _of_file(schedd, job, name)
    try:
        first = await anext(found)
    except StopAsyncIteration:
        raise NotFoundError(
            f"job {job} has left no file {name!r}", hint=f"GET jobs/{job}/output has all that it left"
        ) from None

    async def data() -> AsyncIterator[bytes]:
        yield first
        async for piece in found:
            yield piece

    return StreamingResponse(data(), media_type="application/octet-stream")


async def _of_file(schedd: AsyncSchedd, job: str, name: str) -> AsyncIterator[bytes]:
    async for piece in schedd.sandboxes(job, name):
        if not piece.ad and not piece.file.directory and piece.file.name == name.encode():
            yield piece.file.data
            if piece.file.last:
                return


async def archive(asked: Asked) -> Response:
    """All that a job, or each of a cluster, has left: a zip archive, made while it is read."""
    job = _job(asked)
    asked.held.enter_context(asked.bounds.files.one(asked.access.caller))
    asked.memory.take(4 * PIECE)
    schedd = await asked.held.enter_async_context(asked.pool.schedd(asked.schedd))
    pieces = schedd.sandboxes(job)
    # What is wrong with the request is said before the answer begins.
    first = await anext(pieces, None)
    if first is None:
        raise NotFoundError(f"job {job} has left nothing")

    async def text() -> AsyncIterator[bytes]:
        made = Archive(of_many="." not in job)
        async for piece in pieces:
            if not piece.ad and (data := made.add(piece)):
                yield data
        yield made.end()

    return StreamingResponse(
        text(),
        media_type="application/zip",
        headers={"content-disposition": f'attachment; filename="{quote(job)}.zip"'},
    )


class Archive:
    """A zip archive that grows by pieces of files. ``of_many``: each job's files are in a directory of its id.

    Of a file's mode it has the permissions alone: whoever unpacks it makes no setuid program of a job's. Each file has
    a name of its own: bytes that are no text are written as ``%FF``, and what would have another's name gets a number.
    """

    def __init__(self, *, of_many: bool) -> None:
        self._sink = _Sink()
        self._zip = zipfile.ZipFile(self._sink, "w")
        self._of_many = of_many
        self._open: io.BufferedIOBase | zipfile.ZipExtFile | None = None

    def add(self, piece: schedd_pb2.SandboxPiece) -> bytes:
        """Add a piece; what of the archive is ready."""
        file = piece.file
        name = _shown(file.name)
        if self._of_many:
            name = posixpath.join(piece.job, name)
        if file.directory:
            if name + "/" in self._zip.NameToInfo:
                return b""
            made = zipfile.ZipInfo(name + "/")
            made.external_attr = (0o40000 | file.mode & 0o777) << 16
            self._zip.writestr(made, b"")
        else:
            if self._open is None:
                made = zipfile.ZipInfo(self._free(name))
                made.external_attr = (0o100000 | file.mode & 0o777) << 16
                self._open = self._zip.open(made, "w", force_zip64=True)  # type: ignore[assignment]
            assert self._open is not None
            self._open.write(file.data)
            if file.last:
                self._open.close()
                self._open = None
        return self._sink.taken()

    def _free(self, name: str) -> str:
        """``name``, with a number where another file has that already: unpacking would keep the last one alone."""
        taken, number, free = self._zip.NameToInfo, 1, name
        while free in taken:
            number += 1
            free = f"{name}.{number}"
        return free

    def end(self) -> bytes:
        """The rest of the archive."""
        self._zip.close()
        return self._sink.taken()


def _shown(name: bytes) -> str:
    """A file's name as text: two names that are no text stay two."""
    text = name.decode("utf-8", "surrogateescape")
    return "".join(f"%{ord(each) - 0xDC00:02X}" if 0xDC80 <= ord(each) <= 0xDCFF else each for each in text)


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = memoryview(data)  # type: ignore[arg-type]
        self._kept += part
        return len(part)

    def taken(self) -> bytes:
        found = bytes(self._kept)
        self._kept.clear()
        return found
