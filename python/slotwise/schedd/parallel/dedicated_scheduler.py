"""The dedicated scheduler: gathers claims for parallel jobs, and starts each once it has all of them.

It asks the negotiator as a submitter of its own, ``DedicatedScheduler@SCHEDD``, for slots whose DedicatedScheduler
names it, as in HTCondor. A claim is charged to the user for whose job it was asked, and serves parallel jobs of that
user alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import SlotwiseError
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.matching.matches import Match
from slotwise.schedd.claims.records import Claim, ClaimTable
from slotwise.schedd.claims.starts.start_limits import StartLimits
from slotwise.schedd.claims.transitions import ClaimTransitions
from slotwise.schedd.claims.turn import Turns
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Cluster, Job, finite
from slotwise.schedd.jobs.node_ads import scheduler_name
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.lifecycle.claim_states import Idle
from slotwise.schedd.parallel.capacity import GROUP
from slotwise.schedd.parallel.gang_starts import GangStarts
from slotwise.schedd.parallel.gathering import IdleClaim, Part, Plan, Start, WaitingJob, plan
from slotwise.schedd.parallel.places import Places
from slotwise.schedd.storage.committer import Committer
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
#: Why a claim is given back that the job that gathers cannot use.
_IN_THE_WAY = "the parallel job that is next cannot use the slot"
#: How long claims are kept at most, for UNUSED_CLAIM_TIMEOUT = 0: without a bound.
_FOR_EVER_S = 10 * 365 * 86400
#: Steps that an attribute of a job may take, and a job with one claim.
_ATTRIBUTE_STEPS, _FIT_STEPS = 1_000, 20_000
#: How long others have their turn while there are more slots to look at, seconds.
_PAUSE_S = 0.25
#: A look that takes longer than this (seconds), as with thousands of jobs that wait, is followed by a rest of so many
#: times its length.
_SHORT_S, _REST = 0.02, 9.0


class DedicatedScheduler:
    """Sees to the parallel jobs of one schedd."""

    #: DEDICATED_SCHEDULER_USE_FIFO.
    fifo = True
    #: UNUSED_CLAIM_TIMEOUT, seconds; 0: for as long as may be.
    unused_s = 600

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        turns: Turns,
        claim_table: ClaimTable,
        *,
        schedd_name: str,
        claims: ClaimTransitions,
        starts: GangStarts,
        take_turn: Callable[[Job], float],
        limits: StartLimits,
        failures: Failures,
        ask: Callable[[], None],
    ) -> None:
        """
        :param take_turn: for how long a job's start has to wait for JOB_START_DELAY, in seconds; called once for each.
        :param ask: asks the negotiator for a cycle.
        """
        self.name = scheduler_name(schedd_name)
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._turns = turns
        self._claim_table = claim_table
        self._claims = claims
        self._starts = starts
        self._take_turn = take_turn
        #: When the clusters start that have all of their claims and wait for JOB_START_DELAY, on the clock.
        self._due: dict[int, float] = {}
        self._due_look: asyncio.Handle | None = None
        self._limits = limits
        self._failures = failures
        self._ask = ask
        self._plan = Plan()
        #: Some job that waits is passed over.
        self.passes_over = False
        #: Numbers by which the negotiator tells requests for different parts of jobs apart.
        self._numbers: dict[Part, int] = {}
        self._next = 1
        self._looks: asyncio.Handle | None = None
        #: Not before then, on the loop's clock, is the next look.
        self._rested_at = 0.0
        #: Where each cluster is to gather.
        self.places = Places(ads, self.name)

    # ---- jobs

    def waiting(self) -> list[Cluster]:
        """Clusters whose jobs all wait, in the order in which they are served."""
        clusters = dict.fromkeys(job.cluster for job in self._queue.runnable.parallel)
        ready = [cluster for cluster in clusters if self._is_ready(cluster)]
        return sorted(ready, key=lambda cluster: (min(job.priority for job in cluster.jobs.values()), cluster.number))

    def _is_ready(self, cluster: Cluster) -> bool:
        runnable = self._queue.runnable.parallel
        return bool(cluster.jobs) and all(
            job in runnable and job.status == Status.IDLE and not job.run for job in cluster.jobs.values()
        )

    def _nodes(self, job: Job) -> int:
        with suppress(ValueError), Allowance(_ATTRIBUTE_STEPS):
            return max(1, int(self._ads.number(job, "MaxHosts", 1)))
        return 1

    def _in_one_group(self, job: Job) -> bool:
        with suppress(ValueError), Allowance(_ATTRIBUTE_STEPS):
            return self._ads.truth(job, "WantParallelSchedulingGroups")
        return False

    def _job(self, part: Part) -> Job | None:
        return self._queue.job(*part)

    def _waiting_jobs(self, waiting: Iterable[Cluster]) -> Iterator[WaitingJob]:
        for cluster in waiting:
            found = None
            with contained(_log, f"{cluster.number}.0: looking for slots for its nodes"):
                found = self._waiting_job(cluster)
            if found is not None:
                yield found

    def _waiting_job(self, cluster: Cluster) -> WaitingJob:
        jobs = [cluster.jobs[proc] for proc in sorted(cluster.jobs)]
        parts = {(cluster.number, job.proc): self._nodes(job) for job in jobs}
        in_one_group = self._in_one_group(jobs[0])
        place = self.places.of(jobs, parts, in_one_group=in_one_group)
        if place is None:
            return WaitingJob(cluster.number, jobs[0].submitter, parts, in_one_group, passed_over=True)
        why = place.why
        if not why and (self._limits.room() == 0 or self._limits.room_of(cluster) == 0):
            why = "as many jobs run as may at a time"
        self.passes_over = self.passes_over or bool(why)
        self._note(jobs[0], why)
        return WaitingJob(cluster.number, jobs[0].submitter, parts, in_one_group, place.group, passed_over=bool(why))

    def _note(self, job: Job, why: str) -> None:
        """Let the job's user see why it is passed over."""
        known = (job.changes or {}).get("LastRejMatchReason")
        if why and known != why:
            decision = Decision(self._clock.now())
            rejected: Changes = {
                "LastRejMatchTime": int(decision.now),
                "LastRejMatchReason": why,
                "LastRejMatchNegotiator": self.name,
            }
            decision.set(job, rejected)
            decision.note("%s: passed over by the dedicated scheduler: %s", job.key, why)
            self._committer.commit(decision)

    # ---- the plan

    def soon(self) -> None:
        """Something has changed: look as soon as what is being decided now is decided, and others had their turn."""
        if self._looks is None:
            loop = asyncio.get_running_loop()
            self._looks = loop.call_later(max(0.0, self._rested_at - loop.time()), self._look_now)

    def _look_now(self) -> None:
        self._looks = None
        loop = asyncio.get_running_loop()
        began = loop.time()
        with contained(_log, "gathering slots for parallel jobs", self._start_failed):
            self.look()
        took = loop.time() - began
        self._rested_at = loop.time() + _REST * took if took > _SHORT_S else 0.0

    def keep(self) -> int:
        """A claim of it has no run: how long it is kept, seconds. It may be what a job waits for."""
        self.soon()
        return self.unused_s or _FOR_EVER_S

    def look(self) -> None:
        """Start what can start, give back what is in the way, and ask for what is missing."""
        waiting = self.waiting()
        if not waiting and not self._plan.wanted:
            return
        held = {claim.id: claim for claim in self._idle()}
        claims = [IdleClaim(claim.id, claim.submitter, self._group(claim)) for claim in held.values()]
        self.passes_over = False
        self.places.begin()
        jobs = self._waiting_jobs(waiting)  # those behind the one that gathers are not looked at
        former, self._plan = self._plan, plan(jobs, claims, partial(self._fit, held), fifo=self.fifo)
        turn = self._turns.begin()
        for start in self._due_now(self._plan.starts):
            cluster = self._queue.clusters[start.cluster]
            nodes = [(cluster.jobs[proc], held[claim]) for (_, proc), claim in start.nodes]
            with contained(_log, f"{start.cluster}.0: starting its {len(nodes)} nodes", self._start_failed):
                self._starts.begin(nodes, turn)
        for claim_id in self._plan.useless:
            claim = held[claim_id]
            with contained(_log, f"releasing the claim on {claim.slot_name}", self._failures.of_claim(claim)):
                self._claims.release(claim, turn, _IN_THE_WAY)
        if turn.started or turn.batch:
            self._turns.commit(turn)
        if self._plan.wanted and self._plan.wanted != former.wanted:
            self._ask()
        if self.places.behind and self._looks is None:
            self._looks = asyncio.get_running_loop().call_later(_PAUSE_S, self._look_now)

    def _due_now(self, starts: Iterable[Start]) -> list[Start]:
        """Those that JOB_START_DELAY allows now; there is another look when the next of the others is due.

        A job that waits so stays idle in the queue, and its claims are kept for it by the plan of each look.
        """
        now, due = self._clock.monotonic(), {}
        allowed = []
        for start in starts:
            at = self._due.get(start.cluster)
            if at is None:
                at = now + self._take_turn(self._queue.clusters[start.cluster].jobs[start.nodes[0][0][1]])
            if at <= now:
                allowed.append(start)
            else:
                due[start.cluster] = at
        self._due = due
        if self._due_look is not None:
            self._due_look.cancel()
        self._due_look = asyncio.get_running_loop().call_later(min(due.values()) - now, self.soon) if due else None
        return allowed

    def _start_failed(self, error: Exception) -> None:
        self._failures.sweep_soon()

    def _idle(self) -> Iterator[Claim]:
        return (claim for claim in self._claim_table.idle() if claim.dedicated and isinstance(claim.state, Idle))

    def _group(self, claim: Claim) -> str:
        with suppress(ValueError), Allowance(_ATTRIBUTE_STEPS):
            group = self._ads.value_of(claim.slot, GROUP)
            return group if isinstance(group, str) else ""
        return ""

    def _fit(self, held: Mapping[str, Claim], part: Part, claim_id: str) -> float | None:
        job, claim = self._job(part), held[claim_id]
        if job is None:
            return None
        with suppress(ValueError), Allowance(_FIT_STEPS):
            if self._ads.text(job, "ConcurrencyLimits") != claim.limits or not self._ads.matches(job, claim.slot):
                return None
            ad = self._ads.ad(job)
            return finite(ad.lookup("Rank").eval(ad, claim.slot)) if "Rank" in ad else 0.0
        return None

    # ---- negotiation

    def _asked(self) -> Counter[Part]:
        """Slots that startds have been asked for, by part."""
        asked: Counter[Part] = Counter()
        for pending in self._claim_table.pending.values():
            if pending.part is not None:
                asked[pending.part] += pending.nodes
        return asked

    def missing(self) -> dict[Part, int]:
        """How many slots are wanted of the negotiator, by part."""
        asked = self._asked()
        found = {wanted.part: wanted.count - asked[wanted.part] for wanted in self._plan.wanted}
        return {part: count for part, count in found.items() if count > 0 and self._job(part) is not None}

    def idle_count(self) -> int:
        """IdleJobs of the dedicated scheduler as a submitter."""
        return sum(self.missing().values())

    def requests(self) -> list[ClassAd]:
        """The resource requests, as ads."""
        found = []
        missing = self.missing()
        for wanted in self._plan.wanted:
            job = self._job(wanted.part)
            if job is None or wanted.part not in missing:
                continue
            number = self._number(wanted.part)
            ad = self._ads.ad(job)
            try:
                requirements = self.places.requirements(ad, wanted.group, in_one_group=wanted.in_one_group)
            except SlotwiseError as error:  # edited since it was looked at
                _log.warning("%s: no slots are asked for: %s", job.key, error)
                continue
            ad.update(
                {
                    "Requirements": requirements,
                    "ResourceRequestCount": missing[wanted.part],
                    "AutoClusterId": number,
                    "Submitter": self.name,
                    "FirstJobId": job.key,
                    "JobPrio": -job.priority[2],
                }
            )
            found.append(ad)
        return found

    def _number(self, part: Part) -> int:
        """The number of the requests for a part; those of jobs that have left are forgotten."""
        if part not in self._numbers:
            self._numbers = {known: number for known, number in self._numbers.items() if self._job(known) is not None}
            self._numbers[part] = self._next
            self._next += 1
        return self._numbers[part]

    def firsts(self) -> dict[int, Job]:
        """The job behind each number of a request."""
        return {number: job for part, number in self._numbers.items() if (job := self._job(part)) is not None}

    def taken(self, match: Match) -> tuple[Job, Part, int] | None:
        """The job for which a match is used, its part, and for how many nodes; None when it is not needed."""
        part = next((part for part, number in self._numbers.items() if number == match.autocluster), None)
        if part is None or (job := self._job(part)) is None:
            return None
        count = min(max(1, match.count), self.missing().get(part, 0))
        return (job, part, count) if count > 0 else None
