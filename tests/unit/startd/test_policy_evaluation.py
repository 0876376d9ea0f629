"""Policies are evaluated over an overlay of the slot's ad, and the state of a slot changes by events alone."""

from __future__ import annotations

import ast
from pathlib import Path

import slotwise.startd
from msgspec.structs import replace
from slotwise.startd.slot.states import Claimed, Suspended

from tests.support.startd_point import point

_ROOT = Path(slotwise.startd.__file__).parent
#: Who may assign ``SlotRecord.slot``: events, and what puts saved slots back before the startd serves anybody.
_WRITERS = {"host/transitions.py", "host/restore.py"}


def test_the_policy_is_evaluated_in_the_state_that_is_asked_about_and_the_ad_stays() -> None:
    p = point(NUM_SLOTS="1", PREEMPT='State == "Claimed" && Activity == "Suspended"')
    p.run()
    record = p["slot1"]
    p.it.ads.show(record, p.now)
    before = str(record.ad)
    state = record.slot.state
    assert isinstance(state, Claimed) and state.run is not None
    evaluate = p.it.policies.evaluator(record, p.now + 7)
    assert evaluate(replace(record.slot, state=replace(state, doing=Suspended(state.run)))).preempt
    assert not evaluate(record.slot).preempt
    assert str(record.ad) == before


def test_only_events_and_restoration_change_the_state_of_a_slot() -> None:
    found = set()
    for path in _ROOT.rglob("*.py"):
        name = str(path.relative_to(_ROOT))
        if name.startswith("slot/"):
            continue  # the state machine's own context
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "slot" and isinstance(node.ctx, ast.Store):
                found.add(name)
    assert found == _WRITERS
