"""``slotwise dag status``: how far a DAG is, what runs, what failed, and when it is likely to end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs.dag import named
from slotwise.cli.render.table import Column, table
from slotwise.cli.render.times import span
from slotwise.dag import drawing, forecast
from slotwise.dag.acts import DagStatus, NodeStatus
from slotwise.dag.forecast import Forecast, Work

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.replay import View
    from slotwise.dag.status_file import NodeRow

#: How many nodes are listed of those that run, and of those that failed.
_LISTED = 20
_BAR = 50
_ACTIVE = (NodeStatus.SUBMITTED, NodeStatus.PRERUN, NodeStatus.POSTRUN)


def main(args: list[str], inv: Invocation) -> int:
    """Print it; 0 whatever the state is."""
    parser = Parser(
        inv,
        "dag status",
        "Says how far a DAG is: its nodes by state, those that run and those that failed, the longest chain of nodes "
        "that is left, and when the end is likely, by the times that its own nodes took. It reads the DAG's files, so "
        "that it works for DAGs that have ended, too.",
    )
    named.add_argument(parser)
    parser.add_argument("--json", "-json", action="store_true", help="for programs: all of it, with each node")
    options = parser.take(args)
    if options is None:
        return 0
    found, now = named.view(options.dag, inv), time.time()
    expected = forecast.forecast(work(found), now)
    inv.out(json.dumps(_record(found, expected, now)) if options.json else _text(found, expected, now))
    return 0


def work(view: View) -> dict[int, Work]:
    """Its nodes for the forecast."""
    found = {}
    for number in view.run.order():
        node, times = view.node(number), view.times.get(number)
        parents = [parent for parent, _ in view.run.dependencies(number)]
        kind = "NOOP" if node.noop else node.dag_file or node.description
        found[number] = Work(
            view.row(number).status, kind, parents, times.submitted if times else 0.0, times.took_s if times else 0.0
        )
    return found


def counts(view: View) -> dict[NodeStatus, int]:
    """Nodes by state, those that occur, as :data:`~slotwise.dag.drawing.MARKS` orders them."""
    found = dict.fromkeys(drawing.MARKS, 0)
    for number in view.run.order():
        found[view.row(number).status] += 1
    return {status: count for status, count in found.items() if count}


def details(row: NodeRow) -> str:
    """What the node's state does not say: why it failed, or what its jobs do."""
    return "running" if row.details == "not_idle" else row.details


def heading(view: View) -> str:
    """Which DAG, and what its job does."""
    place = view.place
    which = f"DAG {place.cluster} [{view.name}]" if place.cluster else f"DAG [{view.name}]"
    ad, state = place.ad, view.state
    if state == "ended":
        code = None if ad is None else ad.get("ExitCode")
        how = "has ended" if code is None else f"has ended with status {code}"
        if view.newest_rescue > view.rescue:
            return f"{which} {how}; submitted again it goes on from its rescue file {view.newest_rescue}."
        return f"{which} {how}."
    if state == "held":
        return f"{which} is held: {'' if ad is None else ad.get('HoldReason', 'no reason was given')}"
    if state == "waits to be started":
        until = None if ad is None else ad.get("JobCoolDownExpiration")
        if isinstance(until, int) and until > time.time():
            return f"{which} waits to be started again at {time.strftime('%H:%M:%S', time.localtime(until))}."
    if state == "halted":
        return f"{which} is halted: no new jobs and PRE scripts begin. `slotwise dag resume` has it go on."
    return f"{which} {_STATE_WORDS.get(state, state)}."


_STATE_WORDS = {"running": "is running", "not run yet": "was not run yet"}


def _text(view: View, expected: Forecast, now: float) -> str:
    states, total = counts(view), view.run.counts()
    nodes = sum(states.values())
    lines = [heading(view)]
    if view.rescue and view.state != "ended":
        lines.append(f"It goes on from its rescue file {view.rescue}.")
    if status := view.run.status:
        lines.append(f"DAG_Status is {status} ({DagStatus(status).name.lower().replace('_', ' ')}).")
    rows = [(drawing.MARKS[status], drawing.WORDS[status], str(count)) for status, count in states.items()]
    lines += ["", table(_STATES, [*rows, ("", "total", str(nodes))]).rstrip()]
    done = states.get(NodeStatus.DONE, 0)
    if nodes:
        lines += ["", f"[{drawing.bar(states, _BAR)}] {100 * done / nodes:.1f}% done"]
    if total["jobs_submitted"]:
        queued = total["jobs_submitted"] - total["jobs_ended"]
        running = max(0, queued - total["jobs_idle"])
        lines.append(
            f"Jobs: {total['jobs_submitted']} submitted, {total['jobs_ended']} ended, {running} running, "
            f"{total['jobs_idle'] - total['jobs_held']} idle, {total['jobs_held']} held"
        )
    lines += _active(view, now) + _failed(view) + _future(view, expected, now)
    return "\n".join(lines)


_STATES = (Column(""), Column("STATE"), Column("NODES", right=True))
_NODES = (Column("NODE"), Column("STATE"), Column("JOBS"), Column("SINCE", right=True))


def _active(view: View, now: float) -> list[str]:
    active = [number for number in view.run.order() if view.row(number).status in _ACTIVE]
    rows = []
    for number in active[:_LISTED]:
        row, node, times = view.row(number), view.node(number), view.times.get(number)
        since = (times.script or times.submitted) if times else 0.0
        jobs = ""
        if row.queued:
            held = f", {row.held} held" if row.held else ""
            jobs = f"{node.record.cluster} ({row.queued}{held})"
        state = details(row) if row.status == NodeStatus.SUBMITTED else drawing.WORDS[row.status]
        rows.append((node.name, state, jobs, span(now - since) if since else ""))
    if not rows:
        return []
    more = len(active) - len(rows)
    return ["", table(_NODES, rows).rstrip(), *([f"... and {more} more"] if more > 0 else [])]


def _failed(view: View) -> list[str]:
    failed = [number for number in view.run.order() if view.row(number).status == NodeStatus.ERROR]
    if not failed:
        return []
    lines = ["", "Failed:"]
    for number in failed[:_LISTED]:
        file, line = view.run.place(number)
        lines.append(f"  {view.run.name(number)} ({file}:{line}): {view.row(number).details}")
    more = len(failed) - _LISTED
    return [*lines, *([f"  ... and {more} more"] if more > 0 else [])]


def _future(view: View, expected: Forecast, now: float) -> list[str]:
    if not expected.path:
        return []
    names = [view.run.name(number) for number in expected.path]
    shown = " -> ".join(names if len(names) <= 8 else [*names[:4], "...", *names[-3:]])
    lasts = "" if expected.path_s is None else f", about {span(expected.path_s)}"
    lines = ["", f"Longest chain left: {shown} ({len(names)} node{'s' if len(names) != 1 else ''}{lasts})"]
    if view.state != "running":
        return lines
    if expected.left_s is None:
        return [*lines, "When it ends is not known before a first node has ended."]
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(now + expected.left_s))
    return [*lines, f"The end is likely in {span(expected.left_s)}, at {end}."]


def _record(view: View, expected: Forecast, now: float) -> dict[str, object]:
    nodes = []
    for number in view.run.order():
        row, node, times = view.row(number), view.node(number), view.times.get(number)
        file, line = view.run.place(number)
        nodes.append({
            "name": row.name, "state": row.status.name.lower(), "details": row.details, "file": file, "line": line,
            "parents": view.run.parents(number), "cluster": node.record.cluster if node.record.cluster > 0 else None,
            "jobs_queued": row.queued, "jobs_held": row.held, "retries": row.retries,
            "submitted": times.submitted or None if times else None, "ended": times.ended or None if times else None,
        })  # fmt: skip
    return {
        "dag": view.place.options.files, "directory": str(view.place.directory),
        "cluster": view.place.cluster or None, "state": view.state, "dag_status": view.run.status,
        "rescue": view.rescue or None, "newest_rescue": view.newest_rescue or None,
        "counts": {status.name.lower(): count for status, count in counts(view).items()},
        "jobs": {name: count for name, count in view.run.counts().items() if name.startswith("jobs_")},
        "longest_chain": [view.run.name(number) for number in expected.path],
        "end_expected": now + expected.left_s if expected.left_s is not None and view.state == "running" else None,
        "nodes": nodes,
    }  # fmt: skip
