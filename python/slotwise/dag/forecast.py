"""How long a DAG has to go: by the times that its own nodes took. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from slotwise.dag.acts import NodeStatus
from slotwise.dag.dependencies import sorted_nodes

_OVER = (NodeStatus.DONE, NodeStatus.ERROR, NodeStatus.FUTILE)


class Work(Struct, frozen=True):
    """A node. ``kind``: nodes of one kind take about as long, such as those of one submit file. Times in seconds.

    :ivar parents: their numbers.
    :ivar began: when it was submitted, since the epoch; 0: it was not.
    :ivar took_s: from its submission to its end; 0: it has not ended, or was not submitted.
    """

    status: NodeStatus
    kind: str
    parents: Sequence[int] = ()
    began: float = 0.0
    took_s: float = 0.0


class Forecast(Struct, frozen=True):
    """What is to be expected.

    :ivar path: the nodes that are left of the longest chain of dependencies, in their order.
    :ivar path_s: how long these take one after the other; None: no node has ended yet that would tell.
    :ivar left_s: until the DAG's end, with as many nodes at once as there were at most so far; None likewise.
    """

    path: tuple[int, ...]
    path_s: float | None
    left_s: float | None


def forecast(nodes: Mapping[int, Work], now: float) -> Forecast:
    """What is left of a DAG. Nodes that can run no more count as nothing."""
    usual = _usual(nodes.values())
    known = bool(usual)
    order = sorted_nodes({number: node.parents for number, node in nodes.items()})
    length: dict[int, float] = {}
    before: dict[int, int] = {}
    work_s = 0.0
    for number in order:
        node = nodes[number]
        if node.status in _OVER:
            length[number] = 0.0
            continue
        takes_s = usual.get(node.kind, usual.get("", 1.0))
        if node.began and node.status in (NodeStatus.SUBMITTED, NodeStatus.POSTRUN):
            takes_s = max(0.0, takes_s - (now - node.began))
        work_s += takes_s
        first = max((one for one in node.parents if one in length), key=lambda one: length[one], default=None)
        if first is not None and nodes[first].status not in _OVER:
            before[number] = first
        length[number] = takes_s + (length[first] if first is not None else 0.0)
    left = [number for number in order if nodes[number].status not in _OVER]
    if not left:
        return Forecast((), 0.0, 0.0)
    last = max(left, key=lambda number: (length[number], -number))
    path = [last]
    while path[-1] in before:
        path.append(before[path[-1]])
    path.reverse()
    if not known:
        return Forecast(tuple(path), None, None)
    return Forecast(tuple(path), length[last], max(length[last], work_s / max(1, _at_once(nodes.values(), now))))


def _usual(nodes: Iterable[Work]) -> dict[str, float]:
    """What nodes of each kind took on average, and under "" what all did."""
    sums: dict[str, list[float]] = {}
    for node in nodes:
        if node.took_s and node.status == NodeStatus.DONE:
            for kind in (node.kind, ""):
                pair = sums.setdefault(kind, [0.0, 0.0])
                pair[0] += node.took_s
                pair[1] += 1
    return {kind: total / count for kind, (total, count) in sums.items()}


def _at_once(nodes: Iterable[Work], now: float) -> int:
    """How many nodes were in the queue at once at most."""
    steps: list[tuple[float, int]] = []
    for node in nodes:
        if node.began:
            end = node.began + node.took_s if node.took_s else now
            steps += [(node.began, 1), (end, -1)]
    most = running = 0
    for _, step in sorted(steps):
        running += step
        most = max(most, running)
    return most


__all__ = ["Forecast", "Work", "forecast"]
