"""The daemons there are: name, module that starts it, and the order in which a pool comes up."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from slotwise.model.slot_step import ReplayedStep

#: Daemon name -> module with ``async def start(context: DaemonContext) -> RunningDaemon``.
DAEMONS: dict[str, str] = {
    "master": "slotwise.master.app",
    "collector": "slotwise.collector.app",
    "negotiator": "slotwise.negotiator.app",
    "schedd": "slotwise.schedd.app",
    "startd": "slotwise.startd.app",
    "starter": "slotwise.starter.app",
    "front": "slotwise.command_server.app",
    "defrag": "slotwise.defrag.app",
    "rooster": "slotwise.rooster.app",
    "web": "slotwise.web.app",
}

#: HTCondor's subsystem names, for `SUBSYS.KNOB` in configuration.
SUBSYSTEMS: dict[str, str] = {name: name.upper() for name in DAEMONS}


def replay_of_slots() -> Callable[[str], ReplayedStep]:
    """The startd's own reader of the steps that it records: takes a line of the record again."""
    found: Callable[[str], ReplayedStep] = import_module("slotwise.startd.slot.replay").retold
    return found
