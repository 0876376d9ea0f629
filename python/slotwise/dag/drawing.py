"""A DAG as a picture: by levels from top to bottom, and where there are many nodes, many of them as one box. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from msgspec import Struct

from slotwise.dag.acts import NodeStatus
from slotwise.dag.dependencies import sorted_nodes

#: More boxes than these on a level become one for each kind of node, or one in all.
WIDEST = 40
#: More levels than these are taken together.
DEEPEST = 100
#: What states look like: a mark as ``htcondor dag status`` has it, and a colour.
MARKS = {
    NodeStatus.DONE: "#", NodeStatus.SUBMITTED: "=", NodeStatus.PRERUN: "=", NodeStatus.POSTRUN: "=",
    NodeStatus.READY: "»", NodeStatus.NOT_READY: "-", NodeStatus.ERROR: "!", NodeStatus.FUTILE: "x",
}  # fmt: skip
WORDS = {
    NodeStatus.DONE: "done", NodeStatus.SUBMITTED: "queued", NodeStatus.PRERUN: "PRE script",
    NodeStatus.POSTRUN: "POST script", NodeStatus.READY: "ready", NodeStatus.NOT_READY: "waiting",
    NodeStatus.ERROR: "failed", NodeStatus.FUTILE: "futile",
}  # fmt: skip
_COLOURS = {
    NodeStatus.DONE: "#2f9e5b", NodeStatus.SUBMITTED: "#2f74c0", NodeStatus.PRERUN: "#7aa7d9",
    NodeStatus.POSTRUN: "#7aa7d9", NodeStatus.READY: "#b9d4ee", NodeStatus.NOT_READY: "#d0d4d9",
    NodeStatus.ERROR: "#cc3b36", NodeStatus.FUTILE: "#e8a33d",
}  # fmt: skip
_DARK = (NodeStatus.DONE, NodeStatus.SUBMITTED, NodeStatus.ERROR)
_WIDTH, _HEIGHT, _GAP, _STEP = 128, 30, 16, 76


class Dot(Struct, frozen=True):
    """A node. ``kind``: what nodes have in common that become one box, such as their submit file."""

    name: str
    status: NodeStatus
    parents: Sequence[int] = ()
    kind: str = ""


class Box(Struct, frozen=True):
    """One node, or several."""

    nodes: tuple[int, ...]
    label: str
    states: Mapping[NodeStatus, int]

    @property
    def status(self) -> NodeStatus:
        """The state that most of its nodes are in."""
        return max(self.states, key=lambda status: self.states[status])


class Picture(Struct, frozen=True):
    """Boxes in rows, top to bottom, and the dependencies between them: upper and lower box, by row and place."""

    rows: tuple[tuple[Box, ...], ...]
    edges: frozenset[tuple[tuple[int, int], tuple[int, int]]]


def levels(dots: Mapping[int, Dot]) -> dict[int, int]:
    """The level of each node: one below the lowest of its parents. Nodes of a cycle are below all others."""
    found: dict[int, int] = {}
    for number in sorted_nodes({number: dot.parents for number, dot in dots.items()}):
        found[number] = max((found[parent] + 1 for parent in dots[number].parents if parent in found), default=0)
    deepest = max(found.values(), default=-1) + 1
    return {number: found.get(number, deepest) for number in dots}


def picture(dots: Mapping[int, Dot], *, widest: int = WIDEST, deepest: int = DEEPEST) -> Picture:
    """The picture of a DAG."""
    level = levels(dots)
    depth = max(level.values(), default=-1) + 1
    together = max(1, -(-depth // deepest))
    members: dict[int, list[int]] = {}
    for number in dots:
        members.setdefault(level[number] // together, []).append(number)
    rows, place = [], dict[int, tuple[int, int]]()
    for at in sorted(members):
        row = _ordered(_boxes(members[at], dots, widest), dots, place)
        for column, box in enumerate(row):
            for number in box.nodes:
                place[number] = (at, column)
        rows.append(tuple(row))
    edges = {
        (place[parent], place[number])
        for number, dot in dots.items()
        for parent in dot.parents
        if parent in place and place[parent][0] != place[number][0]
    }
    return Picture(tuple(rows), frozenset(edges))


def _boxes(numbers: list[int], dots: Mapping[int, Dot], widest: int) -> list[Box]:
    if len(numbers) <= widest:
        return [Box((number,), dots[number].name, {dots[number].status: 1}) for number in numbers]
    kinds: dict[str, list[int]] = {}
    for number in numbers:
        kinds.setdefault(dots[number].kind, []).append(number)
    if len(kinds) > widest:
        kinds = {"": numbers}
    return [
        Box((one[0],), dots[one[0]].name, {dots[one[0]].status: 1})
        if len(one) == 1
        else Box(tuple(one), f"{len(one)} {kind or 'nodes'}", Counter(dots[number].status for number in one))
        for kind, one in kinds.items()
    ]


def _ordered(boxes: list[Box], dots: Mapping[int, Dot], place: Mapping[int, tuple[int, int]]) -> list[Box]:
    """Boxes of a row, each near its parents."""

    def wanted(box: Box) -> float:
        above = [place[parent][1] for number in box.nodes[:100] for parent in dots[number].parents if parent in place]
        return sum(above) / len(above) if above else -1.0

    return sorted(boxes, key=wanted)


def text(drawn: Picture, width: int) -> str:
    """For a terminal of ``width`` columns: a row of boxes a level, each with the mark of its state."""
    lines = []
    digits = len(str(len(drawn.rows)))
    for level, row in enumerate(drawn.rows):
        margin = f"{level:>{digits}} | "
        line = margin
        for box in row:
            shown = (
                f"[{bar(box.states, 12)}] {_said(box)}" if len(box.nodes) > 1 else f"{MARKS[box.status]} {box.label}"
            )
            if len(line) > len(margin) and len(line) + len(shown) > width:
                lines.append(line.rstrip())
                line = " " * digits + " | "
            line += shown + "   "
        lines.append(line.rstrip())
    used = {status for row in drawn.rows for box in row for status in box.states}
    legend = {MARKS[status]: WORDS[status] for status in MARKS if status in used}
    if "=" in legend:
        legend["="] = "running"
    return "\n".join([*lines, "", "   ".join(f"{mark} {word}" for mark, word in legend.items())])


def _said(box: Box) -> str:
    states = ", ".join(f"{count} {WORDS[status]}" for status, count in box.states.items())
    return f"{box.label}: {states}"


def bar(states: Mapping[NodeStatus, int], width: int) -> str:
    """A bar of marks; each state that occurs has one at least."""
    total = sum(states.values())
    if not total:
        return " " * width
    shares = {status: states.get(status, 0) for status in MARKS if states.get(status)}
    cells = {status: max(1, count * width // total) for status, count in shares.items()}
    while sum(cells.values()) != width:
        over = sum(cells.values()) > width
        pick = max(cells, key=lambda one: cells[one] if over else shares[one] * width / total - cells[one])
        if over and cells[pick] <= 1:
            break
        cells[pick] += -1 if over else 1
    return "".join(MARKS[status] * count for status, count in cells.items())


def svg(drawn: Picture, title: str) -> str:
    """As SVG. All text is escaped: names of nodes are whatever a user wrote."""
    columns = max((len(row) for row in drawn.rows), default=1)
    width = max(columns * (_WIDTH + _GAP) + _GAP, 460)
    height = len(drawn.rows) * _STEP + 60
    at: dict[tuple[int, int], tuple[float, float]] = {}
    for level, row in enumerate(drawn.rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for column in range(len(row)):
            at[level, column] = (left + column * (_WIDTH + _GAP), 16 + level * _STEP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>',
    ]
    for upper, lower in sorted(drawn.edges):
        (x, y), (below, z) = at[upper], at[lower]
        x, below, y = x + _WIDTH / 2, below + _WIDTH / 2, y + _HEIGHT
        half = (y + z) / 2
        path = f"M{x:.0f},{y:.0f} C{x:.0f},{half:.0f} {below:.0f},{half:.0f} {below:.0f},{z:.0f}"
        parts.append(f'<path d="{path}" fill="none" stroke="#9aa3ad" stroke-width="1.2"/>')
    for (level, column), (x, y) in at.items():
        parts.append(_box(drawn.rows[level][column], x, y))
    used = [status for status in MARKS if any(status in box.states for row in drawn.rows for box in row)]
    for place, status in enumerate(used):
        x = 16 + place * 88
        parts.append(
            f'<rect x="{x}" y="{height - 30}" width="12" height="12" rx="2" fill="{_COLOURS[status]}"/>'
            f'<text x="{x + 17}" y="{height - 20}" fill="#39424e">{WORDS[status]}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _box(box: Box, x: float, y: float) -> str:
    shown = box.label if len(box.label) <= 18 else box.label[:8] + "…" + box.label[-9:]
    states = ", ".join(f"{count} {WORDS[status]}" for status, count in box.states.items())
    parts = [f"<g><title>{escape(box.label)}: {states}</title>"]
    total, left = sum(box.states.values()), x
    for status in MARKS:
        if share := box.states.get(status, 0) * _WIDTH / total:
            parts.append(
                f'<rect x="{left:.1f}" y="{y:.0f}" width="{share:.1f}" height="{_HEIGHT}" fill="{_COLOURS[status]}"/>'
            )
            left += share
    ink = "#ffffff" if box.status in _DARK else "#20262e"
    parts.append(
        f'<rect x="{x:.1f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="none" stroke="#5b6570"/>'
        f'<text x="{x + _WIDTH / 2:.1f}" y="{y + 19:.0f}" text-anchor="middle" fill="{ink}">{escape(shown)}</text></g>'
    )
    return "".join(parts)


__all__ = ["DEEPEST", "MARKS", "WIDEST", "WORDS", "Box", "Dot", "Picture", "bar", "levels", "picture", "svg", "text"]
