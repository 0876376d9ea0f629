"""Runs on claims: which job starts on a claim next, activation, the end of a run, and giving a claim back."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from slotwise import ids
from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.model import job_events
from slotwise.schedd.claims.faults import Faults
from slotwise.schedd.claims.records import Claim, ClaimRequestPending, ClaimTable, Run
from slotwise.schedd.claims.slot_equivalence import Alike, SlotEquivalence
from slotwise.schedd.claims.start_throttle import StartThrottle
from slotwise.schedd.claims.startd_link import ClaimAsk, StartdLink
from slotwise.schedd.claims.startd_messages import ClaimsKnown
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Decision, Kill, RunEnd, RunOutcome
from slotwise.schedd.jobs.durations import Durations
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.match_substitution import machine_attributes
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes, Value
from slotwise.schedd.lifecycle import claim as lifecycle
from slotwise.schedd.lifecycle import claim_events as events
from slotwise.schedd.lifecycle import claim_instructions as do
from slotwise.schedd.lifecycle import run as run_lifecycle
from slotwise.schedd.lifecycle import run_events
from slotwise.schedd.lifecycle import run_instructions as run_do
from slotwise.schedd.lifecycle.claim_events import ClaimEvent
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.claim_states import Idle
from slotwise.schedd.lifecycle.run_events import RunEvent
from slotwise.schedd.lifecycle.run_instructions import RunInstruction, ShadowInstruction
from slotwise.schedd.policy.start import StartPolicy, owner_ad
from slotwise.schedd.storage.committer import Committer
from slotwise.wire.credential import Credential

_log = logging.getLogger(__name__)
#: Kinds of waiting jobs from which on it pays to find out which slots are alike to them.
_KINDS_TO_SHARE = 8
#: In which a job says how long it runs, seconds.
_DURATIONS = ("AllowedJobDuration", "AllowedExecuteDuration", "ExpectedRuntime")


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
    #: START_VANILLA_UNIVERSE.
    start_vanilla: StartPolicy = StartPolicy(None)  # noqa: RUF009 - never changed
    #: JOB_START_COUNT and JOB_START_DELAY (seconds).
    start_count: int = 1
    start_delay_s: float = 0.0
    #: MAX_NEXT_JOB_START_DELAY (seconds).
    next_start_delay_most_s: float = 600.0


class ClaimRuns(ABC):
    """Claims, runs and the links over which they are talked about."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        settings: ClaimSettings,
        credential: Credential,
        run_token: Callable[[], str] = ids.secret,
    ) -> None:
        self.queue = queue
        self.ads = ads
        self.committer = committer
        self.clock = clock
        self.settings = settings
        self.claim_table = ClaimTable()
        #: Runs on the access point itself by id; they have no claim.
        self.here: Mapping[str, object] = {}
        self.failures = Faults(self)
        self._credential = credential
        self._run_token = run_token
        self.links: dict[str, StartdLink] = {}
        #: Makes sure that every runnable job has its autocluster.
        self.assign_autoclusters: Callable[[], None] = lambda: None
        #: Tells the shadow that a run is over without its starter's word.
        self.on_run_given_up: Callable[[Run], None] = lambda run: None
        #: Told of every run that is durable, before its claim is activated for the first time.
        self.on_run_begun: Callable[[Run], None] = lambda run: None
        #: Told of every run that is over.
        self.on_run_over: Callable[[Run], None] = lambda run: None
        #: Compares what a startd knows with what we hold.
        self.on_known: Callable[[str, ClaimsKnown], None] = lambda startd, known: None
        #: Told of the starter that a startd uses.
        self.on_starter: Callable[[str, str], None] = lambda startd, starter: None
        #: Told of a run whose claim has gone; ``judge``: it may be given up if its starter does not have it either.
        self.on_claim_lost: Callable[[Run, bool], None] = lambda run, judge: None
        #: Told whether a startd has a run on its slot.
        self.on_run_checked: Callable[[Run, bool], None] = lambda run, active: None
        #: Carries out what the shadow is to do about a run.
        self.on_shadow: Callable[[Run, ShadowInstruction], None] = lambda run, instruction: None
        self._unsent: dict[str, list[ClaimAsk]] = {}
        self.start_rate = StartThrottle()
        self.likeness = SlotEquivalence()
        self.durations = Durations()
        #: The schedd's own ad, as START_VANILLA_UNIVERSE sees it.
        self.own_ad: Callable[[], Changes] = dict
        #: How many jobs of a user may run at a time (MaxJobsRunning of the user's record); None: any number.
        self.running_most: Callable[[str], int | None] = lambda user: None
        self._again: asyncio.TimerHandle | None = None

    @abstractmethod
    def link(self, startd: str) -> StartdLink:
        """The stream to a startd, opened if need be."""

    @abstractmethod
    def give_back(self, jobs: Iterable[Job]) -> bool:
        """Jobs reserved for a match are runnable again, as far as they still are idle."""

    # ---- the life of claims

    def turn(self) -> Turn:
        """A turn that begins now."""
        return Turn(Decision(self.clock.now()))

    def advance(self, claim: Claim, event: ClaimEvent, turn: Turn) -> None:
        """Something has happened to the claim: adopt its next state, then carry out what follows.

        :raises InvariantError: when it cannot happen to a claim in this state.
        """
        state, instructions = lifecycle.step(claim.state, event)
        self.claim_table.adopt(claim, state)
        for instruction in instructions:
            self._carry_out(claim, instruction, turn)

    def _carry_out(self, claim: Claim, instruction: ClaimInstruction, turn: Turn) -> None:
        match instruction:
            case do.StartNext():
                self._start_next(claim, instruction, turn)
            case do.StartAfter(wait_s):
                asyncio.get_running_loop().call_later(wait_s, self._start_reserved, claim)
            case do.SendRelease(reason, fast):
                _log.info("released the claim of %s for %s: %s", claim.slot_name, claim.submitter, reason)
                self.release_unknown(claim.startd, claim.id, reason, fast=fast)
            case do.Discard():
                turn.batch.delete_claim(claim.id)
                self.claim_table.drop(claim)
            case do.ReturnJob(job):
                self.give_back([job])
            case do.AwaitRunEnd(run_id, judge):
                if (run := self.claim_table.runs.get(run_id)) is not None:
                    self.on_claim_lost(run, judge)
            case do.CheckRun(run_id, active):
                if (run := self.claim_table.runs.get(run_id)) is not None:
                    self.on_run_checked(run, active)

    def _start_next(self, claim: Claim, what: do.StartNext, turn: Turn) -> None:
        job = self.still_idle([what.preferred]) if what.preferred is not None else None
        if job is not None and not self.may_start(job, lambda: claim.slot):
            turn.refused.append(job)  # others of the same user have started since
            job = None
        job = job or self.next_job(claim, ends_by=what.ends_by)
        if job is None:
            self.advance(claim, events.NoJobFound(self.clock.monotonic(), what.keep_s, what.reason), turn)
        elif what.at_once:
            self.begin(job, claim, turn)
        else:
            self.start(job, claim, turn)

    def withdraw(self, pending: ClaimRequestPending) -> None:
        """Nothing comes of a request."""
        pending.state, instructions = lifecycle.step(pending.state, events.Withdrawn())
        self.claim_table.pending.pop(pending.serial, None)
        if instructions:
            self.claim_table.outcomes.over(pending.match_id, len(pending.jobs))
            self.give_back(pending.jobs)

    def commit(self, turn: Turn) -> None:
        """Make a turn durable, then activate the runs that it started."""
        if turn.refused:
            self.give_back(turn.refused)
        self.committer.commit(turn.decision, turn.batch, on_committed=lambda _: self.activate_all(turn.started))

    # ---- the life of runs

    def advance_run(self, run: Run, event: RunEvent) -> None:
        """Something has happened to the run: adopt its next state, then carry out what follows.

        :raises InvariantError: when it cannot happen to a run in this state.
        """
        run.state, instructions = run_lifecycle.step(run.state, event)
        for instruction in instructions:
            self._carry_out_for_run(run, instruction)

    def _carry_out_for_run(self, run: Run, instruction: RunInstruction) -> None:
        match instruction:
            case run_do.Activate():
                self.activate(run)
            case run_do.SendActivation():
                self._send_activation(run)
            case run_do.Deactivate(kill):
                self._deactivate(run, kill)
            case run_do.LogDisconnected(reason):
                turn = self.turn()
                self.log_disconnected(run, reason, turn)
                self.commit(turn)
            case run_do.LogReconnected():
                self._log_reconnected(run)
            case run_do.GiveUp():
                self.give_up(run, instruction)
            case run_do.Abandon(reason):
                self.failures.end(run, reason)
            case run_do.ReleaseClaim(reason):
                turn = self.turn()
                self.release(run.claim, turn, reason)
                self.commit(turn)
            case _:
                self.on_shadow(run, instruction)

    def log_disconnected(self, run: Run, reason: str, turn: Turn) -> None:
        """Event 022, once until the run speaks again, however often this process or the network dies."""
        frame = self.queue.frame(run.job, turn.decision.now)
        slot, startd = run.claim.slot_name, run.claim.startd or "unknown"
        turn.decision.log(run.job, job_events.disconnected(frame, reason, slot, startd))
        turn.decision.note("%s: disconnected from %s (run %s), reconnecting: %s", run.key, slot, run.id, reason)
        turn.batch.put_run(run.row())

    def _log_reconnected(self, run: Run) -> None:
        turn = self.turn()
        if run.goes_on:  # else its job's log has its eviction already
            frame = self.queue.frame(run.job, turn.decision.now)
            slot, startd = run.claim.slot_name, run.claim.startd or "unknown"
            turn.decision.log(run.job, job_events.reconnected(frame, slot, startd, run.starter or "unknown"))
            turn.decision.note("%s: reconnected to %s (run %s)", run.key, slot, run.id)
        turn.batch.put_run(run.row())
        self.commit(turn)

    # ---- starting

    def next_job(self, claim: Claim, *, ends_by: float = 0.0) -> Job | None:
        """The best runnable job of the claim's submitter that fits its slot, reserved; None if there is none.

        :param ends_by: only one that is expected to have ended by then, epoch seconds; 0: any.
        """
        if not isinstance(claim.state, Idle):
            return None
        self.assign_autoclusters()
        runnable = self.queue.runnable
        alike = self._alike(claim) if runnable.kinds(claim.submitter) >= _KINDS_TO_SHARE else None
        added = runnable.added.get(claim.submitter, 0)
        if alike is not None and alike.tried.get(claim.submitter) == added:
            return None  # none fitted a slot like this one, and none has come since
        tried_all = True
        for bucket, first in runnable.ordered(claim.submitter):
            has_room = self.room_of(first.cluster.user) != 0
            may_start = has_room and self.may_start(first, lambda: claim.slot)
            if not may_start or (ends_by and not self.ends_by(first, ends_by)):
                tried_all = False
                continue
            if self._fits(first, bucket.autocluster, claim, alike):
                bucket.discard(first)
                return first
            tried_all = tried_all and bucket.autocluster not in claim.fits
        if tried_all and alike is not None and alike.generation == self.likeness.generation:
            alike.tried[claim.submitter] = added
        return None

    def _alike(self, claim: Claim) -> Alike:
        """The slots that are like the claim's."""
        if claim.alike is None or claim.alike.generation != self.likeness.generation:
            claim.alike = self.likeness.of(claim.slot, claim.limits)
        return claim.alike

    def ends_by(self, job: Job, moment: float) -> bool:
        """Whether a job that starts now ends by ``moment``: as it says itself, else as jobs like it did."""
        stated = next((s for s in (self.ads.number(job, name, 0) for name in _DURATIONS) if s > 0), None)
        seconds = stated or self.durations.expected(job.cluster.number, job.submitter)
        return seconds is not None and self.clock.now() + seconds <= moment

    def room_of(self, user: str) -> int | None:
        """How many more jobs of the user may start now; None: any number."""
        most = self.running_most(user)
        if most is None:
            return None
        running = self.queue.running_of(user, Universe.VANILLA)
        waiting = [job for pending in self.claim_table.pending.values() for job in pending.jobs]
        waiting += [claim.reserved for claim in self.claim_table.claims.values() if claim.reserved is not None]
        asked = sum(job.cluster.user == user and not job.run for job in waiting)
        return max(0, most - running - asked)

    def may_start(self, job: Job, slot: Callable[[], ClassAd] | None = None) -> bool:
        """Whether START_VANILLA_UNIVERSE lets a job start now, on a slot; without one: on some slot."""
        policy = self.settings.start_vanilla
        if not policy:
            return True
        machine = slot() if slot is not None and policy.of_slots else None
        return policy.may_start(self.ads.ad(job), self._schedd_ad, partial(self._owner_ad, job), machine)

    def constrain(self, job: Job, request: ClassAd) -> None:
        """Have a request ask for those slots only on which START_VANILLA_UNIVERSE lets it start."""
        self.settings.start_vanilla.constrain(request, self._schedd_ad, partial(self._owner_ad, job))

    def _schedd_ad(self) -> ClassAd:
        return ClassAd(native(self.own_ad()))

    def _owner_ad(self, job: Job) -> ClassAd:
        user = job.cluster.user
        return owner_ad(user, self.queue.counts_of(user))

    def _fits(self, job: Job, autocluster: int, claim: Claim, alike: Alike | None) -> bool:
        """Whether the jobs of an autocluster fit, tried with ``job`` unless it is known of this slot or one like it."""
        known = claim.fits.get(autocluster)
        if known is None and alike is not None:
            known = alike.fits.get(autocluster)
        if known is not None:
            return known
        fits = self.ads.text(job, "ConcurrencyLimits") == claim.limits and self.ads.matches(job, claim.slot)
        if alike is not None and self.likeness.learn(self.ads.ad(job)) and alike.generation == self.likeness.generation:
            alike.fits[autocluster] = fits
        else:
            claim.fits[autocluster] = fits
        return fits

    def start(self, job: Job, claim: Claim, turn: Turn) -> None:
        """As :meth:`begin`, but no faster than JOB_START_COUNT in JOB_START_DELAY.

        A job that waits so stays idle in the queue: should this process die, its claim finds a job anew.
        Jobs that follow others on a claim do not come here: as in HTCondor, they start at once.
        """
        asked_s = self.ads.number(job, "NextJobStartDelay", 0)
        wait_s = self.start_rate.wait_s(self.clock.monotonic(), min(asked_s, self.settings.next_start_delay_most_s))
        if wait_s <= 0:
            self.begin(job, claim, turn)
        else:
            self.advance(claim, events.JobReserved(job, wait_s), turn)

    def _start_reserved(self, claim: Claim) -> None:
        with contained(_log, f"the delayed start on {claim.slot_name}", partial(self.failures.claim, claim)):
            turn = self.turn()
            self.advance(claim, events.StartDue(), turn)
            if turn.batch or turn.refused:
                self.commit(turn)

    def still_idle(self, waiting: list[Job]) -> Job | None:
        """The first of reserved jobs that may start still; it and those before it leave the list."""
        while waiting:
            job = waiting.pop(0)
            if job.status == Status.IDLE and not job.run and self.queue.has(job):
                return job
        return None

    def begin(self, job: Job, claim: Claim, turn: Turn) -> None:
        """Decide that ``job`` starts on ``claim``; :meth:`activate` follows once that is durable."""
        number, decision = int(job.number("NumShadowStarts")) + 1, turn.decision
        state = run_lifecycle.begun(self.clock.monotonic(), claim.lease_s)
        run = Run(f"{job.key}#{number}", job, self._run_token(), claim, decision.now, claim.lease_s, state)
        facts: Changes = {
            "RemoteHost": claim.slot_name,
            "RemoteSlotID": self.ads.value_of(claim.slot, "SlotID"),
            "StartdAddr": claim.startd,
            "PublicClaimId": ids.public_claim_id(claim.id),
            "EstimatedRuntime": self.durations.expected(job.cluster.number, job.submitter),
            **self._machine_attributes(job, claim.slot),
        }
        self.queue.begin_run(job, run.id, {k: v for k, v in facts.items() if v is not None}, decision)
        self.advance(claim, events.RunBegun(run.id), turn)
        self.claim_table.runs[run.id] = run
        turn.batch.put_run(run.row())
        turn.started.append(run)

    def _machine_attributes(self, job: Job, slot: ClassAd) -> Changes:
        names = list(self.settings.machine_attrs)
        length = self.settings.machine_attrs_length
        own = self.ads.text(job, "JobMachineAttrs")
        if own:
            names += [name for name in own.replace(",", " ").split() if name not in names]
            length = max(length, int(self.ads.number(job, "JobMachineAttrsHistoryLength", length)))

        def former(name: str) -> Value:
            return (job.changes or {}).get(name)

        return machine_attributes(names, length, former, lambda name: self.ads.value_of(slot, name))

    def activate_all(self, runs: Iterable[Run]) -> None:
        """Activate claims for runs that are durable."""
        for run in runs:
            with contained(_log, doing_for_run(run.id, "activating its claim"), partial(self.failures.run, run)):
                self.on_run_begun(run)
                self.activate(run)

    def activate(self, run: Run) -> None:
        """Have the startd run the job now, if that is still wanted."""
        self.advance_run(run, run_events.ActivationDue(run.goes_on))

    def _send_activation(self, run: Run) -> None:
        link = self.link(run.claim.startd)
        if not link.connected:
            return  # said again when the startd tells which claims it knows
        try:
            job_ad = self.ads.final_pack(run.job, run.claim.slot)
        except Exception as error:
            self.give_up(run, run_do.GiveUp(RunOutcome.UNFIT, str(error), 0))
            return
        link.activate(self.claim_table.serial(), run, job_ad, self.settings.address)

    # ---- ends

    def _deactivate(self, run: Run, kill: Kill) -> None:
        """Have the startd end a run whose starter does not speak to us."""
        link = self.links.get(run.claim.startd)
        if link is not None and link.connected and not run.claim.gone:
            link.deactivate(run.claim.id, kill)

    def suspend(self, run_id: str, *, resume: bool) -> bool:
        """Have the startd suspend the job of a run, or continue it; false when there is no startd to ask."""
        run = self.claim_table.runs.get(run_id)
        link = None if run is None else self.links.get(run.claim.startd)
        if run is None or link is None or not link.connected:
            return False
        link.suspend(run.claim.id, resume=resume)
        return True

    def give_up(self, run: Run, what: run_do.GiveUp) -> None:
        """The run is over without a word of its starter; its claim is given back."""
        if run.over:
            return
        turn = self.turn()
        now = turn.decision.now
        end = RunEnd(
            what.how,
            reason=what.reason,
            reason_code=what.code,
            reason_subcode=what.subcode,
            at=now,
            wall_s=max(0.0, now - run.born_at),
            executed_s=max(0.0, now - run.executing_at) if run.executing_at else 0.0,
        )
        with self.committer.deciding(turn.decision, turn.batch):
            self.queue.end_run(run.job, end, turn.decision)
            self.forget_run(run)
            self.release(run.claim, turn, what.reason)
            self.on_run_given_up(run)
            self.commit(turn)

    def forget_run(self, run: Run) -> None:
        """The run is over as far as memory goes; its claim has yet to hear of it."""
        self.advance_run(run, run_events.EndRecorded())
        self.claim_table.runs.pop(run.id, None)
        self.on_run_over(run)

    def after_run(self, run: Run, turn: Turn) -> None:
        """The run's end was taken over: its claim serves the next job, waits a while, or is given back."""
        claim, now, moment = run.claim, turn.decision.now, self.clock.monotonic()
        self.forget_run(run)
        if run.executing_at:
            self.durations.note(run.job.cluster.number, run.job.submitter, now - run.executing_at)
        excess = self.claim_table.excess.why(claim.slot_name, claim.submitter, moment)
        beyond = events.BeyondShare(excess.until, excess.reason) if excess is not None else None
        keep_s = int(self.ads.number(run.job, "KeepClaimIdle", 0)) if self.ads.has(run.job) else 0
        self.advance(claim, events.RunEnded(run.id, moment, claim.failures, keep_s, beyond), turn)

    def is_excess(self, claim: Claim) -> bool:
        """Whether a claim that serves no job is to be given back because others wait for its slot."""
        return self.claim_table.excess.must_go(claim.slot_name, claim.submitter, self.clock.monotonic())

    def release(self, claim: Claim, turn: Turn, reason: str, *, fast: bool = False) -> None:
        """Give the claim back; ``fast``: without leaving a run on it time to end."""
        if claim.id in self.claim_table.claims:
            self.advance(claim, events.Released(reason, fast), turn)

    def release_unknown(self, startd: str, claim_id: str, reason: str = "", *, fast: bool = False) -> None:
        """Tell the startd that a claim is not wanted, also one that is not in the table."""
        link = self.links.get(startd)
        if link is not None and link.connected:
            link.release(claim_id, reason, fast=fast)
