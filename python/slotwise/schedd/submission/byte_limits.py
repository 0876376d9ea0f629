"""Bounds on the bytes of submissions that have arrived and are not in the queue yet."""

from __future__ import annotations

import asyncio
from types import TracebackType

from slotwise.errors import DeniedError

_MIB = 1024 * 1024
#: Bytes that every user may have in flight, however many others have.
_ALWAYS = 4 * _MIB
#: The overhead of a message, in bytes.
_MESSAGE = 1024


class ByteLimits:
    """The bytes that each user has in flight. Limits are in bytes; 0 is no limit."""

    def __init__(self, per_user_most: int = 256 * _MIB, most: int = 1024 * _MIB) -> None:
        self.per_user_most = per_user_most
        self.most = most
        self.total = 0
        self._held: dict[str, int] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def held(self, owner: str) -> int:
        """The bytes that a user has in flight."""
        return self._held.get(owner, 0)

    def _fits(self, owner: str, size: int) -> bool:
        own = self.held(owner) + size
        within_own = not self.per_user_most or own <= self.per_user_most
        return within_own and (not self.most or self.total + size <= self.most or own <= _ALWAYS)

    def change(self, owner: str, change: int) -> None:
        """Add bytes that arrived, or subtract (below 0) bytes that were processed."""
        self.total += change
        if left := self.held(owner) + change:
            self._held[owner] = left
        else:
            self._held.pop(owner, None)
        if change < 0:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiting.clear()

    async def wait(self, owner: str, size: int) -> None:
        """Wait until there is room, or the user has nothing in flight."""
        while self.held(owner) and not self._fits(owner, size):
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def check(self, owner: str, size: int, own: int) -> None:
        """Check that a submission of which ``own`` bytes have arrived may go on with ``size`` more.

        :raises DeniedError: naming the knob.
        """
        if self.per_user_most and own + size > self.per_user_most:
            raise DeniedError(
                f"the submission has more than SLOTWISE_MAX_SUBMISSION_MB ({self.per_user_most // _MIB} MiB)",
                hint="divide it into several",
            )
        if not self._fits(owner, size):
            of_user = self.held(owner) + size > self.per_user_most > 0
            knob = "SLOTWISE_MAX_SUBMISSION_MB" if of_user else "SLOTWISE_MAX_SUBMISSIONS_MB"
            raise DeniedError(
                f"submissions of {owner} that are under way hold {self.held(owner) // _MIB} MiB,"
                f" {self.total // _MIB} MiB with those of others: {size} bytes more would exceed {knob}",
                hint="submit again when they are through",
            )


class Holding:
    """The bytes that one submission has in flight; released at the end of the ``with`` statement."""

    def __init__(self, intake: ByteLimits, owner: str) -> None:
        self._intake = intake
        self._owner = owner
        self._size = 0

    def add(self, size: int) -> None:
        """Add a message of ``size`` bytes.

        :raises DeniedError: over the limit.
        """
        size += _MESSAGE
        self._intake.check(self._owner, size, self._size)
        self._size += size
        self._intake.change(self._owner, size)

    def __enter__(self) -> Holding:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._intake.change(self._owner, -self._size)
        self._size = 0
