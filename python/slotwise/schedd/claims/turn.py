"""What is decided about claims, runs and jobs together."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from slotwise.clock import Clock
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.starts.reserved_jobs import ReservedJobs
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.storage.committer import Committer, Deciding
from slotwise.schedd.storage.store import Batch


class Turn(Struct):
    """What is decided about claims and runs together, and made durable in one transaction."""

    decision: Decision
    batch: Batch = field(default_factory=Batch)
    #: Runs whose claims are activated once that is durable.
    started: list[Run] = field(default_factory=list)
    #: Jobs that waited for a slot and may not start on it; runnable again when all slots have been considered.
    refused: list[Job] = field(default_factory=list)


class Turns:
    """Begins turns, and makes them durable."""

    def __init__(
        self,
        committer: Committer,
        clock: Clock,
        reserved: ReservedJobs,
        activate: Callable[[list[Run]], None],
    ) -> None:
        """
        :param activate: activates the claims of runs that are durable.
        """
        self._committer = committer
        self._clock = clock
        self._reserved = reserved
        self._activate = activate

    def begin(self) -> Turn:
        """A turn that begins now."""
        return Turn(Decision(self._clock.now()))

    def deciding(self, turn: Turn) -> Deciding:
        """A context that commits the turn even when its block raises, as :meth:`Committer.deciding` does."""
        return self._committer.deciding(turn.decision, turn.batch)

    def commit(self, turn: Turn) -> None:
        """Make a turn durable, then activate the claims of the runs that it started."""
        if turn.refused:
            self._reserved.give_back(turn.refused)
        self._committer.commit(turn.decision, turn.batch, on_committed=lambda _: self._activate(turn.started))
