"""Tables for people: fixed columns, right- or left-aligned, cut to the width of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Column(Struct, frozen=True):
    """A heading and how its cells stand: ``right`` or left, at least ``width`` wide, cut beyond ``most`` if not 0."""

    heading: str
    right: bool = False
    width: int = 0
    most: int = 0


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


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    shown = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        cell = cell[:width] if column.most else cell
        shown.append(cell.rjust(width) if column.right else cell.ljust(width))
    return " ".join(shown)
