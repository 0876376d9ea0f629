"""After a break: which claims and runs still live, which are gone, which must be asked for again.

What is known comes from two sides. The startd answers ``hello`` with the claims that live and the runs on them. The
starter's first words on a stream are the list of its runs, among them ended ones whose end was not acknowledged. A run
is given up only when neither side has it, or when its lease has run out on both; then the job may start again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.claiming import Claiming
from slotwise.schedd.claims.records import Claim, Run, stored_facts
from slotwise.schedd.claims.startd_messages import ClaimsKnown, KnownClaim
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.decision import Decision, Kill
from slotwise.schedd.lifecycle import claim_events
from slotwise.schedd.lifecycle import run as lifecycle
from slotwise.schedd.lifecycle.claim import NO_JOB_LEFT
from slotwise.schedd.lifecycle.claim_states import Disconnected, Gone
from slotwise.schedd.lifecycle.run_events import ClaimLost, PatienceOver, SlotBusy, SlotIdle, StarterListed, StreamLost
from slotwise.schedd.lifecycle.run_states import AtStarter
from slotwise.schedd.policy.evict_transforms import kill_owed
from slotwise.schedd.storage.store import Batch, StoredClaim, StoredRun

_log = logging.getLogger(__name__)


class Reconnects:
    """Brings claims and runs back into step with startds and starters."""

    def __init__(self, claiming: Claiming) -> None:
        self._claiming = claiming
        self._claim_table = claiming.claim_table
        claiming.on_known = self.known
        claiming.on_run_over = self.run_over
        claiming.on_claim_lost = self.claim_lost
        claiming.on_run_checked = self.run_checked
        claiming.on_starter = self.starter_at
        #: Starter address by startd address, as far as learned.
        self._starters: dict[str, str] = {}
        #: Starter -> run ids it named last, on a stream that is open.
        self._listed: dict[str, set[str]] = {}
        self._alive_at: dict[str, float] = {}
        #: What runs of a former process must be told, as far as their jobs were held or removed.
        self.owed: list[Kill] = []

    # ---- at start

    def restore(self, claims: list[StoredClaim], runs: list[StoredRun], starters: dict[str, str]) -> Turn:
        """Take over what a former process held; links are opened and jobs wait for word of their starters.

        What is returned is to be committed.
        """
        turn, moment = self._claiming.turn(), self._claiming.clock.monotonic()
        self._starters.update(starters)
        for row in claims:
            claim = Claim(row.claim, row.startd, row.slot, row.submitter, row.lease_s, row.slot_ad, limits=row.limits)
            claim.state = Disconnected("", moment + row.lease_s)
            self._claim_table.add(claim)
        for stored in runs:
            job = self._claiming.queue.job(stored.cluster, stored.proc)
            if job is None or job.cluster.runs_here:
                continue
            held = self._claim_table.claims.get(stored.claim)
            gone = held is None
            if held is None:
                slot = str((job.changes or {}).get("RemoteHost") or "unknown")  # no event may lack it
                held = Claim(stored.claim, "", slot, job.submitter, self._claiming.settings.lease_s, b"")
            held.state, claim = Gone(stored.run_id) if gone else Disconnected(stored.run_id), held
            born_at, executing_at, logged = stored_facts(stored.facts)
            state = lifecycle.restored(executing_at, moment, claim.lease_s, claim_gone=gone, logged=logged)
            run = Run(stored.run_id, job, stored.token, claim, born_at, claim.lease_s, state)
            if (kill := kill_owed(job)) is not None:
                self.owed.append(kill)
            self._claim_table.runs[run.id] = run
            if executing_at and not gone and run.goes_on and not logged:
                run.state = replace(state, disconnect_logged=True)
                reason = "Local schedd and job shadow died, schedd now running again"
                self._claiming.log_disconnected(run, reason, turn)
        for claim in self._claim_table.claims.values():
            self._claim_table.adopt(claim, claim.state)
        # Also those with whom nothing is left to talk about: the word that a claim was given back may be lost.
        for startd in (self._claim_table.startds() | set(starters)) - {""}:
            self._claiming.link(startd)
        return turn

    # ---- the startd's side

    def known(self, startd: str, known: ClaimsKnown) -> None:
        """The startd told which of our claims live."""
        here = known.claims
        turn = self._claiming.turn()
        with self._claiming.committer.deciding(turn.decision, turn.batch):
            for claim in self._claim_table.at(startd):
                with contained(_log, f"comparing the claim on {claim.slot_name}", self._claiming.ending(claim)):
                    self._compare(claim, here.get(claim.id), turn)
            for claim_id in here:
                if claim_id not in self._claim_table.claims:  # given back between the hello and its answer
                    self._claiming.release_unknown(startd, claim_id, NO_JOB_LEFT)
            if turn.batch or turn.refused:
                self._claiming.commit(turn)

    def _compare(self, claim: Claim, one: KnownClaim | None, turn: Turn) -> None:
        """Bring one claim into step with what its startd told of it; None: nothing."""
        if one is None:
            self._claiming.advance(claim, claim_events.ClaimUnlisted(), turn)
            return
        if one.slot_ad:
            claim.renew_slot(one.slot_ad)
        self._claiming.advance(claim, claim_events.ClaimListed(one.run_id, active=one.activity != "Idle"), turn)

    def claim_lost(self, run: Run, judge: bool) -> None:
        """The run's claim has gone; ``judge``: it is given up if its starter does not have it either."""
        known = self._at_starter(run) if judge else AtStarter.UNKNOWN
        self._claiming.advance_run(run, ClaimLost(self._claiming.clock.monotonic(), known, run.claim_facts))

    def run_checked(self, run: Run, active: bool) -> None:
        """The startd told whether the run is on its slot."""
        if active:
            self._claiming.advance_run(run, SlotBusy())
        else:
            known = self._known_of(run, self._starters.get(run.claim.startd, ""))
            self._claiming.advance_run(run, SlotIdle(self._claiming.clock.monotonic(), known, run.claim_facts))

    # ---- the starter's side

    def starter_lists(self, starter: str, run_ids: list[str]) -> None:
        """A starter told which runs it has."""
        self._listed[starter] = set(run_ids)
        startds = {startd for startd, known in self._starters.items() if known == starter and startd}
        for run in [run for run in self._claim_table.runs.values() if run.claim.startd in startds]:
            with contained(_log, doing_for_run(run.id, "looking for it at its starter"), self._failing(run)):
                self._claiming.advance_run(run, StarterListed(self._at_starter(run), run.claim_facts))

    def _failing(self, run: Run) -> partial[None]:
        return partial(self._claiming.failures.run, run)

    def starter_at(self, startd: str, starter: str) -> None:
        """The startd's runs go to this starter."""
        if startd and starter and self._starters.get(startd) != starter:
            self._starters[startd] = starter
            batch = Batch()
            batch.put_starter(startd, starter)
            self._claiming.committer.commit(Decision(self._claiming.clock.now()), batch)

    def run_over(self, run: Run) -> None:
        """The run's end is durable: whether its starter still has it does not matter any more."""
        if (listed := self._listed.get(run.starter)) is not None:
            listed.discard(run.id)

    def starter_left(self, starter: str) -> None:
        """The stream of the starter broke: what it had is not known any more."""
        self._listed.pop(starter, None)

    def speaks(self, run: Run) -> None:
        """The run's starter said hello."""
        self.starter_at(run.claim.startd, run.starter)
        if run.starter in self._listed:
            self._listed[run.starter].add(run.id)

    def falls_silent(self, run: Run, reason: str) -> None:
        """The stream of the run's starter broke."""
        run.stream = None
        moment = self._claiming.clock.monotonic()
        self._claiming.advance_run(run, StreamLost(moment, run.lease_s, run.claim.gone, run.goes_on, reason))

    def _at_starter(self, run: Run) -> AtStarter:
        """What its starter's list says of the run."""
        return self._known_of(run, run.starter or self._starters.get(run.claim.startd, ""))

    def _known_of(self, run: Run, starter: str) -> AtStarter:
        listed = self._listed.get(starter)
        if listed is None:
            return AtStarter.UNKNOWN
        return AtStarter.LISTED if run.id in listed else AtStarter.MISSING

    # ---- time

    def tick(self) -> None:
        """Once a second: leases that ran out, idle claims, keep-alives."""
        moment, turn = self._claiming.clock.monotonic(), self._claiming.turn()
        for run in list(self._claim_table.runs.values()):
            if run.state.silence is not None and moment >= run.state.silence.until:
                with contained(_log, doing_for_run(run.id, "asking for it again"), self._failing(run)):
                    self._claiming.advance_run(run, PatienceOver(moment, run.claim_facts))
        self._claiming.failures.sweep()
        if self._claiming.queue.wake(turn.decision.now) and self._claiming.committer.on_new_work:
            self._claiming.committer.on_new_work()
        for claim in self._claim_table.waiting():
            with contained(_log, f"releasing the claim on {claim.slot_name}", self._claiming.ending(claim)):
                self._claiming.advance(claim, claim_events.KeepCheck(moment), turn)
        if turn.batch:
            self._claiming.commit(turn)
        self._keep_alive(moment)

    def _keep_alive(self, moment: float) -> None:
        for startd in self._claim_table.startds():
            link, claims = self._claiming.links.get(startd), self._claim_table.at(startd)
            if not claims:
                continue
            every = max(1.0, min(claim.lease_s for claim in claims) / 3)
            every = min(every, self._claiming.settings.alive_interval_s)
            if link is None or not link.connected or moment < self._alive_at.get(startd, -every) + every:
                continue
            self._alive_at[startd] = moment
            link.keep_alive([claim.id for claim in claims])

    def use_idle_claims(self) -> None:
        """New work came: claims kept idle for their submitter serve it at once."""
        turn = self._claiming.turn()
        for claim in self._claim_table.idle():
            with contained(_log, f"the next job for {claim.slot_name}", self._claiming.ending(claim)):
                job = self._claiming.next_job(claim)
                if job is not None:
                    self._claiming.start(job, claim, turn)
        if turn.started or turn.decision.changed:
            self._claiming.commit(turn)

    async def run(self) -> None:
        """Tick for ever."""
        while True:
            await asyncio.sleep(1.0)
            try:
                self.tick()
            except Exception:
                _log.exception("error while checking leases and idle claims")
