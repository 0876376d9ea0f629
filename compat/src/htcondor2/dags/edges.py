"""Which nodes of one layer are parents of which nodes of another."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sized
from itertools import islice

from htcondor2.dags.exceptions import IncompatibleGrouper, OneToOneEdgeNeedsSameNumberOfVars


class JoinNode:
    """A node that does nothing, between many parents and many children: one edge from each instead of all pairs."""

    def __init__(self, id: int) -> None:
        self.id = id


class JoinFactory:
    """Makes the join nodes of a DAG and knows them."""

    def __init__(self) -> None:
        self.joins: list[JoinNode] = []

    def get_join_node(self) -> JoinNode:
        """A new one."""
        self.joins.append(JoinNode(len(self.joins)))
        return self.joins[-1]


#: One end of an edge: indices of nodes in their layer, or a join node.
End = tuple[int, ...] | JoinNode
Edges = Iterable[tuple[End, End]]


class BaseEdge(abc.ABC):
    """A way to join two layers."""

    @abc.abstractmethod
    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Edges:
        """Pairs of ends: each of the first are parents of each of the second."""

    def __repr__(self) -> str:
        return type(self).__name__


class ManyToMany(BaseEdge):
    """Every node of the parent layer is a parent of every node of the child layer."""

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Edges:
        """One edge where either layer is one node, else two by a join node."""
        above, below = tuple(range(len(parent))), tuple(range(len(child)))
        if len(above) == 1 or len(below) == 1:
            return [(above, below)]
        join = join_factory.get_join_node()
        return [(above, join), (join, below)]


class OneToOne(BaseEdge):
    """Each node is the parent of the one with its index."""

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Edges:
        """An edge for each index.

        :raises OneToOneEdgeNeedsSameNumberOfVars: the layers differ in size.
        """
        if len(parent) != len(child):
            raise OneToOneEdgeNeedsSameNumberOfVars(
                f"{parent} has {len(parent)} nodes, and its child {child} has {len(child)}"
            )
        return [((index,), (index,)) for index in range(len(parent))]


class Grouper(BaseEdge):
    """Groups of neighbours: each group is the parent of the group with its index."""

    def __init__(self, parent_chunk_size: int = 1, child_chunk_size: int = 1) -> None:
        self.parent_chunk_size, self.child_chunk_size = parent_chunk_size, child_chunk_size

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Edges:
        """Two edges and a join node for each group.

        :raises IncompatibleGrouper: the groups do not divide the layers, or differ in number.
        """
        above, below = _groups(parent, self.parent_chunk_size), _groups(child, self.child_chunk_size)
        if len(above) != len(below):
            raise IncompatibleGrouper(
                f"{self} makes {len(above)} groups of {parent}, and {len(below)} of its child {child}"
            )
        found: list[tuple[End, End]] = []
        for parents, children in zip(above, below, strict=True):
            join = join_factory.get_join_node()
            found += [(parents, join), (join, children)]
        return found

    def __repr__(self) -> str:
        return f"Grouper(parent_chunk_size = {self.parent_chunk_size}, child_chunk_size = {self.child_chunk_size})"


def _groups(layer: Sized, size: int) -> list[tuple[int, ...]]:
    if len(layer) % size:
        raise IncompatibleGrouper(f"groups of {size} do not divide {layer}, which has {len(layer)} nodes")
    return [tuple(range(first, first + size)) for first in range(0, len(layer), size)]


class Slicer(BaseEdge):
    """The nodes of two slices, one for one."""

    def __init__(self, parent_slice: slice = slice(None), child_slice: slice = slice(None)) -> None:
        self.parent_slice, self.child_slice = parent_slice, child_slice

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Edges:
        """An edge for each pair, as far as the shorter slice goes."""
        above, below = (
            islice(range(len(layer)), part.start, part.stop, part.step)
            for layer, part in ((parent, self.parent_slice), (child, self.child_slice))
        )
        return [((parent_index,), (child_index,)) for parent_index, child_index in zip(above, below, strict=False)]

    def __repr__(self) -> str:
        return f"Slicer(parent_slice = {self.parent_slice}, child_slice = {self.child_slice})"
