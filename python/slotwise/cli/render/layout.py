"""Tables that are described, not coded: columns with expressions, headings, widths and functions.

A :class:`Layout` comes from a print-format file (:mod:`.printformat`) or from a view of a command. Rules: HTCondor
manual, "Print Format Tables".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import UNDEFINED, ClassAd, ExprTree, SpecialValue, Value
from slotwise.cli.common.terminal import escaped
from slotwise.cli.render import colours
from slotwise.cli.render.autoformat import PrintfColumn, text_of, unescaped
from slotwise.cli.render.printas import FUNCTIONS, READS, Scene


class Item(Struct, frozen=True, dict=True):
    """A column.

    ``expression`` is in the old syntax of ClassAds, as people write it; those of a :class:`Layout` are, too. ``width``
    0 means as wide as its widest cell or heading; ``most`` cuts cells beyond it. ``instead`` stands for a value that is
    not there; doubled it fills the column, and ``[?`` fills it in brackets (``OR ??`` of a print format).
    """

    expression: str
    heading: str = ""
    printas: str = ""
    printf: str = ""
    width: int = 0
    most: int = 0
    left: bool = False
    instead: str = ""
    prefix: bool = True
    suffix: bool = True
    #: A width of exactly ``width``: neither headings nor cells widen it.
    exact: bool = False
    #: The colour of its cells on a terminal that has colours.
    colour: colours.Colour = colours.none

    @cached_property
    def tree(self) -> ExprTree:
        """The expression."""
        return ExprTree(self.expression, old=True)

    @cached_property
    def _column(self) -> PrintfColumn:
        return PrintfColumn.parse(self.printf, self.expression)

    def cell(self, ad: ClassAd, scene: Scene) -> str:
        """The text of this column for one ad."""
        if self.printas:
            found = FUNCTIONS[self.printas](self.tree.eval(ad), ad, scene)
        elif self.printf:
            found = (self._column.converted(ad) if self.instead else self._column.text(ad)) or None
        else:
            value = self.tree.eval(ad)
            found = None if value is UNDEFINED and self.instead else self.tree.display(ad)
        return self._absent() if found is None else found

    def _absent(self) -> str:
        if self.instead == "[?":
            return f"[{'?' * (self.width - 2)}]" if self.width > 2 else "?"
        filled = len(self.instead) > 1 and self.instead[0] == self.instead[1]
        return self.instead[0] * max(self.width, 1) if filled and self.width else self.instead[:1] or ""


class Layout(Struct, frozen=True):
    """Columns, and what stands around them."""

    items: tuple[Item, ...]
    title: bool = True
    headings: bool = True
    #: Headings begin where their columns begin, whatever the cells do.
    headings_left: bool = False
    summary: bool = True
    #: Separator between label and value; None: there are no labels.
    labels: str | None = None
    record: tuple[str, str] = ("", "\n")
    between: tuple[str, str] = (" ", "")
    where: str = ""
    #: (expression, descending)
    group_by: tuple[tuple[str, bool], ...] = ()
    #: One row for each combination of values, with JobCount and JobIds.
    unique: bool = False
    from_autoclusters: bool = False

    def with_items(self, more: Iterable[Item]) -> Layout:
        """The same with further columns at the end."""
        return replace(self, items=(*self.items, *more))

    def whole(self) -> Layout:
        """The same with cells that are not cut, however long they are."""
        return replace(self, items=tuple(replace(item, most=0) for item in self.items))

    def reads(self) -> list[str] | None:
        """The attributes that the table is made of; None if an expression may read any."""
        names: list[str] = []
        texts = [self.where, *(text for text, _ in self.group_by), *(item.expression for item in self.items)]
        for text in filter(None, texts):
            found = ExprTree(text, old=True).references()
            if found.unbounded:
                return None
            names += [*found.my, *found.bare]
        for item in self.items:
            names += READS.get(item.printas, ())
        return list(dict.fromkeys(names))

    def chosen(self, ads: Iterable[ClassAd], scene: Scene) -> list[ClassAd]:
        """The ads shown, in order: WHERE and GROUP BY."""
        found = list(ads)
        if self.where:
            tree = ExprTree(self.where, old=True)
            found = [ad for ad in found if tree.eval(ad) is True]
        for text, descending in reversed(self.group_by):
            tree = ExprTree(text, old=True)
            found.sort(key=lambda ad, tree=tree: sort_key(tree.eval(ad)), reverse=descending)  # type: ignore[misc]
        return found

    def text(self, ads: Sequence[ClassAd], scene: Scene, width: int = 0) -> str:
        """The table of ads that are chosen already; lines are cut to ``width`` if not 0."""
        rows = [[item.cell(ad, scene) for item in self.items] for ad in ads]
        if self.labels is not None:
            return "".join(self._labelled(row) for row in rows)
        widths = [self._width(place, rows) for place in range(len(self.items))]
        lines = []
        if self.headings and self.items:
            lines.append(self._line([item.heading for item in self.items], widths, heading=True))
        lines += [self._line(row, widths) for row in rows]
        start, end = self.record
        return "".join(f"{start}{line[:width].rstrip() if width else line.rstrip(' ')}{end}" for line in lines)

    def on_terminal(self, ads: Sequence[ClassAd], scene: Scene, width: int, *, coloured: bool) -> str:
        """The same for a terminal ``width`` columns wide: cells that may be cut are whole where there is room, and
        shortened as far as there is none, with ``+`` at the end. What ads say is escaped, so that the text may be
        written as it is."""
        if self.labels is not None:
            return escaped(self.text(ads, scene))
        rows = [[escaped(item.cell(ad, scene)) for item in self.items] for ad in ads]
        whole = self.whole()
        widths = [whole._width(place, rows) for place in range(len(self.items))]
        least = [
            max(item.width, len(item.heading)) if item.most else wide
            for item, wide in zip(self.items, widths, strict=True)
        ]
        around = len(whole._line([""] * len(self.items), [0] * len(self.items)))
        widths = colours.fitted(widths, least, width - around)
        heads = [[item.heading for item in self.items]] if self.headings and self.items else []
        lines = []
        for number, row in enumerate((*heads, *rows)):
            heading = number < len(heads)
            segments = []
            for place, (item, cell) in enumerate(zip(self.items, row, strict=True)):
                shown = colours.shortened(cell, widths[place]) if item.most and not heading else cell
                before, text, after = self._placed(place, shown, widths, heading=heading)
                colour = "" if heading else item.colour(cell)
                segments += [
                    colours.Segment(before), colours.Segment(text, colour, not item.left), colours.Segment(after),
                ]  # fmt: skip
            lines.append(colours.joined(segments, width, coloured=coloured))
        start, end = self.record
        return "".join(f"{start}{line}{end}" for line in lines)

    def _width(self, place: int, rows: Sequence[Sequence[str]]) -> int:
        item = self.items[place]
        if item.exact:
            return item.width
        heading = len(item.heading) if self.headings else 0
        widest = max([item.width, heading, *(len(row[place]) for row in rows)])
        return min(widest, max(item.most, heading)) if item.most else widest

    def _line(self, cells: Sequence[str], widths: Sequence[int], *, heading: bool = False) -> str:
        places = range(len(self.items))
        return "".join("".join(self._placed(place, cells[place], widths, heading=heading)) for place in places)

    def _placed(self, place: int, cell: str, widths: Sequence[int], *, heading: bool) -> tuple[str, str, str]:
        """A cell as it stands in its line, with what is before and behind it."""
        item, width = self.items[place], widths[place]
        before = self.between[0] if place and item.prefix else ""
        if width and (item.exact or item.most) and not heading:
            cell = cell[:width]
        left = item.left or (heading and self.headings_left)
        after = self.between[1] if place < len(self.items) - 1 and item.suffix else ""
        return before, cell.ljust(width) if left else cell.rjust(width), after

    def _labelled(self, row: Sequence[str]) -> str:
        text = self.record[0]
        for place, (item, cell) in enumerate(zip(self.items, row, strict=True)):
            text += (self.between[0] if place and item.prefix else "") + f"{item.heading}{self.labels}{cell}"
            text += self.between[1] if place < len(row) - 1 and item.suffix else ""
        return text + self.record[1]


def sort_key(value: Value) -> tuple[int, float, str]:
    """Order of any values: numbers, then texts, then the undefined."""
    if isinstance(value, bool | int | float) and not isinstance(value, SpecialValue):
        return (0, float(value), "")
    if isinstance(value, str):
        return (1, 0.0, value.lower())
    return (2, 0.0, "")


def appended(words: Iterable[str]) -> list[Item]:
    """Columns of ``-aaf``: attributes or expressions behind those of the table."""
    return [Item(word, heading=word, left=True) for word in words]


class Grouping(Struct):
    """One row of ``SELECT UNIQUE``: the values, how many jobs have them, and which."""

    ad: ClassAd
    count: int = 0
    ids: list[str] = field(default_factory=list)


def unique_rows(layout: Layout, ads: Iterable[ClassAd], scene: Scene) -> list[ClassAd]:
    """One ad for each combination of the values shown, with JobCount and JobIds."""
    own = {"jobcount", "jobids"}
    names = [item.expression for item in layout.items] + [text for text, _ in layout.group_by]
    names = list(dict.fromkeys(name for name in names if name.lower() not in own))
    trees = [(name, ExprTree(name, old=True)) for name in names]
    groups: dict[tuple[str, ...], Grouping] = {}
    for ad in ads:
        values = [(name, tree.eval(ad)) for name, tree in trees]
        key = tuple(text_of(value) for _, value in values)
        group = groups.get(key)
        if group is None:
            made = ClassAd()
            for name, value in values:
                if value is not UNDEFINED and name.isidentifier():
                    made[name] = value
            group = groups[key] = Grouping(made)
        group.count += 1
        group.ids.append(f"{ad.get('ClusterId')}.{ad.get('ProcId')}")
    for group in groups.values():
        group.ad["JobCount"] = group.count
        group.ad["JobIds"] = ranges(group.ids)
    return [group.ad for group in groups.values()]


def ranges(ids: Sequence[str]) -> str:
    """Job ids with runs of procs joined: ``1.0-3, 2.0``."""
    found: list[tuple[str, int, int]] = []
    for cluster, proc in sorted((int(c), int(p)) for c, _, p in (name.partition(".") for name in ids)):
        if found and found[-1][0] == str(cluster) and found[-1][2] == proc - 1:
            found[-1] = (found[-1][0], found[-1][1], proc)
        else:
            found.append((str(cluster), proc, proc))
    return ", ".join(f"{c}.{a}" if a == b else f"{c}.{a}-{b}" for c, a, b in found)


def iterate(layout: Layout, ads: Iterable[ClassAd], scene: Scene) -> Iterator[str]:
    """The table of ``ads`` in pieces: the rows are chosen, grouped and ordered as the layout says."""
    found = unique_rows(layout, ads, scene) if layout.unique else ads
    yield layout.text(layout.chosen(found, scene), scene)


__all__ = ["Item", "Layout", "Scene", "appended", "iterate", "ranges", "sort_key", "unescaped", "unique_rows"]
