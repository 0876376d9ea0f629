"""From matches to running jobs: asks startds for claims, activates them, uses them again, and gives them back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slotwise import ids
from slotwise.clock import Clock
from slotwise.schedd.ads import JobAds
from slotwise.schedd.claims import Claim, ClaimBook, ClaimRequestPending, Run
from slotwise.schedd.codes import Status, Vacate
from slotwise.schedd.decision import Decision, Kill, RunEnd
from slotwise.schedd.job import Job
from slotwise.schedd.ledger import Ledger
from slotwise.schedd.matchtime import machine_attributes
from slotwise.schedd.queue import Queue
from slotwise.schedd.startd_link import StartdLink
from slotwise.schedd.store import Batch, StoredClaim
from slotwise.schedd.values import Changes, Value
from slotwise.wire.gen import schedd_pb2, startd_pb2

_log = logging.getLogger(__name__)
#: How long the end of a run may be missing after its claim is gone, before the run is given up.
GRACE_S = 30.0
#: How long an idle claim's starter may take to say that it has the run's end, before the run is asked for again.
ASK_AGAIN_S = 2.0
#: How long a starter may take to say hello before its run is asked for again.
HELLO_S = 60.0
_FAILURES_MOST = 2
#: How soon the negotiator is asked again after matches that came to nothing.
_AGAIN_S = 1.0


@dataclass(frozen=True)
class ClaimSettings:
    """Knobs of claiming."""

    schedd_name: str
    address: str
    lease_s: int = 2400
    alive_interval_s: int = 300
    want_leftovers: bool = False
    machine_attrs: tuple[str, ...] = ("Cpus", "SlotWeight")
    machine_attrs_length: int = 1
    jobs_running_most: int = 10_000


class Claiming:
    """Claims, runs and the links over which they are talked about."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        ledger: Ledger,
        clock: Clock,
        settings: ClaimSettings,
        metadata: Callable[[], Any],
    ) -> None:
        self.queue = queue
        self.ads = ads
        self.ledger = ledger
        self.clock = clock
        self.settings = settings
        self.book = ClaimBook()
        self._metadata = metadata
        self.links: dict[str, StartdLink] = {}
        #: Makes sure that every runnable job has its autocluster.
        self.assign_autoclusters: Callable[[], None] = lambda: None
        #: Tells the shadow that a run is over without its starter's word.
        self.on_run_given_up: Callable[[Run], None] = lambda run: None
        #: Told of every run that is over.
        self.on_run_over: Callable[[Run], None] = lambda run: None
        #: Compares what a startd knows with what we hold.
        self.on_known: Callable[[str, startd_pb2.ClaimsKnown], None] = lambda startd, known: None
        #: Told of the starter that a startd uses.
        self.on_starter: Callable[[str, str], None] = lambda startd, starter: None
        self._unsent: dict[str, list[startd_pb2.ClaimRequest]] = {}
        self._draining = False
        self._again: asyncio.TimerHandle | None = None

    # ---- matches

    def offer(self, matches: Iterable[schedd_pb2.SubmitterMatches]) -> int:
        """Take the matches of a cycle; returns how many could be used."""
        self.assign_autoclusters()
        used = 0
        for group in matches:
            for match in group.matches:
                room = self.settings.jobs_running_most - len(self.book.runs)
                jobs = self.queue.runnable.take(
                    group.submitter, match.autocluster_id, min(max(1, match.count), max(0, room))
                )
                if not jobs or self._draining:
                    self._give_back(jobs)
                    self.book.fates.over(match.match_id, max(1, match.count))
                    continue
                self.book.fates.over(match.match_id, max(1, match.count) - len(jobs))
                used += len(jobs)
                self._ask(group.submitter, match, jobs)
        return used

    def _ask(self, submitter: str, match: schedd_pb2.Match, jobs: list[Job]) -> None:
        lease = int(self.ads.number(jobs[0], "JobLeaseDuration", self.settings.lease_s)) or self.settings.lease_s
        pending = ClaimRequestPending(
            self.book.serial(),
            match.startd_address,
            match.claim_id,
            match.slot_name,
            submitter,
            match.autocluster_id,
            jobs,
            lease,
            limits=self.ads.text(jobs[0], "ConcurrencyLimits"),
            at=self.clock.now(),
            match_id=match.match_id,
        )
        self.book.pending[pending.serial] = pending
        request = startd_pb2.ClaimRequest(
            serial=pending.serial,
            claim_id=match.claim_id,
            request=startd_pb2.RequestClaim(
                job_ad=self.ads.pack(jobs[0]),
                lease_s=lease,
                alive_interval_s=self.settings.alive_interval_s,
                num_dynamic_slots=len(jobs),
                want_leftovers=self.settings.want_leftovers and not pending.limits,
                preempt_claim_ids=match.preempt_claim_ids,
                submitter=submitter,
            ),
        )
        link = self.link(match.startd_address)
        if link.connected:
            link.send(request)
        else:
            self._unsent.setdefault(match.startd_address, []).append(request)

    def _send_waiting(self, startd: str) -> None:
        for request in self._unsent.pop(startd, []):
            if request.serial in self.book.pending:
                self.links[startd].send(request)

    def link(self, startd: str) -> StartdLink:
        """The stream to a startd, opened if need be."""
        found = self.links.get(startd)
        if found is None:
            found = self.links[startd] = StartdLink(startd, self, self._metadata)
            found.start()
        return found

    def _give_back(self, jobs: Iterable[Job]) -> bool:
        """Jobs reserved for a match are runnable again, as far as they still are idle."""
        some = False
        for job in jobs:
            if job.status == Status.IDLE and not job.run and self.queue.job(job.cluster.number, job.proc) is job:
                self.queue.runnable.add(job)
                some = True
        if some and self._again is None:
            # Slots looked better than they were: ask again when the pool has heard how they are.
            self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._ask_again)
        return some

    def _ask_again(self) -> None:
        self._again = None
        if self.ledger.on_new_work:
            self.ledger.on_new_work()

    # ---- what links bring

    def hello(self, startd: str) -> startd_pb2.ScheddHello:
        """Who we are, and what we hold there."""
        return startd_pb2.ScheddHello(
            schedd_name=self.settings.schedd_name,
            schedd_address=self.settings.address,
            claim_ids=[claim.id for claim in self.book.at(startd)],
        )

    def on_break(self, startd: str) -> None:
        """Requests without an answer are lost; claims stay until the startd says otherwise."""
        self._unsent.pop(startd, None)
        for pending in self.book.pending_at(startd):
            del self.book.pending[pending.serial]
            self.book.fates.over(pending.match_id, len(pending.jobs))
            self._give_back(pending.jobs)
        link = self.links.get(startd)
        if link is not None and not self.book.at(startd):
            self.links.pop(startd, None)
            link.stop_soon()

    def on_event(self, startd: str, event: startd_pb2.ClaimEvent) -> None:
        """Take in what a startd said."""
        what = event.WhichOneof("what")
        if what == "granted":
            self._granted(event)
        elif what == "refused":
            self._refused(event)
        elif what == "known":
            self.on_known(startd, event.known)
            self._send_waiting(startd)
        elif what == "alive":
            for claim_id in event.alive.unknown:
                if claim := self.book.claims.get(claim_id):
                    self._claim_gone(claim, "the startd does not know the claim any more")
        elif what == "activation_refused":
            self._activation_refused(event.activation_refused)
        elif claim := self.book.claims.get(event.claim_id):
            if what == "activated":
                self._activated(claim, event.activated)
            elif what == "state":
                self._state(claim, event.state)
            elif what == "ended":
                self._claim_gone(claim, event.ended.reason)

    def _granted(self, event: startd_pb2.ClaimEvent) -> None:
        pending = self.book.pending.pop(event.serial, None)
        if pending is None:
            for slot in event.granted.slots:  # an answer to a request that was given up
                self.links_release(event.claim_id, slot.claim_id)
            return
        decision, batch = Decision(self.clock.now()), Batch()
        started: list[Run] = []
        waiting = list(pending.jobs)
        self.book.fates.claimed(pending.match_id, [slot.slot_name for slot in event.granted.slots])
        self.book.fates.over(pending.match_id, len(waiting) - len(event.granted.slots))
        for slot in event.granted.slots:
            claim = Claim(
                slot.claim_id,
                pending.startd,
                slot.slot_name,
                pending.submitter,
                pending.lease_s,
                slot.slot_ad,
                limits=pending.limits,
                match_id=pending.match_id,
            )
            claim.fits[pending.autocluster] = True
            self.book.add(claim)
            batch.put_claim(
                StoredClaim(claim.id, claim.startd, claim.slot_name, claim.submitter, claim.lease_s, claim.slot_ad)
            )
            job = self._still_idle(waiting) or self.next_job(claim)
            if job is not None:
                started.append(self.begin(job, claim, decision, batch))
            else:
                self.release(claim, batch, "no job is left for the slot")
        self._give_back(waiting)
        self.commit_starts(decision, batch, started)
        if event.granted.leftover_claim_id:
            self._leftovers(pending, event.granted)

    def _still_idle(self, waiting: list[Job]) -> Job | None:
        while waiting:
            job = waiting.pop(0)
            if job.status == Status.IDLE and not job.run and self.queue.job(job.cluster.number, job.proc) is job:
                return job
        return None

    def links_release(self, _asked: str, claim_id: str) -> None:
        """Give back a claim that nobody waits for."""
        for link in self.links.values():
            link.send(startd_pb2.ClaimRequest(claim_id=claim_id, release=startd_pb2.ReleaseClaim()))

    def _leftovers(self, pending: ClaimRequestPending, granted: startd_pb2.ClaimGranted) -> None:
        """What is left of the partitionable slot is a fresh match for the submitter's next job."""
        slot = self.ads.parse(granted.leftover_slot_ad)
        for bucket, first in self.queue.runnable.ordered(pending.submitter):
            if self.ads.text(first, "ConcurrencyLimits") or not self.ads.matches(first, slot):
                continue
            match = schedd_pb2.Match(
                autocluster_id=bucket.autocluster,
                slot_name=pending.slot_name,
                startd_address=pending.startd,
                claim_id=granted.leftover_claim_id,
            )
            self._ask(pending.submitter, match, self.queue.runnable.take(pending.submitter, bucket.autocluster, 1))
            return
        self.link(pending.startd).send(
            startd_pb2.ClaimRequest(claim_id=granted.leftover_claim_id, release=startd_pb2.ReleaseClaim())
        )

    def _refused(self, event: startd_pb2.ClaimEvent) -> None:
        pending = self.book.pending.pop(event.serial, None)
        if pending is not None:
            _log.info("%s refused a claim: %s", pending.slot_name, event.refused.reason)
            self.book.fates.over(pending.match_id, len(pending.jobs))
            self._give_back(pending.jobs)

    # ---- starting

    def next_job(self, claim: Claim) -> Job | None:
        """The best runnable job of the claim's submitter that fits its slot, reserved; None if there is none."""
        if claim.closing or claim.gone or self._draining:
            return None
        self.assign_autoclusters()
        for bucket, first in self.queue.runnable.ordered(claim.submitter):
            fits = claim.fits.get(bucket.autocluster)
            if fits is None:
                fits = claim.fits[bucket.autocluster] = self._fits(first, claim)
            if fits:
                bucket.discard(first)
                return first
        return None

    def _fits(self, job: Job, claim: Claim) -> bool:
        if self.ads.text(job, "ConcurrencyLimits") != claim.limits:
            return False
        return self.ads.matches(job, self.machine(claim))

    def machine(self, claim: Claim) -> Any:
        """The claim's slot ad."""
        if claim.machine is None:
            claim.machine = self.ads.parse(claim.slot_ad)
        return claim.machine

    def begin(self, job: Job, claim: Claim, decision: Decision, batch: Batch) -> Run:
        """Decide that ``job`` starts on ``claim``; :meth:`activate` follows once that is durable."""
        number = int(job.number("NumShadowStarts")) + 1
        run = Run(f"{job.key}#{number}", job, ids.secret(), claim, decision.now, claim.lease_s)
        run.silent_until = decision.now + HELLO_S
        machine = self.machine(claim)
        facts: Changes = {
            "RemoteHost": claim.slot_name,
            "RemoteSlotID": self.ads.value_of(machine, "SlotID"),
            "StartdAddr": claim.startd,
            "PublicClaimId": ids.public_claim_id(claim.id),
            "JobMachineAttrs": None,
            **self._machine_attributes(job, machine),
        }
        del facts["JobMachineAttrs"]
        self.queue.begin_run(job, run.id, {k: v for k, v in facts.items() if v is not None}, decision)
        self.book.runs[run.id] = run
        claim.run, claim.idle_since = run.id, 0.0
        batch.put_run(run.row())
        return run

    def _machine_attributes(self, job: Job, machine: Any) -> Changes:
        names = list(self.settings.machine_attrs)
        length = self.settings.machine_attrs_length
        own = self.ads.text(job, "JobMachineAttrs")
        if own:
            names += [name for name in own.replace(",", " ").split() if name not in names]
            length = max(length, int(self.ads.number(job, "JobMachineAttrsHistoryLength", length)))

        def former(name: str) -> Value:
            return (job.changes or {}).get(name)

        return machine_attributes(names, length, former, lambda name: self.ads.value_of(machine, name))

    def commit_starts(self, decision: Decision, batch: Batch, started: list[Run]) -> None:
        """Make new runs durable, then activate them."""
        done = asyncio.ensure_future(self.ledger.commit(decision, batch))
        done.add_done_callback(lambda _: self.activate_all(started))

    def activate_all(self, runs: Iterable[Run]) -> None:
        """Activate claims for runs that are durable."""
        for run in runs:
            self.activate(run)

    def activate(self, run: Run) -> None:
        """Ask the startd to run the job now; at most one run of this id will ever come of it."""
        if run.over:
            return
        if run.job.status != Status.RUNNING or run.job.run != run.id:
            self.give_up(run, "not_started", "the job was taken back before it started", Vacate.SCHEDD_VACATE)
            return
        link = self.link(run.claim.startd)
        if not link.connected:
            return  # said again when the startd tells which claims it knows
        try:
            job_ad = self.ads.final_pack(run.job, self.machine(run.claim))
        except Exception as error:
            self.give_up(run, "held", str(error), 0)
            return
        link.send(
            startd_pb2.ClaimRequest(
                serial=self.book.serial(),
                claim_id=run.claim.id,
                activate=startd_pb2.ActivateClaim(
                    run_id=run.id,
                    run_token=run.token,
                    job_ad=job_ad,
                    shadow_address=self.settings.address,
                ),
            )
        )

    def _activated(self, claim: Claim, event: startd_pb2.Activated) -> None:
        run = self.book.runs.get(event.run_id)
        if run is not None:
            run.activated = True
            run.starter = event.starter_address
            self.on_starter(claim.startd, event.starter_address)

    def _activation_refused(self, event: startd_pb2.ActivationRefused) -> None:
        """The run does not begin. Its claim may be gone already: the word of its end can come first."""
        run = self.book.runs.get(event.run_id)
        if run is not None and not run.over:
            run.claim.failures += 1
            _log.info("%s did not activate %s: %s", run.claim.slot_name, run.id, event.reason)
            self.give_up(run, "not_started", event.reason, event.code or int(Vacate.FAILED_TO_ACTIVATE_CLAIM))

    # ---- ends

    def deactivate(self, run: Run, kill: Kill) -> None:
        """Have the startd end a run whose starter does not speak to us."""
        link = self.links.get(run.claim.startd)
        if link is not None and link.connected and not run.claim.gone:
            ending = startd_pb2.DeactivateClaim(fast=kill.fast, reason=kill.reason, reason_code=kill.code)
            link.send(startd_pb2.ClaimRequest(claim_id=run.claim.id, deactivate=ending))

    def give_up(self, run: Run, how: str, reason: str, code: int) -> None:
        """The run is over without a word of its starter: the job goes on as ``how`` says, the claim is given back."""
        if run.over:
            return
        now = self.clock.now()
        decision, batch = Decision(now), Batch()
        self.queue.end_run(
            run.job,
            RunEnd(
                how,
                reason=reason,
                reason_code=code,
                at=now,
                wall_s=now - run.born_at,
                executed_s=now - run.executing_at if run.executing_at else 0.0,
            ),
            decision,
        )
        self.forget_run(run)
        self.release(run.claim, batch, reason)
        self.on_run_given_up(run)
        self.ledger.commit(decision, batch)

    def forget_run(self, run: Run) -> None:
        """The run is over as far as memory goes."""
        run.over = True
        self.on_run_over(run)
        self.book.runs.pop(run.id, None)
        if run.claim.run == run.id:
            run.claim.run = ""

    def after_run(self, run: Run, decision: Decision, batch: Batch) -> Run | None:
        """The run's end was taken over: its claim serves the next job, waits a while, or is given back."""
        claim = run.claim
        self.forget_run(run)
        if claim.gone:
            return None
        job = self.next_job(claim) if claim.failures < _FAILURES_MOST else None
        if job is not None:
            return self.begin(job, claim, decision, batch)
        keep = int(self.ads.number(run.job, "KeepClaimIdle", 0)) if not claim.closing else 0
        if keep > 0:
            claim.idle_since, claim.keep_idle_s = decision.now, keep
        else:
            self.release(claim, batch, "no job is left for the slot")
        return None

    def release(self, claim: Claim, batch: Batch, reason: str) -> None:
        """Give the claim back."""
        if claim.id not in self.book.claims:
            return
        self.book.drop(claim)
        batch.delete_claim(claim.id)
        link = self.links.get(claim.startd)
        if link is not None and link.connected:
            link.send(startd_pb2.ClaimRequest(claim_id=claim.id, release=startd_pb2.ReleaseClaim(reason=reason)))

    def _claim_gone(self, claim: Claim, reason: str) -> None:
        """The startd took the claim away. Its run's end may still be on the way from the starter."""
        self.book.drop(claim)
        batch = Batch()
        batch.delete_claim(claim.id)
        self.ledger.commit(Decision(self.clock.now()), batch)
        run = self.book.runs.get(claim.run)
        if run is not None and not run.over:
            run.silent_until = min(run.silent_until or 1e18, self.clock.now() + GRACE_S)

    def _state(self, claim: Claim, state: startd_pb2.ClaimState) -> None:
        run = self.book.runs.get(claim.run)
        if state.state == "Preempting" or state.activity in ("Retiring", "Vacating", "Killing"):
            claim.closing = True
        if run is None or run.over or (state.run_id and state.run_id != run.id):
            return
        decision = Decision(self.clock.now())
        if state.activity == "Suspended":
            self.queue.suspended(run.job, 1, decision)
        elif state.activity in ("Busy", "Retiring"):
            self.queue.continued(run.job, decision)
        elif state.activity == "Idle" and state.run_id == run.id and run.stream is None:
            run.silent_until = min(run.silent_until or 1e18, self.clock.now() + ASK_AGAIN_S)
        if decision.changed:
            self.ledger.commit(decision)
