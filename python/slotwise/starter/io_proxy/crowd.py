"""How many connections there may be, of one and in all, and which makes room for another. No I/O."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)
One = TypeVar("One", bound=Hashable)


class FullError(Exception):
    """There is no room for another."""


class Crowd(Generic[Owner, One]):
    """Connections by whose they are.

    Where all places are taken, the owner with the most gives one up to an owner with fewer: who floods stands in nobody
    else's way.

    :param of_one: how many one owner may have; ``in_all``: how many there may be.
    :param displaces: an owner that has as many as it may have loses the oldest; else it gets no other.
    """

    def __init__(self, of_one: int, in_all: int, *, displaces: bool) -> None:
        self._of_one, self._in_all, self._displaces = of_one, in_all, displaces
        #: The oldest first.
        self._owned: dict[Owner, dict[One, None]] = {}
        self._owners: dict[One, Owner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, owner: Owner, one: One) -> One | None:
        """Take another connection; the one that has to go for it.

        :raises FullError: none makes room.
        """
        goes = None
        count = len(self._owned.get(owner, ()))
        if count >= self._of_one:
            if not self._displaces:
                raise FullError
            goes = self._oldest(owner)
        elif len(self) >= self._in_all:
            crowded = max(self._owned, key=lambda each: len(self._owned[each]))
            if len(self._owned[crowded]) <= count + 1:
                raise FullError
            goes = self._oldest(crowded)
        if goes is not None:
            self.remove(goes)
        self._owned.setdefault(owner, {})[one] = None
        self._owners[one] = owner
        return goes

    def remove(self, one: One) -> None:
        """Forget a connection, if it is known."""
        if one not in self._owners:
            return
        owner = self._owners.pop(one)
        del self._owned[owner][one]
        if not self._owned[owner]:
            del self._owned[owner]

    def of(self, owner: Owner) -> list[One]:
        """The connections of an owner."""
        return list(self._owned.get(owner, ()))

    def _oldest(self, owner: Owner) -> One:
        return next(iter(self._owned[owner]))
