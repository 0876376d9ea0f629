"""Machines with what their slots do, for a map of the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from msgspec import Struct, field

from slotwise.classad.values import whole
from slotwise.model.slot import State

#: The attributes by which :func:`machines_of` wants slots counted.
MACHINE_ATTRIBUTES = ("Machine", "State", "Cpus", "SlotBrokenReason", "Offline")
#: Characters of the name of a group.
_GROUP_MOST = 100
_LABELS = {str(state): state.lower() for state in State}


class Cell(Struct):
    """Machines that follow one another by name: how many, the first of them, their slots, cores by state, and the value
    by which they are grouped."""

    machine: str
    machines: int = 0
    slots: int = 0
    cores: dict[str, int] = field(default_factory=dict)
    group: str = ""


def machines_of(counted: Iterable[Mapping[str, object]], by: str = "") -> list[Cell]:
    """A cell for each machine, by group and name, of slots counted (``Count``) by :data:`MACHINE_ATTRIBUTES`.

    :param by: the attribute that groups machines, by which slots were counted, too; a machine has the first value that
        one of its slots has.

    What is left of a partitionable slot counts as unclaimed cores, and a slot that is broken or offline under
    ``broken`` or ``offline``.
    """
    found: dict[str, Cell] = {}
    for ad in counted:
        name = str(ad.get("Machine"))
        label = _label(ad)
        cell = found.get(name)
        if cell is None:
            cell = found[name] = Cell(name, 1)
        cell.slots += whole(ad.get("Count"))
        cell.cores[label] = cell.cores.get(label, 0) + _cores(ad)
        if by and not cell.group and isinstance(value := ad.get(by), str | int | float):
            cell.group = str(value)[:_GROUP_MOST]
    return sorted(found.values(), key=lambda cell: (cell.group, cell.machine))


def cores_by_state(counted: Iterable[Mapping[str, object]]) -> dict[str, int]:
    """Cores of all slots by the labels of :func:`machines_of`."""
    found: dict[str, int] = {}
    for ad in counted:
        label = _label(ad)
        found[label] = found.get(label, 0) + _cores(ad)
    return found


def _label(ad: Mapping[str, object]) -> str:
    if isinstance(ad.get("SlotBrokenReason"), str):
        return "broken"
    return "offline" if ad.get("Offline") is True else _LABELS.get(str(ad.get("State")), "other")


def _cores(ad: Mapping[str, object]) -> int:
    cpus = ad.get("Cpus")
    return whole(ad.get("Count")) * cpus if isinstance(cpus, int) and cpus > 0 else 0


def gathered(cells: list[Cell], most: int) -> list[Cell]:
    """About ``most`` cells, one more for each group at most, each of as many machines that follow one another as
    needed."""
    each = max(1, -(-len(cells) // most))
    if each == 1:
        return cells
    groups = [list(members) for _, members in groupby(cells, lambda cell: cell.group)]
    return [_sum(group[first : first + each]) for group in groups for first in range(0, len(group), each)]


def _sum(cells: list[Cell]) -> Cell:
    whole = Cell(cells[0].machine, group=cells[0].group)
    for cell in cells:
        whole.machines += cell.machines
        whole.slots += cell.slots
        for state, cores in cell.cores.items():
            whole.cores[state] = whole.cores.get(state, 0) + cores
    return whole


def whole_pool(cells: list[Cell]) -> Cell:
    """All machines as one."""
    return _sum(cells) if cells else Cell("")
