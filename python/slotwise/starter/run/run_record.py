"""What a restarted starter needs of a run: kept as JSON in its control directory when its job starts."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Protocol

from slotwise.execution.exit_status import MemoryRule
from slotwise.execution.job_view import read_job, read_slot
from slotwise.starter.enforcement import accounts
from slotwise.starter.job.ads import lookup, pack_one, unpack_one
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.run_job import Enforced, RunJob
from slotwise.starter.links.user_log import UserLog
from slotwise.starter.run.run import Run, RunHost
from slotwise.starter.scratch.space import ScratchSpace
from slotwise.starter.transfer.run_files import RunFiles


class RecordedRun(Protocol):
    """What the record of a run is made of."""

    assignment: Assignment
    job: RunJob
    files: RunFiles
    scratch: ScratchSpace
    user_log: UserLog | None


class RecoveringHost(RunHost, Protocol):
    """What the host does for a run from before a restart."""

    def register(self, run: Run) -> None:
        """Know a run by its id and its directory."""
        ...


def save(run: RecordedRun) -> dict[str, object]:
    """The record of a run; see :func:`load`."""
    assignment, job = run.assignment, run.job
    return {
        "run_id": assignment.run_id,
        "token": assignment.token,
        "user": job.user,
        "shadow_address": assignment.shadow_address,
        "fetched_for": assignment.fetched_for,
        "slot_name": assignment.slot.name,
        "lease_s": assignment.lease_s,
        "transfers": job.transfers,
        "job_ad": base64.b64encode(pack_one(job.ad)).decode(),
        "machine_ad": base64.b64encode(pack_one(assignment.machine_ad)).decode(),
        "identity": accounts.to_json(job.identity),
        "before": run.files.before,
        "memory": [job.enforced.memory.limit_mib, job.enforced.memory.always_hold],
        "cgrouped": job.enforced.cgrouped,
        "volume": run.scratch.volume is not None,
        "limits": assignment.limits,
        "cores": job.enforced.cores,
        "came": run.files.received.to_json(),
        "runtime": [job.choice.runtime, job.choice.image, job.image],
        "user_log": run.user_log.path if run.user_log is not None else "",
    }


def load(host: RecoveringHost, directory: RunDirectory, kept: Mapping[str, object]) -> Run:
    """The run of a record that :func:`save` made; not yet on a stream.

    :raises SlotwiseError: when the ads cannot be read.
    """
    machine_ad = unpack_one(base64.b64decode(str(kept["machine_ad"])))
    limits, cores, before = kept.get("limits"), kept.get("cores"), kept.get("before")
    assignment = Assignment(
        run_id=str(kept["run_id"]),
        slot=read_slot(lookup(machine_ad), str(kept["slot_name"])),
        machine_ad=machine_ad,
        directory=directory,
        token=str(kept["token"]),
        lease_s=float(str(kept["lease_s"])),
        shadow_address=str(kept["shadow_address"]),
        fetched_for=str(kept.get("fetched_for") or ""),
        limits=dict(limits) if isinstance(limits, dict) else {},
    )
    run = Run(host, assignment)
    job = run.job
    job.transfers = bool(kept["transfers"])
    job.ad = unpack_one(base64.b64decode(str(kept["job_ad"])))
    job.user = str(kept["user"])
    job.view = read_job(lookup(job.ad), job.user)
    job.identity = accounts.from_json(kept["identity"])
    if job.identity.tracking_gid is not None:
        host.preparation.take_group(job.identity.tracking_gid)
    if isinstance(before, dict):
        run.files.before = {str(name): (int(pair[0]), int(pair[1])) for name, pair in before.items()}
    memory = kept["memory"]
    job.enforced = Enforced(
        MemoryRule(int(memory[0]), bool(memory[1])) if isinstance(memory, list) else MemoryRule(),
        cgrouped=bool(kept["cgrouped"]),
        cores=tuple(int(core) for core in cores) if isinstance(cores, list) else (),
    )
    runtime = kept.get("runtime")
    if isinstance(runtime, list):
        job.choice, job.image = Choice(str(runtime[0]), str(runtime[1])), str(runtime[2])
    run.files.received.from_json(kept.get("came"))
    if log := str(kept.get("user_log") or ""):
        run.user_log = UserLog(run, log, host.machine.settings.date_form)
    if kept.get("volume"):
        host.disks.take_up(run.scratch)
    host.register(run)
    return run
