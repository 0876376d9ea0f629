"""One connection of a chirp client: reads its requests, has them answered at the access point."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from slotwise.starter.io_proxy.protocol import (
    BAD_FD,
    INVALID,
    NOT_AUTHENTICATED,
    NOT_AUTHORIZED,
    TOO_BIG,
    TOO_MANY_OPEN,
    error_answer,
    open_flags,
    words,
)
from slotwise.starter.messages import RemoteIo, RemoteIoDone

#: Most data of one request, bytes; more is asked for in parts by all clients.
MOST = 16 * 1024 * 1024
_PART = 512 * 1024
_MOST_OPEN = 256
_LONGEST_PATH = 4096
#: The largest number of a message.
_NUMBER_MOST = 2**63 - 1
#: Where requests with data say how much of them, by name; None: they do not.
_LENGTHS: dict[str, int | None] = {"read": 2, "pread": 2, "write": 2, "pwrite": 2, "putfile": 3, "getfile": None}


class Asker(Protocol):
    """A job as the session sees it."""

    may_use_files: bool
    may_change: bool
    may_delay: bool
    secret: str
    #: Held by a request that has more data than a part.
    large: asyncio.Semaphore

    def ask(self, request: RemoteIo) -> Awaitable[RemoteIoDone]:
        """Have something done at the access point."""
        ...

    def delay(self, name: str, text: str) -> int:
        """Take an attribute along with the next update; 0 or an errno."""
        ...

    def delayed(self, name: str) -> str | None:
        """An attribute that waits for the next update."""
        ...


class OpenFile(Struct):
    """A file that the client has open."""

    path: str
    reads: bool
    writes: bool
    appends: bool
    at: int = 0


Answer = tuple[int, bytes]


class Session:
    """Serves one connection to its end.

    :param job: whose secret the client has said.
    """

    def __init__(self, job: Asker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._job = job
        self._reader, self._writer = reader, writer
        self._files: dict[int, OpenFile] = {}

    async def serve(self) -> None:
        """Answer requests until the client hangs up."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            except asyncio.LimitOverrunError:
                self._writer.write(f"{TOO_BIG}\n".encode())
                return
            request = words(line[:-1])
            # Data of a client that stalls, in either direction, stay in memory.
            async with self._job.large if _is_large(request) else contextlib.nullcontext():
                number, data = await self._answer(request)
                self._writer.write(f"{number}\n".encode() + data)
                await self._writer.drain()

    async def _answer(self, request: list[str]) -> Answer:
        if not request:
            return INVALID, b""
        name, *rest = request
        if name == "cookie" and len(rest) == 1:
            return (0 if same(rest[0], self._job.secret) else NOT_AUTHENTICATED), b""
        known = _COMMANDS.get((name, len(rest)))
        if known is None:
            return INVALID, b""
        need, act = known
        if not getattr(self._job, need):
            return NOT_AUTHORIZED, b""
        try:
            return await act(self, *rest)
        except (ValueError, asyncio.IncompleteReadError):
            return INVALID, b""

    async def _ask(self, request: RemoteIo) -> RemoteIoDone:
        """Have something done at the access point.

        :raises ValueError: when no message can say it: such a request would fail again whenever it is sent.
        """
        for text in (request.name, request.text):
            text.encode()
        if max(abs(request.offset), abs(request.length)) > _NUMBER_MOST:
            raise ValueError("the number is too large")
        return await self._job.ask(request)

    async def _plain(self, request: RemoteIo) -> Answer:
        done = await self._ask(request)
        return (error_answer(done.error), b"") if done.error else (0, b"")

    async def _data(self, request: RemoteIo) -> Answer:
        done = await self._ask(request)
        return (error_answer(done.error), b"") if done.error else (len(done.data), done.data)

    # ---- attributes and the log

    async def _get(self, name: str) -> Answer:
        return await self._data(RemoteIo("get_attr", name=name))

    async def _set(self, name: str, text: str) -> Answer:
        return await self._plain(RemoteIo("set_attr", name=name, text=text))

    async def _get_delayed(self, name: str) -> Answer:
        text = self._job.delayed(name)
        if text is None:
            return error_answer(errno.ENOENT), b""
        return len(text.encode()), text.encode()

    async def _set_delayed(self, name: str, text: str) -> Answer:
        error = self._job.delay(name, text)
        return (error_answer(error) if error else 0), b""

    async def _log(self, text: str) -> Answer:
        return await self._plain(RemoteIo("ulog", text=text))

    # ---- open files

    async def _open(self, path: str, letters: str, mode: str) -> Answer:
        flags = open_flags(letters)
        if flags is None:
            return INVALID, b""
        if len(self._files) >= _MOST_OPEN:
            return TOO_MANY_OPEN, b""
        if len(path) > _LONGEST_PATH:
            return TOO_BIG, b""
        reads, writes, appends, truncates, creates, exclusive = flags
        if writes:
            how = (1 if truncates else 0) | (2 if exclusive and creates else 0)
            done = await self._ask(
                RemoteIo("write", name=path, length=how, mode=(int(mode) & 0o777 or 0o644) * creates)
            )
            if done.error:
                return error_answer(done.error), b""
        done = await self._ask(RemoteIo("stat", name=path))
        if done.error:
            return error_answer(done.error), b""
        number = next(n for n in range(3, 3 + _MOST_OPEN + 1) if n not in self._files)
        self._files[number] = OpenFile(path, reads, writes, appends)
        return number, done.data

    async def _close(self, number: str) -> Answer:
        return (0 if self._files.pop(int(number), None) is not None else BAD_FD), b""

    async def _read(self, number: str, length: str, offset: str = "") -> Answer:
        file = self._files.get(int(number))
        if file is None or not file.reads:
            return BAD_FD, b""
        at = int(offset) if offset else file.at
        answer = await self._fetch(file.path, at, min(int(length), MOST))
        if not offset and answer[0] > 0:
            file.at += answer[0]
        return answer

    async def _fetch(self, path: str, at: int, length: int) -> Answer:
        found = b""
        while len(found) < length:
            part = min(_PART, length - len(found))
            done = await self._ask(RemoteIo("read", name=path, offset=at + len(found), length=part))
            if done.error:
                return error_answer(done.error), b""
            found += done.data
            if len(done.data) < part:
                break
        return len(found), found

    async def _write(self, number: str, length: str, offset: str = "") -> Answer:
        size = int(length)
        if not 0 <= size <= MOST:
            return TOO_BIG, b""
        data = await self._reader.readexactly(size)
        file = self._files.get(int(number))
        if file is None or not file.writes:
            return BAD_FD, b""
        at = -1 if file.appends else int(offset) if offset else file.at
        answer = await self._store(file.path, data, at)
        if not offset and answer[0] > 0:
            file.at += answer[0]
        return answer

    async def _store(self, path: str, data: bytes, at: int) -> Answer:
        for start in range(0, len(data), _PART):
            part = data[start : start + _PART]
            done = await self._ask(RemoteIo("write", name=path, data=part, offset=at if at < 0 else at + start))
            if done.error:
                return error_answer(done.error), b""
        return len(data), b""

    async def _seek(self, number: str, offset: str, whence: str) -> Answer:
        file = self._files.get(int(number))
        if file is None:
            return BAD_FD, b""
        base = {"0": 0, "1": file.at}.get(whence)
        if whence == "2":
            done = await self._ask(RemoteIo("stat", name=file.path))
            if done.error:
                return error_answer(done.error), b""
            base = int(done.data.split()[7])
        if base is None or base + int(offset) < 0:
            return INVALID, b""
        file.at = base + int(offset)
        return file.at, b""

    async def _sync(self, number: str) -> Answer:
        return (0 if int(number) in self._files else BAD_FD), b""  # every write is through when it is answered

    # ---- whole files and directories

    async def _get_file(self, path: str) -> Answer:
        done = await self._ask(RemoteIo("stat", name=path))
        if done.error:
            return error_answer(done.error), b""
        size = int(done.data.split()[7])
        return await self._fetch(path, 0, size) if size <= MOST else (TOO_BIG, b"")

    async def _put_file(self, path: str, mode: str, length: str) -> Answer:
        size = int(length)
        if not 0 <= size <= MOST:
            return TOO_BIG, b""
        done = await self._ask(RemoteIo("write", name=path, length=1, mode=int(mode) & 0o777 or 0o644))
        if done.error:
            return error_answer(done.error), b""
        self._writer.write(b"0\n")
        await self._writer.drain()
        return await self._store(path, await self._reader.readexactly(size), 0)

    async def _stat(self, path: str) -> Answer:
        done = await self._ask(RemoteIo("stat", name=path))
        return (error_answer(done.error), b"") if done.error else (0, done.data)

    async def _unlink(self, path: str) -> Answer:
        return await self._plain(RemoteIo("unlink", name=path))

    async def _rename(self, path: str, other: str) -> Answer:
        return await self._plain(RemoteIo("rename", name=path, text=other))

    async def _make_directory(self, path: str, mode: str) -> Answer:
        return await self._plain(RemoteIo("mkdir", name=path, mode=int(mode) & 0o777 or 0o755))

    async def _remove_directory(self, path: str) -> Answer:
        return await self._plain(RemoteIo("rmdir", name=path))

    async def _list(self, path: str) -> Answer:
        return await self._data(RemoteIo("getdir", name=path))


_Act = Callable[..., Awaitable[Answer]]
_FILES, _UPDATES, _DELAYED = "may_use_files", "may_change", "may_delay"
#: By name and number of words: what it takes, and who does it.
_COMMANDS: dict[tuple[str, int], tuple[str, _Act]] = {
    ("get_job_attr", 1): (_UPDATES, Session._get),
    ("set_job_attr", 2): (_UPDATES, Session._set),
    ("get_job_attr_delayed", 1): (_DELAYED, Session._get_delayed),
    ("set_job_attr_delayed", 2): (_DELAYED, Session._set_delayed),
    ("ulog", 1): (_UPDATES, Session._log),
    ("open", 3): (_FILES, Session._open),
    ("close", 1): (_FILES, Session._close),
    ("read", 2): (_FILES, Session._read),
    ("pread", 3): (_FILES, Session._read),
    ("write", 2): (_FILES, Session._write),
    ("pwrite", 3): (_FILES, Session._write),
    ("lseek", 3): (_FILES, Session._seek),
    ("fsync", 1): (_FILES, Session._sync),
    ("getfile", 1): (_FILES, Session._get_file),
    ("putfile", 3): (_FILES, Session._put_file),
    ("stat", 1): (_FILES, Session._stat),
    ("unlink", 1): (_FILES, Session._unlink),
    ("rename", 2): (_FILES, Session._rename),
    ("mkdir", 2): (_FILES, Session._make_directory),
    ("rmdir", 1): (_FILES, Session._remove_directory),
    ("getdir", 1): (_FILES, Session._list),
}


def _is_large(request: list[str]) -> bool:
    """Whether a request has, or may have, more data than a part."""
    if not request or request[0] not in _LENGTHS:
        return False
    at = _LENGTHS[request[0]]
    if at is None:
        return True
    try:
        return int(request[at]) > _PART
    except (IndexError, ValueError):
        return False


def same(cookie: str, wanted: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(cookie.encode("utf-8", "surrogateescape"), wanted.encode())
