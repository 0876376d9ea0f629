"""Draws the table of transitions: ``python -m slotwise.startd.diagram DIRECTORY`` writes states.md and states.svg."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from slotwise.model.slot import Activity, State
from slotwise.startd.states import TRANSITIONS, Transition

_STATES = {
    State.OWNER: "The machine is its owner's; no claims are accepted.",
    State.UNCLAIMED: "The slot is willing.",
    State.MATCHED: "The negotiator told of a match; the schedd has MATCH_TIMEOUT seconds to claim.",
    State.CLAIMED: "A schedd holds the slot and runs one job after another on it.",
    State.PREEMPTING: "A job is made to leave; then the slot goes to the claim that waits, or back to the owner.",
    State.BACKFILL: "Filler work (later).",
    State.DRAINED: "An administrator has emptied the slot.",
    State.DELETE: "A dynamic slot gives its resources back and vanishes.",
}
_ACTIVITIES = {
    Activity.IDLE: "nothing runs",
    Activity.BENCHMARKING: "the benchmarks run",
    Activity.BUSY: "a job runs",
    Activity.SUSPENDED: "the job is frozen",
    Activity.RETIRING: "the job may run on for its retirement time; in Drained: other slots are still in use",
    Activity.CLEANING: "what the job left is removed; no policy is evaluated",
    Activity.VACATING: "the job was asked to end (soft kill)",
    Activity.KILLING: "the job is made to end (hard kill)",
}
#: Centre of each state's box in the picture.
_CENTRES = {
    State.OWNER: (140, 90),
    State.UNCLAIMED: (480, 90),
    State.MATCHED: (820, 90),
    State.DELETE: (140, 260),
    State.BACKFILL: (480, 260),
    State.CLAIMED: (820, 400),
    State.DRAINED: (140, 440),
    State.PREEMPTING: (480, 560),
}
_WIDTH, _HEIGHT = 190, 96


def markdown() -> str:
    """The page about states, from the table."""
    lines = [
        "# States and activities of a slot",
        "",
        "This page is made from the table in `slotwise.startd.states` by `python -m slotwise.startd.diagram`.",
        "The numbers are those of the state diagram in the HTCondor manual; rows without one have none there.",
        "",
        "![The states of a slot and how they follow each other](states.svg)",
        "",
        "| State | Meaning |",
        "| --- | --- |",
        *(f"| {state} | {text} |" for state, text in _STATES.items()),
        "",
        "| Activity | Meaning |",
        "| --- | --- |",
        *(f"| {activity} | {text} |" for activity, text in _ACTIVITIES.items()),
        "",
        "## Transitions",
        "",
        "| # | From | To | When |",
        "| --- | --- | --- | --- |",
        *(_table_row(row) for row in TRANSITIONS),
        "",
        "Entering Idle or Retiring of any state looks at the policy at once, not at the next poll.",
        "",
    ]
    return "\n".join(lines)


def _table_row(row: Transition) -> str:
    return f"| {row.number or '–'} | {_places(row.before)} | {_places(row.after)} | {row.trigger} |"


def _places(places: tuple[tuple[State, Activity], ...]) -> str:
    state = places[0][0]
    return f"{state}/{', '.join(activity for _, activity in places)}"


def svg() -> str:
    """The picture, from the table."""
    between: dict[tuple[State, State], list[str]] = {}
    within: dict[State, list[str]] = {}
    for row in TRANSITIONS:
        first, second = row.before[0][0], row.after[0][0]
        name = str(row.number) if row.number else "•"
        if first is second:
            within.setdefault(first, []).append(name)
        elif name not in between.setdefault((first, second), []):
            between[first, second].append(name)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 650" font-family="sans-serif" font-size="13">',
        '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0L10,5L0,10z" fill="#456"/></marker></defs>',
        '<rect width="960" height="650" fill="white"/>',
    ]
    parts += [_arrow(first, second, numbers, between) for (first, second), numbers in between.items()]
    parts += [_box(state, within.get(state, [])) for state in _CENTRES]
    return "\n".join([*parts, "</svg>", ""])


def _box(state: State, numbers: list[str]) -> str:
    x, y = _CENTRES[state]
    activities = sorted({a for row in TRANSITIONS for s, a in (*row.before, *row.after) if s is state})
    shown = [a for a in activities if a is not Activity.NONE]
    lines = [", ".join(shown[i : i + 3]) for i in range(0, len(shown), 3)]
    if numbers:
        lines.append(f"within: {', '.join(dict.fromkeys(numbers))}")
    text = "".join(
        f'<text x="{x}" y="{y - 4 + 17 * index}" text-anchor="middle" fill="#444">{line}</text>'
        for index, line in enumerate(lines)
    )
    return (
        f'<rect x="{x - _WIDTH // 2}" y="{y - _HEIGHT // 2}" width="{_WIDTH}" height="{_HEIGHT}" rx="10" '
        f'fill="#eef4fb" stroke="#456"/>'
        f'<text x="{x}" y="{y - 26}" text-anchor="middle" font-weight="bold">{state}</text>{text}'
    )


def _arrow(first: State, second: State, numbers: list[str], all_of: dict[tuple[State, State], list[str]]) -> str:
    """An arrow from box to box, beside the one that goes the other way, with its numbers."""
    (x1, y1), (x2, y2) = _CENTRES[first], _CENTRES[second]
    length = math.hypot(x2 - x1, y2 - y1)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    aside = 12 if (second, first) in all_of else 0
    sx, sy = -uy * aside, ux * aside
    begin, end = _edge(ux, uy), _edge(ux, uy)
    ax, ay = x1 + ux * begin + sx, y1 + uy * begin + sy
    bx, by = x2 - ux * end + sx, y2 - uy * end + sy
    tx, ty = ax + (bx - ax) * 0.42 + sx * 0.9, ay + (by - ay) * 0.42 + sy * 0.9 + 4
    label = ", ".join(numbers)
    return (
        f'<line x1="{ax:.0f}" y1="{ay:.0f}" x2="{bx:.0f}" y2="{by:.0f}" stroke="#456" marker-end="url(#end)"/>'
        f'<text x="{tx:.0f}" y="{ty:.0f}" text-anchor="middle" stroke="white" stroke-width="4" '
        f'paint-order="stroke" fill="#a33">{label}</text>'
    )


def _edge(ux: float, uy: float) -> float:
    """How far a box's border is from its centre in a direction."""
    across = (_WIDTH / 2) / abs(ux) if ux else math.inf
    down = (_HEIGHT / 2) / abs(uy) if uy else math.inf
    return min(across, down)


def write(directory: Path) -> None:
    """Write page and picture."""
    (directory / "states.md").write_text(markdown())
    (directory / "states.svg").write_text(svg())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
