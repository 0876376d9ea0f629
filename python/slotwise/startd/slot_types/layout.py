"""The slots of a machine, from slot types or NUM_SLOTS: how many, of which kind, with how much of what.

Source: manual, "Dividing System Resources in Multi-core Machines".
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.config.slot_shares import Amount, Auto, Fraction, Minimal, Share, Shares
from slotwise.errors import ConfigError
from slotwise.model.resources import Resources
from slotwise.model.slot import BrokenCode, SlotKind

_log = logging.getLogger(__name__)

#: What SLOT_CONFIG_FAILURE_MODE may be.
MODES = ("CONTINUE", "CLEAR", "ABORT")
LESS = "lower the shares of the slot types"

#: The least that a slot has: one core, 1 MiB of memory, 1024 KiB of disk unless the disk is full.
LEAST = {"cpus": 1.0, "memory": 1.0, "disk": 1024.0, "swap": 0.0}


class SlotType(Struct, frozen=True):
    """SLOT_TYPE_<number>: ``count`` slots with these shares. Number 0 stands for slots without a type."""

    number: int
    count: int
    shares: Shares = field(default_factory=Shares)
    partitionable: bool = False
    prefix: str = "slot"
    #: A second division of the same machine, for jobs that run where no slot of the first one is in use.
    backfill: bool = False


class PlannedSlot(Struct, frozen=True):
    """One slot of the layout. ``broken`` says why it cannot be used, if so."""

    slot_id: int
    type_number: int
    kind: SlotKind
    resources: Resources
    prefix: str = "slot"
    backfill: bool = False
    broken: str | None = None
    broken_code: int = 0

    @property
    def local_name(self) -> str:
        """``slot1``."""
        return f"{self.prefix}{self.slot_id}"


def default_types(num_slots: int | None, cpus: float) -> list[SlotType]:
    """Without slot types: one partitionable slot of everything, or NUM_SLOTS equal static ones.

    :raises ConfigError: for more slots than cores.
    """
    if num_slots is None:
        return [SlotType(0, 1, Shares(Fraction(1.0)), partitionable=True)]
    if num_slots < 0:
        raise ConfigError(f"NUM_SLOTS is {num_slots}", hint="it is a number of slots", key="NUM_SLOTS")
    if num_slots > cpus:
        raise ConfigError(
            f"NUM_SLOTS is {num_slots}, but the machine has {cpus:g} cores",
            hint="set NUM_CPUS to have more",
            key="NUM_SLOTS",
        )
    return [SlotType(0, num_slots, Shares(Auto()))]


def plan(
    machine: Resources,
    types: Sequence[SlotType],
    failure_mode: str = "CONTINUE",
    *,
    suits: Callable[[str, str, str], bool] = lambda tag, constraint, device: True,
) -> list[PlannedSlot]:
    """The slots that ``types`` make of ``machine``. ``suits(tag, constraint, device)`` judges devices for a share.

    When there is not enough: ABORT raises, CLEAR gives no slots, CONTINUE marks the slots that do not fit as broken.
    Backfill types divide all of the machine once more; they take devices from the end of the list.

    :raises ConfigError: with the resource and the slot that does not fit, in mode ABORT; for an unknown mode.
    """
    mode = failure_mode.strip().upper()
    if mode not in MODES:
        raise ConfigError(
            f"SLOT_CONFIG_FAILURE_MODE is {failure_mode}", hint=", ".join(MODES), key="SLOT_CONFIG_FAILURE_MODE"
        )
    kinds = [slot_type for slot_type in types for _ in range(slot_type.count)]
    amounts = {
        name: _divide_twice(name, machine, kinds) for name in ("cpus", "memory", "disk", "swap", *machine.custom)
    }
    backward = {tag: names[::-1] for tag, names in machine.devices.items()}
    pools = {False: machine, True: replace(machine, devices=backward)}
    slots: list[PlannedSlot] = []
    for index, slot_type in enumerate(kinds):
        wanted = _resources({name: values[index] for name, values in amounts.items()})
        kind = SlotKind.PARTITIONABLE if slot_type.partitionable else SlotKind.STATIC
        slot = PlannedSlot(index + 1, slot_type.number, kind, wanted, slot_type.prefix, slot_type.backfill)
        constraints, left = slot_type.shares.constraints, pools[slot_type.backfill]
        wanted = replace(wanted, shared=_shared(machine, slot_type.shares, suits))
        short = left.shortfall(wanted)
        code = BrokenCode.NO_RESOURCES if short else BrokenCode.NO_DEVICES
        short = short or _too_few_devices(left, wanted, constraints, suits)
        if short is None:
            wanted = with_devices(left, wanted, constraints, suits)
            pools[slot_type.backfill] = left.minus(wanted)
            slots.append(replace(slot, resources=wanted))
            continue
        lack = _taken_or_unfit(short, slot, constraints, machine, slots, suits) if code == BrokenCode.NO_DEVICES else ""
        reason = _reason(short, slot, wanted, left, lack)
        if mode == "ABORT":
            raise ConfigError(reason, hint=LESS, key=f"SLOT_TYPE_{slot_type.number}")
        if mode == "CLEAR":
            _log.error("not creating any slots (SLOT_CONFIG_FAILURE_MODE = CLEAR): %s (%s)", reason, LESS)
            return []
        slots.append(replace(slot, resources=Resources(), broken=reason, broken_code=code))
    return slots


Suits = Callable[[str, str, str], bool]
_UNITS = {"Memory": " MiB", "Disk": " KiB"}


def _reason(name: str, slot: PlannedSlot, wanted: Resources, left: Resources, lack: str) -> str:
    """What a slot lacks, with the amounts."""
    unit, want, have = _UNITS.get(name, ""), wanted.amount(name), left.amount(name)
    lack = lack or f"{have:.12g}{unit} are left"
    return f"{name}: {slot.local_name} (slot type {slot.type_number}) wants {want:.12g}{unit}, and {lack}"


def _taken_or_unfit(
    tag: str,
    slot: PlannedSlot,
    constraints: Mapping[str, str],
    machine: Resources,
    slots: Sequence[PlannedSlot],
    suits: Suits,
) -> str:
    """Why too few devices suit a slot: those there are do not, or slots before it have them."""
    chosen = _fitting(machine, tag, constraints, suits)
    owners = {
        device: other.local_name
        for other in slots
        if other.backfill is slot.backfill
        for device in other.resources.devices.get(tag, ())
    }
    held = [f"{device} is in {owners[device]}" for device in dict.fromkeys(chosen) if device in owners]
    count = f"only {len(chosen)}" if chosen else "none"
    there = ", ".join(dict.fromkeys(machine.devices[tag]))
    return "; ".join([f"{count} of {there} suits {constraints[tag]}", *held])


def with_devices(free: Resources, wanted: Resources, constraints: Mapping[str, str], suits: Suits) -> Resources:
    """``wanted`` with names for the devices it counts, taken in order from those that are free and suit."""
    devices = {
        tag: _fitting(free, tag, constraints, suits)[: int(amount)]
        for tag, amount in wanted.custom.items()
        if free.devices.get(tag) and amount > 0
    }
    return replace(wanted, devices=devices)


def _shared(machine: Resources, shares: Shares, suits: Suits) -> dict[str, tuple[str, ...]]:
    """What a slot has of devices that all may have: each all of them, unless its type says less."""
    found = {}
    for tag, names in machine.shared.items():
        constraint = shares.constraints.get(tag)
        fit = names if constraint is None else tuple(name for name in names if suits(tag, constraint, name))
        most = _explicit(shares.of(tag), 0.0, len(names))
        found[tag] = fit if most is None else fit[: int(most)]
    return found


def _fitting(free: Resources, tag: str, constraints: Mapping[str, str], suits: Suits) -> tuple[str, ...]:
    wanted = constraints.get(tag)
    names = free.devices.get(tag, ())
    return names if wanted is None else tuple(name for name in names if suits(tag, wanted, name))


def _too_few_devices(free: Resources, wanted: Resources, constraints: Mapping[str, str], suits: Suits) -> str | None:
    """The first resource of which not enough devices satisfy the type's constraint."""
    for tag in constraints:
        if free.devices.get(tag) and len(_fitting(free, tag, constraints, suits)) < wanted.custom.get(tag, 0):
            return tag
    return None


def _divide_twice(name: str, machine: Resources, kinds: Sequence[SlotType]) -> list[float]:
    """How much of ``name`` each slot gets; the machine is there once for primary and once for backfill slots."""
    shares = {pool: iter(_divide(name, machine, [k for k in kinds if k.backfill is pool])) for pool in (False, True)}
    return [next(shares[slot_type.backfill]) for slot_type in kinds]


def _divide(name: str, machine: Resources, kinds: Sequence[SlotType]) -> list[float]:
    """How much of resource ``name`` each slot gets."""
    total = _total(machine, name)
    least = _least(name, total, len(kinds))
    given: list[float | None] = [_explicit(slot.shares.of(name), least, total) for slot in kinds]
    left = total - sum(value for value in given if value is not None)
    autos = given.count(None)
    result: list[float] = []
    for value in given:
        if value is None:
            part = left / autos
            if name in machine.custom:  # counted pieces: rounded up, so the first slots get the rest
                value = float(max(0, math.ceil(part)))
                left -= value
                autos -= 1
            else:
                value = max(least, float(math.floor(part)))
        result.append(value)
    return result


def _total(machine: Resources, name: str) -> float:
    standard: Mapping[str, float] = {
        "cpus": machine.cpus,
        "memory": machine.memory_mib,
        "disk": machine.disk_kib,
        "swap": machine.swap_kib,
    }
    return standard[name] if name in standard else machine.custom[name]


def is_full(disk_kib: float, slots: int) -> bool:
    """Whether a disk has too little for so many slots to have the least of it.

    That passes, and is no fault of the slot types: the slots have no disk then, and are not broken.
    """
    return disk_kib < LEAST["disk"] * slots


def _least(name: str, total: float, slots: int) -> float:
    return 0.0 if name == "disk" and is_full(total, slots) else LEAST.get(name, 0.0)


def _explicit(share: Share, least: float, total: float) -> float | None:
    """The amount that a share names, ``least`` at least; None for auto."""
    match share:
        case Amount(value):
            return max(least, value)
        case Fraction(part):
            return max(least, float(math.floor(total * part + 1e-9)))
        case Minimal():
            return least
        case Auto():
            return None


def _resources(amounts: Mapping[str, float]) -> Resources:
    custom = {name: _whole(value) for name, value in amounts.items() if name not in LEAST}
    return Resources(
        _whole(amounts["cpus"]), int(amounts["memory"]), int(amounts["disk"]), int(amounts["swap"]), custom
    )


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value
