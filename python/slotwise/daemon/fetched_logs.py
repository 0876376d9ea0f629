"""Logs that administrators fetch from a daemon (``slotwise fetchlog``): by name, never by path.

A name is that of a daemon (``SCHEDD``), of a category of its lines that has a file of its own (``NEGOTIATOR_MATCH``,
``SCHEDD_AUDIT``), ``HISTORY``, ``STARTD_HISTORY`` or ``SCHEDD_DAEMON_HISTORY``. An extension (``.old``, ``.slot1``)
names a file beside it. Knobs of the configuration say where these files are, and nothing that a caller sends does.
HTCondor's daemons serve whatever file a knob called ..._LOG names, with any extension that has no slash in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

from slotwise.config import Config
from slotwise.daemon.history_file import parts_of
from slotwise.daemon.privileges import own_files
from slotwise.daemon.registry import DAEMONS
from slotwise.errors import NotFoundError, UsageError
from slotwise.home import PoolHome
from slotwise.observe.log import category_file, log_file, open_log

_NAME = re.compile(r"([A-Z_]{1,40})(\.[A-Za-z0-9_-]{1,40})?")
_CATEGORIES = ("MATCH", "AUDIT")
_HISTORIES = ("HISTORY", "STARTD_HISTORY", "SCHEDD_DAEMON_HISTORY")
#: Bytes in one message.
_PIECE = 256 * 1024


async def fetch(home: PoolHome, name: str, config: Config) -> AsyncIterator[bytes]:
    """The bytes of what ``name`` means. A part of a history that is put aside or removed meanwhile is left out.

    :raises UsageError: it is not a name.
    :raises NotFoundError: nothing of this host has that name, or it cannot be read.
    """
    found = await asyncio.to_thread(files, home, name, config)
    for path in found:
        try:
            async for data in pieces(path):
                yield data
        except _GoneError:
            if name not in _HISTORIES:
                raise


def files(home: PoolHome, name: str, config: Config) -> list[Path]:
    """The files that ``name`` means: one log, or a history with its older parts, the newest last.

    :raises UsageError: it is not a name.
    :raises NotFoundError: nothing of this host has that name.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise UsageError("a log's name is that of a daemon, as SCHEDD, and an extension, as STARTER.slot1")
    subsystem, extension = found[1], found[2] or ""
    if subsystem in _HISTORIES and not extension:
        named = config.get(subsystem)
        if not named:
            raise NotFoundError(f"{subsystem} is not set here")
        with own_files():
            return parts_of(Path(named))
    path = _log(home, subsystem, config)
    if path is None:
        raise NotFoundError("no log file by that name", hint=f"daemons are {', '.join(DAEMONS).upper()}")
    return [path.with_name(path.name + extension)]


def _log(home: PoolHome, subsystem: str, config: Config) -> Path | None:
    daemon, _, category = subsystem.partition("_")
    if daemon.lower() not in DAEMONS:
        return None
    if not category:
        return log_file(home, daemon.lower(), config)
    return category_file(home, daemon.lower(), category, config) if category in _CATEGORIES else None


async def pieces(path: Path) -> AsyncIterator[bytes]:
    """The bytes of a file as far as it goes now; it may grow while they are sent.

    :raises NotFoundError: there is none, or it is not a plain file.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(_opened, path))
    try:
        descriptor, size = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unused)
        raise
    try:
        at = 0
        while at < size:
            data = await asyncio.to_thread(os.pread, descriptor, min(_PIECE, size - at), at)
            if not data:
                return  # it was truncated
            at += len(data)
            yield data
    finally:
        os.close(descriptor)


class _GoneError(NotFoundError):
    """There is no such file, or no longer."""


def _close_unused(opening: asyncio.Future[tuple[int, int]]) -> None:
    """The call ended while the file was being opened."""
    with contextlib.suppress(NotFoundError, asyncio.CancelledError):
        os.close(opening.result()[0])


def _opened(path: Path) -> tuple[int, int]:
    """A descriptor and the size. A link is not followed, and a pipe is not waited for.

    The daemons' account may own the directories above, and lay links there: what it cannot read is not served.
    """
    try:
        with own_files():
            descriptor = open_log(path)
    except OSError as error:
        kind = _GoneError if isinstance(error, FileNotFoundError) else NotFoundError
        raise kind(f"server was unable to access it: {error.strerror}") from None
    return descriptor, os.fstat(descriptor).st_size
