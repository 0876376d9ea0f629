"""The daemons there are: name, module that starts it, and the order in which a pool comes up."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from slotwise.model.replayed_step import ReplayedStep

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
    "librarian": "slotwise.librarian.app",
    "web": "slotwise.web.app",
    "shared_port": "slotwise.shared_port.app",
}

#: Daemons of HTCondor whose work the schedd does: DAEMON_LIST may name them.
PARTS_OF_SCHEDD = frozenset({"credd", "credmon_oauth"})

#: HTCondor's subsystem names, for `SUBSYS.KNOB` in configuration.
SUBSYSTEMS: dict[str, str] = {name: name.upper() for name in DAEMONS}


def replay_of_slots() -> Callable[[str], ReplayedStep]:
    """The startd's own reader of the steps that it records: takes a line of the record again."""
    return _replay("slotwise.startd.slot.replay")


def replay_of_claims() -> Callable[[str], ReplayedStep]:
    """The same of the schedd, for steps of claims and runs."""
    return _replay("slotwise.schedd.lifecycle.replay")


def _replay(module: str) -> Callable[[str], ReplayedStep]:
    found: Callable[[str], ReplayedStep] = import_module(module).retold
    return found
