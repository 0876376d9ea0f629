"""``-autoformat`` / ``-af[:letters]`` and ``-format``: chosen attributes or expressions of each ad.

Manual page of condor_q, "-autoformat" and "-format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slotwise.classad import UNDEFINED, ClassAd, ExprTree, quote
from slotwise.errors import AdSyntaxError, UsageError

_LETTERS = frozenset("jlhVroTYtng,")


@dataclass(frozen=True)
class Shape:
    """What the letters behind ``-af:`` ask for."""

    job_id: bool = False
    labels: bool = False
    headings: bool = False
    quotes: bool = False
    raw: bool = False
    spans: bool = False
    dates: bool = False
    before: str = ""
    after: str = " "
    between_ads: str = ""

    @classmethod
    def parse(cls, letters: str) -> Shape:
        """From the letters.

        :raises UsageError: for an unknown one, or two that exclude each other.
        """
        unknown = set(letters) - _LETTERS
        if unknown:
            raise UsageError(f"unknown letter {sorted(unknown)[0]!r} behind -af:", hint="one of j l h V r T Y , t n g")
        if "l" in letters and "h" in letters:
            raise UsageError("the letters l and h behind -af: exclude each other")
        if "," in letters and "n" in letters:
            raise UsageError("the letters , and n behind -af: exclude each other")
        after = "," if "," in letters else "\n" if "n" in letters else ""
        before = "\t" if "t" in letters else ""
        if after == "," and not before:
            after = ", "
        return cls(
            job_id="j" in letters,
            labels="l" in letters,
            headings="h" in letters,
            quotes="V" in letters,
            raw="r" in letters or "o" in letters,
            spans="T" in letters,
            dates="Y" in letters,
            before=before,
            after=after or ("" if before else " "),
            between_ads="\n" if "g" in letters else "",
        )


class Columns:
    """Attributes or expressions, ready to be evaluated on many ads."""

    def __init__(self, names: Sequence[str]) -> None:
        if not names:
            raise UsageError("-af needs at least one attribute")
        self.names = list(names)
        self._trees = [_tree(name) for name in names]

    def attributes(self) -> list[str] | None:
        """The attributes needed when all columns are plain names, else None: whole ads are needed."""
        return self.names if all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in self.names) else None

    def texts(self, ad: ClassAd, shape: Shape) -> list[str]:
        """The columns of one ad."""
        texts = []
        for name, tree in zip(self.names, self._trees, strict=True):
            if shape.raw:
                texts.append(str(ad.lookup(name)) if name in ad else "undefined")
            else:
                texts.append(shown(tree.eval(ad), shape))
        return texts


def _tree(text: str) -> ExprTree:
    try:
        return ExprTree(text)
    except AdSyntaxError as error:
        raise AdSyntaxError(f"{text!r}: {error.message}", hint=error.hint) from None


def shown(value: Any, shape: Shape) -> str:
    """An evaluated value as text."""
    if isinstance(value, str):
        return quote(value) if shape.quotes else value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value is not UNDEFINED:
        if shape.spans:
            return span(value)
        if shape.dates:
            return datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S")
    return text_of(value)


def text_of(value: Any) -> str:
    """A value in ClassAd notation, strings without quotes."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int) and not hasattr(value, "name"):
        return str(value)
    return str(ExprTree(value))


def span(seconds: float) -> str:
    """``D+HH:MM:SS``."""
    whole = max(0, int(seconds))
    return f"{whole // 86400}+{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def lines(ads: Iterable[ClassAd], columns: Columns, shape: Shape, ids: Callable[[ClassAd], str]) -> Iterator[str]:
    """The text of each ad, with its line end; headings first if asked for."""
    if shape.headings:
        names = (["ID"] if shape.job_id else []) + columns.names
        yield _joined(names, shape)
    for ad in ads:
        texts = columns.texts(ad, shape)
        if shape.labels:
            texts = [f"{name} = {text}" for name, text in zip(columns.names, texts, strict=True)]
        if shape.job_id:
            texts.insert(0, ids(ad))
        yield _joined(texts, shape) + shape.between_ads


def _joined(texts: list[str], shape: Shape) -> str:
    if shape.after == "\n":
        return "".join(f"{shape.before}{text}\n" for text in texts)
    text = "".join(f"{shape.before}{text}{shape.after}" for text in texts)
    return text[: len(text) - len(shape.after)] + "\n" if shape.after else text[len(shape.before) :] + "\n"


# ---- printf formats

_CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:ll|l|h)?([diouxXeEfFgGcsvV%])")


@dataclass(frozen=True)
class PrintfColumn:
    """One ``-format FORMAT ATTRIBUTE``."""

    form: str
    tree: ExprTree

    @classmethod
    def parse(cls, form: str, attribute: str) -> PrintfColumn:
        r"""From the two words; ``\n`` and ``\t`` in the format are understood.

        :raises AdSyntaxError: when the attribute is no expression.
        """
        return cls(form.encode().decode("unicode_escape") if "\\" in form else form, _tree(attribute))

    def text(self, ad: ClassAd) -> str:
        """The text for one ad; empty when the value is undefined or of the wrong kind."""
        value = self.tree.eval(ad)
        if value is UNDEFINED:
            return ""
        return _CONVERSION.sub(lambda found: self._one(found, value), self.form)

    @staticmethod
    def _one(found: re.Match[str], value: Any) -> str:
        kind = found.group(1)
        if kind == "%":
            return "%"
        spec = re.sub(r"(?:ll|l|h)(?=.$)", "", found.group(0))
        try:
            if kind in "diouxXc":
                number = int(value) if not isinstance(value, str) else None
                return spec.replace("i", "d").replace("u", "d") % number if number is not None else ""
            if kind in "eEfFgG":
                return spec % float(value) if not isinstance(value, str) else ""
        except (TypeError, ValueError):
            return ""
        text = quote(value) if kind == "V" and isinstance(value, str) else text_of(value)
        return (spec[:-1] + "s") % text


def printf_lines(ads: Iterable[ClassAd], columns: Sequence[PrintfColumn]) -> Iterator[str]:
    """The text of each ad; no line ends but those in the formats."""
    for ad in ads:
        yield "".join(column.text(ad) for column in columns)
