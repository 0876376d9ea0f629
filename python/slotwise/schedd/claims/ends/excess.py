"""Which claims are given back between jobs because others wait for their slots. Pure.

The negotiator names claims of a submitter that holds more than its share, and how much of them it may keep. Those whose
jobs end first are given back. The notice counts what is kept and not what is given back, so that it can be repeated: a
negotiator that has not seen yet that a claim was given back asks for no more than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

#: Rounding noise of sums of weights.
_NOISE = 1e-6


class Excess(Struct, frozen=True):
    """Claims of one submitter, by slot name with their weights, of which no more than ``keep`` is to be kept."""

    submitter: str
    weights: Mapping[str, float]
    keep: float
    #: Jobs that end by then may still start on them, epoch seconds; 0: none may.
    until: float = 0.0
    #: Why they are given back.
    reason: str = ""


class ExcessBook:
    """The negotiator's last notice."""

    def __init__(self) -> None:
        self._of: dict[str, _Held] = {}
        self._until = 0.0

    def replace(self, excess: Iterable[Excess], held: Iterable[tuple[str, str]], until: float) -> None:
        """Replace the notice by a newer one.

        :param held: slot and submitter of every claim there is.
        :param until: when that is out of date, on the clock of :meth:`why`.
        """
        self._of.clear()
        self._until = until
        named = {(name, one.submitter): one for one in excess for name in one.weights}
        if not named:
            return
        lists: dict[int, _Held] = {}
        for slot, submitter in held:
            one = named.get((slot, submitter))
            if one is not None and slot not in self._of:
                found = lists.setdefault(id(one), _Held(one))
                found.weight += one.weights[slot]
                self._of[slot] = found

    def why(self, slot: str, submitter: str, now: float) -> Excess | None:
        """The notice by which a claim whose job has ended is to be given back; None: it may be kept."""
        found = self._of.get(slot)
        if found is None or found.excess.submitter != submitter or now >= self._until:
            return None
        enough = found.weight - found.excess.weights[slot] >= found.excess.keep - _NOISE
        return found.excess if enough else None

    def gone(self, slot: str, submitter: str) -> None:
        """A claim has ended, for whatever reason."""
        found = self._of.get(slot)
        if found is not None and found.excess.submitter == submitter:
            del self._of[slot]
            found.weight -= found.excess.weights[slot]


class _Held:
    """What is left of the claims of one list."""

    def __init__(self, excess: Excess) -> None:
        self.excess = excess
        self.weight = 0.0
