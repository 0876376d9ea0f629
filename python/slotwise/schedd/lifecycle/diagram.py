"""Draws the tables of claims and runs: ``python -m slotwise.schedd.lifecycle.diagram DIRECTORY``."""

from __future__ import annotations

import sys
from pathlib import Path

from slotwise.model.state_diagram import Layout
from slotwise.model.transition_page import Drawing
from slotwise.schedd.lifecycle import claim, run
from slotwise.schedd.lifecycle.claim_events import ClaimEvent
from slotwise.schedd.lifecycle.claim_instructions import ClaimInstruction
from slotwise.schedd.lifecycle.claim_states import (
    ClaimState,
    Closing,
    Disconnected,
    Gone,
    Idle,
    Requested,
    Reserved,
    Running,
)
from slotwise.schedd.lifecycle.run_events import RunEvent
from slotwise.schedd.lifecycle.run_instructions import RunInstruction
from slotwise.schedd.lifecycle.run_states import (
    Accepted,
    Ending,
    Executing,
    Failed,
    Over,
    Reconnecting,
    RunState,
    Starting,
)

_PAGE = "claims.md"
CLAIMS: Drawing[type[ClaimState], ClaimState, ClaimEvent, ClaimInstruction] = Drawing(
    claim.TRANSITIONS,
    "Claims",
    "claims.svg",
    {
        Requested: "The startd has been asked for the slot and has not answered.",
        Idle: "Held without a job: the next one is being chosen, or the claim is kept for KeepClaimIdle.",
        Reserved: "A job starts on it as soon as JOB_START_DELAY allows.",
        Running: "A run has been decided for it, and its end has not been taken over.",
        Disconnected: "The link to the startd broke, or the schedd has restarted: the startd has yet to say "
        "whether it has the claim.",
        Closing: "The startd is taking the slot back: no job follows the run.",
        Gone: "Given back, refused, or ended by the startd. A run that was on it may still report its end.",
    },
    {
        Requested: (110, 80),
        Reserved: (110, 290),
        Idle: (430, 290),
        Running: (760, 290),
        Disconnected: (760, 80),
        Closing: (760, 510),
        Gone: (430, 510),
    },
    Layout((900, 580), box_width=150, box_height=44),
)
RUNS: Drawing[type[RunState], RunState, RunEvent, RunInstruction] = Drawing(
    run.TRANSITIONS,
    "Runs",
    "runs.svg",
    {
        Starting: "The claim is being activated; no starter has been given the job.",
        Accepted: "A starter has the job's ad and prepares it: the job may execute from now on.",
        Executing: "The job executes.",
        Reconnecting: "The stream of its starter broke, or the schedd has restarted; the job may execute.",
        Ending: "The starter has reported the end; results are being put in place.",
        Failed: "The access point failed at a message of the run: it is killed, and its job runs again.",
        Over: "The end is recorded: what its starter still says is answered from memory.",
    },
    {
        Starting: (110, 80),
        Accepted: (430, 80),
        Executing: (760, 80),
        Reconnecting: (595, 260),
        Ending: (900, 330),
        Failed: (110, 460),
        Over: (560, 520),
    },
    Layout((1010, 590), box_width=150, box_height=44),
)


def markdown() -> str:
    """The page about claims and runs, from the tables."""
    lines = [
        "# The life cycles of claims and runs at the access point",
        "",
        "Generated from the tables in `slotwise.schedd.lifecycle.claim` and `slotwise.schedd.lifecycle.run` by",
        "`python -m slotwise.schedd.lifecycle.diagram`. Rows with a number lead to another state; the others say what",
        "else can happen in a state. An event that has no row for a state is an error: it is logged, and the claim is",
        "released, or the run ended. The slot has [states of its own](states.md) at the startd, and the run",
        "[phases](starter-run.md) in the starter. `slotwise schedd replay` shows recorded steps with these numbers",
        "([logs](../guides/logs.md)).",
        "",
        *CLAIMS.section(),
        *RUNS.section(),
    ]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Write the page and its pictures."""
    (directory / _PAGE).write_text(markdown())
    CLAIMS.write_picture(directory)
    RUNS.write_picture(directory)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
