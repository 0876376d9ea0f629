"""How much at a time the service does for all callers, and for one: no caller keeps others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from slotwise.errors import BusyError

#: The caller of requests without a token of whom nothing else is known.
ANYBODY = ""


class Bound:
    """How many of one kind there are at a time.

    :param what: what they are, for the message.
    :param most: of everybody.
    :param most_each: of one caller.
    """

    def __init__(self, what: str, most: int, most_each: int) -> None:
        self._what = what
        self._most = most
        self._most_each = most_each
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Count one while it lasts.

        :raises BusyError: when there are as many as may be.
        """
        if self._open[caller] >= self._most_each:
            raise BusyError(f"{self._open[caller]} {self._what} of yours are open", retry_after_s=10.0)
        if self._open.total() >= self._most:
            raise BusyError(f"{self._open.total()} {self._what} are open", retry_after_s=10.0)
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


class Memory:
    """How many bytes of requests, and of replies of daemons that are kept whole, there are at a time.

    :param most: of everybody.
    :param most_each: of one caller.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._held: Counter[str] = Counter()

    @contextmanager
    def of(self, caller: str) -> Iterator[Held]:
        """What a request of ``caller`` holds while it lasts."""
        held = Held(self, caller)
        try:
            yield held
        finally:
            self._held[caller] -= held.size
            if not self._held[caller]:
                del self._held[caller]

    def add(self, caller: str, size: int) -> None:
        """Count so many bytes more.

        :raises BusyError: when there are as many as may be; they are not counted.
        """
        if self._held[caller] + size > self._most_each or self._held.total() + size > self._most:
            raise BusyError(
                f"the service holds as much for your requests as it may, {self._most_each >> 20} MiB",
                hint="ask for less: with a constraint, limit or projection, or one after the other",
                retry_after_s=10.0,
            )
        self._held[caller] += size


class Held:
    """What one request holds of the service's memory."""

    def __init__(self, memory: Memory, caller: str) -> None:
        self._memory = memory
        self._caller = caller
        self.size = 0

    def take(self, size: int) -> None:
        """Hold so many bytes more.

        :raises BusyError: see :meth:`Memory.add`.
        """
        self._memory.add(self._caller, size)
        self.size += size


class ServiceBounds(Struct, frozen=True):
    """The bounds of one service."""

    #: All requests that are being answered.
    requests: Bound = field(default_factory=lambda: Bound("requests", 1000, 40))
    #: Streams of events: each asks its access point once a second.
    events: Bound = field(default_factory=lambda: Bound("streams of events", 100, 20))
    #: Lists of more ads than a request without a limit gets.
    lists: Bound = field(default_factory=lambda: Bound("long lists", 40, 8))
    #: Files of jobs that are sent or fetched.
    files: Bound = field(default_factory=lambda: Bound("transfers of files", 40, 8))
    memory: Memory = field(default_factory=lambda: Memory(256 << 20, 64 << 20))
