"""``slotwise schedd replay``: replay the recorded steps of claims and runs, and compare the outcomes."""

from __future__ import annotations

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.pool.replay import ReplayCommand, Selection
from slotwise.daemon.registry import replay_of_claims

USAGE = """usage: slotwise schedd replay [options] FILE ...
  Takes each recorded step again: the claim or run as it was, and the event.
  FILE             LOG/schedd-stimuli.jsonl (and .old), which SLOTWISE_SCHEDD_STIMULI_MAX_KIB > 0 makes
  -slot NAME       only claims of this slot
  -job ID          only runs of this job (12.0), or one of them (12.0#1); with -slot, both
  -different       only steps whose outcome differs
  -json            one JSON array for programs
  Exit status 1 when an outcome differs."""

_SELECTIONS = (Selection("slot", "claim", "@"), Selection("job", "run", "#"))
_COMMAND = ReplayCommand("schedd", USAGE, replay_of_claims, "Name", _SELECTIONS)


def main(args: list[str], inv: Invocation) -> int:
    """Look into what a schedd did."""
    return _COMMAND.run(args, inv)
