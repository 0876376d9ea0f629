"""Draws the table of a run's life cycle: ``python -m slotwise.starter.run.diagram DIRECTORY``."""

from __future__ import annotations

import sys
from pathlib import Path

from slotwise.model.state_diagram import Box, Layout, draw
from slotwise.starter.run.lifecycle import TRANSITIONS, Transition
from slotwise.starter.run.states import Phase

_PHASES = {
    Phase.OFFERED: "The startd has assigned the run; the shadow has not accepted it yet.",
    Phase.PREPARING: "The hook PREPARE_JOB_BEFORE_TRANSFER runs.",
    Phase.INPUT: "The input files are being received.",
    Phase.STARTING: "The job is being prepared, and a keeper started; no process of it executes yet.",
    Phase.RUNNING: "The job executes, or is suspended.",
    Phase.CHECKPOINT: "The job has ended with its checkpoint exit code; the checkpoint is being sent.",
    Phase.OUTPUT: "All processes are gone; the outputs are being sent.",
    Phase.ENDED: "The slot is free; the shadow has yet to acknowledge the end.",
    Phase.GONE: "The result is delivered, or nobody wants it; what is left of the run is removed.",
}
_CENTRES = {
    Phase.OFFERED: (120, 60),
    Phase.PREPARING: (420, 60),
    Phase.INPUT: (270, 210),
    Phase.STARTING: (270, 380),
    Phase.RUNNING: (560, 380),
    Phase.CHECKPOINT: (430, 540),
    Phase.OUTPUT: (860, 380),
    Phase.ENDED: (860, 170),
    Phase.GONE: (860, 40),
}
_LAYOUT = Layout((1000, 600), box_width=150, box_height=44)


def numbered() -> list[tuple[int | None, Transition]]:
    """The rows, and the numbers of those in which the run goes on to another phase."""
    rows: list[tuple[int | None, Transition]] = []
    number = 0
    for row in TRANSITIONS:
        moves = any(after not in row.before for after in row.after)
        number += moves
        rows.append((number if moves else None, row))
    return rows


def markdown() -> str:
    """The page about the life cycle, from the table."""
    lines = [
        "# The life cycle of a run in the starter",
        "",
        "Generated from the table in `slotwise.starter.run.lifecycle` by `python -m slotwise.starter.run.diagram`.",
        "Rows with a number lead to another phase; the others say what else can happen in a phase. An event that",
        "has no row for a phase is an error: it is logged, and the run ends.",
        "",
        "![The phases of a run and how they follow each other](starter-run.svg)",
        "",
        "| Phase | Meaning |",
        "| --- | --- |",
        *(f"| {phase} | {text} |" for phase, text in _PHASES.items()),
        "",
        "## Transitions",
        "",
        "| # | In | Event | Then | When |",
        "| --- | --- | --- | --- | --- |",
        *(_table_row(number, row) for number, row in numbered()),
        "",
    ]
    return "\n".join(lines)


def _table_row(number: int | None, row: Transition) -> str:
    after = [str(phase) for phase in row.after if phase not in row.before]
    if set(row.before) <= set(row.after):
        after.insert(0, "the same")
    where = "any" if set(row.before) == set(Phase) else ", ".join(row.before)
    return f"| {number or '–'} | {where} | {row.event.__name__} | {', '.join(dict.fromkeys(after))} | {row.when} |"


def svg() -> str:
    """The picture, from the table."""
    between: dict[tuple[str, str], list[str]] = {}
    for number, row in numbered():
        for first in row.before if number else ():
            for second in row.after:
                if first is not second:
                    between.setdefault((str(first), str(second)), []).append(str(number))
    return draw({str(phase): Box(centre) for phase, centre in _CENTRES.items()}, between, _LAYOUT)


def write(directory: Path) -> None:
    """Write page and picture."""
    (directory / "starter-run.md").write_text(markdown())
    (directory / "starter-run.svg").write_text(svg())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
