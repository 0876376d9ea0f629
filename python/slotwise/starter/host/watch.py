"""The starter's periodic work: renews the lease, reports usage, checks disks, thin pools and runs without a shadow.

All of it goes by the monotonic clock: a correction of the time of day changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import astuple

from slotwise.classad.values import Value
from slotwise.daemon.containment import contained
from slotwise.ids import doing_for_run
from slotwise.starter.host.job_host import JobHost
from slotwise.starter.job.choice import NONE
from slotwise.starter.run import events, reporting
from slotwise.starter.run.reporting import ReportingRun
from slotwise.starter.run.schedule import UpdateSchedule
from slotwise.starter.run.states import Phase
from slotwise.starter.runtimes.runtime import container_run

_log = logging.getLogger(__name__)

#: How often the thin pool is checked, seconds.
_POOL_LOOK_S = 10.0
#: How often leftovers of containers are looked for, seconds.
_SWEEP_S = 300.0
#: How often the lease is renewed while a startd listens, seconds.
_RENEW_S = 5.0
#: When a runtime is asked first what a job in it uses, and how often then, seconds; as often as HTCondor asks Docker.
_RUNTIME_FIRST_S, _RUNTIME_S = 2.0, 20.0


class WatchedRun(ReportingRun, Protocol):
    """What the periodic work needs of a run."""

    schedule: UpdateSchedule

    @property
    def executing(self) -> bool:
        """The job executes, or is suspended."""
        ...

    def on(self, event: events.Event) -> None:
        """Apply an event."""
        ...


async def keep_lease(host: JobHost) -> None:
    """Renew the lease that all jobs share while the startd listens, until cancelled.

    Apart from the other work, so that nothing slow about one run ends the lease of all.
    """
    while True:
        if host.startd.listening:
            with contextlib.suppress(OSError):
                os.utime(host.lease)
        await asyncio.sleep(_RENEW_S if host.startd.listening else 1.0)


async def keep_looking(host: JobHost) -> None:
    """Look every second at what is due for each run, until cancelled."""
    pool_looked, runtimes_swept = 0.0, host.clock.monotonic()
    while True:
        await asyncio.sleep(1.0)
        now = host.clock.monotonic()
        for run in list(host.runs.values()):
            try:
                look_at(host, run, now)
            except Exception:  # one run's fault does not keep the others from being checked
                _log.exception("run %s: error while checking its limits", run.run_id)
        host.machine.check_runtimes()
        if now - runtimes_swept >= _SWEEP_S:
            runtimes_swept = now
            with contained(_log, "removing leftovers of containers"):
                await host.sweep_runtimes()
        if host.disks.volumes.pooled and now - pool_looked >= _POOL_LOOK_S:
            pool_looked = now
            try:
                await look_at_pool(host)
            except Exception:
                _log.exception("could not check the thin pool")


def look_at(host: JobHost, run: WatchedRun, now: float) -> None:
    """Do what is due for one run; ``now`` is of the monotonic clock."""
    run_id, lease_s = run.assignment.run_id, run.assignment.lease_s
    if run.shadow.lease_expired(lease_s, now):
        _log.warning("run %s: no contact with the shadow for more than %d s, ending the run", run_id, lease_s)
        run.on(events.Unwanted(report_gone=True))
        return
    if run.state.phase is Phase.STARTING and (run.state.unwanted or (run.state.kill and run.state.kill.fast)):
        # The keeper may not have listened yet, and a job that waits for a pipe never starts.
        run.keeper.kill()
    if not run.executing or not run.job.started_at:
        return
    settings, due = host.machine.settings, run.schedule
    if due.shadow_at is None:
        began = now - max(0.0, host.clock.now() - run.job.started_at)
        due.shadow_at = began + settings.initial_update_s
        due.startd_at = began + min(5.0, settings.startd_update_s)
        due.runtime_at = began + min(_RUNTIME_FIRST_S, settings.initial_update_s)
        due.disk_at = began + min(settings.poll_s, settings.initial_update_s)
    if now >= due.runtime_at and run.job.choice.runtime != NONE:
        due.runtime_at = math.inf
        run.begin(_asked(host, run))
    if due.measuring:  # a large directory takes its time, and other runs do not wait for it
        return
    if now >= due.shadow_at or (settings.enforce_disk and now >= due.disk_at):
        due.measuring = True
        run.begin(_measured(host, run))
    elif now >= due.startd_at:
        due.startd_at = now + settings.startd_update_s
        reporting.report_usage(run)


async def _asked(host: JobHost, run: WatchedRun) -> None:
    """Ask a run's runtime what only it can measure."""
    found: Mapping[str, Value] = {}
    with contained(_log, doing_for_run(run.assignment.run_id, "asking its runtime what it uses")):
        found = await host.machine.runtimes.usage(container_run(run.assignment, run.job, run.pid))
    run.reported.measured_by_runtime = found or run.reported.measured_by_runtime
    run.schedule.runtime_at = host.clock.monotonic() + _RUNTIME_S


async def _measured(host: JobHost, run: WatchedRun) -> None:
    """Measure a run's disk use, and report what is due; a job that has too much ends."""
    due = run.schedule
    try:
        run.scratch.used = await host.disks.measure(run.scratch)
    finally:
        due.measuring = False
        now = host.clock.monotonic()
        due.disk_at = now + max(host.machine.settings.poll_s, 1.0)
    if not run.executing:
        return
    full = host.disks.over_limit(run.scratch)
    if full is not None:
        run.on(events.Failed(full))
    elif due.shadow_at is not None and now >= due.shadow_at:
        due.shadow_at = now + host.machine.settings.update_s
        reporting.update(run)


async def look_at_pool(host: JobHost) -> None:
    """Check how full the thin pool is; log and advertise when it is exhausted, and when it is not any more."""
    disks = host.disks
    disks.pool = await asyncio.get_running_loop().run_in_executor(None, disks.volumes.pool_use)
    former = host.machine.enforcement
    host.machine.note_pool(disks.pool)
    if disks.pool is not None and host.machine.enforcement is not former:
        _log.warning("thin pool %s: data %.1f %%, metadata %.1f %%", *astuple(disks.pool))
