"""``DAG``: a graph of layers, and what DAGMan is told of it as a whole."""

from __future__ import annotations

import fnmatch
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from htcondor2.dags.edges import BaseEdge, ManyToMany
from htcondor2.dags.exceptions import DuplicateNodeName, UnrecognizedWalkOrder
from htcondor2.dags.node import BaseNode, FinalNode, NodeLayer, Nodes, NodeStore, SubDAG
from htcondor2.dags.walk_order import WalkOrder


class DotConfig:
    """The file in the language of Graphviz that DAGMan draws the DAG into (DOT)."""

    def __init__(
        self, path: str | Path, update: bool = False, overwrite: bool = True, include_file: str | Path | None = None
    ) -> None:
        self.path, self.update, self.overwrite = Path(path), update, overwrite
        self.include_file = None if include_file is None else Path(include_file)

    def __repr__(self) -> str:
        told = (self.path, self.update, self.overwrite, self.include_file)
        return "DotConfig(path = {}, update = {}, overwrite = {}, include_file = {})".format(*told)


class NodeStatusFile:
    """The file in which DAGMan tells how its nodes stand (NODE_STATUS_FILE); ``update_time``: at most so often, in
    seconds."""

    def __init__(self, path: str | Path, update_time: int | None = None, always_update: bool | None = False) -> None:
        self.path, self.update_time, self.always_update = Path(path), update_time, always_update

    def __repr__(self) -> str:
        told = (self.path, self.update_time, self.always_update)
        return "NodeStatusFile(path = {}, update_time = {}, always_update = {})".format(*told)


class EdgeStore:
    """Edges by parent and child."""

    def __init__(self) -> None:
        self.edges: dict[tuple[BaseNode, BaseNode], BaseEdge] = {}

    def __iter__(self) -> Iterator[tuple[BaseNode, BaseNode]]:
        return iter(self.edges)

    def __contains__(self, item: object) -> bool:
        return item in self.edges

    def items(self) -> Iterator[tuple[tuple[BaseNode, BaseNode], BaseEdge]]:
        """Pairs of nodes, and their edges."""
        return iter(self.edges.items())

    def get(self, parent: BaseNode, child: BaseNode) -> BaseEdge | None:
        """The edge between two nodes, if there is one."""
        return self.edges.get((parent, child))

    def add(self, parent: BaseNode, child: BaseNode, edge: BaseEdge | None = None) -> None:
        """Join two nodes, every one with every one where no edge says otherwise."""
        self.edges[(parent, child)] = ManyToMany() if edge is None else edge

    def pop(self, parent: BaseNode, child: BaseNode) -> BaseEdge | None:
        """Part two nodes."""
        return self.edges.pop((parent, child), None)


class DAG:
    """A graph of layers of jobs, for DAGMan."""

    def __init__(
        self,
        dagman_config: Mapping[str, Any] | None = None,
        dagman_job_attributes: Mapping[str, Any] | None = None,
        max_jobs_by_category: Mapping[str, int] | None = None,
        dot_config: DotConfig | None = None,
        jobstate_log: str | Path | None = None,
        node_status_file: NodeStatusFile | None = None,
    ) -> None:
        """``dagman_config``: knobs for DAGMan; ``dagman_job_attributes``: for the ad of its job."""
        self._nodes = NodeStore()
        self._edges = EdgeStore()
        self._final_node: FinalNode | None = None
        self.jobstate_log = None if jobstate_log is None else Path(jobstate_log)
        self.max_jobs_per_category = max_jobs_by_category or {}
        self.dagman_config = dagman_config or {}
        self.dagman_job_attrs = dagman_job_attributes or {}
        self.dot_config = dot_config
        self.node_status_file = node_status_file

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def layer(self, **settings: Any) -> NodeLayer:
        """A new layer without parents and children.

        :raises DuplicateNodeName: as the other two.
        """
        self._check(settings["name"])
        node = NodeLayer(self, **settings)
        self._nodes.add(node)
        return node

    def subdag(self, **settings: Any) -> SubDAG:
        """A new DAG of its own, without parents and children."""
        self._check(settings["name"])
        node = SubDAG(self, **settings)
        self._nodes.add(node)
        return node

    def final(self, **settings: Any) -> FinalNode:
        """The final node, in the place of a former one."""
        self._check(settings["name"])
        self._final_node = FinalNode(self, **settings)
        return self._final_node

    def _check(self, name: str) -> None:
        final = self._final_node
        if name in self._nodes or (final is not None and final.name == name):
            raise DuplicateNodeName(f"the DAG has a node named {name}: {final or self._nodes[name]}")

    @property
    def nodes(self) -> Nodes:
        """All nodes, but the final one."""
        return Nodes(self._nodes)

    @property
    def edges(self) -> Iterator[tuple[BaseNode, BaseNode]]:
        """The pairs of nodes that are joined."""
        return iter(self._edges)

    @property
    def node_to_children(self) -> dict[BaseNode, Nodes]:
        """The children of each node."""
        return self._neighbours(self._edges)

    @property
    def node_to_parents(self) -> dict[BaseNode, Nodes]:
        """The parents of each node."""
        return self._neighbours((child, parent) for parent, child in self._edges)

    def _neighbours(self, pairs: Iterable[tuple[BaseNode, BaseNode]]) -> dict[BaseNode, Nodes]:
        found: dict[BaseNode, list[BaseNode]] = {node: [] for node in self._nodes}
        for node, neighbour in pairs:
            found[node].append(neighbour)
        return {node: Nodes(neighbours) for node, neighbours in found.items()}

    @property
    def roots(self) -> Nodes:
        """The nodes without parents."""
        return Nodes(node for node, parents in self.node_to_parents.items() if not len(parents))

    @property
    def leaves(self) -> Nodes:
        """The nodes without children."""
        return Nodes(node for node, children in self.node_to_children.items() if not len(children))

    def select(self, selector: Callable[[BaseNode], bool]) -> Nodes:
        """The nodes for which ``selector`` is true."""
        return Nodes(node for node in self._nodes if selector(node))

    def glob(self, pattern: str) -> Nodes:
        """The nodes whose names match, as file names do in a shell."""
        return self.select(lambda node: fnmatch.fnmatchcase(node.name, pattern))

    def walk(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All nodes, from the roots on."""
        return _walk(self.roots, self.node_to_children, order)

    def walk_ancestors(self, node: BaseNode, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All nodes from which edges lead to ``node``."""
        parents = self.node_to_parents
        return _walk(parents[node], parents, order)

    def walk_descendants(self, node: BaseNode, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All nodes to which edges lead from ``node``."""
        children = self.node_to_children
        return _walk(children[node], children, order)

    def describe(self) -> str:
        """The layers as a table."""
        rows = [("Type", "Name", "# Nodes", "# Children", "Parents")]
        for node in self.walk(WalkOrder.BREADTH_FIRST):
            kind, size = ("Layer", str(len(node))) if isinstance(node, NodeLayer) else ("SubDAG", "")
            parents = ", ".join(f"{parent.name}[{self._edges.get(parent, node)}]" for parent in node.parents)
            rows.append((kind, node.name, size, str(len(node.children)), parents))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        aligned = (str.ljust, str.center, str.center, str.center, str.ljust)
        return "\n".join(
            "  ".join(align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True)).rstrip()
            for row in rows
        )


def _walk(first: Nodes, onward: Mapping[BaseNode, Nodes], order: WalkOrder) -> Iterator[BaseNode]:
    seen: set[BaseNode] = set()
    ahead = deque(first)
    while ahead:
        if order is WalkOrder.DEPTH_FIRST:
            node = ahead.pop()
        elif order is WalkOrder.BREADTH_FIRST:
            node = ahead.popleft()
        else:
            raise UnrecognizedWalkOrder(f"{order!r} is not a WalkOrder")
        if node not in seen:
            seen.add(node)
            ahead.extend(onward[node])
            yield node
