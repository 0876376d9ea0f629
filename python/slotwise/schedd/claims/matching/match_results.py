"""What became of matches, for the negotiator that made them: it hides a matched slot until it has been told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

#: Outcomes kept for a negotiator that does not ask; it gives up matches that it hears nothing of by itself.
_MOST = 10_000


class MatchOutcome(Struct, frozen=True):
    """What became of a match: which slots were claimed through it, or how many like matches hold nothing."""

    match_id: int
    claimed: tuple[str, ...] = ()
    over: int = 0


class MatchOutcomes:
    """Outcomes that have not been reported to a negotiator."""

    def __init__(self) -> None:
        self._unreported: deque[MatchOutcome] = deque(maxlen=_MOST)

    def claimed(self, match_id: int, slot_names: Iterable[str]) -> None:
        """Slots were claimed through a match."""
        if match_id:
            self._unreported.append(MatchOutcome(match_id, claimed=tuple(slot_names)))

    def over(self, match_id: int, count: int = 1) -> None:
        """So many like matches hold nothing: refused, not needed, or claimed and given back."""
        if match_id and count > 0:
            self._unreported.append(MatchOutcome(match_id, over=count))

    def tell(self) -> list[MatchOutcome]:
        """All outcomes that have not been reported, in order; they count as reported."""
        reported = list(self._unreported)
        self._unreported.clear()
        return reported
