"""What a run reports: its start, usage and end to the shadow; its phase, usage and the freed slot to the startd."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from typing import Protocol

from slotwise.classad import ClassAd
from slotwise.classad.values import Value
from slotwise.execution.exit_status import End, How
from slotwise.execution.launcher import write_files
from slotwise.starter.hooks import hooks
from slotwise.starter.hooks.hooks import HookedRun
from slotwise.starter.job.ads import lookup, memory_usage_expression, pack_one, text
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.links.leftovers import CANNOT_KILL
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.links.user_log import UserLog
from slotwise.starter.messages import Ended, JobSuspended, JobUsage, RunPhase, SlotFree, Started, Update
from slotwise.starter.run.conclusion import finished
from slotwise.starter.run.measured import MeasuredRun, end_ad, usage_ad
from slotwise.starter.run.run_host import HostServices


class ReportingRun(HookedRun, MeasuredRun, Protocol):
    """What reports need of a run."""

    shadow: ShadowConnection
    user_log: UserLog | None

    @property
    def host(self) -> HostServices:
        """What all runs share."""
        ...

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work of the run go on by itself."""
        ...


# ---- to the shadow


def send_started(run: ReportingRun) -> None:
    """Report to the shadow that the job executes."""
    run.shadow.report(
        Started(
            pid=run.state.pid,
            scratch_dir=str(run.assignment.directory.scratch),
            at=int(run.job.started_at),
            slot_properties=pack_one(_slot_properties(run.assignment)),
        )
    )
    if run.user_log is not None:
        run.user_log.executing(run.host.own_address)


def _slot_properties(assignment: Assignment) -> dict[str, Value]:
    """What the execute event says of the slot."""
    ad, slot = assignment.machine_ad, assignment.slot
    value = lookup(ad)
    properties: dict[str, Value] = {"CondorScratchDir": str(assignment.directory.scratch), "GPUs": 0}
    for tag in slot.machine_resources:
        if isinstance(amount := value(tag), int | float):
            properties[tag] = amount
        if (available := f"Available{tag}") in ad:
            properties[available] = ad.lookup(available)  # by the names of the devices' own ads
            properties.update({name: ad.lookup(name) for name in _devices(ad, tag)})
    properties.pop("Swap", None)
    return properties | {"Cpus": slot.cpus, "Disk": slot.disk_kib, "Memory": slot.memory_mib}


def _devices(ad: ClassAd, tag: str) -> list[str]:
    """The attributes of a slot's ad that tell more of its devices of a resource than their ids: ads of their own."""
    own = ((name, ad[name]) for name in ad if name.lower().startswith(f"{tag.lower()}_"))
    return [name for name, device in own if isinstance(device, ClassAd) and len(device) > 1]


def send_end(run: ReportingRun) -> None:
    """Report to the shadow how the run ended."""
    end, now = run.state.end, run.host.clock.now()
    if end is None:
        return
    result = run.keeper.result
    if run.user_log is not None:
        run.user_log.ended(end, result, now, executed=run.state.executed)
    attributes = {**end_ad(run, end, now), **run.reported.by_hook}
    attributes["MemoryUsage"] = memory_usage_expression()
    at = result.ended_at if result is not None and result.ended_at else now
    run.shadow.report(ended(end, at=int(at), ad=pack_one(attributes)))


def ended(end: End, *, at: int = 0, ad: bytes = b"") -> Ended:
    """The report of an end."""
    return Ended(
        how=str(end.how),
        code=end.code,
        ad=ad,
        reason=end.reason,
        reason_code=end.reason_code,
        reason_subcode=end.reason_subcode,
        at=at,
        core_dumped=end.core,
    )


def update(run: ReportingRun) -> None:
    """Report to shadow, startd, hook and the job itself what the job uses."""
    attributes = usage_ad(run, run.host.clock.now())
    pack = pack_one(attributes)
    run.shadow.report(Update(pack))
    report_usage(run, pack)
    run.begin(hooks.updated(run, run.host.machine.settings, attributes))
    with contextlib.suppress(OSError):
        update_ad = run.assignment.directory.update_ad
        fresh = update_ad.with_suffix(".ad.tmp")
        write_files([(str(fresh), 0o644, None, text(ClassAd(attributes)).encode("utf-8", "surrogateescape"))])
        fresh.rename(update_ad)


# ---- to the startd


def report_phase(run: ReportingRun) -> None:
    """Report to the startd which phase the run is in."""
    run.host.startd.report(run.assignment.run_id, RunPhase(str(run.state.phase), run.state.pid))


def report_suspension(run: ReportingRun, resumed: bool) -> None:
    """Report to startd and shadow that the job was suspended, or continued.

    The log of fetched work has it from here; of all other jobs the access point writes what it hears from the startd.
    """
    run.host.startd.report(run.assignment.run_id, JobSuspended(resumed=resumed))
    update(run)
    if run.user_log is not None:
        processes = max(1, run.keeper.usage().processes)
        run.user_log.suspended(run.host.clock.now(), resumed=resumed, processes=processes)


_HOW = {How.EXITED: "exited", How.SIGNALED: "exited", How.HELD: "held", How.EVICTED: "evicted"}


def report_slot_free(run: ReportingRun) -> None:
    """Report to the startd that the slot is free."""
    end, result = run.state.end, run.keeper.result
    assignment, host = run.assignment, run.host
    usage = result.usage if result is not None else None
    left = None
    if result is not None and result.leftovers:
        left = host.leftovers.note(assignment.run_id, assignment.slot, *CANNOT_KILL)
    free = SlotFree(
        bytes_received=run.files.bytes_received,
        bytes_sent=run.files.bytes_sent,
        how=_HOW.get(end.how, "failed") if end is not None else "evicted",
        broken=left is not None,
        left=left,
        reason=end.reason if end is not None else "",
        code=(end.code if end.by_itself else end.reason_code) if end is not None else 0,
        cpu_s=usage.user_s + usage.system_s if usage is not None else 0.0,
        fetched=bool(assignment.fetched_for),
        finished=end is not None and finished(assignment.fetched_for, run.state, result, end),
    )
    host.startd.report(assignment.run_id, free)


def report_usage(run: ReportingRun, pack: bytes | None = None) -> None:
    """Report to the startd what the job uses, for its policy."""
    usage = pack if pack is not None else pack_one(usage_ad(run, run.host.clock.now()))
    run.host.startd.report(run.assignment.run_id, JobUsage(usage))
