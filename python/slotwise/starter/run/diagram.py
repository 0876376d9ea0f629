"""Draws the table of a run's life cycle: ``python -m slotwise.starter.run.diagram DIRECTORY``."""

from __future__ import annotations

import sys
from pathlib import Path

from slotwise.model.state_diagram import Layout
from slotwise.model.transition_page import Drawing
from slotwise.starter.run.lifecycle import TRANSITIONS
from slotwise.starter.run.states import Phase

_PAGE = "starter-run.md"
RUN = Drawing(
    TRANSITIONS,
    "Phases",
    "starter-run.svg",
    {
        Phase.OFFERED: "The startd has assigned the run; the shadow has not accepted it yet.",
        Phase.PREPARING: "The hook PREPARE_JOB_BEFORE_TRANSFER runs.",
        Phase.INPUT: "The input files are being received.",
        Phase.STARTING: "The job is being prepared, and a keeper started; no process of it executes yet.",
        Phase.RUNNING: "The job executes, or is suspended.",
        Phase.CHECKPOINT: "The job has ended with its checkpoint exit code; the checkpoint is being sent.",
        Phase.OUTPUT: "All processes are gone; the outputs are being sent.",
        Phase.ENDED: "The slot is free; the shadow has yet to acknowledge the end.",
        Phase.GONE: "The result is delivered, or nobody wants it; what is left of the run is removed.",
    },
    {
        Phase.OFFERED: (120, 60),
        Phase.PREPARING: (420, 60),
        Phase.INPUT: (270, 210),
        Phase.STARTING: (270, 380),
        Phase.RUNNING: (560, 380),
        Phase.CHECKPOINT: (430, 540),
        Phase.OUTPUT: (860, 380),
        Phase.ENDED: (860, 170),
        Phase.GONE: (860, 40),
    },
    Layout((1000, 600), box_width=150, box_height=44),
)


def markdown() -> str:
    """The page about the life cycle, from the table."""
    lines = [
        "# The life cycle of a run in the starter",
        "",
        "Generated from the table in `slotwise.starter.run.lifecycle` by `python -m slotwise.starter.run.diagram`.",
        "Rows with a number lead to another phase; the others say what else can happen in a phase. An event that",
        "has no row for a phase is an error: it is logged, and the run ends.",
        "",
        *RUN.section(),
    ]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Write page and picture."""
    (directory / _PAGE).write_text(markdown())
    RUN.write_picture(directory)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
