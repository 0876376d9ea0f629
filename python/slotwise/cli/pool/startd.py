"""``slotwise startd replay``: replay the recorded steps of slots, and compare the outcomes."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.table import Column, table
from slotwise.daemon.registry import replay_of_slots
from slotwise.errors import HostError, UsageError
from slotwise.model.slot_step import ReplayedStep

USAGE = """usage: slotwise startd replay [options] FILE ...
  Takes each recorded step again: the slot as it was, the event, and the results of its policy.
  FILE             LOG/startd-stimuli.jsonl (and .old), which SLOTWISE_STARTD_STIMULI_MAX_KIB > 0 makes
  -slot NAME       only this slot
  -different       only steps whose outcome differs
  -json            one JSON array for programs
  Exit status 1 when an outcome differs."""


def main(args: list[str], inv: Invocation) -> int:
    """Look into what a startd did."""
    parsed = parse(args, [Option("help", 1), Option("json", 1), Option("slot", 1, 1), Option("different", 1)])
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if not parsed.words or parsed.words[0] != "replay":
        raise UsageError(
            "the verb is missing" if not parsed.words else f"there is no {parsed.words[0]!r}", hint="replay"
        )
    if len(parsed.words) < 2:
        raise UsageError("replay needs a file", hint="`slotwise config val LOG` names the directory")
    slot = parsed.value("slot")
    steps = [step for name in parsed.words[1:] for step in _steps(inv.path(name))]
    steps = [step for step in steps if slot is None or slot in (step.slot, step.slot.partition("@")[0])]
    different = sum(not step.same for step in steps)
    shown = [step for step in steps if not step.same] if parsed.has("different") else steps
    if parsed.has("json"):
        inv.out(json.dumps([_row(step) for step in shown], indent=1))
    else:
        inv.stdout.write(_table(shown))
        slots = Counter(step.slot for step in steps)
        outcome = "all end as recorded" if not different else f"{different} end differently"
        inv.out(f"{len(steps)} steps of {len(slots)} slots: {outcome}")
    return 1 if different else 0


def _steps(path: Path) -> list[ReplayedStep]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(f"the file cannot be read: {error}", path=str(path)) from None
    replay = replay_of_slots()
    steps = []
    for number, line in enumerate(lines, 1):
        try:
            steps.append(replay(line))
        except ValueError as error:
            raise UsageError(
                f"{path}:{number}: {error}", hint="give a file that a startd of this version wrote"
            ) from None
    return steps


def _row(step: ReplayedStep) -> dict[str, object]:
    """A step for programs."""
    return {
        "At": step.at,
        "Slot": step.slot,
        "Stimulus": step.stimulus,
        "Before": step.before,
        "Transitions": [
            {"Number": taken.number, "Trigger": taken.trigger, "To": list(taken.after)} for taken in step.transitions
        ],
        "After": step.after,
        "Recorded": step.recorded,
        "Actions": list(step.actions),
        "Same": step.same,
    }


def _table(steps: list[ReplayedStep]) -> str:
    columns = [Column(h) for h in ("Time", "Slot", "Stimulus", "Before", "Transitions", "After", "To do", "")]
    return table(columns, [_cells(step) for step in steps])


def _cells(step: ReplayedStep) -> list[str]:
    return [
        datetime.fromtimestamp(step.at).strftime("%m-%d %H:%M:%S"),
        step.slot.partition("@")[0],
        step.stimulus,
        step.before,
        " ".join(str(taken.number) if taken.number is not None else "-" for taken in step.transitions),
        step.after,
        " ".join(step.actions),
        "" if step.same else f"recorded: {step.recorded}",
    ]
