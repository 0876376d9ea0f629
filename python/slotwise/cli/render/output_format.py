"""In which form a listing is printed: the options that `q`, `history`, `status` and `userprio` share.

``-long -xml -json -jsonl -af -aaf -format -print-format -attributes -limit``. A table is the default of each command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ClassAd
from slotwise.cli.common.options import REST, Option, Parsed
from slotwise.cli.render.ads import json_array, json_lines, long_text, new_text, xml_text
from slotwise.cli.render.autoformat import Columns, PrintfColumn, Shape, lines, printf_lines
from slotwise.cli.render.layout import Item, Layout, appended, unique_rows
from slotwise.cli.render.printas import Scene
from slotwise.cli.render.printformat import read
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

Kind = Literal["table", "long", "json", "jsonl", "xml", "new", "chosen", "layout"]
#: What may stand behind ``-long:``; anything else is the long form itself.
_LONG_FORMS = {"json": "json", "jsonl": "jsonl", "xml": "xml", "new": "new"}

USAGE = """  -long, -xml, -json, -jsonl       whole ads; -attributes A,B: only these
  -af[:jlhVrTYtng,] ATTRIBUTE...   chosen attributes or expressions; -aaf ATTRIBUTE...: behind the table's columns
  -format FORMAT ATTRIBUTE         printf style
  -print-format FILE               a table of your own (SELECT ... AS ... PRINTAS ...)
  -limit N                         at most N"""


def options(**least: int) -> list[Option]:
    """The options; ``least`` gives the shortest forms that differ between commands."""
    shortest = {
        "long": 1, "xml": 3, "json": 2, "jsonl": 5, "limit": 3, "format": 1, "attributes": 2, "print_format": 2,
    } | least  # fmt: skip
    return [
        Option("long", shortest["long"]),
        Option("xml", shortest["xml"]),
        Option("json", shortest["json"]),
        Option("jsonl", shortest["jsonl"]),
        Option("autoformat", 5, REST, stands_for="af"),
        Option("af", 2, REST),
        Option("aaf", 3, REST),
        Option("format", shortest["format"], 2),
        Option("print-format", shortest["print_format"], 1),
        Option("attributes", shortest["attributes"], 1),
        Option("limit", shortest["limit"], 1),
    ]


class NoFormatError(UsageError):
    """A print format does not exist, in the words of HTCondor's tools."""

    bare = True


class Form(Struct, frozen=True):
    """What the options ask for."""

    kind: Kind = "table"
    #: Only these attributes, of whole ads; empty: all.
    attributes: tuple[str, ...] = ()
    #: At most so many ads; 0: no limit.
    limit: int = 0
    shape: Shape = field(default_factory=Shape)
    columns: Columns | None = None
    printf: tuple[PrintfColumn, ...] = ()
    layout: Layout | None = None
    #: Columns of ``-aaf``.
    more: tuple[Item, ...] = ()

    @classmethod
    def of(cls, parsed: Parsed, inv: Invocation) -> Form:
        """From the options as typed.

        :raises UsageError: for options that exclude each other, or an invalid print format.
        """
        limit = _limit(parsed, inv)
        names = tuple(name for one in parsed.all("attributes") for name in one.values[0].replace(",", " ").split())
        more = [name for one in parsed.all("aaf") for name in one.values]
        kinds = [name for name in ("long", "json", "jsonl", "xml") if parsed.has(name)]
        if kinds == ["long"] and (letters := parsed.all("long")[-1].letters.lower()) in _LONG_FORMS:
            kinds = [_LONG_FORMS[letters]]
        if len(kinds) > 1:
            raise UsageError(f"-{kinds[0]} and -{kinds[1]} exclude each other")
        layout = None
        if (name := parsed.value("print-format")) is not None:
            if inv.called and not inv.path(name).exists():
                raise NoFormatError(f"Can't open select file: {name}\nError: invalid select file {name}")
            warn = (lambda unknown: inv.err(f"Unknown argument {unknown} for PRINTAS")) if inv.called else None
            # In the tables of condor_status cells are wider than their columns unless TRUNCATE is said.
            layout = read(inv.path(name), warn, cuts=inv.called != "condor_status").with_items(appended(more))
            if inv.called and parsed.has("af"):  # HTCondor's tools put these behind the table's own columns
                layout = replace(layout.with_items(appended(_chosen_words(parsed))), title=False)
                return cls("layout", names, max(0, limit), layout=layout)
        if kinds and (layout or parsed.has("af") or parsed.has("format")):
            raise UsageError(f"-{kinds[0]} shows whole ads: it excludes -af, -format and -print-format")
        if kinds:
            return cls(kinds[0], names, max(0, limit))  # type: ignore[arg-type]
        if parsed.has("af") or parsed.has("format"):
            return cls._chosen(parsed, names, max(0, limit), lenient=bool(inv.called))
        if layout is not None:
            return cls("layout", names, max(0, limit), layout=layout)
        if parsed.has("aaf") and not more:
            raise UsageError("-aaf needs at least one attribute")
        return cls("table", names, max(0, limit), more=tuple(appended(more)))

    @classmethod
    def _chosen(cls, parsed: Parsed, names: tuple[str, ...], limit: int, *, lenient: bool) -> Form:
        if not parsed.has("af"):
            printf = tuple(PrintfColumn.parse(*one.values) for one in parsed.all("format"))
            return cls("chosen", names, limit, printf=printf)
        if parsed.has("format"):
            raise UsageError("-af and -format exclude each other", hint="columns of -format can be named with -af")
        words = _chosen_words(parsed)
        letters = "".join(one.letters for one in parsed.all("af"))
        return cls("chosen", names, limit, Shape.parse(letters, lenient=lenient), Columns(words))

    @property
    def whole(self) -> bool:
        """Whether whole ads are printed, for programs."""
        return self.kind in ("long", "json", "jsonl", "xml", "new")

    def write(
        self, ads: Iterable[ClassAd], inv: Invocation, ids: Callable[[ClassAd], str], scene: Scene | None = None
    ) -> None:
        """Print the ads in any form but a command's own table."""
        for piece in self.pieces(ads, ids, scene or Scene(0.0)):
            if self.kind == "xml" and inv.called == "condor_history":  # blank lines around each ad
                piece = piece.replace("<classads>\n", "<classads>\n\n").replace("</c>\n", "</c>\n\n")
            inv.stdout.write(piece)

    def pieces(self, ads: Iterable[ClassAd], ids: Callable[[ClassAd], str], scene: Scene) -> Iterator[str]:
        """The text, in pieces."""
        names = list(self.attributes) or None
        if self.kind == "chosen":
            if self.columns is not None:
                yield from lines(ads, self.columns, self.shape, ids)
            else:
                yield from printf_lines(ads, self.printf)
        elif self.layout is not None:
            yield self.layout.text(self.rows(ads, scene), scene)
        elif self.kind == "long":
            yield long_text(ads, names)
        elif self.kind == "xml":
            yield xml_text(ads, names)
        elif self.kind == "new":
            yield new_text(ads, names)
        else:
            array = json_array(ads, names)
            yield array if self.kind == "json" else json_lines(array)

    def rows(self, ads: Iterable[ClassAd], scene: Scene) -> Sequence[ClassAd]:
        """The rows of the print format: grouped, chosen and ordered."""
        assert self.layout is not None
        return self.layout.chosen(unique_rows(self.layout, ads, scene) if self.layout.unique else ads, scene)


def _chosen_words(parsed: Parsed) -> list[str]:
    return [name for one in parsed.all("af") for name in one.values]


def _limit(parsed: Parsed, inv: Invocation) -> int:
    """At most how many ads; 0: all. HTCondor's tools take what is not a number for no limit."""
    text = parsed.value("limit")
    if inv.called and text is not None and not text.lstrip("-").isdigit():
        return 0
    return parsed.number("limit") or 0


def as_lines(text: str) -> str:
    """The text of a JSON array as one object a line."""
    return "".join(json.dumps(row) + "\n" for row in json.loads(text))
