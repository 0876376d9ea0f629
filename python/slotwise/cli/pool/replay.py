"""Replays recorded steps of a daemon's state machines, and compares the outcomes: `startd replay`, `schedd replay`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.table import Column, table
from slotwise.errors import HostError, UsageError
from slotwise.model.replayed_step import ReplayedStep


class Selection(Struct, frozen=True):
    """An option that chooses steps of a ``kind`` by a name: the whole, or the part before ``separator``."""

    option: str
    kind: str
    separator: str

    def has(self, step: ReplayedStep, name: str) -> bool:
        """Whether the option with this name chooses a step."""
        return step.kind == self.kind and name in (step.name, step.name.partition(self.separator)[0])


class ReplayCommand(Struct, frozen=True):
    """How one daemon's steps are replayed.

    :param reader: gives what takes a line of the record again.
    :param subject: the heading of what steps happened to, and its key in JSON.
    """

    daemon: str
    usage: str
    reader: Callable[[], Callable[[str], ReplayedStep]]
    subject: str
    selections: tuple[Selection, ...]

    def run(self, args: list[str], inv: Invocation) -> int:
        """Replay what a daemon recorded."""
        choices = [Option(each.option, 1, 1) for each in self.selections]
        parsed = parse(args, [Option("help", 1), Option("json", 1), *choices, Option("different", 1)])
        if parsed.has("help"):
            inv.out(self.usage)
            return 0
        if not parsed.words or parsed.words[0] != "replay":
            raise UsageError(
                "the verb is missing" if not parsed.words else f"there is no {parsed.words[0]!r}", hint="replay"
            )
        if len(parsed.words) < 2:
            raise UsageError("replay needs a file", hint="`slotwise config val LOG` names the directory")
        steps = [step for name in parsed.words[1:] for step in self._steps(inv.path(name))]
        chosen = [(each, name) for each in self.selections if (name := parsed.value(each.option)) is not None]
        steps = [step for step in steps if not chosen or any(each.has(step, name) for each, name in chosen)]
        different = sum(not step.same for step in steps)
        shown = [step for step in steps if not step.same] if parsed.has("different") else steps
        if parsed.has("json"):
            inv.out(json.dumps([self._row(step) for step in shown], indent=1))
        else:
            inv.stdout.write(self._table(shown))
            outcome = "all end as recorded" if not different else f"{different} end differently"
            inv.out(f"{len(steps)} steps of {self._counted(steps)}: {outcome}")
        return 1 if different else 0

    def _steps(self, path: Path) -> list[ReplayedStep]:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise HostError(f"the file cannot be read: {error}", path=str(path)) from None
        replay = self.reader()
        steps = []
        for number, line in enumerate(lines, 1):
            try:
                steps.append(replay(line))
            except ValueError as error:
                hint = f"give a file that a {self.daemon} of this version wrote"
                raise UsageError(f"{path}:{number}: {error}", hint=hint) from None
        return steps

    def _counted(self, steps: list[ReplayedStep]) -> str:
        """``3 claims and 2 runs``."""
        found = Counter(kind for kind, _name in {(step.kind, step.name) for step in steps})
        kinds = dict.fromkeys(each.kind for each in self.selections)
        return " and ".join(f"{found[kind]} {kind}s" for kind in kinds)

    def _row(self, step: ReplayedStep) -> dict[str, object]:
        """A step for programs."""
        kind = {"Kind": step.kind} if len({each.kind for each in self.selections}) > 1 else {}
        return {
            "At": step.at,
            **kind,
            self.subject: step.name,
            "Stimulus": step.stimulus,
            "Before": step.before,
            "Transitions": [
                {"Number": taken.number, "Trigger": taken.trigger, "To": list(taken.after)}
                for taken in step.transitions
            ],
            "After": step.after,
            "Recorded": step.recorded,
            "Actions": list(step.actions),
            "Same": step.same,
        }

    def _table(self, steps: list[ReplayedStep]) -> str:
        headings = ("Time", self.subject, "Stimulus", "Before", "Transitions", "After", "To do", "")
        return table([Column(heading) for heading in headings], [_cells(step) for step in steps])


def _cells(step: ReplayedStep) -> list[str]:
    return [
        datetime.fromtimestamp(step.at).strftime("%m-%d %H:%M:%S"),
        step.name.partition("@")[0],
        step.stimulus,
        step.before,
        " ".join(str(taken.number) if taken.number is not None else "-" for taken in step.transitions),
        step.after,
        " ".join(step.actions),
        "" if step.same else f"recorded: {step.recorded}",
    ]
