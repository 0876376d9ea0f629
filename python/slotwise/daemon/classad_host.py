"""A daemon's side of the ClassAd functions that reach outside: user maps, and the lines of ``debug()`` in the log."""

from __future__ import annotations

import asyncio
import logging

from slotwise.classad.machine import keep_debug_lines, take_debug_lines
from slotwise.config import Config
from slotwise.config.classad_host import take_over

_log = logging.getLogger(__name__)
#: Where the lines of ``debug()`` go, at the level of D_FULLDEBUG.
_debug = logging.getLogger("slotwise.classad")

#: How long a line may wait for the log.
_EVERY_S = 0.5


def follow(config: Config, subsystem: str) -> list[str]:
    """Take over what the configuration says of user maps; keep the lines of ``debug()`` if the log wants them.

    The log must have its level by now. Returns warnings.
    """
    keep_debug_lines(_debug.isEnabledFor(logging.DEBUG))
    doubts = take_over(config, subsystem)
    for doubt in doubts:
        _log.warning("%s", doubt)
    return doubts


def write_debug_lines() -> None:
    """Log what ``debug()`` told since the last time."""
    for line in take_debug_lines():
        _debug.debug("%s", line)


async def keep_writing() -> None:
    """Log what ``debug()`` tells, until cancelled; the rest at the end."""
    try:
        while True:
            await asyncio.sleep(_EVERY_S)
            write_debug_lines()
    finally:
        write_debug_lines()
