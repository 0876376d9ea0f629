"""Draws the table of transitions: ``python -m slotwise.startd.slot.diagram DIRECTORY`` (states.md, states.svg)."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from slotwise.model.slot import Activity, State
from slotwise.startd.slot.states import TRANSITIONS, Transition

_STATES = {
    State.OWNER: "The machine is its owner's; no claims are accepted.",
    State.UNCLAIMED: "The slot is willing.",
    State.MATCHED: "The negotiator told of a match; the schedd has MATCH_TIMEOUT seconds to claim.",
    State.CLAIMED: "A schedd holds the slot and runs one job after another on it.",
    State.PREEMPTING: "A job is made to leave; then the slot goes to the claim that waits, or back to the owner.",
    State.BACKFILL: "Filler work (a BOINC client) runs until somebody wants the slot.",
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
    State.OWNER: (130, 330),
    State.UNCLAIMED: (470, 330),
    State.MATCHED: (470, 80),
    State.BACKFILL: (770, 125),
    State.DELETE: (120, 590),
    State.DRAINED: (390, 590),
    State.CLAIMED: (930, 400),
    State.PREEMPTING: (720, 590),
}
_WIDTH, _HEIGHT = 200, 104
_SIZE = (1050, 670)


def markdown() -> str:
    """The page about states, from the table."""
    lines = [
        "# States and activities of a slot",
        "",
        "Generated from the table in `slotwise.startd.slot.states` by `python -m slotwise.startd.slot.diagram`.",
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
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE[0]} {_SIZE[1]}" font-family="sans-serif" '
        'font-size="13">',
        '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0L10,5L0,10z" fill="#456"/></marker></defs>',
        f'<rect width="{_SIZE[0]}" height="{_SIZE[1]}" fill="white"/>',
    ]
    arrows = [_arrow(first, second, numbers, between) for (first, second), numbers in between.items()]
    parts += [line for line, _ in arrows]
    parts += [_box(state, within.get(state, [])) for state in _CENTRES]
    parts += [label for _, label in arrows]
    return "\n".join([*parts, "</svg>", ""])


def _box(state: State, numbers: list[str]) -> str:
    x, y = _CENTRES[state]
    activities = sorted({a for row in TRANSITIONS for s, a in (*row.before, *row.after) if s is state})
    shown = [a for a in activities if a is not Activity.NONE]
    lines = [", ".join(shown[i : i + 3]) for i in range(0, len(shown), 3)]
    inside = list(dict.fromkeys(numbers))
    for at in range(0, len(inside), 5):
        lines.append(("within: " if at == 0 else "") + ", ".join(inside[at : at + 5]))
    text = "".join(
        f'<text x="{x}" y="{y - 10 + 17 * index}" text-anchor="middle" fill="#444">{line}</text>'
        for index, line in enumerate(lines)
    )
    return (
        f'<rect x="{x - _WIDTH // 2}" y="{y - _HEIGHT // 2}" width="{_WIDTH}" height="{_HEIGHT}" rx="10" '
        f'fill="#eef4fb" stroke="#456"/>'
        f'<text x="{x}" y="{y - 32}" text-anchor="middle" font-weight="bold">{state}</text>{text}'
    )


def _arrow(
    first: State, second: State, numbers: list[str], all_of: dict[tuple[State, State], list[str]]
) -> tuple[str, str]:
    """An arrow from box to box, beside the one that goes the other way, and its label: numbers on white."""
    (x1, y1), (x2, y2) = _CENTRES[first], _CENTRES[second]
    length = math.hypot(x2 - x1, y2 - y1)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    back = all_of.get((second, first), [])
    longest = max(len(", ".join(numbers)), len(", ".join(back)))
    aside = 12 + max(0.0, 1.6 * (longest - 6)) if back else 0  # labels must not reach the arrow beside
    sx, sy = -uy * aside, ux * aside
    begin, end = _edge(ux, uy, sx, sy), _edge(-ux, -uy, sx, sy)
    ax, ay = x1 + ux * begin + sx, y1 + uy * begin + sy
    bx, by = x2 - ux * end + sx, y2 - uy * end + sy
    tx, ty = ax + (bx - ax) * 0.22, ay + (by - ay) * 0.22
    label = ", ".join(numbers)
    half = 3.6 * len(label) + 3
    line = f'<line x1="{ax:.0f}" y1="{ay:.0f}" x2="{bx:.0f}" y2="{by:.0f}" stroke="#456" marker-end="url(#end)"/>'
    text = (
        f'<rect x="{tx - half:.0f}" y="{ty - 9:.0f}" width="{2 * half:.0f}" height="18" rx="4" fill="white"/>'
        f'<text x="{tx:.0f}" y="{ty + 4:.0f}" text-anchor="middle" fill="#a33">{label}</text>'
    )
    return line, text


def _edge(ux: float, uy: float, sx: float, sy: float) -> float:
    """How far it is to a box's border in a direction, from a point beside its centre."""
    across = (_WIDTH / 2 - math.copysign(sx, ux * sx)) / abs(ux) if ux else math.inf
    down = (_HEIGHT / 2 - math.copysign(sy, uy * sy)) / abs(uy) if uy else math.inf
    return min(across, down)


def write(directory: Path) -> None:
    """Write page and picture."""
    (directory / "states.md").write_text(markdown())
    (directory / "states.svg").write_text(svg())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
