"""Logs that administrators fetch from a daemon (``slotwise fetchlog``): by name, never by path.

A name is that of a daemon (``SCHEDD``), of a category of its lines that has a file of its own (``NEGOTIATOR_MATCH``,
``SCHEDD_AUDIT``), ``HISTORY`` or ``STARTD_HISTORY``. An extension (``.old``, ``.slot1``) names a file beside it. Knobs
of the configuration say where these files are, and nothing that a caller sends does. HTCondor's daemons serve whatever
file a knob called ..._LOG names, with any extension that has no slash in it.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from slotwise.config import Config
from slotwise.daemon.history_file import parts_of
from slotwise.daemon.registry import DAEMONS
from slotwise.errors import NotFoundError, UsageError
from slotwise.home import PoolHome
from slotwise.observe.log import category_file, log_file

_NAME = re.compile(r"([A-Z_]{1,40})(\.[A-Za-z0-9_-]{1,40})?")
_CATEGORIES = ("MATCH", "AUDIT")
_HISTORIES = ("HISTORY", "STARTD_HISTORY")
#: Bytes in one message.
_PIECE = 256 * 1024


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
    descriptor, size = await asyncio.to_thread(_opened, path)
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


def _opened(path: Path) -> tuple[int, int]:
    """A descriptor and the size. A link is not followed, and a pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotFoundError(f"server was unable to access it: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotFoundError("server was unable to access it: it is not a plain file")
    return descriptor, status.st_size
