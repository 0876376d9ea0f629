"""Machines with what their slots do, for a map of the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slotwise.classad.values import whole
from slotwise.model.slot import State

#: The attributes by which :func:`machines` wants slots counted.
MACHINE_ATTRIBUTES = ("Machine", "State", "Cpus", "SlotBrokenReason", "Offline")
_LABELS = {str(state): state.lower() for state in State}


@dataclass
class Cell:
    """Machines that follow one another by name: how many, the first of them, their slots, and cores by state."""

    machine: str
    machines: int = 0
    slots: int = 0
    cores: dict[str, int] = field(default_factory=dict)


def machines(counted: Iterable[Mapping[str, object]]) -> list[Cell]:
    """A cell for each machine, by name, of slots counted (``Count``) by :data:`MACHINE_ATTRIBUTES`.

    What is left of a partitionable slot counts as unclaimed cores, and a slot that is broken or offline under
    ``broken`` or ``offline``.
    """
    found: dict[str, Cell] = {}
    for ad in counted:
        name, state, cpus = str(ad.get("Machine")), ad.get("State"), ad.get("Cpus")
        label = _LABELS.get(str(state), "other")
        if "SlotBrokenReason" in ad and isinstance(ad["SlotBrokenReason"], str):
            label = "broken"
        elif ad.get("Offline") is True:
            label = "offline"
        cell = found.get(name)
        if cell is None:
            cell = found[name] = Cell(name, 1)
        slots = whole(ad.get("Count"))
        cell.slots += slots
        cores = slots * int(cpus) if isinstance(cpus, int) and cpus > 0 else 0
        cell.cores[label] = cell.cores.get(label, 0) + cores
    return [found[name] for name in sorted(found)]


def gathered(cells: list[Cell], most: int) -> list[Cell]:
    """At most ``most`` cells, each of as many machines that follow one another as needed."""
    each = max(1, -(-len(cells) // most))
    return cells if each == 1 else [_sum(cells[first : first + each]) for first in range(0, len(cells), each)]


def _sum(cells: list[Cell]) -> Cell:
    whole = Cell(cells[0].machine)
    for cell in cells:
        whole.machines += cell.machines
        whole.slots += cell.slots
        for state, cores in cell.cores.items():
            whole.cores[state] = whole.cores.get(state, 0) + cores
    return whole


def whole_pool(cells: list[Cell]) -> Cell:
    """All machines as one."""
    return _sum(cells) if cells else Cell("")
