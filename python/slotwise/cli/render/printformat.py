"""The print-format language: SELECT, AS, WIDTH, PRINTF, PRINTAS, OR, WHERE, GROUP BY, SUMMARY.

HTCondor manual, "Print Format Tables". Keywords are upper case; a line that begins with ``#`` is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from slotwise.classad import ExprTree
from slotwise.cli.render.autoformat import unescaped
from slotwise.cli.render.layout import Item, Layout
from slotwise.cli.render.printas import FUNCTIONS
from slotwise.errors import AdSyntaxError, UsageError

_WORD = re.compile(r"""("[^"]*+"|'[^']*+'|\S++)""")
_SECTIONS = ("SELECT", "WHERE", "AND", "GROUP", "SUMMARY")
_COLUMN_WORDS = frozenset(
    ("AS", "PRINTF", "PRINTAS", "RENDERAS", "FORMATAS", "OR", "WIDTH", "LEFT", "RIGHT", "FIT", "TRUNCATE", "NOPREFIX",
     "NOSUFFIX", "ALWAYS")
)  # fmt: skip
_FILLS = " ?*.-_#0"
_PRINTF_WIDTH = re.compile(r"%(-?)[+ #0]*(\d+)")


def read(path: Path, warn: Callable[[str], None] | None = None, *, cuts: bool = True) -> Layout:
    """The table that a file describes.

    :param cuts: cells are cut to a WIDTH; without it, where TRUNCATE says so alone, and undefined values are blank.
    :param warn: is told of functions that there are not, and the plain value is shown; None: they are refused.
    :raises UsageError: when the file cannot be read, or is not a print-format table; names the line.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"cannot read the print format {path}: {error.strerror}") from None
    return parse(text, str(path), warn, cuts=cuts)


def parse(
    text: str, name: str = "print format", warn: Callable[[str], None] | None = None, *, cuts: bool = True
) -> Layout:
    """The table that ``text`` describes; ``warn`` and ``cuts`` as of :func:`read`.

    :raises UsageError: names the line and the word that is wrong.
    """
    return _Reader(name, warn, cuts=cuts).read(text)


class _Reader:
    def __init__(self, name: str, warn: Callable[[str], None] | None, *, cuts: bool) -> None:
        self._name = name
        self._cuts = cuts
        self._warn = warn
        self._line = 0
        self._items: list[Item] = []
        self._groups: list[tuple[str, bool]] = []
        self._where: list[str] = []
        self._about: dict[str, object] = {"headings_left": True, "title": True, "headings": True, "summary": False}
        self._started = False

    def read(self, text: str) -> Layout:
        section = ""
        for self._line, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            first = line.split()[0]
            if first in _SECTIONS:
                section, rest = first, line.strip()[len(first) :].strip()
                if section == "SELECT":
                    self._select(rest)
                    continue
                if section == "SUMMARY":
                    self._summary(rest)
                    continue
                if section == "GROUP":
                    rest = re.sub(r"^BY\b", "", rest).strip()
                if not rest:
                    continue
                line = rest
            if not self._started:
                raise self._bad("a table begins with SELECT", f"before {line.strip()!r}")
            if section == "SELECT":
                self._items.append(self._column(line))
            elif section in ("WHERE", "AND"):
                self._where.append(self._checked(line.strip()))
            elif section == "GROUP":
                self._group(line.strip())
        if not self._started:
            raise self._bad("there is no SELECT", "the file is empty")
        return Layout(
            tuple(self._items),
            where=" && ".join(f"({part})" for part in self._where),
            group_by=tuple(self._groups),
            **self._about,  # type: ignore[arg-type]
        )

    def _bad(self, what: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}, line {self._line}: {what}", hint=hint)

    def _checked(self, expression: str) -> str:
        try:
            ExprTree(expression, old=True)
        except AdSyntaxError as error:
            raise self._bad(f"{expression!r} is not an expression: {error.message}") from None
        return expression

    @staticmethod
    def _words(text: str) -> list[str]:
        return [found.group(1) for found in _WORD.finditer(text)]

    def _string(self, words: list[str], keyword: str) -> str:
        if not words:
            raise self._bad(f"{keyword} needs a word behind it")
        word = words.pop(0)
        return unescaped(word[1:-1] if word[0] in "'\"" and len(word) > 1 else word)

    def _select(self, rest: str) -> None:
        self._started = True
        words = self._words(rest)
        record, between = ["", "\n"], [" ", ""]
        while words:
            word = words.pop(0)
            if word == "FROM":
                self._about["from_autoclusters"] = self._string(words, "FROM").upper() == "AUTOCLUSTER"
            elif word == "UNIQUE":
                self._about["unique"] = True
            elif word == "BARE":
                self._about |= {"title": False, "headings": False, "summary": False}
            elif word == "NOTITLE":
                self._about["title"] = False
            elif word == "NOHEADER":
                self._about["headings"] = False
            elif word == "NOSUMMARY":
                self._about["summary"] = False
            elif word == "LABEL":
                self._about["labels"] = " = "
            elif word == "SEPARATOR":
                self._about["labels"] = self._string(words, word)
            elif word in ("RECORDPREFIX", "RECORDSUFFIX"):
                record[word == "RECORDSUFFIX"] = self._string(words, word)
            elif word in ("FIELDPREFIX", "FIELDSUFFIX"):
                between[word == "FIELDSUFFIX"] = self._string(words, word)
            else:
                raise self._bad(f"{word} is unknown behind SELECT", "FROM, UNIQUE, BARE, NOTITLE, NOHEADER, LABEL ...")
        self._about |= {"record": tuple(record), "between": tuple(between)}

    def _summary(self, rest: str) -> None:
        words = rest.split() or ["STANDARD"]
        if words not in (["STANDARD"], ["NONE"]):
            raise self._bad(f"SUMMARY {rest} is unknown", "SUMMARY STANDARD or SUMMARY NONE")
        self._about["summary"] = words == ["STANDARD"]

    def _group(self, text: str) -> None:
        words = text.split()
        descending = words[-1] == "DESCENDING"
        if words[-1] in ("ASCENDING", "DESCENDING"):
            words = words[:-1]
        self._groups.append((self._checked(" ".join(words)), descending))

    def _column(self, line: str) -> Item:
        starts = [found for found in _WORD.finditer(line) if found.group(1) in _COLUMN_WORDS]
        end = starts[0].start() if starts else len(line)
        expression = self._checked(line[:end].strip())
        words = self._words(line[end:])
        about: dict[str, object] = {"heading": expression, "left": None}
        width: int | None = None
        fits = not self._cuts
        while words:
            word = words.pop(0)
            if word == "AS":
                about["heading"] = self._string(words, word)
            elif word == "PRINTF":
                about["printf"] = self._string(words, word)
            elif word in ("PRINTAS", "RENDERAS", "FORMATAS"):
                about["printas"] = self._function(self._string(words, word))
            elif word == "OR":
                about["instead"] = self._fill(self._string(words, word))
            elif word == "WIDTH":
                value = self._string(words, word)
                if value == "AUTO":
                    continue
                if not re.fullmatch(r"-?\d+", value):
                    raise self._bad(f"WIDTH {value} is not a number", "a whole number, negative for left, or AUTO")
                width = int(value)
            elif word in ("LEFT", "RIGHT"):
                about["left"] = word == "LEFT"
            elif word in ("FIT", "TRUNCATE"):
                fits = word == "FIT"
            elif word in ("NOPREFIX", "NOSUFFIX"):
                about[word[2:].lower()] = False
            elif word != "ALWAYS":
                raise self._bad(f"{word} is unknown behind a column", ", ".join(sorted(_COLUMN_WORDS)))
        if width and not self._cuts and not about.keys() & {"printf", "printas"}:
            about.setdefault("instead", " ")
        return _item(expression, about, width, fits=fits)

    def _function(self, name: str) -> str:
        if name.upper() not in FUNCTIONS and self._warn is not None:
            self._warn(name)
            return ""
        if name.upper() not in FUNCTIONS:
            raise self._bad(f"there is no function {name}", "one of " + ", ".join(sorted(FUNCTIONS)))
        return name.upper()

    def _fill(self, text: str) -> str:
        if not text or text[0] not in _FILLS:
            raise self._bad(f"OR {text!r} is unknown", f"one of the characters {_FILLS!r}, once or twice")
        return "[?" if text[:2] == "??" else text[:2]


def _item(expression: str, about: dict[str, object], width: int | None, *, fits: bool) -> Item:
    """Columns without a width are as wide as their heading or widest cell; those with one are cut to it unless they are
    to fit what is in them."""
    left = about.pop("left")
    printf = str(about.get("printf", ""))
    if width is None:
        found = _PRINTF_WIDTH.search(printf)
        about["left"] = (not found or found[1] == "-") if left is None else left
        if found and not about.get("printas"):
            about["width"] = int(found[2])
    else:
        about["left"] = width < 0 if left is None else left
        about["width"] = abs(width)
        if width and not fits:
            about |= {"exact": True}
    return Item(expression, **about)  # type: ignore[arg-type]
