"""From matches to claims: asks startds for them, and takes in what startds say of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import cache, partial

from slotwise.daemon.containment import contained
from slotwise.errors import UsageError
from slotwise.ids import job_of_run
from slotwise.model.reason_codes import Hold
from slotwise.schedd.claims.excess import Excess
from slotwise.schedd.claims.matches import Match
from slotwise.schedd.claims.records import Claim, ClaimRequestPending
from slotwise.schedd.claims.runs import ClaimRuns, ClaimSettings
from slotwise.schedd.claims.startd_link import ClaimAsk, Hello, StartdLink
from slotwise.schedd.claims.startd_messages import (
    ActivationRefused,
    ClaimRefused,
    ClaimsGranted,
    ClaimsKnown,
    ClaimTaken,
    KeptAlive,
    RunActivated,
    SlotChanged,
    StartdMessage,
)
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.lifecycle import claim_events as events
from slotwise.schedd.lifecycle import run_events
from slotwise.schedd.lifecycle.claim import SHARE_USED_UP
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.schedd.storage.store import StoredClaim

_log = logging.getLogger(__name__)
#: How soon the negotiator is asked again after matches that came to nothing.
_AGAIN_S = 1.0


class Claiming(ClaimRuns):
    """Claims, runs and the links over which they are talked about."""

    # ---- matches

    def offer(self, matches: Iterable[Match]) -> int:
        """Take the matches of a cycle; returns how many could be used."""
        self.assign_autoclusters()
        used = 0
        for match in matches:
            with contained(_log, f"the match with {match.slot_name}", partial(self._match_failed, match)):
                used += self._use(match)
        return used

    def _use(self, match: Match) -> int:
        """Ask for the matched slot; returns for how many jobs."""
        room = self.settings.jobs_running_most - len(self.claim_table.runs)
        count = min(max(1, match.count), max(0, room))
        jobs = self.queue.runnable.take(match.submitter, match.autocluster, count)
        if self.settings.start_vanilla:
            machine = cache(lambda: self.ads.parse(match.slot_ad))
            may = [self.may_start(job, machine) for job in jobs]
            self.give_back([job for job, allowed in zip(jobs, may, strict=True) if not allowed])
            jobs = [job for job, allowed in zip(jobs, may, strict=True) if allowed]
        jobs = self._within_limits(jobs)
        self.claim_table.outcomes.over(match.id, max(1, match.count) - len(jobs))
        if jobs and not self._ask(match, jobs):
            self.claim_table.outcomes.over(match.id, len(jobs))
            return 0
        return len(jobs)

    def _within_limits(self, jobs: list[Job]) -> list[Job]:
        """Those that the records of their users have room for; the others are runnable again."""
        rooms = {user: self.room_of(user) for user in {job.cluster.user for job in jobs}}
        if all(room is None for room in rooms.values()):
            return jobs
        taken: list[Job] = []
        for job in jobs:
            room = rooms[job.cluster.user]
            if room is None or room > 0:
                taken.append(job)
                rooms[job.cluster.user] = None if room is None else room - 1
        self.give_back([job for job in jobs if job not in taken])
        return taken

    def _hold_unsendable(self, job: Job, reason: str) -> None:
        decision = Decision(self.clock.now())
        if self.queue.hold(job, reason, int(Hold.SYSTEM_POLICY), 0, decision):
            self.committer.commit(decision)

    def _match_failed(self, match: Match, error: Exception) -> None:
        self.failures.sweep_due = True  # finds the jobs that were reserved for it
        self.claim_table.outcomes.over(match.id, max(1, match.count))
        for pending in list(self.claim_table.pending.values()):
            if (pending.match_id, pending.claim_id) == (match.id, match.claim_id):
                self.failures.request(pending, None, error)

    def note_excess(self, excess: list[Excess], lasts_s: float) -> None:
        """Claims beyond their submitters' shares: idle ones are given back now, others when their jobs end."""
        moment = self.clock.monotonic()
        held = ((claim.slot_name, claim.submitter) for claim in self.claim_table.claims.values())
        self.claim_table.excess.replace(excess, held, moment + lasts_s)
        if not excess:
            return
        turn = self.turn()
        for claim in self.claim_table.idle():
            if self.is_excess(claim):
                why = self.claim_table.excess.why(claim.slot_name, claim.submitter, moment)
                self.release(claim, turn, (why and why.reason) or SHARE_USED_UP)
        if turn.batch:
            self.commit(turn)

    def _ask(self, match: Match, jobs: list[Job]) -> bool:
        """Ask for a claim for these jobs; false when the first, whose ad is shown, cannot be sent and is held."""
        try:
            job_ad = self.ads.request_pack(jobs[0])
        except UsageError as error:
            self._hold_unsendable(jobs[0], error.message)
            self.give_back(jobs[1:])
            return False
        lease = int(self.ads.number(jobs[0], "JobLeaseDuration", self.settings.lease_s)) or self.settings.lease_s
        pending = ClaimRequestPending(
            self.claim_table.serial(),
            match.startd,
            match.claim_id,
            match.slot_name,
            match.submitter,
            match.autocluster,
            jobs,
            lease,
            limits=self.ads.text(jobs[0], "ConcurrencyLimits"),
            at=self.clock.now(),
            match_id=match.id,
        )
        names = " ".join([job.key for job in jobs])
        _log.info("%s: matched with %s at %s, requesting its claim for %s", names, *pending.where, match.submitter)
        ask = ClaimAsk(
            pending.serial,
            match.claim_id,
            job_ad,
            lease_s=lease,
            alive_interval_s=self.settings.alive_interval_s,
            slots=len(jobs),
            want_leftovers=self.settings.want_leftovers and not pending.limits,
            preempt_claim_ids=match.preempt_claim_ids,
            submitter=match.submitter,
            user=jobs[0].cluster.user,
        )
        link = self.link(match.startd)
        self.claim_table.pending[pending.serial] = pending
        if link.connected:
            link.ask(ask)
        else:
            self._unsent.setdefault(match.startd, []).append(ask)
        return True

    def _send_waiting(self, startd: str) -> None:
        for ask in self._unsent.pop(startd, []):
            if ask.serial in self.claim_table.pending:
                self.links[startd].ask(ask)

    def link(self, startd: str) -> StartdLink:
        """The stream to a startd, opened if need be."""
        found = self.links.get(startd)
        if found is None:
            found = self.links[startd] = StartdLink(startd, self, self._credential)
            found.start()
        return found

    def give_back(self, jobs: Iterable[Job]) -> bool:
        """Jobs reserved for a match are runnable again, as far as they still are idle."""
        some = False
        for job in jobs:
            if job.status == Status.IDLE and not job.run and self.queue.has(job):
                self.queue.runnable.add(job)
                some = True
        if some and self._again is None:
            # Slots looked better than they were: ask again when the pool has heard how they are.
            self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._ask_again)
        return some

    def _ask_again(self) -> None:
        self._again = None
        if self.committer.on_new_work:
            self.committer.on_new_work()

    # ---- what links bring

    def hello(self, startd: str) -> Hello:
        """Who we are, and what we hold there."""
        held = [claim.id for claim in self.claim_table.at(startd)]
        return Hello(self.settings.schedd_name, self.settings.address, held)

    def on_break(self, startd: str) -> None:
        """Requests without an answer are lost; claims stay until the startd says otherwise.

        A stream that had stood is opened once more even without claims: the startd may not have heard that one was
        given back, and learns it from the hello.
        """
        self._unsent.pop(startd, None)
        turn = self.turn()
        for claim in self.claim_table.at(startd):
            with contained(_log, f"the break of the link to {startd}", self.ending(claim)):
                self.advance(claim, events.LinkLost(), turn)
        for pending in self.claim_table.pending_at(startd):
            with contained(_log, f"withdrawing a request to {startd}", partial(self.failures.request, pending, None)):
                self.withdraw(pending)
        link = self.links.get(startd)
        if link is not None and not link.heard and not self.claim_table.at(startd):
            self.links.pop(startd, None)
            link.stop_soon()

    def on_failure(self, startd: str, message: StartdMessage, error: Exception) -> None:
        """A message could not be processed: the claims, runs and requests it is about end."""
        self.failures.sweep_due = True
        if isinstance(message, ClaimsGranted | ClaimRefused):
            granted = message if isinstance(message, ClaimsGranted) else None
            pending = self.claim_table.pending.get(message.serial)
            unknown = ClaimRequestPending(message.serial, startd, message.claim_id, "", "", 0, [], 0)
            self.failures.request(pending or unknown, granted, error)
        claim_id = "" if isinstance(message, ClaimsKnown | KeptAlive) else message.claim_id
        run_id = message.run_id if isinstance(message, ActivationRefused) else ""
        for run in list(self.claim_table.runs.values()):
            if run.id == run_id or (claim_id and run.claim.id == claim_id):
                self.failures.run(run, error)
        if claim := self.claim_table.claims.get(claim_id):
            self.failures.claim(claim, error)

    def on_event(self, startd: str, message: StartdMessage) -> None:
        """Take in what a startd said."""
        match message:
            case ClaimsGranted():
                self._granted(startd, message)
            case ClaimRefused():
                self._refused(message)
            case ClaimsKnown():
                self.on_known(startd, message)
                self._send_waiting(startd)
            case KeptAlive(unknown):
                for claim_id in unknown:
                    if claim := self.claim_table.claims.get(claim_id):
                        with contained(_log, f"the end of the claim on {claim.slot_name}", self.ending(claim)):
                            self._claim_ended(claim, None)
            case ActivationRefused():
                self._activation_refused(message)
            case RunActivated() | SlotChanged() | ClaimTaken():
                if claim := self.claim_table.claims.get(message.claim_id):
                    self._of_claim(claim, message)

    def _of_claim(self, claim: Claim, message: RunActivated | SlotChanged | ClaimTaken) -> None:
        match message:
            case RunActivated():
                self._activated(claim, message)
            case SlotChanged():
                self._state(claim, message)
            case ClaimTaken(cause=cause):
                self._claim_ended(claim, cause)

    def ending(self, claim: Claim) -> Callable[[Exception], None]:
        """Ends a claim after an exception, and its run as it is now: by then the claim may have forgotten it."""
        run = self.claim_table.runs.get(claim.run)

        def fail(error: Exception) -> None:
            if run is not None:
                self.failures.run(run, error)
            self.failures.claim(claim, error)

        return fail

    def _granted(self, startd: str, granted: ClaimsGranted) -> None:
        pending = self.claim_table.pending.get(granted.serial)
        if pending is None:
            for slot in granted.slots:  # an answer to a request that was given up
                self.release_unknown(startd, slot.claim_id)
            return
        turn = self.turn()
        with self.committer.deciding(turn.decision, turn.batch):
            self._use_granted(pending, granted, turn)
        if granted.leftover_claim_id:
            self._leftovers(pending, granted)
        del self.claim_table.pending[pending.serial]

    def _use_granted(self, pending: ClaimRequestPending, granted: ClaimsGranted, turn: Turn) -> None:
        waiting = list(pending.jobs)
        self.claim_table.outcomes.claimed(pending.match_id, [slot.slot_name for slot in granted.slots])
        self.claim_table.outcomes.over(pending.match_id, len(waiting) - len(granted.slots))
        for slot in granted.slots:
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
            self.claim_table.add(claim)
            turn.batch.put_claim(
                StoredClaim(
                    claim.id,
                    claim.startd,
                    claim.slot_name,
                    claim.submitter,
                    claim.lease_s,
                    claim.slot_ad,
                    claim.limits,
                )
            )
            before_start = len(turn.decision.notes)
            self.advance(claim, events.Granted(self.still_idle(waiting)), turn)
            claimed = ("%s: claimed %s for %s", self._served(claim), claim.slot_name, claim.submitter)
            turn.decision.notes.insert(before_start, claimed)
        self.give_back(waiting)
        self.commit(turn)

    @staticmethod
    def _served(claim: Claim) -> str:
        """The job that a claim serves, as the log names it."""
        if claim.reserved is not None:
            return claim.reserved.key
        return job_of_run(claim.run) if claim.run else "no job left"

    def _leftovers(self, pending: ClaimRequestPending, granted: ClaimsGranted) -> None:
        """What is left of the partitionable slot is a fresh match for the submitter's next job."""
        slot = self.ads.parse(granted.leftover_slot_ad)
        for bucket, first in self.queue.runnable.ordered(pending.submitter):
            if self.ads.text(first, "ConcurrencyLimits") or not self.ads.matches(first, slot):
                continue
            if self.room_of(first.cluster.user) == 0:
                continue
            match = Match(
                pending.submitter, bucket.autocluster, pending.slot_name, pending.startd, granted.leftover_claim_id
            )
            jobs = self.queue.runnable.take(pending.submitter, bucket.autocluster, 1)
            if self._ask(match, jobs):
                return
            break
        self.release_unknown(pending.startd, granted.leftover_claim_id)

    def _refused(self, refused: ClaimRefused) -> None:
        pending = self.claim_table.pending.get(refused.serial)
        if pending is not None:
            names = " ".join([job.key for job in pending.jobs])
            _log.info("%s: %s at %s refused the claim: %s", names, *pending.where, refused.reason)
            self.withdraw(pending)

    def _activated(self, claim: Claim, event: RunActivated) -> None:
        run = self.claim_table.runs.get(event.run_id)
        if run is not None:
            run.starter = event.starter
            self.advance_run(run, run_events.Activated())
            self.on_starter(claim.startd, event.starter)

    def _activation_refused(self, event: ActivationRefused) -> None:
        """The run does not begin. Its claim may be gone already: the word of its end can come first."""
        run = self.claim_table.runs.get(event.run_id)
        if run is not None:
            run.claim.failures += 1
            _log.info("%s: %s refused to activate run %s: %s", run.key, run.claim.slot_name, run.id, event.reason)
            refused = run_events.ActivationRefused(self.clock.monotonic(), event.reason, event.code)
            self.advance_run(run, refused)

    def _claim_ended(self, claim: Claim, cause: EndedByStartd | None) -> None:
        """The startd took the claim away, or does not know it (None)."""
        run = self.claim_table.runs.get(claim.run)
        job = run.key if run is not None else "no job"
        reason = cause.reason if cause is not None else "the startd does not know the claim any more"
        _log.info("%s: claim of %s for %s ended by the startd: %s", job, claim.slot_name, claim.submitter, reason)
        turn = self.turn()
        self.advance(claim, events.ClaimEnded(cause), turn)
        self.commit(turn)

    def _state(self, claim: Claim, state: SlotChanged) -> None:
        run = self.claim_table.runs.get(claim.run)
        if state.retires:
            turn = self.turn()
            self.advance(claim, events.SlotRetires(), turn)
            if turn.batch:
                self.commit(turn)
        if run is None or run.over or (state.run_id and state.run_id != run.id):
            return
        decision = Decision(self.clock.now())
        if state.activity in ("Suspended", "Busy", "Retiring"):
            with self.committer.deciding(decision):
                if state.activity == "Suspended":
                    self.queue.suspended(run.job, max(1, int(run.job.number("NumPids"))), decision)
                else:
                    self.queue.continued(run.job, decision)
        elif state.activity == "Idle" and state.run_id == run.id:
            self.advance_run(run, run_events.SlotFreed(self.clock.monotonic()))
        if decision.changed:
            self.committer.commit(decision)


__all__ = ["ClaimSettings", "Claiming"]
