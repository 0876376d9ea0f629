"""``slotwise dag graph``: a DAG drawn in the terminal, as SVG, or for dot."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.jobs.dag import named
from slotwise.dag import drawing
from slotwise.dag.drawing import Dot
from slotwise.errors import HostError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.dag.replay import View


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
    parser.add_argument("--all", "-all", action="store_true", help="a box for each node, however many there are")
    options = parser.take(args)
    if options is None:
        return 0
    view = named.view(options.dag, inv)
    if options.dot:
        _write(options.dot, view.run.dot_text(time.ctime()), inv)
        return 0
    most = max(1, len(view.run.order())) if options.all else 0
    drawn = drawing.picture(dots(view), widest=most or drawing.WIDEST, deepest=most or drawing.DEEPEST)
    if options.svg:
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


def _write(name: str, text: str, inv: Invocation) -> None:
    if name == "-":
        inv.out(text, end="")
        return
    path = inv.path(name)
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(text, errors="surrogateescape")
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise HostError(f"cannot write {name}: {error.strerror}") from None
