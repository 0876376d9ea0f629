"""The nodes of a DAG's graph: layers of jobs, DAGs below it, the final node; and collections of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from htcondor2._submit import Submit
from htcondor2.dags.edges import BaseEdge
from htcondor2.dags.walk_order import WalkOrder

if TYPE_CHECKING:
    from htcondor2.dags.dag import DAG

_Node = TypeVar("_Node", bound="BaseNode")


class Script:
    """A program that runs before or after a node. ``retry``: again after ``retry_delay`` seconds when it ends with
    ``retry_status``."""

    def __init__(
        self,
        executable: str | Path,
        arguments: Sequence[Any] | None = None,
        retry: bool = False,
        retry_status: int = 1,
        retry_delay: int = 0,
    ) -> None:
        self.executable = executable
        self.arguments = [str(argument) for argument in arguments or ()]
        self.retry, self.retry_status, self.retry_delay = retry, retry_status, retry_delay

    def __repr__(self) -> str:
        return _shown(self, "executable", "arguments", "retry", "retry_status", "retry_delay")


class DAGAbortCondition:
    """The exit status of a node that ends the whole DAG, and with which status."""

    def __init__(self, node_exit_value: int, dag_return_value: int | None = None) -> None:
        self.node_exit_value, self.dag_return_value = node_exit_value, dag_return_value

    def __repr__(self) -> str:
        return _shown(self, "node_exit_value", "dag_return_value")


class BaseNode:
    """What all nodes have. They are made by methods of the DAG and of other nodes."""

    def __init__(
        self,
        dag: DAG,
        *,
        name: str,
        dir: str | Path | None = None,
        noop: bool | Mapping[int, bool] = False,
        done: bool | Mapping[int, bool] = False,
        retries: int | None = None,
        retry_unless_exit: int | None = None,
        pre: Script | None = None,
        post: Script | None = None,
        pre_skip_exit_code: int | None = None,
        priority: int = 0,
        category: str | None = None,
        abort: DAGAbortCondition | None = None,
    ) -> None:
        """``noop`` and ``done``: by index, or for the first node; the others are as in DAGMan's commands."""
        self._dag = dag
        self.name = name
        self.dir = None if dir is None else Path(dir)
        self.noop: Mapping[int, bool] = {0: noop} if isinstance(noop, bool) else noop
        self.done: Mapping[int, bool] = {0: done} if isinstance(done, bool) else done
        self.retries, self.retry_unless_exit = retries, retry_unless_exit
        self.pre, self.post, self.pre_skip_exit_code = pre, post, pre_skip_exit_code
        self.priority, self.category, self.abort = priority, category, abort

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[BaseNode]:
        yield self

    def __repr__(self) -> str:
        return _shown(self, "name")

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._dag is other._dag and self.name == other.name

    def __lt__(self, other: object) -> bool:
        return self.name < other.name if isinstance(other, BaseNode) else NotImplemented

    def child_layer(self, edge: BaseEdge | None = None, **settings: Any) -> NodeLayer:
        """A new layer below this node."""
        return self._below(self._dag.layer(**settings), edge)

    def parent_layer(self, edge: BaseEdge | None = None, **settings: Any) -> NodeLayer:
        """A new layer above this node."""
        return self._above(self._dag.layer(**settings), edge)

    def child_subdag(self, edge: BaseEdge | None = None, **settings: Any) -> SubDAG:
        """A new DAG of its own below this node."""
        return self._below(self._dag.subdag(**settings), edge)

    def parent_subdag(self, edge: BaseEdge | None = None, **settings: Any) -> SubDAG:
        """A new DAG of its own above this node."""
        return self._above(self._dag.subdag(**settings), edge)

    def _below(self, node: _Node, edge: BaseEdge | None) -> _Node:
        self.add_children(node, edge=edge)
        return node

    def _above(self, node: _Node, edge: BaseEdge | None) -> _Node:
        self.add_parents(node, edge=edge)
        return node

    def add_children(self, *nodes: Iterable[BaseNode], edge: BaseEdge | None = None) -> BaseNode:
        """Put nodes below this one."""
        for node in chain.from_iterable(nodes):
            self._dag._edges.add(self, node, edge)
        return self

    def remove_children(self, *nodes: Iterable[BaseNode]) -> BaseNode:
        """Take away the edges to nodes below this one."""
        for node in chain.from_iterable(nodes):
            self._dag._edges.pop(self, node)
        return self

    def add_parents(self, *nodes: Iterable[BaseNode], edge: BaseEdge | None = None) -> BaseNode:
        """Put nodes above this one."""
        for node in chain.from_iterable(nodes):
            self._dag._edges.add(node, self, edge)
        return self

    def remove_parents(self, *nodes: Iterable[BaseNode]) -> BaseNode:
        """Take away the edges to nodes above this one."""
        for node in chain.from_iterable(nodes):
            self._dag._edges.pop(node, self)
        return self

    @property
    def children(self) -> Nodes:
        """The nodes below this one."""
        return self._dag.node_to_children[self]

    @property
    def parents(self) -> Nodes:
        """The nodes above this one."""
        return self._dag.node_to_parents[self]

    def walk_ancestors(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All nodes from which edges lead here."""
        return self._dag.walk_ancestors(self, order)

    def walk_descendants(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All nodes to which edges lead from here."""
        return self._dag.walk_descendants(self, order)


class NodeLayer(BaseNode):
    """Jobs of one submit description, one for each dictionary of ``vars``."""

    def __init__(
        self,
        dag: DAG,
        *,
        submit_description: Submit | Path | None = None,
        vars: Iterable[Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(dag, **settings)
        self.submit_description = Submit({}) if submit_description is None else submit_description
        self.vars = [{}] if vars is None else list(vars)

    def __len__(self) -> int:
        return len(self.vars)


class SubDAG(BaseNode):
    """A DAG of its own, in a file."""

    def __init__(self, dag: DAG, *, dag_file: Path, **settings: Any) -> None:
        super().__init__(dag, **settings)
        self.dag_file = dag_file


class FinalNode(BaseNode):
    """The node that runs last, whatever became of the others."""

    def __init__(self, dag: DAG, submit_description: Submit | Path | None = None, **settings: Any) -> None:
        super().__init__(dag, **settings)
        self.submit_description = Submit({}) if submit_description is None else submit_description


class Nodes:
    """A collection of nodes, by name; what is done to it is done to each."""

    def __init__(self, *nodes: Iterable[BaseNode]) -> None:
        self.nodes = NodeStore()
        for node in chain.from_iterable(nodes):
            self.nodes.add(node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nodes) and self.nodes == other.nodes

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[BaseNode]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self.nodes

    def __repr__(self) -> str:
        return f"Nodes({', '.join(repr(node) for node in sorted(self, key=lambda node: node.name))})"

    def _one(self) -> BaseNode:
        return next(iter(self.nodes))

    def child_layer(self, type: BaseEdge | None = None, **settings: Any) -> NodeLayer:
        """A new layer below all of these."""
        node = self._one().child_layer(**settings)
        node.add_parents(self, edge=type)
        return node

    def parent_layer(self, type: BaseEdge | None = None, **settings: Any) -> NodeLayer:
        """A new layer above all of these."""
        node = self._one().parent_layer(**settings)
        node.add_children(self, edge=type)
        return node

    def child_subdag(self, type: BaseEdge | None = None, **settings: Any) -> SubDAG:
        """A new DAG of its own below all of these."""
        node = self._one().child_subdag(**settings)
        node.add_parents(self, edge=type)
        return node

    def parent_subdag(self, type: BaseEdge | None = None, **settings: Any) -> SubDAG:
        """A new DAG of its own above all of these."""
        node = self._one().parent_subdag(**settings)
        node.add_children(self, edge=type)
        return node

    def add_children(self, *nodes: Iterable[BaseNode], type: BaseEdge | None = None) -> Nodes:
        """Put nodes below each of these."""
        for one in self:
            one.add_children(*nodes, edge=type)
        return self

    def remove_children(self, *nodes: Iterable[BaseNode]) -> Nodes:
        """Take away the edges from each of these to nodes."""
        for one in self:
            one.remove_children(*nodes)
        return self

    def add_parents(self, *nodes: Iterable[BaseNode], type: BaseEdge | None = None) -> Nodes:
        """Put nodes above each of these."""
        for one in self:
            one.add_parents(*nodes, edge=type)
        return self

    def remove_parents(self, *nodes: Iterable[BaseNode]) -> Nodes:
        """Take away the edges from nodes to each of these."""
        for one in self:
            one.remove_parents(*nodes)
        return self

    def walk_ancestors(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """The ancestors of one after another."""
        return chain.from_iterable(node.walk_ancestors(order) for node in self)

    def walk_descendants(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """The descendants of one after another."""
        return chain.from_iterable(node.walk_descendants(order) for node in self)


class NodeStore:
    """Nodes by name; either names one."""

    def __init__(self) -> None:
        self.nodes: dict[str, BaseNode] = {}

    def add(self, *nodes: BaseNode | Nodes) -> None:
        """Put nodes in."""
        for node in chain.from_iterable(nodes):
            self.nodes[node.name] = node

    def remove(self, *nodes: BaseNode | Nodes | str) -> None:
        """Take nodes out, those that are there."""
        for node in nodes:
            names = [node] if isinstance(node, str) else [one.name for one in node]
            for name in names:
                self.nodes.pop(name, None)

    def __getitem__(self, node: BaseNode | str) -> BaseNode:
        if not isinstance(node, BaseNode | str):
            raise TypeError("nodes are found by name or node")
        return self.nodes[node if isinstance(node, str) else node.name]

    def __iter__(self) -> Iterator[BaseNode]:
        return iter(self.nodes.values())

    def __contains__(self, node: object) -> bool:
        return node in self.nodes if isinstance(node, str) else node in self.nodes.values()

    def __len__(self) -> int:
        return len(self.nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeStore) and self.nodes == other.nodes

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(set(self.nodes.values()))

    def items(self) -> Iterator[tuple[str, BaseNode]]:
        """Names and nodes."""
        return iter(self.nodes.items())


def _shown(thing: object, *names: str) -> str:
    return f"{type(thing).__name__}({', '.join(f'{name} = {getattr(thing, name)}' for name in names)})"
