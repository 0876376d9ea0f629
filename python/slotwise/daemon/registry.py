"""The daemons there are: name, module that starts it, and the order in which a pool comes up."""

from __future__ import annotations

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
}

#: HTCondor's subsystem names, for `SUBSYS.KNOB` in configuration.
SUBSYSTEMS: dict[str, str] = {name: name.upper() for name in DAEMONS}
