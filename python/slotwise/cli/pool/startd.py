"""``slotwise startd replay``: take recorded steps of slots once more, and see the same come of them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.table import Column, table
from slotwise.errors import HostError, UsageError
from slotwise.startd.slot.replay import Replayed, replayed

USAGE = """usage: slotwise startd replay [options] FILE ...
  Takes every recorded step of every slot again: the slot as it was, what happened, and what the policy said.
  FILE             LOG/startd-stimuli.jsonl (and .old), which SLOTWISE_STARTD_STIMULI_MAX_KIB > 0 makes
  -slot NAME       only this slot
  -different       only steps that end otherwise than they did
  -json            one JSON array for programs
  Exit status 1 when a step ends otherwise."""


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
    rows = [row for name in parsed.words[1:] for row in _rows(inv.path(name))]
    rows = [row for row in rows if slot is None or slot in (row["Slot"], row["Slot"].partition("@")[0])]
    different = sum(not row["Same"] for row in rows)
    shown = [row for row in rows if not row["Same"]] if parsed.has("different") else rows
    if parsed.has("json"):
        inv.out(json.dumps(shown, indent=1))
    else:
        inv.stdout.write(_table(shown))
        slots = Counter(row["Slot"] for row in rows)
        fate = "all end as they did" if not different else f"{different} end otherwise than they did"
        inv.out(f"{len(rows)} steps of {len(slots)} slots: {fate}")
    return 1 if different else 0


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(f"the file cannot be read: {error}", path=str(path)) from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(_row(replayed(line)))
        except ValueError as error:
            raise UsageError(
                f"{path}:{number}: {error}", hint="give a file that a startd of this version wrote"
            ) from None
    return rows


def _row(step: Replayed) -> dict[str, Any]:
    return {
        "At": step.at,
        "Slot": step.before.name,
        "Stimulus": type(step.event).__name__,
        "Before": "/".join(step.before.state_activity),
        "Transitions": [
            {"Number": row.number, "Trigger": row.trigger, "To": [f"{s}/{a}" for s, a in row.after]}
            for row in step.now.trace
        ],
        "After": "/".join(step.now.slot.state_activity),
        "Recorded": "/".join(step.then.state_activity),
        "Actions": [type(action).__name__ for action in step.now.actions],
        "Same": step.same,
    }


def _table(rows: list[dict[str, Any]]) -> str:
    columns = [Column(h) for h in ("Time", "Slot", "Stimulus", "Before", "Transitions", "After", "To do", "")]
    return table(columns, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> list[str]:
    numbers = [str(taken["Number"]) if taken["Number"] is not None else "-" for taken in row["Transitions"]]
    return [
        datetime.fromtimestamp(row["At"]).strftime("%m-%d %H:%M:%S"),
        row["Slot"].partition("@")[0],
        row["Stimulus"],
        row["Before"],
        " ".join(numbers),
        row["After"],
        " ".join(row["Actions"]),
        "" if row["Same"] else f"recorded: {row['Recorded']}",
    ]
