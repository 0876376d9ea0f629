"""What the starter does as time goes by: renews the lease, tells usage, looks at disks, pools and broken streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os

from slotwise.starter import launcher, moves, telling, users
from slotwise.starter.host import JobHost
from slotwise.starter.moves import Phase
from slotwise.starter.run import Run

_log = logging.getLogger(__name__)

#: How often the thin pool is looked at, seconds.
_POOL_LOOK_S = 10.0


async def keep_watch(host: JobHost) -> None:
    """Renew the lease, tell usage, look at disks and at broken streams; for ever."""
    renewed = pool_looked = 0.0
    while True:
        await asyncio.sleep(1.0)
        now = host.clock.now()
        if host.board.listening and now - renewed >= 5:
            renewed = now
            users.forget_accounts()
            with contextlib.suppress(OSError):
                os.utime(host.lease)
        if host.disks.volumes.pooled and now - pool_looked >= _POOL_LOOK_S:
            pool_looked = now
            await look_at_pool(host)
        for run in list(host.runs.values()):
            try:
                await look_at(host, run, now)
            except Exception:  # whatever is wrong with one run, the leases of all others must be renewed
                _log.exception("run %s", run.run_id)


async def look_at(host: JobHost, run: Run, now: float) -> None:
    """Do what is due for one run."""
    if run.lost_at is not None and run.lease_s > 0 and now - run.lost_at > run.lease_s:
        _log.warning("run %s: its shadow was away for more than %d s", run.run_id, run.lease_s)
        run.on(moves.Unwanted(tell_startd=True))
        return
    if run.state.phase is Phase.STARTING and (run.state.unwanted or (run.state.kill and run.state.kill.fast)):
        # The keeper may not have listened yet, and a job that waits for a pipe is never said to have begun.
        launcher.command(run.directory.control, "hard")
    if run.state.phase is not Phase.RUNNING or not run.started_at:
        return
    settings = host.settings
    if not run.next_update_at:
        run.next_update_at = run.started_at + settings.initial_update_s
        run.next_startd_update_at = run.started_at + min(5.0, settings.startd_update_s)
        run.next_disk_at = run.started_at + min(settings.poll_s, settings.initial_update_s)
    if now >= run.next_update_at or (settings.enforce_disk and now >= run.next_disk_at):
        run.next_disk_at = now + max(settings.poll_s, 1.0)
        run.disk = await host.disks.measure(run)
        full = host.disks.over_limit(run)
        if full is not None:
            run.on(moves.Failed(full))
            return
    if now >= run.next_update_at:
        run.next_update_at = now + settings.update_s
        telling.update(run)
    elif now >= run.next_startd_update_at:
        run.next_startd_update_at = now + settings.startd_update_s
        telling.tell_startd_usage(run)


async def look_at_pool(host: JobHost) -> None:
    """See how full the thin pool is; say so in log and machine ad when it is exhausted, and when it is no more."""
    disks = host.disks
    disks.pool = await asyncio.get_running_loop().run_in_executor(None, disks.volumes.pool_use)
    enforcement = host.enforcement.with_pool(disks.pool)
    if enforcement is host.enforcement:
        return
    host.enforcement = enforcement
    if disks.pool is not None:
        _log.warning("thin pool %s: data %.1f %%, metadata %.1f %%", *vars(disks.pool).values())
    host.tell_facts()
