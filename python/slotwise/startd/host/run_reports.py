"""What the starter reports of runs, decided: their end, what they left behind, their usage."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.values import Value, number
from slotwise.model.resources import Resources
from slotwise.model.slot import BrokenCode, VacateCode
from slotwise.startd.host.broken_slots import BrokenSlots
from slotwise.startd.host.claims import Claims
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.outbox import EndNoted, Freeze, Noted, RefusedRun, RepairNoted, ToSchedd
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.records.breakage import Breakage
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.slot.states import Claimed, Cleaning, Suspended
from slotwise.startd.slot_ad.owner_load import smoothed

_log = logging.getLogger(__name__)


class Leftover(Struct, frozen=True):
    """What a run left behind: why, with its SlotBrokenCode, and the amounts of its slot."""

    run_id: str
    slot_name: str = ""
    reason: str = ""
    code: int = 0
    amounts: Resources = field(default_factory=Resources)


class RunGone(Struct, frozen=True):
    """The starter has cleaned up after a run, but for ``leftover``.

    ``fetched``: the starter repeats the report until it is confirmed; ``finished``: fetched work has completed.
    """

    run_id: str
    how: str
    reason: str = ""
    finished: bool = False
    fetched: bool = False
    bytes_received: float = 0
    bytes_sent: float = 0
    leftover: Leftover | None = None


class ListedRun(Struct, frozen=True):
    """A run that the starter has."""

    run_id: str
    slot_name: str
    suspended: bool


class RunReports:
    """Takes the starter's reports in."""

    def __init__(self, host: HostState, claims: Claims, broken_slots: BrokenSlots, ads: SlotAds) -> None:
        self._host, self._claims, self._broken_slots, self._ads = host, claims, broken_slots, ads

    def gone(self, report: RunGone, now: float) -> None:
        """A run is over."""
        self._ads.statistics.transferred(report.bytes_received, report.bytes_sent)
        if report.leftover is not None:
            self.left_behind(report.leftover, now, finished=report.finished)
        else:
            self._claims.run_gone(report.run_id, now, finished=report.finished, reason=report.reason)
        if report.fetched:
            self._host.outbox.starter.append(EndNoted(report.run_id))

    def left_behind(self, leftover: Leftover, now: float, *, finished: bool = False) -> None:
        """A run left something behind; the starter reports it until it is confirmed that the journal has it."""
        reason = leftover.reason or "Could not clean up after job"
        code, run_id, settings = leftover.code or BrokenCode.UNCLEAN, leftover.run_id, self._host.settings
        if code == BrokenCode.HUNG_PROCESS and not settings.unkillable_break:
            _log.error("%s: %s (run %s); the slot stays in use", leftover.slot_name, reason, run_id)
            self._claims.run_gone(run_id, now, finished=finished)
        else:
            if not self._claims.run_gone(run_id, now, broken=reason, code=code, finished=finished):
                amounts = _own(leftover.amounts, settings.resources.shared)
                breakage = Breakage(reason, code, now, run_id)
                self._broken_slots.report_leftover(leftover.slot_name, amounts, breakage, now)
            _log.error("%s is broken: %s (run %s)", leftover.slot_name, reason, run_id)
        self._host.outbox.starter.append(Noted(run_id))

    def repaired(self, run_id: str, now: float) -> None:
        """The leftovers of a run are gone; the starter reports it until it is confirmed that the journal has it."""
        self._broken_slots.repaired(run_id, now)
        self._host.outbox.starter.append(RepairNoted(run_id))

    def refused(self, run_id: str, reason: str, now: float) -> None:
        """The starter could not start a run."""
        record = self._host.slots.of_run(run_id)
        if record is not None and record.slot.claim is not None:
            refusal = RefusedRun(run_id, VacateCode.BAD_REQUEST, reason)
            message = ToSchedd(record.terms.schedd, 0, record.slot.claim.claim_id, refusal)
            self._host.outbox.schedds.append(message)
        self._claims.run_gone(run_id, now, reason=reason)

    def checkpointing(self, run_id: str, now: float) -> None:
        """A run's job has written a checkpoint and waits until that is safe."""
        record = self._host.slots.of_run(run_id)
        if record is not None and self._host.settings.checks_checkpoints:
            self._claims.checkpointing(record, now)

    def usage(self, run_id: str, ads: Iterable[ClassAd], now: float) -> None:
        """The usage of a run's job so far."""
        record = self._host.slots.of_run(run_id)
        if record is None:
            return
        for ad in ads:
            for name in ad:
                value = ad.eval(name, None, now=int(now))
                if isinstance(value, bool | int | float | str):
                    record.usage.attributes[name] = value
                    if record.activation is not None:  # policies see the job as it is, not as it was submitted
                        record.activation.job.ad[name] = value
        _update_load(record, now)
        self._ads.show(record, now)

    def host_facts(self, ad: ClassAd, now: float) -> bool:
        """What the starter can do for jobs on this host, and what it cannot; whether that has changed."""
        facts: dict[str, Value] = {name: ad.eval(name, None, now=int(now)) for name in ad}
        facts["CgroupEnforced"] = bool(facts.get("CgroupVersion"))
        facts["IsEnforcingDiskUsage"] = facts.get("EnforcesDisk") == "volume"
        changed = self._ads.starter_abilities != facts
        self._ads.starter_abilities = facts
        return changed

    def agree_on_suspension(self, listed: ListedRun) -> None:
        """Repeat a command to suspend or resume a run, which may have been lost with a stream or a starter."""
        record = self._host.slots.of_run(listed.run_id)
        state = record.slot.state if record is not None else None
        if not isinstance(state, Claimed) or state.run is None:
            return
        suspended = isinstance(state.doing, Suspended)
        if listed.suspended != suspended and not isinstance(state.doing, Cleaning):
            self._host.outbox.starter.append(Freeze(listed.run_id, resume=not suspended))


def _own(amounts: Resources, shared: Iterable[str]) -> Resources:
    """The amounts without devices that several slots share."""
    devices = {tag: names for tag, names in amounts.devices.items() if names and tag not in shared}
    custom: dict[str, float] = {tag: len(names) for tag, names in devices.items()}
    return Resources(amounts.cpus, amounts.memory_mib, amounts.disk_kib, 0, custom, devices)


def _update_load(record: SlotRecord, now: float) -> None:
    """CondorLoadAvg: a moving average over a minute of what the job's processes use."""
    used = sum(number(record.usage.attributes.get(name)) for name in ("RemoteUserCpu", "RemoteSysCpu"))
    began = record.slot.run.activated_at if record.slot.run is not None else now
    before_at, before = record.usage.cpu_seen or (began, 0.0)
    since_s = now - before_at
    if since_s > 0:
        record.usage.condor_load = smoothed(record.usage.condor_load, max(0.0, used - before) / since_s, since_s)
        record.usage.cpu_seen = (now, used)
