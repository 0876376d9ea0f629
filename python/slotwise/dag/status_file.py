"""NODE_STATUS_FILE: what a DAG and its nodes do, as ads. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad import quote
from slotwise.dag.acts import NodeStatus

#: States in which the end of the DAG may find a node, which make it a failure.
_CAUGHT = (NodeStatus.PRERUN, NodeStatus.SUBMITTED, NodeStatus.POSTRUN)


class NodeRow(Struct, frozen=True):
    """A node."""

    name: str
    status: NodeStatus
    details: str = ""
    retries: int = 0
    queued: int = 0
    held: int = 0


class DagRow(Struct, frozen=True):
    """The DAG. ``how``: the word behind its status, such as "success"."""

    files: Sequence[str]
    status: NodeStatus
    how: str
    total: int
    held: int
    idle: int


def caught(row: NodeRow) -> NodeRow:
    """A node as it is when the DAG was ended while it ran."""
    if row.status not in _CAUGHT:
        return row
    return replace(row, status=NodeStatus.ERROR, details=f"Was STATUS_{row.status.name}", queued=0, held=0)


def text(dag: DagRow, nodes: Iterable[NodeRow], now: float, next_update: float) -> str:
    """The file. ``now`` and ``next_update``: seconds since the epoch; 0: there is none."""
    rows = list(nodes)
    counted = dict.fromkeys(NodeStatus, 0)
    for row in rows:
        counted[row.status] += 1
    files = ",\n".join(f"    {quote(name)}" for name in dag.files)
    lines = [
        "[", '  Type = "DagStatus";', "  DagFiles = {", files, "  };",
        f"  Timestamp = {_moment(now)}",
        f'  DagStatus = {int(dag.status)}; /* "STATUS_{dag.status.name} ({dag.how})" */',
        f"  NodesTotal = {dag.total};",
    ]  # fmt: skip
    numbers = {
        "NodesDone": counted[NodeStatus.DONE], "NodesPre": counted[NodeStatus.PRERUN],
        "NodesQueued": counted[NodeStatus.SUBMITTED], "NodesPost": counted[NodeStatus.POSTRUN],
        "NodesReady": counted[NodeStatus.READY], "NodesUnready": counted[NodeStatus.NOT_READY],
        "NodesFutile": counted[NodeStatus.FUTILE], "NodesFailed": counted[NodeStatus.ERROR],
        "JobProcsHeld": dag.held,
    }  # fmt: skip
    lines += [f"  {name} = {number};" for name, number in numbers.items()]
    lines += [f"  JobProcsIdle = {dag.idle}; /* includes held */", "]"]
    for row in rows:
        lines += [
            "[", '  Type = "NodeStatus";', f"  Node = {quote(row.name)};",
            f'  NodeStatus = {int(row.status)}; /* "STATUS_{_NAMES[row.status]}" */',
            f"  StatusDetails = {quote(row.details)};", f"  RetryCount = {row.retries};",
            f"  JobProcsQueued = {row.queued};", f"  JobProcsHeld = {row.held};", "]",
        ]  # fmt: skip
    lines += [
        "[",
        '  Type = "StatusEnd";',
        f"  EndTime = {_moment(now)}",
        f"  NextUpdate = {_moment(next_update)}",
        "]",
    ]
    return "\n".join([*lines, ""])


_NAMES = {status: status.name for status in NodeStatus}


def _moment(at: float) -> str:
    return f'{int(at)}; /* "{time.ctime(at) if at else "none"}" */'


__all__ = ["DagRow", "NodeRow", "caught", "text"]
