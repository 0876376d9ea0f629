"""Gives clusters their ids: the next one, or one that was reserved ahead of the submission."""

from __future__ import annotations

from slotwise.clock import Clock
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.storage.batch import Reservation
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.submission.reserved_ids import ReservedClusters, check_number


class ClusterIds:
    """The ids of clusters, each given once."""

    def __init__(self, following: int, reserved: ReservedClusters, committer: Committer, clock: Clock) -> None:
        """
        :param following: the id that is given next.
        """
        self.following = following
        self.reserved = reserved
        self._committer = committer
        self._clock = clock

    def give(self, user: str, wanted: int, now: int) -> int:
        """The id of a new cluster: ``wanted``, which the user has reserved, or 0 for the next one.

        :raises UsageError: when it is not reserved for the user, DeniedError when ids are used up.
        """
        if wanted:
            self.reserved.take(user, wanted, now)
            return wanted
        number = self.following
        check_number(number)
        self.following += 1
        return number

    async def reserve(self, owner: str, count: int) -> int:
        """Reserve ``count`` ids; returns the first.

        :raises UsageError: for a number that is never allowed, DeniedError when ``owner`` has too many unused ones.
        """
        now, first = int(self._clock.now()), self.following
        self.reserved.check(owner, count, first, now)
        self.following += count
        ids = Reservation(first, count, now, owner)
        self.reserved.keep([ids])
        batch = Batch()
        batch.raise_counter(self.following)
        batch.reserve(ids)
        await self._committer.commit(Decision(self._clock.now()), batch, may_fail=True)
        return first
