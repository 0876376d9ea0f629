"""Man pages of sections 5 and 7, made from pages of the documentation: files that people write, languages, concepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from slotwise import __version__
from slotwise.cli.roff import plain


class Page(Struct, frozen=True):
    """A page and its source below ``docs``. ``without``: sections that are about the source tree."""

    name: str
    section: int
    source: str
    purpose: str
    without: tuple[str, ...] = ()


PAGES = (
    Page("slotwise-config", 5, "reference/configuration.md", "configuration of a pool: files and knobs"),
    Page("slotwise-submit-file", 5, "reference/submit.md", "submit descriptions of jobs"),
    Page("slotwise-print-format", 5, "reference/print-format.md", "print formats of q, status and history"),
    Page("slotwise-classads", 7, "reference/classad.md", "the ClassAd language",
         ("Where to find it", "How it is tested")),
    Page("slotwise-expressions", 7, "reference/expressions.md", "where text becomes a ClassAd expression"),
    Page("slotwise-states", 7, "reference/states.md", "states and activities of slots"),
    Page("slotwise-hold-codes", 7, "reference/hold-codes.md", "why jobs are held, and what to do"),
    Page("slotwise-glossary", 7, "reference/glossary.md", "the words of Slotwise"),
    Page("slotwise-concepts", 7, "concepts/architecture.md", "the daemons of a pool and how a job runs",
         ("Layers", "Planned places")),
    Page("slotwise-negotiation", 7, "concepts/negotiation.md", "how jobs and slots are matched"),
)  # fmt: skip

_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_INLINE = re.compile(r"`+(.+?)`+|\*\*(.+?)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])")
_ITEM = re.compile(r"(\s*)(?:[-*]|\d+\.)\s+(.*)")


def text_of(page: Page, docs: Path) -> str:
    """The page as roff.

    :raises OSError: its source cannot be read.
    """
    title = page.name.upper()
    head = [
        f'.TH "{plain(title)}" {page.section} "" "Slotwise {__version__}" "Slotwise"',
        ".ad l",
        ".SH NAME",
        f"{plain(page.name)} \\- {plain(page.purpose)}",
        ".SH DESCRIPTION",
    ]
    lines = (docs / page.source).read_text(encoding="utf-8").splitlines()
    others = ", ".join(f"{one.name}({one.section})" for one in PAGES if one is not page)
    end = [".SH SEE ALSO", plain(f"slotwise(1), {others}"), ""]
    return "\n".join([*head, *_body(lines, page.without), *end])


def _body(lines: list[str], without: tuple[str, ...]) -> Iterator[str]:
    """The lines of a Markdown page below its title."""
    place, left_out, paragraph = 0, False, False
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith("```"):
            code = place
            while place < len(lines) and not lines[place].startswith("```"):
                place += 1
            if not left_out:
                yield from (".PP", ".RS 4", ".nf", *map(plain, lines[code:place]), ".fi", ".RE")
            place += 1
            paragraph = False
        elif heading := re.match(r"(#+) (.*)", line):
            left_out = heading[2] in without
            if len(heading[1]) > 1 and not left_out:
                yield f".{'SH' if len(heading[1]) == 2 else 'SS'} {_styled(heading[2])}"
            paragraph = False
        elif line.startswith("Generated from"):
            while place < len(lines) and lines[place].strip():
                place += 1
        elif left_out:
            continue
        elif line.startswith("|"):
            table = [line]
            while place < len(lines) and lines[place].startswith("|"):
                table.append(lines[place])
                place += 1
            yield from _table([_cells(row) for row in table])
            paragraph = False
        elif not line.strip():
            paragraph = False
        elif item := _ITEM.fullmatch(line):
            yield from (f".IP \\[u2022] {2 + len(item[1])}", _styled(item[2]))
            paragraph = True
        else:
            if not paragraph:
                yield ".PP"
            yield _styled(line.strip())
            paragraph = True


def _cells(row: str) -> list[str]:
    """The cells of a row; `\\|` is no border."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _table(rows: list[list[str]]) -> Iterator[str]:
    """A table as a list, as man pages are narrow: the first cell is the term, others are named by their headings. A
    meaning is said first."""
    heads, *rest = rows
    for row in rest:
        if all(set(cell) <= set(":- ") for cell in row):
            continue
        yield from (".TP", _styled(row[0], bold=True))
        cells = [(head, cell) for head, cell in zip(heads[1:], row[1:], strict=False) if cell]
        if len(heads) == 2 or not cells:
            yield _styled(cells[0][1] if cells else "")
            continue
        if cells[-1][0] == "Meaning":
            more = "; ".join(f"{head}: {cell}" for head, cell in cells[:-1])
            yield _styled(cells[-1][1] + (f" ({more})" if more else ""))
            continue
        for place, (head, cell) in enumerate(cells):
            if place:
                yield ".br"
            yield _styled(f"{head}: {cell}" if head else cell)


def _styled(text: str, *, bold: bool = False) -> str:
    """Markdown within a line as roff: code and bold text are bold, emphasis is italic, links are their text."""
    text = _LINK.sub(r"\1", text)
    made, end = "", 0
    for match in _INLINE.finditer(text):
        made += _part(text[end : match.start()])
        strong, font = match[1] or match[2], "B"
        if strong is None:
            strong, font = match[3], "I"
        made += f"\\f{font}{_part(strong)}\\f{'B' if bold else 'R'}"
        end = match.end()
    made += _part(text[end:])
    made = f"\\fB{made}\\fR" if bold else made
    return f"\\&{made}" if made.startswith((".", "'")) else made


def _part(text: str) -> str:
    return plain(text).removeprefix("\\&") if text else ""
