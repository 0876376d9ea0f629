"""Keeps the input of the last live cycle, so that it can be saved and replayed.

The slot table is a copy that is updated by the cells that changed since the cycle before, which costs little when
little changes; everything else in the input is values that nobody changes afterwards. So one input is held, however
long the daemon runs: a second table of slots, the requests of one cycle and one outcome.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from slotwise.matchmaking.engine import Accounting, CycleOutcome, Knobs
from slotwise.matchmaking.snapshot import CycleInput
from slotwise.negotiator.gather import Demand
from slotwise.table import AdTable


class Kept(Struct, frozen=True):
    """The input and the outcome of one cycle; ``outcome`` is None until the cycle has decided."""

    number: int
    given: CycleInput
    outcome: CycleOutcome | None = None


class LastInput:
    """The input of the last cycle that had requests."""

    def __init__(self) -> None:
        self._slots = AdTable()
        self._source: AdTable | None = None
        self._version = 0
        #: The input and outcome; None before the first cycle with requests.
        self.kept: Kept | None = None

    def note(
        self, number: int, slots: AdTable, demand: Demand, knobs: Knobs, accounting: Accounting, now: int
    ) -> CycleInput:
        """Keep the input of a cycle that is about to run; ``slots`` as the cycle sees them. Returns what is kept, which
        stays as it is until the next call."""
        self.kept = None
        if self._source is not slots:
            self._slots, self._source, self._version = AdTable(), slots, 0
        self._slots.apply(slots.changes_since(self._version))
        self._version = slots.version
        given = CycleInput(self._slots, demand.requests, demand.submitters, knobs, accounting, now)
        self.kept = Kept(number, given)
        return given

    def decided(self, outcome: CycleOutcome) -> None:
        """Keep what the cycle decided, too."""
        if self.kept is not None and self.kept.outcome is None:
            self.kept = replace(self.kept, outcome=outcome)
