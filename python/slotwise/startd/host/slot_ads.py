"""The ads of slots: put together from what the startd knows, and kept up to date."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Value, write
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.host.backfill_amounts import open_to
from slotwise.startd.host.drain_state import DrainState
from slotwise.startd.host.host_state import HostState
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.settings import Settings
from slotwise.startd.slot.states import Slot
from slotwise.startd.slot_ad import attributes as slot_ad
from slotwise.startd.slot_ad.attributes import Attributes
from slotwise.startd.slot_ad.cron_ads import Published
from slotwise.startd.slot_ad.statistics import Statistics


class SlotAds:
    """The ads of all slots, and what they have in common."""

    def __init__(self, host: HostState, drain: DrainState, now: float) -> None:
        self._host, self._drain = host, drain
        #: Attributes of the machine as a whole: fingerprints, benchmarks, drains, power states.
        self.machine: Attributes = dict(host.settings.machine)
        #: What the starter can enforce on this host.
        self.starter_abilities: Attributes = {}
        #: What ``UpdateMachineAd`` has added, until the startd restarts.
        self.added: Attributes = {}
        #: What cron jobs have printed.
        self.cron = Published(started_at=now)
        self.statistics = Statistics(*host.settings.statistics_window_s)

    # -------------------------------------------------------------------------------------------- keeping up to date

    def show(self, record: SlotRecord, now: float) -> Attributes:
        """Bring the slot's ad up to date; returns what has changed since the last time (None: removed)."""
        attributes = self.attributes(record, now)
        shown = record.shown
        changes = {
            name: value
            for name, value in attributes.items()
            if (name not in shown and value is not None) or (name in shown and shown[name] != value)
        }
        changes |= {name: None for name in shown if name not in attributes}
        if None in changes.values():  # what is removed may be there under a name in other case
            there = {name.lower(): name for name, value in attributes.items() if value is not None}
            for name in [name for name, value in changes.items() if value is None and name.lower() in there]:
                del changes[name]
                changes[there[name.lower()]] = attributes[there[name.lower()]]
        write(record.ad, changes)
        record.shown = {name: value for name, value in attributes.items() if value is not None}
        changes.update(self._latch(record, now))
        return changes

    def show_children(self, record: SlotRecord) -> bool:
        """Bring the ``Child...`` lists of a partitionable slot up to date; whether that changed them."""
        names = self._host.settings.slot_knobs(record.slot_id, record.type_number).child_attrs
        lists = slot_ad.children_of(self._host.slots.children(record), names)
        changes = {name: value for name, value in lists.items() if record.shown.get(name) != value}
        write(record.ad, changes)
        record.shown = {**record.shown, **changes}
        return bool(changes)

    def show_amounts(self, record: SlotRecord, free: Resources) -> None:
        """Show what a partitionable slot has left, so that the next carving is decided by it."""
        left: Attributes = {"Cpus": free.cpus, "Memory": free.memory_mib, "Disk": free.disk_kib, **free.custom}
        left.update({f"Available{tag}": slot_ad.available(tag, free) for tag in free.devices})
        write(record.ad, left)
        record.shown = {**record.shown, **left}

    def refresh(self, record: SlotRecord, now: float) -> None:
        """Bring only what was measured, and times, up to date: what policies read between full updates."""
        attributes = {
            **self._host.settings.sampled(record.name, record.slot_id),
            **slot_ad.state_of(record.slot, now),
        }
        for name in record.latches:  # CpuBusyTime is measured too; where CpuBusy is a latch, its date counts
            attributes.pop(f"{name}Time", None)
        shown = record.shown
        changes = {name: value for name, value in attributes.items() if shown.get(name) != value}
        if changes:
            write(record.ad, changes)
            record.shown = {**shown, **changes}
        self._latch(record, now)

    def update_state(self, record: SlotRecord, now: float) -> None:
        """Bring the state into the ad at once; :meth:`show` still counts it as a change."""
        write(record.ad, slot_ad.state_of(record.slot, now))

    def overlay(self, record: SlotRecord, slot: Slot, now: float) -> ClassAd:
        """The slot's ad as it reads in the state ``slot``, at ``now``."""
        ad = record.ad.copy()
        write(ad, slot_ad.state_of(slot, now))
        return ad

    def open_to_its_match(self, record: SlotRecord) -> ClassAd:
        """The ad of a slot in Matched as the schedd of its match sees it: not closed, as it is to all others."""
        knobs = self._host.settings.slot_knobs(record.slot_id, record.type_number)
        ad = record.ad.copy()
        requirements = slot_ad.requirements(
            record,
            knobs,
            draining_start=self._drain.start,
            to_claim=True,
            registries_offline=self.starter_abilities.get("ContainerRegistriesOffline"),
        )
        write(ad, {"Requirements": requirements})
        return ad

    def spread(self, record: SlotRecord, now: float) -> None:
        """STARTD_SLOT_ATTRS: the other slots' policies see at once what this slot does."""
        settings, slots = self._host.settings, self._host.slots
        if not settings.slot_knobs(record.slot_id, record.type_number).slot_attrs or record.name not in slots:
            return
        record.shown = {**record.shown, **slot_ad.state_of(record.slot, now)}
        for other in slots:
            names = settings.slot_knobs(other.slot_id, other.type_number).slot_attrs
            if other is not record and names:
                seen = slot_ad.slots_of([record], other, names)
                write(other.ad, seen)
                other.shown = {**other.shown, **seen}

    def _latch(self, record: SlotRecord, now: float) -> Attributes:
        """Evaluate STARTD_LATCH_EXPRS, whose changes are dated; returns attributes of those that changed."""
        changes: Attributes = {}
        latches = self._host.settings.slot_knobs(record.slot_id, record.type_number).latches
        for name, expression in latches.items():
            value = expression.value(record.ad, None, now)
            if isinstance(value, bool | int | float) and record.latches.get(name, (None, 0))[0] != int(value):
                record.latches[name] = (int(value), int(now))
                changes[f"{name}Value"], changes[f"{name}Time"] = record.latches[name]
        if changes:
            write(record.ad, changes)
            record.shown = {**record.shown, **changes}
        return changes

    # ----------------------------------------------------------------------------------------------------- the whole

    def attributes(self, record: SlotRecord, now: float, settings: Settings | None = None) -> Attributes:
        """The whole ad; None marks attributes that must not be there.

        :param settings: a configuration that is not in force yet.
        """
        machine = self.machine if settings is None else {**self.machine, **settings.machine}
        settings = settings or self._host.settings
        slots = self._host.slots
        knobs = settings.slot_knobs(record.slot_id, record.type_number)
        policy = settings.policy(record.slot_id, record.type_number)
        result: Attributes = {**machine, **self.starter_abilities}
        result.update(settings.sampled(record.name, record.slot_id))
        result.update(knobs.attrs)
        if self.cron:
            result.update(self.cron.attributes(record.slot_id, record.ad, now))
        result.update(slot_ad.identity(record))
        result.update(slot_ad.amounts(record, settings.resources, open_to(slots, record)))
        result.update(settings.devices_of(record.total))
        result["TotalSlots"] = len(slots)
        result["Start"] = settings.expression(policy.texts["START"])
        result["Rank"] = settings.expression(policy.texts["RANK"])
        result["MaxJobRetirementTime"] = settings.expression(policy.texts["MAXJOBRETIREMENTTIME"])
        result["MachineMaxVacateTime"] = settings.expression(policy.texts["MACHINEMAXVACATETIME"])
        result["Unhibernate"] = settings.expression(policy.unhibernate)
        result["SlotWeight"] = settings.expression(knobs.slot_weight)
        consumption = knobs.consumption if record.kind is not SlotKind.STATIC else {}
        result["WithinResourceLimits"] = slot_ad.within_limits(record, consumption)
        for tag, text in consumption.items():
            result[f"Consumption{tag}"] = settings.expression(text)
        result["Requirements"] = slot_ad.requirements(
            record,
            knobs,
            draining_start=self._drain.start,
            registries_offline=self.starter_abilities.get("ContainerRegistriesOffline"),
        )
        result.update(slot_ad.state_of(record.slot, now))
        result.update(slot_ad.history_of(record, now))
        result.update(self.statistics.attributes(now, settings.statistics_listed))
        result.update(slot_ad.claim_of(record, now, record.policy))
        if settings.hook_keyword(record.slot_id, record.type_number):
            result.update(slot_ad.fetches_of(record))
        of_job = slot_ad.job_attrs_of(record, knobs.job_attrs, now)
        # What the job does not say stays as monitors and the administrator say it.
        result.update({name: value for name, value in of_job.items() if value is not None or name not in result})
        for knob, text in policy.mentioned.items():
            result[knob] = settings.expression(text)
        if knobs.slot_attrs:
            result.update(slot_ad.slots_of(slots, record, knobs.slot_attrs))
            own = record.name.partition("@")[0]
            shared = {name: result.get(name) for name in knobs.slot_attrs}
            result.update({f"{own}_{name}": value for name, value in shared.items() if value is not None})
        for name, (value, at) in record.latches.items():
            result[f"{name}Value"], result[f"{name}Time"] = value, at
        if record.kind is SlotKind.PARTITIONABLE:
            result.update(slot_ad.children_of(slots.children(record), knobs.child_attrs))
            result["MaxClaimTime"] = int(settings.pslot_claim_s) or None
        if record.slot.broken:
            result["SlotBrokenReason"] = record.slot.broken
            result["SlotBrokenCode"] = record.slot.broken_code
        result["ResourceConflict"] = record.conflict or None
        result.update(self.added)
        last = {name.lower(): name for name in result}  # of names that differ in case only
        return result if len(last) == len(result) else {name: result[name] for name in last.values()}

    def machine_attributes(self) -> dict[str, Value]:
        """What is known of the machine, its last sample and the starter on it."""
        return {**self.machine, **self._host.settings.sample.machine, **self.starter_abilities}
