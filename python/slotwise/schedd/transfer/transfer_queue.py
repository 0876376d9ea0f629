"""The transfer queue: limits concurrent transfers, in all and by user; users with the fewest go first, and among equals
the one who has waited longest for a turn.

Manual: MAX_CONCURRENT_UPLOADS, MAX_CONCURRENT_UPLOADS_PER_USER, MAX_CONCURRENT_DOWNLOADS. Pure but for the
futures of waiting transfers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class TransferQueue:
    """The queue of transfers in one direction; a limit of 0 is none."""

    def __init__(self, most: int = 100, per_user_most: int = 20) -> None:
        self.most = most
        self.per_user_most = per_user_most
        self._active: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        #: When each of them began to wait, on the loop's clock.
        self._since: dict[asyncio.Future[None], float] = {}
        #: Bytes of transfers that wait.
        self.waiting_bytes = 0
        #: Whether the disk takes another transfer, of either direction.
        self.disk_has_room: Callable[[], bool] = lambda: True
        #: When users were last given a turn, by the number of turns before it.
        self._turns: dict[str, int] = {}
        self._given = 0

    @property
    def active(self) -> int:
        """The number of active transfers."""
        return sum(self._active.values())

    @property
    def waiting(self) -> int:
        """The number of waiting transfers."""
        return len(self._since)

    def oldest_wait(self) -> float:
        """How long the oldest waiting transfer has been waiting, in seconds."""
        return asyncio.get_running_loop().time() - min(self._since.values()) if self._since else 0.0

    def must_wait(self, user: str) -> bool:
        """Whether a new transfer of the user would have to wait."""
        return not self._room(user)

    def _room(self, user: str) -> bool:
        if (self.most and self.active >= self.most) or not self.disk_has_room():
            return False
        return not self.per_user_most or self._active.get(user, 0) < self.per_user_most

    async def enter(self, user: str, size: int = 0) -> None:
        """Wait for the turn of a transfer of ``size`` bytes; call :meth:`leave` after it."""
        if not self._room(user):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(user, deque()).append(turn)
            self._since[turn] = asyncio.get_running_loop().time()
            self.waiting_bytes += size
            try:
                await turn  # counted by who gave it
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.leave(user)  # it had its turn, but was cancelled
                raise
            finally:
                del self._since[turn]
                self.waiting_bytes -= size
            return
        self._give(user)

    def _give(self, user: str) -> None:
        self._active[user] = self._active.get(user, 0) + 1
        self._given += 1
        self._turns[user] = self._given

    def leave(self, user: str) -> None:
        """End a transfer, which lets the next one start."""
        left = self._active.get(user, 0) - 1
        if left > 0:
            self._active[user] = left
        else:
            self._active.pop(user, None)
            if user not in self._waiting:
                self._turns.pop(user, None)
        self.admit()

    def admit(self) -> None:
        """Let those start that may."""
        while (chosen := self._next()) is not None:
            waiting = self._waiting[chosen]
            turn = waiting.popleft()
            if not waiting:
                del self._waiting[chosen]
            if not turn.done():
                self._give(chosen)
                turn.set_result(None)

    def _next(self) -> str | None:
        ready = [user for user in self._waiting if self._room(user)]
        return min(ready, key=lambda user: (self._active.get(user, 0), self._turns.get(user, 0)), default=None)
