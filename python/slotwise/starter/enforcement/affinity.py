"""Which cores a job may use: ASSIGN_CPU_AFFINITY, ENFORCE_CPU_AFFINITY and SLOT<N>_CPU_AFFINITY.

HTCondor gives a slot the cores that fewest other slots have, in the order of their numbers. Here a job gets them when
it starts, and those of one NUMA node where as few others use them there. Manual, "condor_starter configuration".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree
from slotwise.starter.job.ads import evaluate

_NODES = Path("/sys/devices/system/node")

#: Numbers of the cores of a NUMA node.
Node = tuple[int, ...]


class CoreRules(Struct, frozen=True):
    """The knobs.

    ``assign``: ASSIGN_CPU_AFFINITY over the job's ad. ``enforce``: ENFORCE_CPU_AFFINITY, which it overrides.
    ``by_slot``: SLOT<N>_CPU_AFFINITY by slot number.
    """

    assign: ExprTree | None = None
    enforce: bool = False
    by_slot: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_asked_for(self) -> bool:
        """Whether any job may be bound to cores."""
        return self.enforce or self.assign is not None

    def assigns(self, job: ClassAd) -> bool:
        """Whether this job gets cores that fewest others use; an expression without a truth value says no."""
        value = evaluate(self.assign, job, None) if self.assign is not None else False
        return bool(value) if isinstance(value, bool | int | float) else False

    def fixed(self, slot_id: int) -> tuple[int, ...]:
        """The cores that ENFORCE_CPU_AFFINITY has for a slot: those of its knob, else that of its number less one."""
        if not self.enforce or slot_id < 1:
            return ()
        return self.by_slot.get(slot_id) or (slot_id - 1,)


def choose(count: int, nodes: Iterable[Node], used: Mapping[int, int]) -> tuple[int, ...]:
    """``count`` cores, or all when there are fewer: the least used, of one node where that costs nothing.

    :param nodes: the cores of each NUMA node.
    :param used: how many jobs are bound to a core.
    """
    nodes = [node for node in nodes if node]
    everywhere = [core for node in nodes for core in node]
    if count >= len(everywhere):
        return tuple(sorted(everywhere))

    def least(cores: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(cores, key=lambda core: (used.get(core, 0), core))[:count])

    def load(cores: Iterable[int]) -> int:
        return sum(used.get(core, 0) for core in cores)

    # The emptiest nodes first, so that a job that no node holds is on as few of them as can be.
    by_room = sorted(nodes, key=lambda node: (load(node) / len(node), node))
    spread = tuple(sorted((core for node in by_room for core in node), key=lambda core: used.get(core, 0))[:count])
    # Of the nodes that hold the job the one that it leaves the least room in: larger jobs find the others whole.
    held = [
        (load(least(node)), sum(used.get(core, 0) == 0 for core in node), node) for node in nodes if len(node) >= count
    ]
    if held and min(held)[0] <= load(spread):
        return tuple(sorted(least(min(held)[2])))
    return tuple(sorted(spread))


def nodes_of_host(allowed: Iterable[int], directory: Path = _NODES) -> tuple[Node, ...]:
    """The NUMA nodes of this host, with those of their cores that the daemons themselves may use."""
    left = set(allowed)
    nodes: list[Node] = []
    for path in sorted(directory.glob("node[0-9]*/cpulist")):
        cores = left & set(core_numbers(path.read_text()))
        left -= cores
        nodes.append(tuple(sorted(cores)))
    return tuple(node for node in (*nodes, tuple(sorted(left))) if node)


def core_numbers(text: str) -> tuple[int, ...]:
    """The numbers of a list as the kernel and the knobs write it: ``0-3,8`` or ``0 2 4``.

    :raises ValueError: when it is no such list.
    """
    found: list[int] = []
    for word in text.replace(",", " ").split():
        first, _, last = word.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(found))
