"""Cluster ids reserved in advance, for descriptions that contain ``$(Cluster)`` and need it to be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: The most ids in a block; unused ones leave a gap.
_BLOCK_MOST = 64
#: How long a block is used, in seconds: the schedd takes unused ids back after an hour.
_BLOCK_S = 1800.0


class ReservedIds:
    """A block of reserved ids that grows each time it runs out, so that a single submission costs one id."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._block = 1
        self._until = 0.0
        self._lock = threading.Lock()

    def likely(self) -> int:
        """The id that the next description gets if it needs one; 0 if the block is used up."""
        return self._next if self.enough(1) else 0

    def enough(self, count: int) -> bool:
        """Whether ``count`` ids in a row are left."""
        return self._end - self._next >= count and time.monotonic() < self._until

    def block(self, count: int) -> int:
        """How many to request when ``count`` are needed."""
        return max(count, self._block)

    def refill(self, first: int, count: int) -> None:
        """Replace the rest of the block by a new one."""
        self._next, self._end = first, first + count
        self._until = time.monotonic() + _BLOCK_S
        self._block = min(_BLOCK_MOST, self._block * 4)

    def use(self, count: int) -> int:
        """The first of ``count`` ids."""
        first = self._next
        self._next += count
        return first

    def take(self, count: int, reserve: Callable[[int], int]) -> int:
        """The first of ``count`` ids, from the schedd (``reserve(number)``) if too few are left; thread-safe."""
        with self._lock:
            if not self.enough(count):
                asked = self.block(count)
                self.refill(reserve(asked), asked)
            return self.use(count)
