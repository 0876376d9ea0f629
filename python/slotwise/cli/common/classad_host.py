"""User maps for commands that evaluate: read from the configuration when an expression at hand asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slotwise.cli.common.invocation import Invocation

if TYPE_CHECKING:
    from slotwise.config import Config


def asks(texts: Iterable[str]) -> bool:
    """Whether any of the texts may call a function whose answer the configuration has."""
    return any("usermap" in lowered or "userhome" in lowered for lowered in (text.lower() for text in texts))


def take_over_from(inv: Invocation, config: Config | None = None, subsystem: str = "TOOL") -> None:
    """Make ``userMap()`` answer as the caller's configuration says for ``subsystem``; warns of maps with faults."""
    # Most commands need none of this, and start the sooner for it.
    from slotwise.config import load
    from slotwise.config.classad_host import take_over

    if config is None:
        config = load(subsystem=subsystem, env=inv.env, home=inv.home, cwd=inv.cwd)
    for doubt in take_over(config, subsystem):
        inv.err(f"WARNING: {doubt}")
