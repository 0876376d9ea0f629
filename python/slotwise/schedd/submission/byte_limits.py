"""Bounds on the bytes of submissions that have arrived and are not in the queue yet."""

from __future__ import annotations

import asyncio
from types import TracebackType

from slotwise.errors import DeniedError

_MIB = 1024 * 1024
#: What every user may have under way, however much others have.
_ALWAYS = 4 * _MIB
#: What a message costs besides its bytes.
_MESSAGE = 1024


class Intake:
    """How much each user has under way. Bounds are in bytes; 0 is none."""

    def __init__(self, per_user_most: int = 256 * _MIB, most: int = 1024 * _MIB) -> None:
        self.per_user_most = per_user_most
        self.most = most
        self.total = 0
        self._held: dict[str, int] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def held(self, owner: str) -> int:
        """What one user has under way."""
        return self._held.get(owner, 0)

    def _fits(self, owner: str, size: int) -> bool:
        own = self.held(owner) + size
        within_own = not self.per_user_most or own <= self.per_user_most
        return within_own and (not self.most or self.total + size <= self.most or own <= _ALWAYS)

    def change(self, owner: str, change: int) -> None:
        """Count bytes that came (or, below 0, left)."""
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
        """Wait until there is room, or the user has nothing under way."""
        while self.held(owner) and not self._fits(owner, size):
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def check(self, owner: str, size: int, own: int) -> None:
        """See that a submission of which ``own`` bytes came may go on with ``size`` more.

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
    """What one submission has under way; given back at the end of the ``with`` statement."""

    def __init__(self, intake: Intake, owner: str) -> None:
        self._intake = intake
        self._owner = owner
        self._size = 0

    def add(self, size: int) -> None:
        """A message of ``size`` bytes came.

        :raises DeniedError: when that is too much.
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
