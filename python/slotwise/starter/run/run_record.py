"""What a restarted starter needs of a run: kept as JSON in its control directory when its job starts."""

from __future__ import annotations

import base64

from slotwise.execution.exit_status import MemoryRule
from slotwise.execution.job_view import read_job, read_slot
from slotwise.starter.enforcement import accounts
from slotwise.starter.job.ads import lookup, pack_one, unpack_one
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.links.user_log import UserLog
from slotwise.starter.run.run import Run
from slotwise.starter.run.run_host import Host


def save(run: Run) -> dict[str, object]:
    """The record of a run; see :func:`load`."""
    return {
        "run_id": run.run_id,
        "token": run.token,
        "user": run.user,
        "shadow_address": run.shadow_address,
        "fetched_for": run.fetched_for,
        "slot_name": run.slot.name,
        "lease_s": run.lease_s,
        "transfers": run.transfers,
        "job_ad": base64.b64encode(pack_one(run.job_ad)).decode(),
        "machine_ad": base64.b64encode(pack_one(run.machine_ad)).decode(),
        "identity": accounts.to_json(run.identity),
        "before": run.before,
        "memory": [run.memory.limit_mib, run.memory.always_hold],
        "cgrouped": run.cgrouped,
        "volume": run.volume is not None,
        "limits": run.limits,
        "cores": run.cores,
        "came": run.received.to_json(),
        "user_log": run.user_log.path if run.user_log is not None else "",
    }


def load(host: Host, directory: RunDirectory, kept: dict[str, object]) -> Run:
    """The run of a record that :func:`save` made; not yet on a stream.

    :raises SlotwiseError: when the ads cannot be read.
    """
    machine_ad = unpack_one(base64.b64decode(str(kept["machine_ad"])))
    slot = read_slot(lookup(machine_ad), str(kept["slot_name"]))
    run = Run(host, str(kept["run_id"]), slot, machine_ad, directory)
    run.token, run.shadow_address = str(kept["token"]), str(kept["shadow_address"])
    run.fetched_for = str(kept.get("fetched_for") or "")
    run.lease_s = float(str(kept["lease_s"]))
    run.transfers, run.cgrouped = bool(kept["transfers"]), bool(kept["cgrouped"])
    run.job_ad = unpack_one(base64.b64decode(str(kept["job_ad"])))
    run.user = str(kept["user"])
    run.job = read_job(lookup(run.job_ad), run.user)
    run.identity = accounts.from_json(kept["identity"])
    if run.identity.tracking_gid is not None:
        host.take_group(run.identity.tracking_gid)
    before = kept.get("before")
    if isinstance(before, dict):
        run.before = {name: (int(pair[0]), int(pair[1])) for name, pair in before.items()}
    memory = kept["memory"]
    if isinstance(memory, list):
        run.memory = MemoryRule(int(memory[0]), bool(memory[1]))
    run.limits = dict(kept.get("limits") or {})  # type: ignore[call-overload]
    run.cores = tuple(kept.get("cores") or ())  # type: ignore[arg-type]
    run.received.from_json(kept.get("came"))
    if log := str(kept.get("user_log") or ""):
        run.user_log = UserLog(run, log)
    if kept.get("volume"):
        host.disks.take_up(run)
    host.register(run)
    return run
