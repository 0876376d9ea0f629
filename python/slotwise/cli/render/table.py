"""Tables for people: fixed columns, right- or left-aligned, cut to the width of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slotwise.cli.common.terminal import escaped
from slotwise.cli.render import colours


class Column(Struct, frozen=True):
    """A heading and how its cells stand: ``right`` or left, at least ``width`` wide, cut beyond ``most`` if not 0."""

    heading: str
    right: bool = False
    width: int = 0
    most: int = 0
    #: The colour of its cells on a terminal that has colours.
    colour: colours.Colour = colours.none


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int = 0, headings: bool = True) -> str:
    """The rows below their headings; every column as wide as its widest cell. ``width`` 0: lines are not cut."""
    widths = []
    for place, column in enumerate(columns):
        cells = [len(row[place]) for row in rows]
        widest = max([column.width, len(column.heading) if headings else 0, *cells])
        widths.append(min(widest, column.most) if column.most else widest)
    lines = []
    if headings:
        lines.append(_line(columns, widths, [column.heading for column in columns]))
    lines += [_line(columns, widths, row) for row in rows]
    return "".join((line[:width] if width else line).rstrip() + "\n" for line in lines)


def on_terminal(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, coloured: bool) -> str:
    """The same, escaped, for a terminal ``width`` columns wide; 0: its lines wrap.

    Cells that may be cut (``most``) are whole where there is room, and shortened as far as there is none, with ``+`` at
    the end.
    """
    cells = [[escaped(cell) for cell in row] for row in rows]
    heads = [column.heading for column in columns]
    widths = [
        max([column.width, *(len(row[place]) for row in (heads, *cells))]) for place, column in enumerate(columns)
    ]
    least = [
        max(column.width, len(column.heading)) if column.most else wide
        for column, wide in zip(columns, widths, strict=True)
    ]
    if width:
        widths = colours.fitted(widths, least, width - (len(columns) - 1))
    lines = []
    for number, row in enumerate((heads, *cells)):
        segments = []
        for place, (column, wide, cell) in enumerate(zip(columns, widths, row, strict=True)):
            text = colours.shortened(cell, wide) if column.most else cell
            segments.append(colours.Segment(" " if place else ""))
            placed = text.rjust(wide) if column.right else text.ljust(wide)
            segments.append(colours.Segment(placed, column.colour(cell) if number else "", column.right))
        lines.append(colours.joined(segments, width, coloured=coloured))
    return "".join(f"{line}\n" for line in lines)


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    shown = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        cell = cell[:width] if column.most else cell
        shown.append(cell.rjust(width) if column.right else cell.ljust(width))
    return " ".join(shown)
