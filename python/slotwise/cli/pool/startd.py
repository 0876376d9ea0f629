"""``slotwise startd replay``: replay the recorded steps of slots, and compare the outcomes."""

from __future__ import annotations

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.pool.replay import ReplayCommand, Selection
from slotwise.daemon.registry import replay_of_slots

USAGE = """usage: slotwise startd replay [options] FILE ...
  Takes each recorded step again: the slot as it was, the event, and the results of its policy.
  FILE             LOG/startd-stimuli.jsonl (and .old), which SLOTWISE_STARTD_STIMULI_MAX_KIB > 0 makes
  -slot NAME       only this slot
  -different       only steps whose outcome differs
  -json            one JSON array for programs
  Exit status 1 when an outcome differs."""

_COMMAND = ReplayCommand("startd", USAGE, replay_of_slots, "Slot", (Selection("slot", "slot", "@"),))


def main(args: list[str], inv: Invocation) -> int:
    """Look into what a startd did."""
    return _COMMAND.run(args, inv)
