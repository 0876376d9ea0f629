"""What is known of starters: which one serves which startd, and which runs each has listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotwise.clock import Clock
from slotwise.schedd.claims.records import Run
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.lifecycle.run_states import AtStarter
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch


class StarterLists:
    """The starters of startds, durably, and the runs of those that have a stream to this schedd."""

    def __init__(self, committer: Committer, clock: Clock) -> None:
        self._committer = committer
        self._clock = clock
        #: Starter address by startd address, as far as learned.
        self._starters: dict[str, str] = {}
        #: Starter -> ids of the runs that it listed last, on a stream that is open.
        self._listed: dict[str, set[str]] = {}

    def restore(self, starters: Mapping[str, str]) -> None:
        """Take over what a former process had learned, starters by startd."""
        self._starters.update(starters)

    def starter_at(self, startd: str, starter: str) -> None:
        """The startd's runs go to this starter."""
        if startd and starter and self._starters.get(startd) != starter:
            self._starters[startd] = starter
            batch = Batch()
            batch.put_starter(startd, starter)
            self._committer.commit(Decision(self._clock.now()), batch)

    def moved(self, former: str, startd: str) -> None:
        """The startd at ``former`` answers elsewhere now."""
        self.starter_at(startd, self._starters.pop(former, ""))

    def lists(self, starter: str, run_ids: Iterable[str]) -> set[str]:
        """A starter lists its runs; returns the startds that it serves."""
        self._listed[starter] = set(run_ids)
        return {startd for startd, known in self._starters.items() if known == starter and startd}

    def has_run(self, run: Run) -> None:
        """The run's starter speaks for it."""
        self.starter_at(run.claim.startd, run.starter)
        if run.starter in self._listed:
            self._listed[run.starter].add(run.id)

    def run_over(self, run: Run) -> None:
        """The run's end is durable: whether its starter still has it does not matter any more."""
        if (listed := self._listed.get(run.starter)) is not None:
            listed.discard(run.id)

    def discard(self, starter: str) -> None:
        """The stream of the starter broke: which runs it has is not known any more."""
        self._listed.pop(starter, None)

    def finds(self, run: Run) -> AtStarter:
        """What the list of the run's starter says of it; of a run without one, the list of its startd's."""
        return self._of(run, run.starter or self._starters.get(run.claim.startd, ""))

    def finds_at_startd(self, run: Run) -> AtStarter:
        """What the list of its startd's starter says of the run."""
        return self._of(run, self._starters.get(run.claim.startd, ""))

    def _of(self, run: Run, starter: str) -> AtStarter:
        listed = self._listed.get(starter)
        if listed is None:
            return AtStarter.UNKNOWN
        return AtStarter.LISTED if run.id in listed else AtStarter.MISSING
