"""Which job a claim serves next.

The job that a slot was claimed for starts on it, whatever it would say of the slot now; each job that follows has to
match the slot as it was claimed, both ways, and the machine has to rank it no lower. Source: FindRunnableJob of
HTCondor's schedd.
"""

from __future__ import annotations

from collections.abc import Callable

from slotwise.clock import Clock
from slotwise.schedd.claims.records import Claim, ClaimTable
from slotwise.schedd.claims.starts.slot_equivalence import Alike, SlotEquivalence
from slotwise.schedd.claims.starts.start_limits import StartLimits
from slotwise.schedd.jobs.ads import JobAds, ranks_jobs
from slotwise.schedd.jobs.durations import Durations
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.claim_states import Idle

#: Kinds of waiting jobs from which on it pays to find out which slots are alike to them.
_KINDS_TO_SHARE = 8
#: In which a job says how long it runs, seconds.
_DURATIONS = ("AllowedJobDuration", "AllowedExecuteDuration", "ExpectedRuntime")


class NextJob:
    """Chooses the next job of a claim."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        clock: Clock,
        limits: StartLimits,
        durations: Durations,
        assign_autoclusters: Callable[[], None],
    ) -> None:
        """
        :param assign_autoclusters: makes sure that every runnable job has its autocluster.
        """
        self._queue = queue
        self._ads = ads
        self._clock = clock
        self._limits = limits
        self._durations = durations
        self._assign_autoclusters = assign_autoclusters
        self._likeness = SlotEquivalence()

    def of(self, claim: Claim, *, ends_by: float = 0.0) -> Job | None:
        """The best runnable job of the claim's submitter that fits its slot, reserved; None if there is none.

        :param ends_by: only one that is expected to have ended by then, epoch seconds; 0: any.
        """
        if not isinstance(claim.state, Idle):
            return None
        self._assign_autoclusters()
        runnable = self._queue.runnable
        shares = runnable.kinds(claim.submitter) >= _KINDS_TO_SHARE and not ranks_jobs(claim.slot)
        alike = self._alike(claim) if shares else None
        added = runnable.added.get(claim.submitter, 0)
        if alike is not None and alike.tried.get(claim.submitter) == added:
            return None  # none fitted a slot like this one, and none has come since
        tried_all = True
        for bucket, first in runnable.ordered(claim.submitter):
            has_room = self._limits.room_of(first.cluster) != 0
            may_start = has_room and self._limits.may_start(first, lambda: claim.slot)
            if not may_start or (ends_by and not self._ends_by(first, ends_by)):
                tried_all = False
                continue
            if self._fits(first, bucket.autocluster, claim, alike):
                bucket.discard(first)
                return first
            tried_all = tried_all and bucket.autocluster not in claim.fits
        if tried_all and alike is not None and alike.generation == self._likeness.generation:
            alike.tried[claim.submitter] = added
        return None

    def forget_fits(self, claim_table: ClaimTable) -> None:
        """Forget which autoclusters fit which slots: their numbers mean other jobs now."""
        for claim in claim_table.claims.values():
            claim.fits.clear()
        self._likeness.forget()

    def _alike(self, claim: Claim) -> Alike:
        """The slots that are like the claim's."""
        if claim.alike is None or claim.alike.generation != self._likeness.generation:
            claim.alike = self._likeness.of(claim.slot, claim.limits)
        return claim.alike

    def _ends_by(self, job: Job, moment: float) -> bool:
        """Whether a job that starts now ends by ``moment``: as it says itself, else as jobs like it did."""
        stated = next((s for s in (self._ads.number(job, name, 0) for name in _DURATIONS) if s > 0), None)
        seconds = stated or self._durations.expected(job.cluster.number, job.submitter)
        return seconds is not None and self._clock.now() + seconds <= moment

    def _fits(self, job: Job, autocluster: int, claim: Claim, alike: Alike | None) -> bool:
        """Whether the jobs of an autocluster fit, tried with ``job`` unless it is known of this slot or one like it."""
        known = claim.fits.get(autocluster)
        if known is None and alike is not None:
            known = alike.fits.get(autocluster)
        if known is not None:
            return known
        fits = self._ads.text(job, "ConcurrencyLimits") == claim.limits and self._ads.matches(job, claim.slot)
        fits = fits and self._ads.ranked_no_lower(job, claim.slot)
        learned = alike is not None and self._likeness.learn(self._ads.ad(job))
        if alike is not None and learned and alike.generation == self._likeness.generation:
            alike.fits[autocluster] = fits
        else:
            claim.fits[autocluster] = fits
        return fits
