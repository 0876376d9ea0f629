"""A run's turn in the access point's queue of outputs (MAX_CONCURRENT_DOWNLOADS).

The shadow offers turns when it accepts the run. Small outputs go without one: they are on their way sooner than the
answer would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Outputs of at most this many bytes go at once.
SMALL = 1024 * 1024


class OutputTurn:
    """Waits for the turn; a turn lasts until the stream breaks or the run is over."""

    def __init__(self) -> None:
        #: The shadow gives turns, and expects to be asked for one.
        self.offered = False
        self._has = False
        self._waiting: asyncio.Future[bool] | None = None

    def accept(self, *, offered: bool) -> None:
        """The shadow has accepted the run, on a new stream."""
        self.offered, self._has = offered, False

    async def wait(self, size: int, ask: Callable[[], None]) -> bool:
        """Wait for the turn to send outputs of ``size`` bytes; ``ask`` asks for it. False when the stream broke."""
        if not self.offered or size <= SMALL or self._has:
            return True
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
            ask()
        return await asyncio.shield(self._waiting)

    def give(self) -> None:
        """The shadow says that it is the run's turn."""
        self._has = True
        self._answer(True)

    def end(self) -> None:
        """What the turn was for has been sent."""
        self._has = False

    def lose(self) -> None:
        """The stream broke, or the run is over."""
        self._has = False
        self._answer(False)

    def _answer(self, answer: bool) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
