"""Draws the table of transitions: ``python -m slotwise.startd.slot.diagram DIRECTORY`` (states.md, states.svg)."""

from __future__ import annotations

import sys
from pathlib import Path

from slotwise.model.slot import Activity, State
from slotwise.model.state_diagram import Layout
from slotwise.model.transition_page import picture
from slotwise.startd.slot.states import TRANSITIONS, StateActivity, Transition

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
_LAYOUT = Layout((1050, 670))


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
        *(_table_row(row) for row in TRANSITIONS.rows),
        "",
        "Entering Idle or Retiring of any state looks at the policy at once, not at the next poll.",
        "",
    ]
    return "\n".join(lines)


def _table_row(row: Transition) -> str:
    return f"| {row.number or '–'} | {_places(row.before)} | {_places(row.after)} | {row.when} |"


def _places(places: tuple[StateActivity, ...]) -> str:
    state = places[0][0]
    return f"{state}/{', '.join(activity for _, activity in places)}"


def svg() -> str:
    """The picture, from the table."""
    centres = {str(state): centre for state, centre in _CENTRES.items()}
    return picture(TRANSITIONS.rows, centres, _LAYOUT, box_of=lambda place: str(place[0]), inside=_inside)


def _inside(state: str, numbers: list[str]) -> list[str]:
    """The text in a state's box: its activities, and the transitions that stay in it."""
    activities = sorted({a for row in TRANSITIONS.rows for s, a in (*row.before, *row.after) if s == state})
    shown = [a for a in activities if a is not Activity.NONE]
    lines = [", ".join(shown[i : i + 3]) for i in range(0, len(shown), 3)]
    for at in range(0, len(numbers), 5):
        lines.append(("within: " if at == 0 else "") + ", ".join(numbers[at : at + 5]))
    return lines


def write(directory: Path) -> None:
    """Write page and picture."""
    (directory / "states.md").write_text(markdown())
    (directory / "states.svg").write_text(svg())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
