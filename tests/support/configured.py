"""Configurations of a few knobs, without a file."""

from __future__ import annotations

from slotwise.config import Config, load


def configured(subsystem: str = "STARTD", **knobs: str) -> Config:
    """What a daemon reads where only these knobs are set; all others have their defaults."""
    return load("/dev/null", subsystem=subsystem, env={}, home=None, runtime=knobs)
