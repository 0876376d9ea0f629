"""The order that dependencies of nodes give. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sorted_nodes(parents: Mapping[int, Sequence[int]]) -> list[int]:
    """Nodes with parents before children; those of a cycle, and those below them, are left out.

    :param parents: the parents of each node; ones that are no nodes themselves count as nothing.
    """
    waits = {number: sum(parent in parents for parent in above) for number, above in parents.items()}
    children: dict[int, list[int]] = {}
    for number, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(number)
    free = [number for number, count in waits.items() if not count]
    for number in free:
        for child in children.get(number, ()):
            waits[child] -= 1
            if not waits[child]:
                free.append(child)
    return free


__all__ = ["sorted_nodes"]
