"""``-autoformat`` / ``-af[:letters]`` and ``-format``: chosen attributes or expressions of each ad.

Manual page of condor_q, "-autoformat" and "-format".
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from slotwise.classad import UNDEFINED, ClassAd, ExprTree, SpecialValue, Value
from slotwise.errors import AdSyntaxError, UsageError
from slotwise.model.durations import days_and_time

_LETTERS = frozenset("jlhVroTYtng,")
_NAME = re.compile(r"[A-Za-z_]\w*")
#: Seconds; a number beyond it is not a time.
_LONGEST = 2**55


class Shape(Struct, frozen=True):
    """What the letters behind ``-af:`` ask for.

    Separators: ``before`` stands before each field but the first, ``after`` behind each but the last, ``first`` before
    the whole line.
    """

    job_id: bool = False
    labels: bool = False
    headings: bool = False
    #: The id has a label, which headings take the place of for other columns only.
    id_label: bool = False
    quotes: bool = False
    raw: bool = False
    spans: bool = False
    dates: bool = False
    first: str = ""
    before: str = " "
    after: str = ""

    @classmethod
    def parse(cls, letters: str, *, lenient: bool = False) -> Shape:
        """From the letters; ``lenient``: those that are none are passed over, as by HTCondor's tools.

        :raises UsageError: for an unknown one, or two that exclude each other.
        """
        unknown = set(letters) - _LETTERS
        if unknown and not lenient:
            raise UsageError(f"unknown letter {sorted(unknown)[0]!r} behind -af:", hint="one of j l h V r T Y , t n g")
        if "," in letters and "n" in letters:
            raise UsageError("the letters , and n behind -af: exclude each other")
        as_written = any(letter in letters for letter in "Vro")  # HTCondor's tools show no times then
        times = not as_written and any(letter in letters for letter in "TY")
        return cls(
            job_id="j" in letters,
            labels="l" in letters and "h" not in letters and not times,
            headings="h" in letters,
            id_label="l" in letters,
            quotes="V" in letters,
            raw="r" in letters or "o" in letters,
            spans=times and "Y" not in letters,
            dates=times and "Y" in letters,
            first="\n" if "g" in letters else "",
            before="\t" if "t" in letters else "" if "g" in letters else " ",
            after="\n" if "n" in letters else "," if "," in letters else "",
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
        return self.names if all(_NAME.fullmatch(name) for name in self.names) else None

    def texts(self, ad: ClassAd, shape: Shape) -> list[str]:
        """The columns of one ad."""
        texts = []
        for name, tree in zip(self.names, self._trees, strict=True):
            if shape.raw:
                texts.append(unevaluated(name, tree, ad))
            else:
                texts.append(shown(tree, ad, shape))
        return texts

    def widths(self, ad: ClassAd, shape: Shape) -> list[int]:
        """How wide each column has to be for an ad by HTCondor's tools, which pass over values without a type of their
        own (undefined, error, lists, ads) and quotes, and count all digits of reals."""
        if shape.raw or shape.spans or shape.dates:
            return [len(text) for text in self.texts(ad, shape)]
        return [_width_of(tree.eval(ad)) for tree in self._trees]


def _width_of(value: Value) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, SpecialValue) or not isinstance(value, bool | int | float):
        return 0
    return len(str(ExprTree(value)))


def _tree(text: str) -> ExprTree:
    """An expression as people write it on the command line: in the old syntax, where only \\" is an escape."""
    try:
        return ExprTree(text, old=True)
    except AdSyntaxError as error:
        raise AdSyntaxError(f"{text!r}: {error.message}", hint=error.hint) from None


def unevaluated(name: str, tree: ExprTree, ad: ClassAd) -> str:
    """The expression behind an attribute; an expression as it was given; ``undefined`` for an attribute that is not."""
    if name in ad:
        return ad.lookup(name).print_old()
    literal = tree.print_old() in ("error", "true", "false")
    return "undefined" if _NAME.fullmatch(name) and not literal else tree.print_old()


def shown(tree: ExprTree, ad: ClassAd, shape: Shape) -> str:
    """The value of an expression as text."""
    if shape.spans or shape.dates:  # nothing for what is no number; true is 1
        value = tree.eval(ad)
        seconds = float(value) if value is True or value is False else _finite(value)
        if seconds is None:
            return ""
        return f"{days_and_time(seconds):>{_DAYS_AND_TIME}}" if shape.spans else moment(seconds)
    return tree.display(ad, quotes=shape.quotes)


def _finite(value: Value) -> float | None:
    """A number of seconds; None for anything else, and for an amount that no clock shows."""
    if not isinstance(value, int | float) or isinstance(value, bool | SpecialValue):
        return None
    return value if abs(value) < _LONGEST else None


def text_of(value: Value) -> str:
    """A value as the tools print it: in the old syntax of ClassAds, strings without quotes."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int) and not isinstance(value, SpecialValue):
        return str(value)
    return ExprTree(value).print_old()


def lines(ads: Iterable[ClassAd], columns: Columns, shape: Shape, ids: Callable[[ClassAd], str]) -> Iterator[str]:
    """The text of each ad, with its line end; headings first if asked for: then columns stand below each other.

    ``ids``: the id of an ad, "" where it has none.
    """
    label = "ID = " if shape.id_label else ""
    if not shape.headings:
        for ad in ads:
            texts = columns.texts(ad, shape)
            if shape.labels:
                texts = [f"{name} = {text}" for name, text in zip(columns.names, texts, strict=True)]
            found = ids(ad)
            yield _joined([found and label + found] * shape.job_id + texts, shape)
        return
    head = [" ID"] * shape.job_id + columns.names
    widths, rows = [len(text) for text in head], []
    for ad in ads:
        first = [ids(ad)] * shape.job_id
        rows.append(first + columns.texts(ad, shape))
        needed = [len(text) for text in first] + columns.widths(ad, shape)
        widths = [max(pair) for pair in zip(widths, needed, strict=True)]
    yield _joined([text.ljust(width) for text, width in zip(head, widths, strict=True)], shape)
    for row in rows:
        to_the_right = shape.spans or shape.dates
        cells = [text.rjust(wide) if to_the_right else text.ljust(wide) for text, wide in zip(row, widths, strict=True)]
        if shape.job_id:  # where there is none, HTCondor's tools leave no room for it
            cells[0] = row[0] and label + row[0].ljust(widths[0])
        yield _joined(cells, shape)


def _joined(texts: list[str], shape: Shape) -> str:
    return shape.first + (shape.after + shape.before).join(texts) + "\n"


# ---- printf formats

_CONVERSION = re.compile(r"%[-+ #0]*+\d*+(?:\.\d++)?(?:ll|l|h)?([diouxXeEfFgGcsSvVrTY%])")


def unescaped(text: str) -> str:
    r"""``\n``, ``\t``, ``\r`` and ``\\`` become what they stand for."""
    return re.sub(r"\\([ntr\\])", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text)


class PrintfColumn(Struct, frozen=True):
    """One ``-format FORMAT ATTRIBUTE``."""

    form: str
    tree: ExprTree
    name: str

    @classmethod
    def parse(cls, form: str, attribute: str) -> PrintfColumn:
        r"""From the two words; ``\n`` and ``\t`` in the format are understood. With an attribute without a name the
        format is printed as it is, for each ad.

        :raises AdSyntaxError: when the attribute is not an expression.
        """
        return cls(unescaped(form), _tree(attribute or "undefined"), attribute)

    def text(self, ad: ClassAd) -> str:
        """The text for one ad; blanks as wide as the field when the value is undefined or of the wrong kind."""
        found = self._conversion()
        told = self.converted(ad)
        return " " * _width(found.group(0) if found else "") if told is None else told

    def _conversion(self) -> re.Match[str] | None:
        found = _CONVERSION.search(self.form)
        while found is not None and found.group(1) == "%":
            found = _CONVERSION.search(self.form, found.end())
        return found

    def converted(self, ad: ClassAd) -> str | None:
        """As :meth:`text`; None when the value is undefined or of the wrong kind."""
        found = self._conversion()
        if found is None:
            return self.form  # HTCondor's tools do not look for doubled percent signs then
        one = self._converted(found.group(0), found.group(1), ad)
        if one is None:
            return None
        return self.form[: found.start()].replace("%%", "%") + one + self.form[found.end() :].replace("%%", "%")

    def _converted(self, spec: str, kind: str, ad: ClassAd) -> str | None:
        """The value under the conversion ``spec``; ``%s`` shows the expression of an attribute that is not a string."""
        if kind in "rvV":
            text = unevaluated(self.name, self.tree, ad) if kind == "r" else self.tree.display(ad, quotes=kind == "V")
            return padded(spec, text)
        value = self.tree.eval(ad)
        if kind in "sS" and not isinstance(value, str):
            return padded(spec, ad.lookup(self.name).print_old()) if self.name in ad else None
        return None if value is UNDEFINED else converted(spec, kind, value)


#: The width of a time span such as `  0+00:05:12`, whose days have three places.
_DAYS_AND_TIME = 12


def _width(spec: str) -> int:
    found = re.search(r"[1-9]\d*", spec.partition(".")[0])
    return int(found[0]) if found else 0


def padded(spec: str, text: str) -> str:
    """``text`` in the width, and with the precision, of a conversion such as ``%-10.3v``."""
    return (re.sub(r"(?:ll|l|h)?.$", "", spec) + "s") % text


def converted(spec: str, kind: str, value: Value) -> str | None:
    """``value`` as a conversion such as ``%-10.3f`` shows it, or None when it is of the wrong kind."""
    plain = re.sub(r"(?:ll|l|h)(?=.$)", "", spec)
    number = value if isinstance(value, int | float) and not isinstance(value, SpecialValue) else None
    if kind in "TY":
        seconds = _finite(value)
        if seconds is None:
            return None
        return padded(spec, f"{days_and_time(seconds):>{_DAYS_AND_TIME}}" if kind == "T" else moment(seconds))
    if kind in "diouxXc":
        if number is None:
            return None
        whole = int(number) if math.isfinite(number) else 0
        if kind == "c":
            return padded(spec, chr(whole) if 0 < whole < sys.maxunicode else "")
        return plain.replace("i", "d").replace("u", "d") % whole
    if kind in "eEfFgG":
        return None if number is None else plain % float(number)
    return padded(spec, text_of(value))


def moment(seconds: float) -> str:
    """``M/D HH:MM``, as wide as the widest; question marks where there is no such date."""
    try:
        at = datetime.fromtimestamp(seconds)
    except (OverflowError, OSError, ValueError):
        return "    ???    "
    return f"{at.month:>2}/{at.day:<2} {at:%H:%M}"


def printf_lines(ads: Iterable[ClassAd], columns: Sequence[PrintfColumn]) -> Iterator[str]:
    """The text of each ad; no line ends but those in the formats."""
    for ad in ads:
        yield "".join(column.text(ad) for column in columns)
