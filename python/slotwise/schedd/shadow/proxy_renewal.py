"""Sends running jobs the proxy certificates that their owners have renewed (SHADOW_CHECKPROXY_INTERVAL).

Manual, "Submitting a job", ``x509userproxy``: a job that runs longer than its proxy lasts gets the renewed one.
"""

from __future__ import annotations

import logging
import math
import os
from functools import partial

from msgspec import Struct

from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.daemon.pause import pause
from slotwise.ids import doing_for_run
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.transfer.files import FilePlan
from slotwise.schedd.transfer.transfers import Transfers
from slotwise.schedd.user_files import proxies
from slotwise.schedd.user_files.owner_rights import as_owner
from slotwise.transfer import safe_open
from slotwise.transfer.pieces import SMALL_MOST
from slotwise.wire.gen import schedd_pb2

_log = logging.getLogger(__name__)


class Renewed(Struct, frozen=True):
    """A proxy as its file is now, and what it tells of its user."""

    data: bytes
    changed_at: float
    told: Changes


class ProxyRenewal:
    """Looks at the proxies of running jobs."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        claim_table: ClaimTable,
        transfers: Transfers,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._claim_table = claim_table
        self._transfers = transfers
        self._clock = clock
        #: SHADOW_CHECKPROXY_INTERVAL; 0: renewed proxies are not sent.
        self.interval_s = 600.0

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await pause(lambda: self.interval_s or math.inf)
            await self.look()

    async def look(self) -> None:
        """Send the proxies that were renewed since they were sent."""
        for run in list(self._claim_table.runs.values()):
            with contained(_log, doing_for_run(run.id, "looking at its proxy")):
                await self._look(run)

    async def _look(self, run: Run) -> None:
        if run.over or run.stream is None or not run.executing_at or run.transfer is None:
            return
        transfer = self._transfers.of(run)
        plan, stream = transfer.plan, run.stream
        if not plan.proxy or plan.transfer == "NO" or not stream.private:
            return
        since = transfer.proxy_sent_at or run.born_at
        renewed = await self._transfers.in_thread(partial(_renewed, plan, since))
        if renewed is None or run.over or run.stream is not stream:
            return
        transfer.proxy_sent_at = renewed.changed_at
        piece = schedd_pb2.FilePiece(
            name=os.fsencode(os.path.basename(plan.proxy)), mode=0o600, data=renewed.data, last=True
        )
        await stream.send_piece(schedd_pb2.ShadowMessage(run_id=run.id, input=piece))
        run.sent_bytes += len(renewed.data)
        _log.info("%s: sent the renewed proxy to %s (run %s)", run.job.key, run.claim.slot_name, run.id)
        if renewed.told and self._queue.has(run.job):
            decision = Decision(self._clock.now())
            decision.set(run.job, renewed.told)
            self._ads.set(run.job.key, renewed.told)
            self._committer.commit(decision)


def _renewed(plan: FilePlan, since: float) -> Renewed | None:
    """The proxy, if its file has changed after ``since``; a file that cannot be read has not (worker thread)."""
    path = os.path.join(plan.iwd, plan.proxy)
    try:
        with as_owner(plan.owner, plan.fallback_account):
            descriptor = safe_open.regular(path)
        with open(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            changed_at = max(state.st_mtime, state.st_ctime)
            if changed_at <= since or not 0 < state.st_size <= SMALL_MOST:
                return None
            data = file.read(SMALL_MOST)
    except OSError:
        return None
    return Renewed(data, changed_at, proxies.read(path, plan.owner, plan.fallback_account))
