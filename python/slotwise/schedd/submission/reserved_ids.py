"""Cluster ids that are reserved ahead of their submissions. Pure.

A submit description that uses ``$(Cluster)`` needs its id before it is sent. An id belongs to the user who reserved it;
if no cluster takes it within :data:`RESERVED_S`, it expires and is never used.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.errors import DeniedError, UsageError
from slotwise.schedd.storage.batch import RESERVED_S, Reservation

#: The most unused ids that a user may have reserved.
RESERVED_MOST = 10_000
#: The highest cluster id.
CLUSTER_MOST = (1 << 31) - 1


class ReservedClusters:
    """The unused reserved ids, each with its user."""

    def __init__(self) -> None:
        #: (user, when), in the order of the reservations.
        self._ids: dict[int, tuple[str, int]] = {}
        self._waiting: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def keep(self, given: Iterable[Reservation], taken: Iterable[int] = ()) -> None:
        """Restore reservations, without the ids that clusters have taken."""
        without = set(taken)
        for one in given:
            for number in range(one.first, one.first + one.count):
                if number not in without:
                    self._ids[number] = (one.owner, one.at)
                    self._waiting[one.owner] = self._waiting.get(one.owner, 0) + 1

    def check(self, owner: str, count: int, first: int, now: int) -> None:
        """Check that ``owner`` may reserve ``count`` more ids, from ``first`` on.

        :raises UsageError: for a number that is never allowed, DeniedError when too many are unused.
        """
        if not 1 <= count <= RESERVED_MOST:
            raise UsageError(f"cannot reserve {count} cluster ids", hint=f"ask for 1 to {RESERVED_MOST}")
        check_number(first + count - 1)
        self._end(now)
        if (waiting := self._waiting.get(owner, 0)) + count > RESERVED_MOST:
            raise DeniedError(
                f"{waiting} cluster ids reserved for {owner} are unused; {count} more would exceed {RESERVED_MOST}",
                hint=f"unused ids expire after {RESERVED_S // 60} minutes",
            )

    def take(self, owner: str, number: int, now: int) -> None:
        """Use a reserved id for a cluster.

        :raises UsageError: when it was not reserved, for ``owner``, or has expired.
        """
        self._end(now)
        if self._ids.get(number, ("", 0))[0] != owner:
            hint = f"leave it out; ids expire after {RESERVED_S // 60} minutes"
            raise UsageError(f"cluster id {number} is not reserved for {owner}", hint=hint)
        self._forget(number)

    def _end(self, now: int) -> None:
        while self._ids:
            number, (_, at) = next(iter(self._ids.items()))
            if now - at < RESERVED_S:
                return
            self._forget(number)

    def _forget(self, number: int) -> None:
        owner, _ = self._ids.pop(number)
        self._waiting[owner] -= 1
        if not self._waiting[owner]:
            del self._waiting[owner]


def check_number(number: int) -> None:
    """Check that a cluster may have this id.

    :raises DeniedError: when ids are used up.
    """
    if number > CLUSTER_MOST:
        raise DeniedError(
            f"cluster ids end at {CLUSTER_MOST}", hint="drain this access point, then start it with an empty spool"
        )
