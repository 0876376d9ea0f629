"""What a run uses, as attributes: measured by keeper, disk and the startd's monitors, or set by the job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import UNDEFINED, ExprTree
from slotwise.classad.values import Value
from slotwise.execution.exit_status import End
from slotwise.execution.job_view import NULL_FILE
from slotwise.execution.keeper_link import KeeperLink
from slotwise.starter.job import usage
from slotwise.starter.job.ads import memory_usage_expression
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.job.usage import Moment
from slotwise.starter.run.states import RunState
from slotwise.starter.scratch.space import ScratchSpace
from slotwise.starter.transfer.run_files import RunFiles


class Reported(Struct):
    """Attributes of a run that others than the starter report."""

    #: What the startd's monitors say of the devices that the job has.
    devices: Mapping[str, int | float] = field(default_factory=dict)
    #: What the job has set for the next update (chirp).
    by_job: Mapping[str, ExprTree] = field(default_factory=dict)
    #: What the hook at the job's end has printed.
    by_hook: Mapping[str, ExprTree] = field(default_factory=dict)
    #: What its runtime knows of it while it runs (``<service>_HostPort``).
    by_runtime: Mapping[str, Value] = field(default_factory=dict)
    #: What its runtime has measured of it.
    measured_by_runtime: Mapping[str, Value] = field(default_factory=dict)


class MeasuredRun(Protocol):
    """What a run consists of, as far as it uses something."""

    assignment: Assignment
    job: RunJob
    files: RunFiles
    scratch: ScratchSpace
    keeper: KeeperLink
    reported: Reported

    @property
    def state(self) -> RunState:
        """Where the run is."""
        ...


def moment(run: MeasuredRun, now: float) -> Moment:
    """Where the run stands at ``now``."""
    return Moment(
        now=now,
        started_at=run.job.started_at,
        pid=run.state.pid,
        suspended=run.state.suspended,
        cgroup=run.job.enforced.cgrouped,
        bytes_received=run.files.bytes_received,
        bytes_sent=run.files.bytes_sent,
    )


def usage_ad(run: MeasuredRun, now: float) -> dict[str, Value]:
    """What the job uses, as attributes."""
    attributes = usage.usage_attributes(run.keeper.usage(), run.scratch.used, moment(run, now))
    attributes["MemoryUsage"] = memory_usage_expression()
    return {**attributes, **stream_times(run), **traffic_ad(run), **run.reported.by_runtime, **_reported(run)}


def end_ad(run: MeasuredRun, end: End, now: float) -> dict[str, Value]:
    """How the run ends and what it has used, as attributes."""
    result = run.keeper.result
    if result is not None:
        result = replace(result, usage=run.keeper.usage())
    limit_mib = run.job.enforced.memory.limit_mib
    attributes = usage.end_attributes(end, result, run.scratch.used, moment(run, now), limit_mib)
    attributes["MemoryUsage"] = memory_usage_expression()
    over = dict.fromkeys(run.reported.by_runtime, UNDEFINED)
    return {**attributes, **stream_times(run), **traffic_ad(run), **over, **_reported(run)}


def _reported(run: MeasuredRun) -> dict[str, Value | ExprTree]:
    reported = run.reported
    return {**reported.measured_by_runtime, **reported.devices, **reported.by_job}


def traffic_ad(run: MeasuredRun) -> dict[str, Value]:
    """TransferInputStats and TransferOutputStats, over all runs of the job."""
    pairs = (("TransferInputStats", run.files.received), ("TransferOutputStats", run.files.sent))
    return {name: traffic.attributes(run.job.value(name)) for name, traffic in pairs}


def stream_times(run: MeasuredRun) -> dict[str, Value]:
    """When the job last wrote to its standard output and error, of the files that its scratch directory has of them."""
    job, found = run.job.view, dict[str, Value]()
    files = list(job.stream_files()) if job is not None and run.job.transfers else []
    if job is None or not files:
        return found
    for name, stream, file in (("StdoutMtime", job.stdout, files[0]), ("StderrMtime", job.stderr, files[-1])):
        if stream != NULL_FILE:
            with contextlib.suppress(OSError):
                found[name] = int(os.lstat(run.assignment.directory.scratch / file).st_mtime)
    return found
