"""A log of the events of a slot, with the policy that each step met, for replay.

:class:`Log` keeps the steps of one slot in memory. A startd with SLOTWISE_STARTD_STIMULI_MAX_KIB above 0 writes all
steps that changed something to ``startd-stimuli.jsonl`` in LOG, one per line; :func:`replayed` takes such a step again
(``slotwise startd replay``). The file has no secrets: claim ids stand in it as their public part and a digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from slotwise import ids
from slotwise.model import claim
from slotwise.model.replayed_step import ReplayedStep, Transition
from slotwise.model.stored_form import Json, StoredForm, structs_of
from slotwise.startd.slot import events as ev
from slotwise.startd.slot import states
from slotwise.startd.slot.fsm import Step, step
from slotwise.startd.slot.states import Slot
from slotwise.startd.slot.stored_names import stored_class, stored_field


class LoggedStep(Struct, frozen=True):
    """An event, and the results of each evaluation of the policy during its step, in order."""

    at: float
    event: ev.SlotEvent
    policies: tuple[ev.PolicyEval, ...]


class Log(Struct):
    """Records the steps of one slot, so that they can be taken again."""

    first: Slot
    entries: list[LoggedStep] = field(default_factory=list)

    def step(self, slot: Slot, event: ev.SlotEvent, evaluate: ev.EvaluatePolicy, now: float) -> Step:
        """A step that is remembered."""
        asked: list[ev.PolicyEval] = []

        def remembering(at: Slot) -> ev.PolicyEval:
            asked.append(evaluate(at))
            return asked[-1]

        outcome = step(slot, event, remembering, now)
        self.entries.append(LoggedStep(now, event, tuple(asked)))
        return outcome

    def replay(self) -> Slot:
        """The slot that results when everything happens again."""
        slot = self.first
        for entry in self.entries:
            answers = iter(entry.policies)
            slot = step(slot, entry.event, lambda _, answers=answers: next(answers), entry.at).slot  # type: ignore[misc]
        return slot


class Recorder(Struct):
    """Takes steps, and has those written down that change the slot or ask for something to be done."""

    append: Callable[[Mapping[str, Json]], None]

    def step(self, slot: Slot, event: ev.SlotEvent, evaluate: ev.EvaluatePolicy, now: float) -> Step:
        """A step that is recorded."""
        log = Log(slot)
        outcome = log.step(slot, event, evaluate, now)
        if outcome.slot is not slot or outcome.actions:
            self.append(
                {
                    "at": now,
                    "before": _FORM.encode(slot),
                    "stimulus": _FORM.encode(event),
                    "facts": [_FORM.encode(policy) for policy in log.entries[0].policies],
                    "after": _FORM.encode(outcome.slot),
                    "actions": [stored_class(type(action)) for action in outcome.actions],
                }
            )
        return outcome


class Replayed(Struct, frozen=True):
    """A step that was taken again: the slot before, what happened, and what came of it then and now."""

    at: float
    event: ev.SlotEvent
    before: Slot
    then: Slot
    actions_then: tuple[str, ...]
    now: Step

    @property
    def same(self) -> bool:
        """Whether the slot ended in the same state, and the same was to be done."""
        return self.then == self.now.slot and self.actions_then == tuple(
            stored_class(type(a)) for a in self.now.actions
        )


def replayed(line: str) -> Replayed:
    """A line of the file taken again.

    :raises ValueError: when the line is not one of the file.
    """
    try:
        record = {name: _FORM.decode(value) for name, value in json.loads(line).items()}
        at, before, event, answers = record["at"], record["before"], record["stimulus"], iter(record["facts"])
        if not isinstance(before, Slot) or not isinstance(record["after"], Slot):
            raise TypeError("no slot before or after")
        outcome = step(before, event, lambda _: next(answers), at)
        return Replayed(at, event, before, record["after"], record["actions"], outcome)
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"not a step of a slot: {error!r}") from None


def retold(line: str) -> ReplayedStep:
    """A line of the file taken again, in words.

    :raises ValueError: when the line is not one of the file.
    """
    taken = replayed(line)
    return ReplayedStep(
        at=taken.at,
        kind="slot",
        name=taken.before.name,
        stimulus=type(taken.event).__name__,
        before="/".join(taken.before.state_activity),
        transitions=tuple(
            Transition(row.number, row.when, tuple(f"{state}/{activity}" for state, activity in row.after))
            for row in taken.now.trace
        ),
        after="/".join(taken.now.slot.state_activity),
        recorded="/".join(taken.then.state_activity),
        actions=tuple(type(action).__name__ for action in taken.now.actions),
        same=taken.same,
    )


_FORM = StoredForm(
    structs_of(claim, states, ev),
    stored_class=stored_class,
    stored_field=stored_field,
    masked={"claim_id": ids.masked_claim_id},
)
