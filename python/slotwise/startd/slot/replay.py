"""A log of the events of a slot, with the policy that each step met, for replay.

:class:`Log` keeps the steps of one slot in memory. A startd with SLOTWISE_STARTD_STIMULI_MAX_KIB above 0 writes all
steps that changed something to ``startd-stimuli.jsonl`` in LOG, one per line; :func:`replayed` takes such a step again
(``slotwise startd replay``). The file has no secrets: claim ids stand in it as their public part and a digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotwise.model import claim
from slotwise.model.slot_step import ReplayedStep, Transition
from slotwise.startd.slot import events as ev
from slotwise.startd.slot import states
from slotwise.startd.slot.fsm import Step, step
from slotwise.startd.slot.states import Slot
from slotwise.startd.slot.stored_names import Json, stored_class, stored_field


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """An event, and the results of each evaluation of the policy during its step, in order."""

    at: float
    event: ev.SlotEvent
    policies: tuple[ev.PolicyEval, ...]


@dataclass
class Log:
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


_KINDS: dict[str, type] = {
    stored_class(kind): kind
    for module in (claim, states, ev)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


@dataclass
class StimuliFile:
    """Steps on disk, at most ``max_bytes`` and as many again in a file with ``.old`` behind its name."""

    path: Path
    max_bytes: int

    def step(self, slot: Slot, event: ev.SlotEvent, evaluate: ev.EvaluatePolicy, now: float) -> Step:
        """A step that is written down if it changes the slot or asks for something to be done.

        :raises OSError: when the file cannot be written.
        """
        log = Log(slot)
        outcome = log.step(slot, event, evaluate, now)
        if outcome.slot is not slot or outcome.actions:
            line = json.dumps(
                {
                    "at": now,
                    "before": _encoded(slot),
                    "stimulus": _encoded(event),
                    "facts": [_encoded(policy) for policy in log.entries[0].policies],
                    "after": _encoded(outcome.slot),
                    "actions": [stored_class(type(action)) for action in outcome.actions],
                },
                separators=(",", ":"),
            )
            self._append(line + "\n")
        return outcome

    def _append(self, line: str) -> None:
        if self.path.exists() and self.path.stat().st_size + len(line) > self.max_bytes:
            self.path.replace(self.path.with_name(self.path.name + ".old"))
        # Who may read which slot ran whose job when is the administrator's affair.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.write(line)


@dataclass(frozen=True)
class Replayed:
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
        record = {name: _decoded(value) for name, value in json.loads(line).items()}
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
        slot=taken.before.name,
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


def masked(claim_id: str) -> str:
    """A claim id without its secret, still another for each claim."""
    public, hash_sign, secret = claim_id.rpartition("#")
    if not hash_sign or secret.startswith("sha256:"):
        return claim_id
    return f"{public}#sha256:{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


def _encoded(value: object) -> Json:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        fields = {stored_field(kind, f.name): _encoded(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if "claim_id" in fields:
            fields["claim_id"] = masked(str(fields["claim_id"]))
        return {"": stored_class(kind), **fields}
    if isinstance(value, Mapping):
        return {"": "map", "pairs": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return [_encoded(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} has no stored form")


# Any: the JSON says which class a value becomes, and whose constructor takes the fields.
def _decoded(value: Json) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item) for item in value)
    if not isinstance(value, dict):
        return value
    fields = {name: _decoded(item) for name, item in value.items() if name}
    if value.get("") == "map":
        return dict(fields["pairs"])
    kind = _KINDS[str(value[""])]
    made = [f.name for f in dataclasses.fields(kind) if f.init]
    return kind(**{name: fields[stored_field(kind, name)] for name in made})
