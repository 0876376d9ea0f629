"""User maps for commands that evaluate: read from the configuration when an expression at hand asks for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slotwise.cli.common.invocation import Invocation
from slotwise.errors import SlotwiseError

if TYPE_CHECKING:
    from slotwise.config import Config


@contextlib.contextmanager
def answering(inv: Invocation, subsystem: str = "TOOL") -> Iterator[None]:
    """Within it, expressions that this thread evaluates know the user maps of the caller's configuration, wherever they
    stand: on the command line, in an ad, in a print format, in rules."""

    from slotwise.classad.machine import answer_in_thread

    def read() -> None:
        try:
            take_over_from(inv, None, subsystem)
        except SlotwiseError as error:
            inv.err(f"WARNING: no user maps: {error}")

    answer_in_thread(read)
    try:
        yield
    finally:
        answer_in_thread(None)


def take_over_from(inv: Invocation, config: Config | None = None, subsystem: str = "TOOL") -> None:
    """Make ``userMap()`` answer as the caller's configuration says for ``subsystem``; warns of maps with faults."""
    # Most commands need none of this, and start the sooner for it.
    from slotwise.config import load
    from slotwise.config.classad_host import take_over

    if config is None:
        config = load(subsystem=subsystem, env=inv.env, home=inv.home, cwd=inv.cwd)
    for doubt in take_over(config, subsystem):
        inv.err(f"WARNING: {doubt}")
