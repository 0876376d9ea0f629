"""Carries out the instructions that the life cycle of a claim gives."""

from __future__ import annotations

import logging
from typing import Protocol

from slotwise.schedd.claims.records import Claim, ClaimRequestPending, ClaimTable, Run
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.starts.reserved_jobs import ReservedJobs
from slotwise.schedd.claims.starts.starting import Starting
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.lifecycle import claim_instructions as do
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction

_log = logging.getLogger(__name__)


class ComparesRuns(Protocol):
    """Brings a run into step with what became of its claim."""

    def claim_lost(self, run: Run, judge: bool) -> None:
        """The run's claim has gone; ``judge``: it may be given up if its starter does not have it either."""
        ...

    def run_checked(self, run: Run, active: bool) -> None:
        """The startd told whether the run is on its slot."""
        ...


class ClaimEffects:
    """Carries out the instructions for claims."""

    def __init__(
        self,
        claim_table: ClaimTable,
        links: StartdLinks,
        reserved: ReservedJobs,
        starting: Starting,
        runs: ComparesRuns,
    ) -> None:
        self._claim_table = claim_table
        self._links = links
        self._reserved = reserved
        self._starting = starting
        self._runs = runs

    def carry_out(self, claim: Claim, instruction: ClaimInstruction, turn: Turn) -> None:
        """Carry out one instruction."""
        match instruction:
            case do.StartNext():
                self._starting.start_next(claim, instruction, turn)
            case do.StartAfter(wait_s):
                self._starting.start_after(claim, wait_s)
            case do.SendRelease(reason, fast):
                _log.info("released the claim of %s for %s: %s", claim.slot_name, claim.submitter, reason)
                self._links.release(claim.startd, claim.id, reason, fast=fast)
            case do.Discard():
                turn.batch.delete_claim(claim.id)
                self._claim_table.drop(claim)
            case do.ReturnJob(job):
                self._reserved.give_back([job])
            case do.AwaitRunEnd(run_id, judge):
                if (run := self._claim_table.runs.get(run_id)) is not None:
                    self._runs.claim_lost(run, judge)
            case do.CheckRun(run_id, active):
                if (run := self._claim_table.runs.get(run_id)) is not None:
                    self._runs.run_checked(run, active)

    def return_jobs(self, pending: ClaimRequestPending) -> None:
        """Make the jobs of a request runnable again; its match holds nothing."""
        self._claim_table.outcomes.over(pending.match_id, pending.count)
        self._reserved.give_back(pending.jobs)
        if pending.part is not None:
            self._reserved.ask_soon()
