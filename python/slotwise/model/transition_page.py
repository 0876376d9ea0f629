"""Draws a table of transitions into the documentation: a page with all rows, and a picture of those that lead on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from slotwise.model.state_diagram import Box, Layout, draw
from slotwise.model.transition_table import EventTable, Move, Transition, name

_Place = TypeVar("_Place")
_State = TypeVar("_State")
_Event = TypeVar("_Event")
_Instruction = TypeVar("_Instruction")
#: The label of a row without a number.
_UNNUMBERED = "•"


def picture(
    rows: Sequence[Move[_Place]],
    centres: Mapping[str, tuple[int, int]],
    layout: Layout,
    *,
    box_of: Callable[[_Place], str] = name,
    inside: Callable[[str, list[str]], list[str]] = lambda box, labels: [],
) -> str:
    """The rows as SVG.

    :param centres: the boxes, and where each stands.
    :param box_of: the box in which a place is.
    :param inside: the text in a box, from its name and the labels of the rows that stay in it.
    """
    between: dict[tuple[str, str], list[str]] = {}
    within: dict[str, list[str]] = {}
    for row in rows:
        label = str(row.number) if row.number else _UNNUMBERED
        for first, second in row.moves:
            pair = (box_of(first), box_of(second))
            labels = within.setdefault(pair[0], []) if pair[0] == pair[1] else between.setdefault(pair, [])
            if label not in labels:
                labels.append(label)
    boxes = {box: Box(centre, inside(box, within.get(box, []))) for box, centre in centres.items()}
    return draw(boxes, between, layout)


class Drawing(Struct, Generic[_Place, _State, _Event, _Instruction], frozen=True):
    """A table and what the page says of it: a heading, what each state means, and where its box stands."""

    table: EventTable[_Place, _State, _Event, _Instruction]
    heading: str
    picture: str
    meanings: Mapping[_Place, str]
    centres: Mapping[_Place, tuple[int, int]]
    layout: Layout

    def section(self) -> list[str]:
        """The lines of the page about this table."""
        return [
            f"## {self.heading}",
            "",
            f"![{self.heading}]({self.picture})",
            "",
            f"| {self.table.word.capitalize()} | Meaning |",
            "| --- | --- |",
            *(f"| {name(state)} | {self.meanings[state]} |" for state in self.table.states),
            "",
            "| # | In | Event | Then | When |",
            "| --- | --- | --- | --- | --- |",
            *(self._line(row) for row in self.table.rows),
            "",
        ]

    def _line(self, row: Transition[_Place, _State, _Event, _Instruction]) -> str:
        after = [name(state) for state in row.after]
        if row.stays:
            after.insert(0, "the same")
        where = _listed(row.before, self.table.states)
        return f"| {row.number or '–'} | {where} | {row.event.__name__} | {', '.join(after)} | {row.when} |"

    def svg(self) -> str:
        """The picture."""
        centres = {name(state): centre for state, centre in self.centres.items()}
        return picture(self.table.rows, centres, self.layout)

    def write_picture(self, directory: Path) -> None:
        """Write the picture beside the page."""
        (directory / self.picture).write_text(self.svg())


def _listed(states: Sequence[object], everything: Sequence[object]) -> str:
    return "any" if set(states) == set(everything) else ", ".join(name(state) for state in states)
