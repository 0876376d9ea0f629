"""Nodes of a DAG as status files and commands show them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotwise.dag.acts import NodeStatus
from slotwise.dag.status_file import NodeRow

if TYPE_CHECKING:
    from slotwise._native import DagRun
    from slotwise.dag.runner import Node

#: Why a node failed that could not be submitted.
NOT_SUBMITTED = "Job submit failed"


def row(run: DagRun, number: int, node: Node) -> NodeRow:
    """A node as it is now."""
    status, waits, retries, _, queued, held = run.state(number)
    shown = NodeStatus(status)
    if shown == NodeStatus.READY and waits:
        shown = NodeStatus.NOT_READY
    details = ""
    if shown == NodeStatus.ERROR:
        details = node.record.why
        if node.retries and retries >= node.retries and details != NOT_SUBMITTED:
            details += f" (after {retries} node retries)"
    elif shown == NodeStatus.FUTILE:
        details = "Had an ancestor node fail"
    elif shown == NodeStatus.SUBMITTED:
        idle = node.record.jobs > 0 and run.is_idle(number, 0)
        details = "idle" if idle else "not_idle"
    elif shown == NodeStatus.DONE and node.done_by_job:
        details = "User defined as DONE"
    return NodeRow(node.name, shown, details, retries, queued, held)


__all__ = ["NOT_SUBMITTED", "row"]
