"""``slotwise dag graph``: a DAG drawn in the terminal, as SVG, or for dot."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from slotwise import whole_file
from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs.dag import named, status
from slotwise.dag import drawing, forecast
from slotwise.dag.acts import NodeStatus
from slotwise.dag.drawing import Box, Dot, Picture
from slotwise.errors import HostError, UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.replay import View

#: Nodes of a box that are named where it has several: those that failed and those that run, so many of each.
_NAMED = 10
#: More dependencies between boxes than these show nothing: they are counted.
_EDGES = 5000
_RUN = (NodeStatus.SUBMITTED, NodeStatus.PRERUN, NodeStatus.POSTRUN)


def main(args: list[str], inv: Invocation) -> int:
    """Draw it."""
    parser = Parser(
        inv,
        "dag graph",
        "Draws a DAG by levels, each node with its state; where a level has many nodes, those of one submit file "
        "become one box. Without an option it is drawn in the terminal.",
    )
    named.add_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--svg", "-svg", metavar="FILE", help="write SVG, for browsers and papers; - for the output")
    form.add_argument("--dot", "-dot", metavar="FILE", help="write HTCondor's dot file; - for the output")
    form.add_argument(
        "--json", "-json", action="store_true", help="for programs: boxes in rows, and what is between them"
    )
    parser.add_argument("--all", "-all", action="store_true", help="a box for each node, however many there are")
    parser.add_argument(
        "--widest", "-widest", type=int, default=drawing.WIDEST, metavar="N",
        help=f"where a level has more than N nodes ({drawing.WIDEST}), those of a kind become one box",
    )  # fmt: skip
    parser.add_argument(
        "--deepest", "-deepest", type=int, default=drawing.DEEPEST, metavar="N",
        help=f"at most N rows ({drawing.DEEPEST}): levels are taken together where there are more",
    )  # fmt: skip
    options = parser.take(args)
    if options is None:
        return 0
    if min(options.widest, options.deepest) < 1:
        raise UsageError("--widest and --deepest are 1 or more")
    view = named.view(options.dag, inv)
    if options.dot:
        _write(options.dot, view.run.dot_text(time.ctime()), inv)
        return 0
    most = max(1, len(view.run.order())) if options.all else 0
    drawn = drawing.picture(dots(view), widest=most or options.widest, deepest=most or options.deepest)
    if options.json:
        inv.out(json.dumps(_record(view, drawn, time.time())))
    elif options.svg:
        _write(options.svg, drawing.svg(drawn, view.name), inv)
    else:
        inv.out(drawing.text(drawn, inv.screen or 100))
    return 0


def dots(view: View) -> dict[int, Dot]:
    """The nodes as they are drawn."""
    found = {}
    for number in view.run.order():
        node = view.node(number)
        parents = [parent for parent, _ in view.run.dependencies(number)]
        found[number] = Dot(node.name, view.row(number).status, parents, node.dag_file or node.description)
    return found


def _record(view: View, drawn: Picture, now: float) -> dict[str, object]:
    expected = forecast.forecast(status.work(view), now)
    ends = now + expected.left_s if expected.left_s is not None and view.state == "running" else None
    return {
        "name": view.name, "cluster": view.place.cluster or None, "state": view.state, "says": status.heading(view),
        "counts": {state.name.lower(): count for state, count in status.counts(view).items()},
        "end_expected": ends,
        "rows": [[_box(view, box) for box in row] for row in drawn.rows],
        "edges": sorted([*upper, *lower] for upper, lower in drawn.edges) if len(drawn.edges) <= _EDGES else [],
        "edges_left_out": len(drawn.edges) if len(drawn.edges) > _EDGES else 0,
    }  # fmt: skip


def _box(view: View, box: Box) -> dict[str, object]:
    made: dict[str, object] = {
        "label": box.label, "state": box.status.name.lower(), "nodes": len(box.nodes),
        "states": {state.name.lower(): count for state, count in box.states.items()},
        "failed": _names(view, box, (NodeStatus.ERROR,)), "running": _names(view, box, _RUN),
    }  # fmt: skip
    if len(box.nodes) == 1:
        row, node = view.row(box.nodes[0]), view.node(box.nodes[0])
        made["details"] = status.details(row)
        made["job"] = node.record.cluster if node.record.cluster > 0 else None
        made["dag_file"] = node.dag_file or None
    return made


def _names(view: View, box: Box, states: tuple[NodeStatus, ...]) -> list[str]:
    if not any(state in box.states for state in states):
        return []
    found = (number for number in box.nodes if view.row(number).status in states)
    return [view.run.name(number) for number, _ in zip(found, range(_NAMED), strict=False)]


def _write(name: str, text: str, inv: Invocation) -> None:
    if name == "-":
        inv.out(text, end="")
        return
    try:
        whole_file.write(inv.path(name), text, lasts=False)
    except OSError as error:
        raise HostError(f"cannot write {name}: {error.strerror}") from None
