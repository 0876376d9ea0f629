"""Shows what daemons load while a command waits for them to answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

#: How often it is looked at, and a line written where it has changed, seconds.
_EVERY_S = 3.0


@contextlib.contextmanager
def shown_starts(inv: Invocation) -> Iterator[None]:
    """Within this block, write to standard error what starting daemons of this home are doing, as it changes."""
    over = threading.Event()
    watch = threading.Thread(target=_show, args=(inv, over), name="starts", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _show(inv: Invocation, over: threading.Event) -> None:
    from slotwise.daemon import start_progress

    shown: dict[str, str] = {}
    while not over.wait(_EVERY_S):
        now = start_progress.all_doing(inv.home)
        for name, text in now.items():
            if shown.get(name) != text:
                inv.err(f"{name} {text}")
        shown = now
