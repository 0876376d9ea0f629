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
from slotwise.schedd.claims.convert import ended_by_startd
from slotwise.schedd.claims.excess import Excess
from slotwise.schedd.claims.records import Claim, ClaimRequestPending
from slotwise.schedd.claims.runs import ClaimRuns, ClaimSettings
from slotwise.schedd.claims.startd_link import StartdLink
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.lifecycle import claim_events as events
from slotwise.schedd.lifecycle import run_events
from slotwise.schedd.lifecycle.claim import SHARE_USED_UP
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.schedd.storage.store import StoredClaim
from slotwise.wire.gen import schedd_pb2, startd_pb2

_log = logging.getLogger(__name__)
#: How soon the negotiator is asked again after matches that came to nothing.
_AGAIN_S = 1.0


class Claiming(ClaimRuns):
    """Claims, runs and the links over which they are talked about."""

    # ---- matches

    def offer(self, matches: Iterable[schedd_pb2.SubmitterMatches]) -> int:
        """Take the matches of a cycle; returns how many could be used."""
        self.assign_autoclusters()
        used = 0
        for group in matches:
            for match in group.matches:
                with contained(_log, f"the match with {match.slot_name}", partial(self._match_failed, match)):
                    used += self._use(group.submitter, match)
        return used

    def _use(self, submitter: str, match: schedd_pb2.Match) -> int:
        """Ask for the matched slot; returns for how many jobs."""
        room = self.settings.jobs_running_most - len(self.book.runs)
        count = min(max(1, match.count), max(0, room))
        jobs = self.queue.runnable.take(submitter, match.autocluster_id, count)
        if self.settings.start_vanilla:
            machine = cache(lambda: self.ads.parse(match.slot_ad))
            may = [self.may_start(job, machine) for job in jobs]
            self.give_back([job for job, allowed in zip(jobs, may, strict=True) if not allowed])
            jobs = [job for job, allowed in zip(jobs, may, strict=True) if allowed]
        jobs = self._within_limits(jobs)
        self.book.fates.over(match.match_id, max(1, match.count) - len(jobs))
        if jobs and not self._ask(submitter, match, jobs):
            self.book.fates.over(match.match_id, len(jobs))
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
            self.ledger.commit(decision)

    def _match_failed(self, match: schedd_pb2.Match, error: Exception) -> None:
        self.failures.sweep_due = True  # finds the jobs that were reserved for it
        self.book.fates.over(match.match_id, max(1, match.count))
        for pending in list(self.book.pending.values()):
            if (pending.match_id, pending.claim_id) == (match.match_id, match.claim_id):
                self.failures.request(pending, None, error)

    def note_excess(self, told: Iterable[schedd_pb2.ExcessClaims], lasts_s: float) -> None:
        """Claims beyond their submitters' shares: idle ones are given back now, others when their jobs end."""
        moment = self.clock.monotonic()
        excess = [
            Excess(
                one.submitter,
                dict(zip(one.slot_names, one.weights, strict=False)),
                one.keep,
                until=one.until,
                reason=one.reason,
            )
            for one in told
        ]
        held = ((claim.slot_name, claim.submitter) for claim in self.book.claims.values())
        self.book.excess.replace(excess, held, moment + lasts_s)
        if not excess:
            return
        turn = self.turn()
        for claim in self.book.idle():
            if self.is_excess(claim):
                why = self.book.excess.why(claim.slot_name, claim.submitter, moment)
                self.release(claim, turn, (why and why.reason) or SHARE_USED_UP)
        if turn.batch:
            self.commit(turn)

    def _ask(self, submitter: str, match: schedd_pb2.Match, jobs: list[Job]) -> bool:
        """Ask for a claim for these jobs; false when the first, whose ad is shown, cannot be sent and is held."""
        try:
            job_ad = self.ads.request_pack(jobs[0])
        except UsageError as error:
            self._hold_unsendable(jobs[0], error.message)
            self.give_back(jobs[1:])
            return False
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
        names = " ".join([job.key for job in jobs])
        _log.info("%s: matched with %s at %s, requesting its claim for %s", names, *pending.where, submitter)
        request = startd_pb2.ClaimRequest(
            serial=pending.serial,
            claim_id=match.claim_id,
            request=startd_pb2.RequestClaim(
                job_ad=job_ad,
                lease_s=lease,
                alive_interval_s=self.settings.alive_interval_s,
                num_dynamic_slots=len(jobs),
                want_leftovers=self.settings.want_leftovers and not pending.limits,
                preempt_claim_ids=match.preempt_claim_ids,
                submitter=submitter,
                user=jobs[0].cluster.user,
            ),
        )
        link = self.link(match.startd_address)
        self.book.pending[pending.serial] = pending
        if link.connected:
            link.send(request)
        else:
            self._unsent.setdefault(match.startd_address, []).append(request)
        return True

    def _send_waiting(self, startd: str) -> None:
        for request in self._unsent.pop(startd, []):
            if request.serial in self.book.pending:
                self.links[startd].send(request)

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
        """Requests without an answer are lost; claims stay until the startd says otherwise.

        A stream that had stood is opened once more even without claims: the startd may not have heard that one was
        given back, and learns it from the hello.
        """
        self._unsent.pop(startd, None)
        turn = self.turn()
        for claim in self.book.at(startd):
            with contained(_log, f"the break of the link to {startd}", self.ending(claim)):
                self.advance(claim, events.LinkLost(), turn)
        for pending in self.book.pending_at(startd):
            with contained(_log, f"withdrawing a request to {startd}", partial(self.failures.request, pending, None)):
                self.withdraw(pending)
        link = self.links.get(startd)
        if link is not None and not link.heard and not self.book.at(startd):
            self.links.pop(startd, None)
            link.stop_soon()

    def on_failure(self, startd: str, event: startd_pb2.ClaimEvent, error: Exception) -> None:
        """An event could not be processed: the claims, runs and requests it is about end."""
        self.failures.sweep_due = True
        what = event.WhichOneof("what")
        if what in ("granted", "refused"):
            granted = event.granted if what == "granted" else None
            pending = self.book.pending.get(event.serial)
            unknown = ClaimRequestPending(event.serial, startd, event.claim_id, "", "", 0, [], 0)
            self.failures.request(pending or unknown, granted, error)
        run_id = event.activation_refused.run_id if what == "activation_refused" else ""
        for run in list(self.book.runs.values()):
            if run.id == run_id or (event.claim_id and run.claim.id == event.claim_id):
                self.failures.run(run, error)
        if claim := self.book.claims.get(event.claim_id):
            self.failures.claim(claim, error)

    def on_event(self, startd: str, event: startd_pb2.ClaimEvent) -> None:
        """Take in what a startd said."""
        what = event.WhichOneof("what")
        if what == "granted":
            self._granted(startd, event)
        elif what == "refused":
            self._refused(event)
        elif what == "known":
            self.on_known(startd, event.known)
            self._send_waiting(startd)
        elif what == "alive":
            for claim_id in event.alive.unknown:
                if claim := self.book.claims.get(claim_id):
                    with contained(_log, f"the end of the claim on {claim.slot_name}", self.ending(claim)):
                        self._claim_ended(claim, None)
        elif what == "activation_refused":
            self._activation_refused(event.activation_refused)
        elif claim := self.book.claims.get(event.claim_id):
            if what == "activated":
                self._activated(claim, event.activated)
            elif what == "state":
                self._state(claim, event.state)
            elif what == "ended":
                self._claim_ended(claim, ended_by_startd(event.ended))

    def ending(self, claim: Claim) -> Callable[[Exception], None]:
        """Ends a claim after an exception, and its run as it is now: by then the claim may have forgotten it."""
        run = self.book.runs.get(claim.run)

        def fail(error: Exception) -> None:
            if run is not None:
                self.failures.run(run, error)
            self.failures.claim(claim, error)

        return fail

    def _granted(self, startd: str, event: startd_pb2.ClaimEvent) -> None:
        pending = self.book.pending.get(event.serial)
        if pending is None:
            for slot in event.granted.slots:  # an answer to a request that was given up
                self.release_unknown(startd, slot.claim_id)
            return
        turn = self.turn()
        with self.ledger.deciding(turn.decision, turn.batch):
            self._use_granted(pending, event.granted, turn)
        if event.granted.leftover_claim_id:
            self._leftovers(pending, event.granted)
        del self.book.pending[pending.serial]

    def _use_granted(self, pending: ClaimRequestPending, granted: startd_pb2.ClaimGranted, turn: Turn) -> None:
        waiting = list(pending.jobs)
        self.book.fates.claimed(pending.match_id, [slot.slot_name for slot in granted.slots])
        self.book.fates.over(pending.match_id, len(waiting) - len(granted.slots))
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
            self.book.add(claim)
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

    def _leftovers(self, pending: ClaimRequestPending, granted: startd_pb2.ClaimGranted) -> None:
        """What is left of the partitionable slot is a fresh match for the submitter's next job."""
        slot = self.ads.parse(granted.leftover_slot_ad)
        for bucket, first in self.queue.runnable.ordered(pending.submitter):
            if self.ads.text(first, "ConcurrencyLimits") or not self.ads.matches(first, slot):
                continue
            if self.room_of(first.cluster.user) == 0:
                continue
            match = schedd_pb2.Match(
                autocluster_id=bucket.autocluster,
                slot_name=pending.slot_name,
                startd_address=pending.startd,
                claim_id=granted.leftover_claim_id,
            )
            jobs = self.queue.runnable.take(pending.submitter, bucket.autocluster, 1)
            if self._ask(pending.submitter, match, jobs):
                return
            break
        self.release_unknown(pending.startd, granted.leftover_claim_id)

    def _refused(self, event: startd_pb2.ClaimEvent) -> None:
        pending = self.book.pending.get(event.serial)
        if pending is not None:
            names = " ".join([job.key for job in pending.jobs])
            _log.info("%s: %s at %s refused the claim: %s", names, *pending.where, event.refused.reason)
            self.withdraw(pending)

    def _activated(self, claim: Claim, event: startd_pb2.Activated) -> None:
        run = self.book.runs.get(event.run_id)
        if run is not None:
            run.starter = event.starter_address
            self.advance_run(run, run_events.Activated())
            self.on_starter(claim.startd, event.starter_address)

    def _activation_refused(self, event: startd_pb2.ActivationRefused) -> None:
        """The run does not begin. Its claim may be gone already: the word of its end can come first."""
        run = self.book.runs.get(event.run_id)
        if run is not None:
            run.claim.failures += 1
            _log.info("%s: %s refused to activate run %s: %s", run.key, run.claim.slot_name, run.id, event.reason)
            refused = run_events.ActivationRefused(self.clock.monotonic(), event.reason, event.code)
            self.advance_run(run, refused)

    def _claim_ended(self, claim: Claim, cause: EndedByStartd | None) -> None:
        """The startd took the claim away, or does not know it (None)."""
        run = self.book.runs.get(claim.run)
        job = run.key if run is not None else "no job"
        reason = cause.reason if cause is not None else "the startd does not know the claim any more"
        _log.info("%s: claim of %s for %s ended by the startd: %s", job, claim.slot_name, claim.submitter, reason)
        turn = self.turn()
        self.advance(claim, events.ClaimEnded(cause), turn)
        self.commit(turn)

    def _state(self, claim: Claim, state: startd_pb2.ClaimState) -> None:
        run = self.book.runs.get(claim.run)
        if state.state == "Preempting" or state.activity in ("Retiring", "Vacating", "Killing"):
            turn = self.turn()
            self.advance(claim, events.SlotRetires(), turn)
            if turn.batch:
                self.commit(turn)
        if run is None or run.over or (state.run_id and state.run_id != run.id):
            return
        decision = Decision(self.clock.now())
        if state.activity in ("Suspended", "Busy", "Retiring"):
            with self.ledger.deciding(decision):
                if state.activity == "Suspended":
                    self.queue.suspended(run.job, max(1, int(run.job.number("NumPids"))), decision)
                else:
                    self.queue.continued(run.job, decision)
        elif state.activity == "Idle" and state.run_id == run.id:
            self.advance_run(run, run_events.SlotFreed(self.clock.monotonic()))
        if decision.changed:
            self.ledger.commit(decision)


__all__ = ["ClaimSettings", "Claiming"]
