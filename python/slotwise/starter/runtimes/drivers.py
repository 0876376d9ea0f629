"""The drivers that this host has, by its settings."""

from __future__ import annotations

from pathlib import Path

from slotwise.starter.runtimes.docker.driver import Docker
from slotwise.starter.runtimes.runtime import Runtime
from slotwise.starter.runtimes.settings import RuntimeSettings


def drivers(settings: RuntimeSettings, execute: Path) -> tuple[Runtime, ...]:
    """One driver a runtime; ``execute`` is the EXECUTE whose leftovers it removes."""
    return (Docker(settings.docker, execute),)
