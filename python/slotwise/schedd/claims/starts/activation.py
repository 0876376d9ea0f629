"""Activates claims: has startds run the jobs of runs that are durable, suspend them, and continue them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.starts.dataflow_skips import DataflowSkips
from slotwise.schedd.claims.transitions import ApplyToRun
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.lifecycle import run_events
from slotwise.schedd.lifecycle.run_instructions import GiveUp

_log = logging.getLogger(__name__)


class Activation:
    """Sends the activations of claims."""

    def __init__(
        self,
        ads: JobAds,
        claim_table: ClaimTable,
        links: StartdLinks,
        address: str,
        *,
        apply: ApplyToRun,
        on_begun: Callable[[Run], None],
        give_up: Callable[[Run, GiveUp], None],
        dataflow: DataflowSkips,
        failures: Failures,
    ) -> None:
        """
        :param address: where starters reach the shadows of this schedd.
        :param on_begun: called with every run that is durable, before its claim is activated for the first time.
        :param give_up: ends a run without a word of its starter.
        """
        self._ads = ads
        self._claim_table = claim_table
        self._links = links
        self._address = address
        self._apply = apply
        self._on_begun = on_begun
        self._give_up = give_up
        self._dataflow = dataflow
        self._failures = failures

    def activate_all(self, runs: Iterable[Run]) -> None:
        """Activate the claims of new runs that are durable."""
        for run in runs:
            with contained(_log, doing_for_run(run.id, "activating its claim"), partial(self._failures.run, run)):
                self._on_begun(run)
                if not self._dataflow.look(run, self.activate):
                    self.activate(run)

    def activate(self, run: Run) -> None:
        """Have the startd run the job now, if the job is still meant to run, and it is known that it need run."""
        if self._dataflow.is_looking(run):
            return
        self._apply(run, run_events.ActivationDue(run.goes_on))

    def suspend(self, run_id: str, *, resume: bool) -> bool:
        """Have the startd suspend the job of a run, or continue it; false when no startd can be asked."""
        runs = self._claim_table.runs_of_job(run_id)
        asked = [self._links.suspend(run.claim, resume=resume) for run in runs]  # each, whatever comes of the others
        return bool(asked) and all(asked)

    def send(self, run: Run) -> None:
        """Send the activation; it is sent again when a startd that cannot be reached tells which claims it knows."""
        link = self._links.open(run.claim.startd)
        if not link.connected:
            return
        try:
            job_ad = self._ads.final_pack(run.job, run.claim.slot, run.node_ad)
        except Exception as error:
            self._give_up(run, GiveUp(RunOutcome.UNFIT, str(error), 0))
            return
        link.activate(self._claim_table.serial(), run, job_ad, self._address)
