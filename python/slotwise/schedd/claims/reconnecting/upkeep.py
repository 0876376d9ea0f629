"""What is due with time: leases that run out, jobs that have cooled down, claims that are kept alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.ends.idle_claims import IdleClaims
from slotwise.schedd.claims.faults.failures import Failures
from slotwise.schedd.claims.faults.sweep import Sweep
from slotwise.schedd.claims.records import ClaimTable
from slotwise.schedd.claims.startds.startd_links import StartdLinks
from slotwise.schedd.claims.transitions import ApplyToRun
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.lifecycle.run_events import PatienceOver
from slotwise.schedd.storage.committer import Committer

_log = logging.getLogger(__name__)


class Upkeep:
    """Looks once a second after claims and runs."""

    #: ALIVE_INTERVAL, seconds.
    alive_interval_s = 300

    def __init__(
        self,
        queue: Queue,
        committer: Committer,
        clock: Clock,
        claim_table: ClaimTable,
        *,
        apply_to_run: ApplyToRun,
        links: StartdLinks,
        idle: IdleClaims,
        sweep: Sweep,
        failures: Failures,
        parallel: Callable[[], None],
        removed_hosts: Callable[[], None],
    ) -> None:
        """
        :param parallel: sees to parallel jobs.
        :param removed_hosts: ends what is held at hosts that were removed from the pool.
        """
        self._removed_hosts = removed_hosts
        self._parallel = parallel
        self._queue = queue
        self._committer = committer
        self._clock = clock
        self._claim_table = claim_table
        self._apply_to_run = apply_to_run
        self._links = links
        self._idle = idle
        self._sweep = sweep
        self._failures = failures
        #: When the claims at a startd were kept alive last, on the monotonic clock.
        self._alive_at: dict[str, float] = {}

    def tick(self) -> None:
        """See to what is due now."""
        moment = self._clock.monotonic()
        for run in list(self._claim_table.runs.values()):
            if run.state.silence is not None and moment >= run.state.silence.until:
                with contained(_log, doing_for_run(run.id, "asking for it again"), partial(self._failures.run, run)):
                    self._apply_to_run(run, PatienceOver(moment, run.end_of_claim))
        self._removed_hosts()
        self._sweep.if_due()
        if self._queue.wake(self._clock.now()):
            self._committer.tell_new_work()
        self._idle.release_expired(moment)
        self._parallel()
        self._keep_alive(moment)

    def _keep_alive(self, moment: float) -> None:
        for startd in self._claim_table.startds():
            link, claims = self._links.connected(startd), self._claim_table.at(startd)
            if not claims:
                continue
            every = max(1.0, min(claim.lease_s for claim in claims) / 3)
            every = min(every, self.alive_interval_s)
            if link is None or moment < self._alive_at.get(startd, -every) + every:
                continue
            self._alive_at[startd] = moment
            link.keep_alive([claim.id for claim in claims])

    async def run(self) -> None:
        """Tick for ever."""
        while True:
            await asyncio.sleep(1.0)
            try:
                self.tick()
            except Exception:
                _log.exception("error while checking leases and idle claims")
