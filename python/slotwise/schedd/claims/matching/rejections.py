"""What the negotiator says of requests for which it found nothing, kept with the job that stood for them.

Only the first runnable job of an autocluster is told, as in HTCondor: the jobs behind it would say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter

from slotwise.clock import Clock
from slotwise.schedd.claims.matching.matches import Rejection
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.runnable import Runnable
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.storage.committer import Committer

#: A rejection for the same reason is written down again after this long, seconds: cycles may follow each other closely.
_AGAIN_S = 20.0


class Rejections:
    """Writes LastRejMatchTime, LastRejMatchReason and LastRejMatchNegotiator."""

    def __init__(
        self,
        runnable: Runnable,
        committer: Committer,
        clock: Clock,
        parallel: Callable[[str], Mapping[int, Job] | None] = lambda submitter: None,
    ) -> None:
        """
        :param parallel: the jobs behind the requests of the dedicated scheduler; None for any other submitter.
        """
        self._parallel = parallel
        self._runnable = runnable
        self._committer = committer
        self._clock = clock

    def note(self, rejections: Iterable[Rejection], negotiator: str) -> None:
        """Take over the rejections of one cycle."""
        decision = Decision(self._clock.now())
        with self._committer.deciding(decision):
            self._note(rejections, negotiator, decision)
        if decision.changed:
            self._committer.commit(decision)

    def _note(self, rejections: Iterable[Rejection], negotiator: str, decision: Decision) -> None:
        for submitter, group in groupby(rejections, attrgetter("submitter")):
            firsts = self._parallel(submitter)
            if firsts is None:
                firsts = self._runnable.firsts(submitter)
            for rejection in group:
                job = firsts.get(rejection.autocluster)
                if job is None:
                    continue
                recent = decision.now - job.number("LastRejMatchTime") < _AGAIN_S
                if recent and job.changes and job.changes.get("LastRejMatchReason") == rejection.reason:
                    continue
                told: Changes = {
                    "LastRejMatchTime": int(decision.now),
                    "LastRejMatchReason": rejection.reason,
                    "LastRejMatchNegotiator": negotiator,
                }
                if (job.changes or {}).get("LastRejMatchReason") != rejection.reason:
                    decision.note("%s: rejected by the negotiator %s: %s", job.key, negotiator, rejection.reason)
                decision.set(job, told)
