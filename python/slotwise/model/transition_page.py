"""Draws a table of transitions into the documentation: a page with all rows, and a picture of those that lead on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from slotwise.model.state_diagram import Box, Layout, draw
from slotwise.model.transition_table import Transition, TransitionTable, name

_State = TypeVar("_State")
_Event = TypeVar("_Event")
_Instruction = TypeVar("_Instruction")


@dataclass(frozen=True)
class Drawing(Generic[_State, _Event, _Instruction]):
    """A table and what the page says of it: a heading, what each state means, and where its box stands."""

    table: TransitionTable[_State, _Event, _Instruction]
    heading: str
    picture: str
    meanings: Mapping[type[_State], str]
    centres: Mapping[type[_State], tuple[int, int]]
    layout: Layout

    def numbered(self) -> list[tuple[int | None, Transition[_State, _Event, _Instruction]]]:
        """The rows, and the numbers of those that lead to another state."""
        rows: list[tuple[int | None, Transition[_State, _Event, _Instruction]]] = []
        number = 0
        for row in self.table.rows:
            number += bool(row.moves)
            rows.append((number if row.moves else None, row))
        return rows

    def section(self) -> list[str]:
        """The lines of the page about this table."""
        return [
            f"## {self.heading}",
            "",
            f"![{self.heading}]({self.picture})",
            "",
            "| State | Meaning |",
            "| --- | --- |",
            *(f"| {name(state)} | {self.meanings[state]} |" for state in self.table.states),
            "",
            "| # | In | Event | Then | When |",
            "| --- | --- | --- | --- | --- |",
            *(self._line(number, row) for number, row in self.numbered()),
            "",
        ]

    def _line(self, number: int | None, row: Transition[_State, _Event, _Instruction]) -> str:
        after = [name(state) for state in row.after]
        if row.stays:
            after.insert(0, "the same")
        where = _listed(row.before, self.table.states)
        return f"| {number or '–'} | {where} | {row.event.__name__} | {', '.join(after)} | {row.when} |"

    def svg(self) -> str:
        """The picture."""
        between: dict[tuple[str, str], list[str]] = {}
        for number, row in self.numbered():
            for first, second in row.moves:
                between.setdefault((name(first), name(second)), []).append(str(number))
        boxes = {name(state): Box(centre) for state, centre in self.centres.items()}
        return draw(boxes, between, self.layout)

    def write_picture(self, directory: Path) -> None:
        """Write the picture beside the page."""
        (directory / self.picture).write_text(self.svg())


def _listed(states: Sequence[type[object]], everything: Sequence[type[object]]) -> str:
    return "any" if set(states) == set(everything) else ", ".join(name(state) for state in states)
