"""How much at a time the service does for all callers, and for one: no caller's streams keep others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from slotwise.errors import BusyError

#: The caller of requests without a token.
ANYBODY = ""


class Bound:
    """How many of one kind there are at a time.

    :param what: what they are, for the message.
    :param most: of everybody.
    :param most_each: of one caller; those without a token are one caller.
    """

    def __init__(self, what: str, most: int, most_each: int) -> None:
        self._what = what
        self._most = most
        self._most_each = most_each
        self._open: Counter[str] = Counter()

    def require_room(self, caller: str) -> None:
        """:raises BusyError: when there are as many as may be."""
        if self._open[caller] >= self._most_each:
            whose = "of yours" if caller else "without a token"
            hint = None if caller else "those with a token have bounds of their own"
            raise BusyError(f"{self._open[caller]} {self._what} {whose} are open", hint=hint, retry_after_s=10.0)
        if self._open.total() >= self._most:
            raise BusyError(f"{self._open.total()} {self._what} are open", retry_after_s=10.0)

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Count one while it lasts.

        :raises BusyError: as :meth:`require_room`.
        """
        self.require_room(caller)
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


class ServiceBounds(Struct, frozen=True):
    """The bounds of one service."""

    #: Streams of events: each asks its access point once a second.
    events: Bound = field(default_factory=lambda: Bound("streams of events", 100, 20))
    #: Lists of more ads than a request without a limit gets.
    lists: Bound = field(default_factory=lambda: Bound("long lists", 40, 8))
