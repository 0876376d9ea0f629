"""Claims that submitters hold beyond their shares: what access points are told, and which slots have been returned.

A claim serves one job after the other without the negotiator. When a cycle finds that a submitter holds more than its
share while others wait, its access point is told to return claims as their jobs end (``ExcessClaims``). The message
holds until the next one; an access point that was told to return claims is also told when it need not any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from slotwise.matchmaking.rows import ClaimsToReturn
from slotwise.table import AdTable
from slotwise.wire.gen import schedd_pb2

_log = logging.getLogger(__name__)
#: Negotiator intervals for which a message holds: the next cycle repeats it.
_LASTS_INTERVALS = 3


class ExcessNotices:
    """What access points were told last."""

    def __init__(self) -> None:
        #: Weight to be given back, by submitter and access point.
        self._told: dict[tuple[str, str], float] = {}
        self._awaited: set[str] = set()

    def __len__(self) -> int:
        """The slots of which some are to be returned."""
        return len(self._awaited)

    def add_to(
        self,
        batches: dict[str, schedd_pb2.MatchBatch],
        excess: Iterable[ClaimsToReturn],
        interval_s: float,
        blank: schedd_pb2.MatchBatch,
    ) -> None:
        """Add the claims to be returned to the messages of a cycle, by access point.

        :param blank: a message of this cycle that says nothing.
        """
        told: dict[tuple[str, str], float] = {}
        self._awaited = set()
        for row in excess:
            batch = _batch(batches, row.schedd, blank)
            batch.excess.add(
                submitter=row.submitter,
                slot_names=row.slots,
                weights=row.weights,
                keep=sum(row.weights) - row.weight,
                until=row.until,
                reason=row.reason,
            )
            batch.excess_lasts_s = max(1, int(_LASTS_INTERVALS * interval_s))
            told[row.submitter, row.schedd] = row.weight
            self._awaited.update(row.slots)
        for submitter, schedd in told.keys() - self._told.keys():
            text = "Others wait for claims of %s: %s is to give back %g as jobs end"
            _log.info(text, submitter, schedd, told[submitter, schedd])
        for schedd in {schedd for _, schedd in self._told} - {schedd for _, schedd in told}:
            _batch(batches, schedd, blank)
        self._told = told

    def came_back(self, slots: AdTable) -> bool:
        """Whether one of the slots has been returned since the last call."""
        back = {name for name in self._awaited if name not in slots or slots.value(name, "State") not in _HELD}
        self._awaited -= back
        return bool(back)


_HELD = ("Claimed", "Preempting")


def _batch(
    batches: dict[str, schedd_pb2.MatchBatch], schedd: str, blank: schedd_pb2.MatchBatch
) -> schedd_pb2.MatchBatch:
    found = batches.get(schedd)
    if found is None:
        found = batches[schedd] = schedd_pb2.MatchBatch()
        found.CopyFrom(blank)
    return found
