"""Why a node of a DAG is where it is: what it waits for, or what it failed of. Pure."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from slotwise.dag.acts import NodeStatus
from slotwise.dag.replay import View

#: How many nodes are named in a sentence.
_NAMED = 10
_STATES = {
    NodeStatus.NOT_READY: "waits for its parents", NodeStatus.READY: "is ready",
    NodeStatus.PRERUN: "is at its PRE script", NodeStatus.SUBMITTED: "has jobs in the queue",
    NodeStatus.POSTRUN: "is at its POST script", NodeStatus.DONE: "is done", NodeStatus.ERROR: "failed",
    NodeStatus.FUTILE: "can never run",
}  # fmt: skip


def why(view: View, number: int) -> list[str]:
    """Sentences about a node, the first of which says how it is; its jobs in the queue are for the caller to ask."""
    file, line = view.run.place(number)
    row, node = view.row(number), view.node(number)
    lines = [f"{node.name} {_STATES[row.status]} ({file}:{line})."]
    if view.state not in ("running", "halted") and row.status in _WAITING:
        lines.append(f"Nothing runs the DAG now: it is {_now(view)}.")
    lines += _REASONS[row.status](view, number)
    if row.retries:
        lines.append(f"Retries used: {row.retries} of {node.retries}.")
    return lines


_WAITING = (NodeStatus.NOT_READY, NodeStatus.READY, NodeStatus.PRERUN, NodeStatus.POSTRUN)


def _now(view: View) -> str:
    return {"held": "held", "waits to be started": "waiting to be started", "ended": "over"}.get(view.state, view.state)


def named(view: View, numbers: list[int]) -> str:
    """Nodes by name, the first of them where there are many."""
    names = [view.run.name(number) for number in numbers[:_NAMED]]
    more = len(numbers) - _NAMED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _not_ready(view: View, number: int) -> list[str]:
    if view.node(number).kind == "final":
        return ["It is the FINAL node: it runs once, when nothing else can."]
    parents = [parent for parent, _ in view.run.dependencies(number)]
    if not parents:
        provisioner = [one for one in view.run.order() if view.node(one).kind == "provisioner"]
        return [f"It waits for the PROVISIONER node {view.run.name(one)}." for one in provisioner]
    lines = []
    for status in (NodeStatus.SUBMITTED, NodeStatus.POSTRUN, NodeStatus.PRERUN, NodeStatus.READY, NodeStatus.NOT_READY):
        found = [parent for parent in parents if view.row(parent).status == status]
        if found:
            lines.append(f"Parents that it waits for, {_PARENTS[status]}: {named(view, found)}.")
    done = sum(view.row(parent).status in (NodeStatus.DONE, NodeStatus.ERROR) for parent in parents)
    return [*lines, f"Parents that have ended: {done} of {len(parents)}."]


_PARENTS = {
    NodeStatus.SUBMITTED: "with jobs in the queue", NodeStatus.POSTRUN: "at their POST scripts",
    NodeStatus.PRERUN: "at their PRE scripts", NodeStatus.READY: "ready but not submitted",
    NodeStatus.NOT_READY: "waiting themselves",
}  # fmt: skip


def _ready(view: View, number: int) -> list[str]:
    rules, counts = view.settings.rules, view.run.counts()
    lines = []
    if view.state == "halted":
        lines.append("The DAG is halted; `slotwise dag resume` has it go on.")
    nodes, idle = int(str(rules["max_jobs"])), int(str(rules["max_idle"]))
    if nodes and counts["queued"] >= nodes:
        lines.append(f"{counts['queued']} nodes have jobs in the queue, and no more may (-maxjobs {nodes}).")
    if idle and counts["jobs_idle"] >= idle:
        lines.append(f"{counts['jobs_idle']} jobs are idle, and no more may be (-maxidle {idle}).")
    category = view.run.category(number)
    if category is not None and category[1] >= category[2]:
        name, now, most = category
        lines.append(f"{now} nodes of its category {name} are submitted, and no more may be (MAXJOBS {name} {most}).")
    if not lines and view.state == "running":
        lines.append("Nothing bars it: it is submitted next.")
    return lines


def _script(view: View, number: int, kind: str) -> list[str]:
    line = next((line for which, line, _, _ in view.node(number).scripts if which == kind), "")
    since = view.times[number].script if number in view.times else 0.0
    if since:
        return [f"Its {kind.upper()} script runs since {_clock(since)}: {line}"]
    if kind == "pre" and view.state == "halted":
        return [f"The DAG is halted, and no PRE script begins: {line}"]
    most = view.settings.rules[f"max_{kind}"]
    return [f"Its {kind.upper()} script waits for its turn (-max{kind} {most}): {line}"]


def _submitted(view: View, number: int) -> list[str]:
    node, row = view.node(number), view.row(number)
    since = view.times[number].submitted if number in view.times else 0.0
    if node.noop:
        return []
    jobs = f"{row.queued} job{'' if row.queued == 1 else 's'} of cluster {node.record.cluster}"
    return [f"Its jobs are {jobs}, submitted {_clock(since)}."] if since else ["It is being submitted."]


def _done(view: View, number: int) -> list[str]:
    times = view.times.get(number)
    if times is not None and times.ended:
        return [
            f"It ended {_clock(times.ended)}"
            + (f", {times.took_s:.0f} s after its submission." if times.took_s else ".")
        ]
    if view.node(number).done_by_job:
        return ["The DAG file says so (DONE)."]
    return ["A rescue file says so." if view.rescue else "The DAG file says so (DONE)."]


def _error(view: View, number: int) -> list[str]:
    node, times = view.node(number), view.times.get(number)
    lines = [f"{view.row(number).details or 'No log says why'}."]
    if node.record.why == "Job submit failed":
        lines.append(f"{view.place.debug_log.name} has what the access point said.")
    if times is not None and times.ended:
        lines.append(f"It ended {_clock(times.ended)}.")
    below = _below(view, number)
    if below:
        lines.append(f"Nodes that can never run for it: {named(view, below)}.")
    if view.state in ("running", "halted"):
        lines.append(f"`slotwise dag retry {view.place.primary} {node.name}` runs it once more.")
    else:
        lines.append("Submitting the DAG again runs it once more.")
    return lines


def _futile(view: View, number: int) -> list[str]:
    failed = [one for one in above(view, number) if view.row(one).status == NodeStatus.ERROR]
    lines = [f"{view.run.name(one)}, an ancestor, failed: {view.row(one).details}" for one in failed[:_NAMED]]
    more = len(failed) - _NAMED
    return [*lines, *([f"So did {more} more."] if more > 0 else [])]


def above(view: View, number: int) -> list[int]:
    """A node's ancestors, the nearest first."""
    seen: dict[int, None] = {}
    look = deque([number])
    while look:
        for parent, _ in view.run.dependencies(look.popleft()):
            if parent not in seen:
                seen[parent] = None
                look.append(parent)
    return list(seen)


def _below(view: View, number: int) -> list[int]:
    """Futile nodes for which a node is among the ancestors that failed."""
    children: dict[int, list[int]] = {}
    for one in view.run.order():
        if view.row(one).status == NodeStatus.FUTILE:
            for parent, _ in view.run.dependencies(one):
                children.setdefault(parent, []).append(one)
    found: dict[int, None] = {}
    look = [number]
    while look:
        for child in children.get(look.pop(), ()):
            if child not in found:
                found[child] = None
                look.append(child)
    return sorted(found)


_REASONS: dict[NodeStatus, Callable[[View, int], list[str]]] = {
    NodeStatus.NOT_READY: _not_ready, NodeStatus.READY: _ready, NodeStatus.SUBMITTED: _submitted,
    NodeStatus.PRERUN: lambda view, number: _script(view, number, "pre"),
    NodeStatus.POSTRUN: lambda view, number: _script(view, number, "post"),
    NodeStatus.DONE: _done, NodeStatus.ERROR: _error, NodeStatus.FUTILE: _futile,
}  # fmt: skip


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


__all__ = ["above", "named", "why"]
