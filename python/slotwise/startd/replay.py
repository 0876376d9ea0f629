"""A log of what happened to a slot, with the facts that each step met, so that it can happen again.

:class:`Log` keeps the steps of one slot in memory. A startd with SLOTWISE_STARTD_STIMULI_MAX_KIB above 0 writes all
steps that changed something to ``startd-stimuli.jsonl`` in LOG, one per line; :func:`replayed` takes such a step again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotwise.model import claim
from slotwise.startd import events as ev
from slotwise.startd import states
from slotwise.startd.machine import Step, step
from slotwise.startd.states import Slot


@dataclass(frozen=True, slots=True)
class Entry:
    """A stimulus as it happened, with all the facts it met, in the order they were asked for."""

    at: float
    stimulus: ev.Stimulus
    facts: tuple[ev.Facts, ...]


@dataclass
class Log:
    """Records the steps of one slot, so that they can be taken again."""

    first: Slot
    entries: list[Entry] = field(default_factory=list)

    def step(self, slot: Slot, stimulus: ev.Stimulus, judge: ev.Judge, now: float) -> Step:
        """A step that is remembered."""
        asked: list[ev.Facts] = []

        def remembering(at: Slot) -> ev.Facts:
            asked.append(judge(at))
            return asked[-1]

        outcome = step(slot, stimulus, remembering, now)
        self.entries.append(Entry(now, stimulus, tuple(asked)))
        return outcome

    def replay(self) -> Slot:
        """The slot that results when everything happens again."""
        slot = self.first
        for entry in self.entries:
            answers = iter(entry.facts)
            slot = step(slot, entry.stimulus, lambda _, answers=answers: next(answers), entry.at).slot  # type: ignore[misc]
        return slot


_KINDS: dict[str, type] = {
    kind.__name__: kind
    for module in (claim, states, ev)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


@dataclass
class StimuliFile:
    """Steps on disk, at most ``max_bytes`` and as many again in a file with ``.old`` behind its name."""

    path: Path
    max_bytes: int

    def step(self, slot: Slot, stimulus: ev.Stimulus, judge: ev.Judge, now: float) -> Step:
        """A step that is written down if it changes the slot or asks for something to be done.

        :raises OSError: when the file cannot be written.
        """
        log = Log(slot)
        outcome = log.step(slot, stimulus, judge, now)
        if outcome.slot is not slot or outcome.actions:
            line = json.dumps(
                {
                    "at": now,
                    "before": _encoded(slot),
                    "stimulus": _encoded(stimulus),
                    "facts": [_encoded(facts) for facts in log.entries[0].facts],
                    "after": _encoded(outcome.slot),
                },
                separators=(",", ":"),
            )
            self._append(line + "\n")
        return outcome

    def _append(self, line: str) -> None:
        if self.path.exists() and self.path.stat().st_size + len(line) > self.max_bytes:
            self.path.replace(self.path.with_name(self.path.name + ".old"))
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)


def replayed(line: str) -> tuple[Slot, Slot]:
    """A line of the file taken again: the slot as it became then, and as it becomes now.

    :raises ValueError: when the line is not one of the file.
    """
    try:
        record = {name: _decoded(value) for name, value in json.loads(line).items()}
        log = Log(record["before"], [Entry(record["at"], record["stimulus"], record["facts"])])
        then: Slot = record["after"]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a step of a slot: {error}") from None
    return then, log.replay()


def _encoded(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: _encoded(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {"": "map", "pairs": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return [_encoded(item) for item in value]
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(item) for item in value)
    if not isinstance(value, dict):
        return value
    fields = {name: _decoded(item) for name, item in value.items() if name}
    if value.get("") == "map":
        return dict(fields["pairs"])
    made = [f.name for f in dataclasses.fields(_KINDS[value[""]]) if f.init]
    return _KINDS[value[""]](**{name: fields[name] for name in made})
