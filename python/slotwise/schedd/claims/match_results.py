"""What became of matches, for the negotiator that made them: it hides a matched slot until it knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from slotwise.wire.gen import schedd_pb2

#: Fates kept for a negotiator that does not ask; it gives unknown matches up by itself.
_MOST = 10_000


class MatchFates:
    """Fates that no negotiator has been told yet."""

    def __init__(self) -> None:
        self._untold: deque[schedd_pb2.MatchFate] = deque(maxlen=_MOST)

    def claimed(self, match_id: int, slot_names: Iterable[str]) -> None:
        """Slots were claimed through a match."""
        if match_id:
            fate = schedd_pb2.MatchFate(match_id=match_id, what=schedd_pb2.MatchFate.CLAIMED, slot_names=slot_names)
            self._untold.append(fate)

    def over(self, match_id: int, count: int = 1) -> None:
        """So many like matches hold nothing: refused, not needed, or claimed and given back."""
        if match_id and count > 0:
            fate = schedd_pb2.MatchFate(match_id=match_id, what=schedd_pb2.MatchFate.OVER, count=count)
            self._untold.append(fate)

    def tell(self) -> list[schedd_pb2.MatchFate]:
        """All untold fates, in order; they count as told."""
        told = list(self._untold)
        self._untold.clear()
        return told
