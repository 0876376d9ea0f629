"""A log of what happened to a slot, with the facts that each step met, so that it can happen again."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotwise.startd import events as ev
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
