"""When hooks were asked for work for a slot, and how that went. Times in seconds since the epoch."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Attempts(Struct, frozen=True):
    """What a slot has tried: when the hook began and ended last (0: never), and how often it has failed since it last
    did not."""

    began: float = 0.0
    ended: float = 0.0
    failures: int = 0
    running: bool = False
    delay_s: int = -1

    def begin(self, now: float) -> Attempts:
        """The hook is started."""
        return replace(self, began=now, running=True)

    def end(self, now: float, *, failed: bool) -> Attempts:
        """The hook has ended; ``failed``: without an answer that could be used."""
        return replace(self, ended=now, running=False, failures=self.failures + 1 if failed else 0)

    def work_failed(self) -> Attempts:
        """What was fetched did not come to its end."""
        return replace(self, failures=self.failures + 1)
