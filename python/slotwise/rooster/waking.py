"""Wakes a machine: runs ROOSTER_WAKEUP_CMD with its ad on standard input, or sends the packet itself."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import PurePath

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form
from slotwise.daemon import children
from slotwise.errors import SlotwiseError
from slotwise.rooster.rules import OWN_PROGRAM
from slotwise.wire import wake_on_lan

_log = logging.getLogger(__name__)
#: How long a command may take (seconds).
_COMMAND_S = 60.0
_MOST_LINES = 20


async def wake(ad: ClassAd, command: Sequence[str]) -> bool:
    """Call the machine of a slot; whether the call was sent."""
    if not command or (PurePath(command[0]).name == OWN_PROGRAM and shutil.which(command[0]) is None):
        try:
            packet = await asyncio.to_thread(wake_on_lan.for_ad, ad)  # it may resolve the name of a host
            await asyncio.to_thread(wake_on_lan.send, packet)
        except (SlotwiseError, OSError) as error:
            _log.error("cannot wake %s: %s", ad.get("Name"), error)
            return False
        _log.info("sent a Wake-on-LAN packet for %s to %s:%d", packet.hardware_address, packet.broadcast, packet.port)
        return True
    return await _run(ad, command)


async def _run(ad: ClassAd, command: Sequence[str]) -> bool:
    try:
        given = long_form(ad).encode(errors="surrogateescape")
        ended = await children.run_command(command, limit_s=_COMMAND_S, given=given)
    except OSError as error:
        _log.error("cannot run %s: %s", command[0], error)
        return False
    if ended.timed_out:
        _log.error("%s for %s took longer than %g s", command[0], ad.get("Name"), _COMMAND_S)
        return False
    for line in (ended.output + ended.errors).decode(errors="replace").splitlines()[:_MOST_LINES]:
        _log.info("%s: %s", command[0], line)
    if ended.status:
        _log.error("%s for %s: exit status %d", command[0], ad.get("Name"), ended.status)
    return ended.status == 0
