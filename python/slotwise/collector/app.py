"""Starts the collector."""

from __future__ import annotations

from slotwise.config import Config
from slotwise.daemon.runtime import DaemonContext


class Collector:
    """The running collector."""

    async def reconfig(self, config: Config) -> list[str]:
        """Take over a new configuration."""
        return []

    async def stop(self, mode: str) -> None:
        """Nothing to end."""


async def start(context: DaemonContext) -> Collector:
    """Start serving."""
    return Collector()
