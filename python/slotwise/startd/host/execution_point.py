"""All slots of a host together, and the parts that decide about them.

No I/O: time comes as ``now``, claim ids from ``new_id``, and what follows from decisions goes to the outbox.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from slotwise.daemon.containment import contained
from slotwise.errors import InvariantError
from slotwise.model.resources import Resources, total
from slotwise.model.slot import SlotKind, State
from slotwise.startd.host.backfill_slots import BackfillSlots
from slotwise.startd.host.breakages import Breakages
from slotwise.startd.host.broken_slots import BrokenSlots
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.claims import Claims
from slotwise.startd.host.drain import Drain
from slotwise.startd.host.drain_state import DrainState
from slotwise.startd.host.dynamic_slots import DynamicSlots
from slotwise.startd.host.effects import Effects
from slotwise.startd.host.faults import Faults
from slotwise.startd.host.hook_notices import HookNotices
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.offline_devices import OfflineDevices
from slotwise.startd.host.outbox import Outbox
from slotwise.startd.host.policy_evaluation import PolicyEvaluation
from slotwise.startd.host.restore import Restoration, Unpack
from slotwise.startd.host.run_reports import RunReports
from slotwise.startd.host.schedd_addresses import ScheddAddresses
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.host.slots import Slots
from slotwise.startd.host.transitions import Transitions
from slotwise.startd.records.breakage import Breakage
from slotwise.startd.records.saved_slot import SavedSlot
from slotwise.startd.records.slot_record import SlotRecord
from slotwise.startd.settings import Settings
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.fsm import next_timer, validate
from slotwise.startd.slot.states import Owner, Slot
from slotwise.startd.slot_types.layout import PlannedSlot

_log = logging.getLogger(__name__)
_ACTIVE = frozenset({State.CLAIMED, State.PREEMPTING, State.BACKFILL, State.MATCHED})


class ExecutionPoint:
    """The slots of a host. Wires the parts, none of which knows this class."""

    def __init__(
        self, settings: Settings, layout: Iterable[PlannedSlot], new_id: Callable[[], str], now: float
    ) -> None:
        self.host = HostState(settings)
        drain_state = DrainState()
        self.ads = SlotAds(self.host, drain_state, now)
        self.claim_ids = ClaimIds(self.host, new_id)
        self.breakages = Breakages(self.host)
        self.offline_devices = OfflineDevices(self.host)
        self.hooks = HookNotices(self.host)
        self.policies = PolicyEvaluation(self.host, self.ads, drain_state)
        effects = Effects(
            self.host, self.claim_ids, self.ads, drain_state, self.breakages, self.offline_devices, self.hooks
        )
        self.transitions = Transitions(self.host, self.ads, effects, self.policies)
        #: See :meth:`Transitions.apply`.
        self.apply = self.transitions.apply
        self.faults = Faults(self.host, self.claim_ids, effects, self.apply)
        self.drain = Drain(self.host, drain_state, self.claim_ids, self.ads, self.policies, self.apply, now)
        self.broken_slots = BrokenSlots(self.host, self.ads, self.breakages, self.apply)
        self.backfill_slots = BackfillSlots(self.host, self.ads, self.apply)
        self.dynamic_slots = DynamicSlots(self.host, self.claim_ids, self.ads, self.policies, self.apply)
        self.schedd_addresses = ScheddAddresses(self.host)
        self.claims = Claims(
            self.host, self.claim_ids, self.ads, self.dynamic_slots, self.breakages, self.offline_devices, self.drain,
            self.schedd_addresses, self.apply,
        )  # fmt: skip
        self.run_reports = RunReports(self.host, self.claims, self.broken_slots, self.ads)
        for planned in layout:
            self._add_planned(planned, now)

    @property
    def slots(self) -> Slots:
        """The slots by name."""
        return self.host.slots

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        return self.host.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.host.settings = settings

    @property
    def outbox(self) -> Outbox:
        """What has followed from decisions since :meth:`take_outbox`."""
        return self.host.outbox

    def take_outbox(self) -> Outbox:
        """Empty the outbox; returns what was in it."""
        taken, self.host.outbox = self.host.outbox, Outbox()
        return taken

    def _add_planned(self, planned: PlannedSlot, now: float) -> None:
        name = f"{planned.local_name}@{self.settings.name}"
        slot = Slot(name, planned.kind, Owner(), now, now, broken=planned.broken, broken_code=planned.broken_code)
        whole = planned.resources
        record = SlotRecord(slot, planned.slot_id, planned.type_number, whole, whole, backfill=planned.backfill)
        if planned.broken:
            record.breakage = Breakage(planned.broken, planned.broken_code, now)
        self.slots.add(record)
        self.claim_ids.renew(record)
        self.ads.show(record, now)
        self.apply(record, ev.Evaluate(), now)

    def restore(self, saved: Iterable[SavedSlot], unpack: Unpack, now: float) -> list[str]:
        """Restore the claims of a previous startd; returns the run ids that must be ended."""
        return Restoration(self.host, self.claim_ids, self.ads, self.hooks, unpack, now).restore(saved)

    def forget_faults(self, now: float) -> None:
        """An orderly stop: whoever starts the startd again has looked after what was broken, and drains no more."""
        self.drain.state.clear()
        self.broken_slots.clear(now)

    # -------------------------------------------------------------------------------------------------------- polling

    def poll(self, now: float) -> None:
        """Evaluate all timers and policies."""
        for record in self.slots:
            with contained(_log, f"{record.name}: evaluating its policy"):
                self.apply(record, ev.Evaluate(), now)

    def any_active(self) -> bool:
        """Whether a slot is in a state whose policy is evaluated every few seconds."""
        return any(record.slot.state.state in _ACTIVE for record in self.slots)

    def next_timer(self, now: float) -> float | None:
        """The next moment at which some timer expires."""
        times: list[float] = []
        for record in self.slots:
            if record.slot.state.state in _ACTIVE:
                at = next_timer(record.slot, record.policy or ev.PolicyEval(), now)
                times += [] if at is None else [at]
        return min(times) if times else None

    # ----------------------------------------------------------------------------------------------------- invariants

    def validate(self) -> None:
        """Check every slot, and that amounts add up.

        :raises InvariantError: when they do not.
        """
        for record in self.slots:
            validate(record.slot)
            if not record.free.nowhere_negative():
                raise InvariantError(f"{record.name} has given out more than it had: {record.free}")
            if record.kind is SlotKind.PARTITIONABLE:
                parts = [child.total for child in self.slots.children(record) if not child.returned]
                whole = total([record.free, record.withheld.total, *parts])
                if _amounts(whole) != _amounts(record.total):
                    raise InvariantError(f"{record.name}: {whole} in parts, {record.total} in all")
        for claim_id, name in self.claim_ids.by_id.items():
            if name not in self.slots:
                raise InvariantError(f"claim {claim_id} belongs to {name}, which is gone")


def _amounts(r: Resources) -> tuple[object, ...]:
    custom = tuple(sorted((tag, round(amount, 4)) for tag, amount in r.custom.items() if amount))
    devices = tuple(sorted((tag, tuple(sorted(names))) for tag, names in r.devices.items() if names))
    return round(r.cpus, 4), r.memory_mib, r.disk_kib, r.swap_kib, custom, devices
