"""Requests claims from startds: from a match to the claims that come of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import UsageError
from slotwise.ids import job_of_run
from slotwise.model.reason_codes import Hold
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.matching.matches import Match
from slotwise.schedd.claims.matching.refusals import Refusals
from slotwise.schedd.claims.records import Claim, ClaimRequestPending, ClaimTable, with_added
from slotwise.schedd.claims.startds.startd_link import ClaimAsk
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.startds.startd_messages import ClaimRefused, ClaimsGranted, GrantedSlot
from slotwise.schedd.claims.starts.reserved_jobs import ReservedJobs
from slotwise.schedd.claims.starts.start_limits import StartLimits
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turn, Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.failed_starts import failed_start
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.match_substitution import MATCH_EXPR
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle.claim import NO_JOB_LEFT
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import StoredClaim

_log = logging.getLogger(__name__)


class UsesMatches(Protocol):
    """The dedicated scheduler, as its matches see it."""

    #: The submitter that it negotiates as.
    name: str

    def taken(self, match: Match) -> tuple[Job, tuple[int, int], int] | None:
        """The job for which a match is used, the part of it, and for how many nodes; None when it is not needed."""
        ...


class ClaimRequests:
    """Uses matches: requests their slots, and takes the answers."""

    #: ALIVE_INTERVAL, and the lease of jobs that ask for none, seconds.
    alive_interval_s = 300
    lease_s = 2400
    #: Whether what is left of a partitionable slot is claimed for the next job, too.
    want_leftovers = False
    #: Those of its matches go to parallel jobs.
    dedicated: UsesMatches | None = None

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        *,
        claim_table: ClaimTable,
        claims: ClaimTransitions,
        turns: Turns,
        links: StartdLinks,
        limits: StartLimits,
        reserved: ReservedJobs,
        failures: Failures,
        refusals: Refusals,
        assign_autoclusters: Callable[[], None],
    ) -> None:
        """
        :param assign_autoclusters: makes sure that every runnable job has its autocluster.
        """
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._claim_table = claim_table
        self._claims = claims
        self._turns = turns
        self._links = links
        self._limits = limits
        self._reserved = reserved
        self._failures = failures
        self._refusals = refusals
        self._assign_autoclusters = assign_autoclusters

    # ---- matches

    def offer(self, matches: Iterable[Match]) -> int:
        """Use the matches of a cycle; returns for how many jobs claims are requested."""
        self._assign_autoclusters()
        used = 0
        for match in matches:
            with contained(_log, f"the match with {match.slot_name}", partial(self._match_failed, match)):
                used += self._use(match)
        return used

    def _use(self, match: Match) -> int:
        """Request the matched slot; returns for how many jobs."""
        if self.dedicated is not None and match.submitter == self.dedicated.name:
            return self._use_dedicated(self.dedicated, match)
        count = min(max(1, match.count), self._limits.room())
        jobs = self._queue.runnable.take(match.submitter, match.autocluster, count)
        jobs = self._keep(jobs, self._limits.allowed_on(jobs, match.slot_ad))
        jobs = self._keep(jobs, self._limits.within_rooms(jobs))
        self._claim_table.outcomes.over(match.id, max(1, match.count) - len(jobs))
        if jobs and not self._request(match, jobs[0], jobs):
            self._claim_table.outcomes.over(match.id, len(jobs))
            return 0
        return len(jobs)

    def _use_dedicated(self, dedicated: UsesMatches, match: Match) -> int:
        taken = dedicated.taken(match)
        if taken is None:
            self._claim_table.outcomes.over(match.id, max(1, match.count))
            return 0
        job, part, nodes = taken
        self._claim_table.outcomes.over(match.id, max(1, match.count) - nodes)
        if not self._request(match, job, [], part=part, nodes=nodes):
            self._claim_table.outcomes.over(match.id, nodes)
            return 0
        return nodes

    def _keep(self, jobs: list[Job], kept: list[Job]) -> list[Job]:
        """Those that are kept of reserved jobs; the others are runnable again."""
        if len(kept) < len(jobs):
            self._reserved.give_back([job for job in jobs if job not in kept])
        return kept

    def _match_failed(self, match: Match, error: Exception) -> None:
        self._failures.sweep_soon()  # finds the jobs that were reserved for it
        self._claim_table.outcomes.over(match.id, max(1, match.count))
        for pending in list(self._claim_table.pending.values()):
            if (pending.match_id, pending.claim_id) == (match.id, match.claim_id):
                self._failures.request(pending, None, error)

    def coalesce(self, job: Job, claims: Sequence[Claim]) -> None:
        """Request one slot for the job of what the claims at one startd hold, none of which has a run."""
        first = claims[0]
        if self._reserved.still_idle([job]) is None:
            _log.info("%s: not started on %s: it is not idle any more", job.key, first.slot_name)
            self._release_all(claims, NO_JOB_LEFT)
            return
        self._assign_autoclusters()
        self._queue.runnable.discard(job)
        match = Match(job.submitter, job.autocluster or 0, first.slot_name, first.startd, first.id)
        if not self._request(match, job, [job], coalesced=tuple(claims)):
            self._release_all(claims, NO_JOB_LEFT)

    def _release_all(self, claims: Sequence[Claim], reason: str) -> None:
        turn = self._turns.begin()
        for claim in claims:
            self._claims.release(claim, turn, reason)
        self._turns.commit(turn)

    def _request(
        self,
        match: Match,
        first: Job,
        jobs: list[Job],
        *,
        part: tuple[int, int] | None = None,
        nodes: int = 0,
        coalesced: tuple[Claim, ...] = (),
    ) -> bool:
        """Request a claim for these jobs, or for ``nodes`` of a parallel one; false when the ad of the first, which
        speaks for all, cannot be sent: that one is held."""
        try:
            job_ad = self._ads.request_pack(first)
        except UsageError as error:
            self._hold_unsendable(first, error.message)
            self._reserved.give_back(jobs[1:])
            return False
        lease = int(self._ads.number(first, "JobLeaseDuration", self.lease_s)) or self.lease_s
        submitter = first.submitter if part is not None else match.submitter
        pending = ClaimRequestPending(
            self._claim_table.serial(),
            match.startd,
            match.claim_id,
            match.slot_name,
            submitter,
            match.autocluster,
            jobs,
            lease,
            limits=self._ads.text(first, "ConcurrencyLimits"),
            at=self._clock.now(),
            match_id=match.id,
            coalesced=coalesced,
            part=part,
            nodes=nodes,
            matched_ad=match.slot_ad if MATCH_EXPR.encode() in match.slot_ad else b"",
        )
        names = " ".join([job.key for job in jobs]) or f"{first.key}: {nodes} of its nodes"
        _log.info("%s: matched with %s at %s, requesting its claim for %s", names, *pending.where, submitter)
        ask = ClaimAsk(
            pending.serial,
            match.claim_id,
            job_ad,
            lease_s=lease,
            alive_interval_s=self.alive_interval_s,
            slots=pending.count,
            want_leftovers=self.want_leftovers and not pending.limits and not coalesced and part is None,
            preempt_claim_ids=match.preempt_claim_ids,
            submitter=submitter,
            user=first.cluster.user,
            coalesce_claim_ids=[claim.id for claim in coalesced],
        )
        self._claim_table.pending[pending.serial] = pending
        self._links.ask(match.startd, ask, match.slot_name)
        return True

    def _hold_unsendable(self, job: Job, reason: str) -> None:
        decision = Decision(self._clock.now())
        if self._queue.hold(job, reason, int(Hold.SYSTEM_POLICY), 0, decision):
            self._committer.commit(decision)

    # ---- answers

    def granted(self, startd: str, granted: ClaimsGranted) -> None:
        """Take the claims that a startd grants."""
        pending = self._claim_table.pending.get(granted.serial)
        if pending is None:
            for slot in granted.slots:  # an answer to a request that was given up
                self._links.release(startd, slot.claim_id)
            return
        turn = self._turns.begin()
        with self._turns.deciding(turn):
            self._take(pending, granted, turn)
        if granted.leftover_claim_id:
            self._use_leftover(pending, granted)
        del self._claim_table.pending[pending.serial]

    def _take(self, pending: ClaimRequestPending, granted: ClaimsGranted, turn: Turn) -> None:
        waiting = list(pending.jobs)
        self._claim_table.outcomes.claimed(pending.match_id, [slot.slot_name for slot in granted.slots])
        self._claim_table.outcomes.over(pending.match_id, pending.count - len(granted.slots))
        for slot in granted.slots:
            claim = _claim_on(slot, pending)
            self._claim_table.add(claim)
            turn.batch.put_claim(_row(claim))
            before_start = len(turn.decision.notes)
            self._claims.apply(claim, claim_events.Granted(self._reserved.still_idle(waiting)), turn)
            claimed = ("%s: claimed %s for %s", _served(claim), claim.slot_name, claim.submitter)
            turn.decision.notes.insert(before_start, claimed)
        self._reserved.give_back(waiting)
        self._turns.commit(turn)

    def _use_leftover(self, pending: ClaimRequestPending, granted: ClaimsGranted) -> None:
        """Request what is left of a partitionable slot, as a fresh match for the submitter's next job."""
        slot = self._ads.parse(granted.leftover_slot_ad)
        for bucket, first in self._queue.runnable.ordered(pending.submitter):
            if self._ads.text(first, "ConcurrencyLimits") or not self._ads.matches(first, slot):
                continue
            if self._limits.room_of(first.cluster) == 0:
                continue
            match = Match(
                pending.submitter,
                bucket.autocluster,
                pending.slot_name,
                pending.startd,
                granted.leftover_claim_id,
                slot_ad=pending.matched_ad,
            )
            jobs = self._queue.runnable.take(pending.submitter, bucket.autocluster, 1)
            if self._request(match, jobs[0], jobs):
                return
            break
        self._links.release(pending.startd, granted.leftover_claim_id)

    def refused(self, refused: ClaimRefused) -> None:
        """Take a startd's refusal."""
        pending = self._claim_table.pending.get(refused.serial)
        if pending is not None:
            names = " ".join([job.key for job in pending.jobs]) or f"{pending.nodes} nodes of a parallel job"
            _log.info("%s: %s at %s refused the claim: %s", names, *pending.where, refused.reason)
            self._failed(pending, refused.reason, refused.code)
            self._claims.withdraw(pending)
            if pending.coalesced:
                self._release_all(pending.coalesced, refused.reason)

    def unanswered(self, pending: ClaimRequestPending, reason: str) -> None:
        """Withdraw a request whose answer is lost, or whose startd cannot be asked."""
        names = " ".join([job.key for job in pending.jobs]) or f"{pending.nodes} nodes of a parallel job"
        _log.info("%s: %s at %s could not be claimed: %s", names, *pending.where, reason)
        self._failed(pending, reason, 0)
        self._claims.withdraw(pending)

    def _failed(self, pending: ClaimRequestPending, reason: str, code: int) -> None:
        """Have the ads of the jobs tell why they do not start; a slot that refuses again and again is left out."""
        jobs = [job for job in pending.jobs if self._queue.has(job)]
        decision = Decision(self._clock.now())
        with self._committer.deciding(decision):
            for job in jobs:
                decision.set(job, failed_start(job, pending.slot_name, reason, decision.now))
        if decision.changed:
            self._committer.commit(decision)
        if jobs:
            kinds: list[int | str] = [pending.autocluster, *(job.key for job in jobs)]
            self._refusals.note(kinds, pending.slot_name, reason, code, self._clock.monotonic())


def _claim_on(slot: GrantedSlot, pending: ClaimRequestPending) -> Claim:
    return Claim(
        slot.claim_id,
        pending.startd,
        slot.slot_name,
        pending.submitter,
        pending.lease_s,
        with_added(slot.slot_ad, pending.matched_ad),
        limits=pending.limits,
        dedicated=pending.part is not None,
        match_id=pending.match_id,
    )


def _row(claim: Claim) -> StoredClaim:
    return StoredClaim(
        claim.id,
        claim.startd,
        claim.slot_name,
        claim.submitter,
        claim.lease_s,
        claim.slot_ad,
        claim.limits,
        claim.dedicated,
    )


def _served(claim: Claim) -> str:
    """The job that a claim serves, as the log names it."""
    if claim.reserved is not None:
        return claim.reserved.key
    if claim.dedicated:
        return "a parallel job"
    return job_of_run(claim.run) if claim.run else "no job left"
