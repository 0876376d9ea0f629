"""Lists of ads as answers: tables in notebooks, frames for analysis."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from slotwise.classad import UNDEFINED, ClassAd
from slotwise.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

#: A notebook shows so many rows and columns; the list has all.
_ROWS, _COLUMNS = 20, 12


class AdList(list[ClassAd]):
    """Ads in the order of the answer.

    In a notebook it shows itself as a table. :meth:`to_pandas` and :meth:`to_polars` make frames of it, with a column
    for each attribute that any of the ads has.
    """

    def rows(self) -> list[dict[str, object]]:
        """A mapping for each ad: numbers, texts and truth values as they are, None where an attribute is missing or
        undefined, and the text of what is none of these (expressions that depend on others, lists, ads)."""
        names = self.attributes()
        return [{name: _plain(ad, name) for name in names} for ad in self]

    def attributes(self) -> list[str]:
        """The attributes that any of the ads has, once each: names differ by more than upper and lower case."""
        found: dict[str, str] = {}
        for ad in self:
            for name in ad:
                found.setdefault(name.lower(), name)
        return list(found.values())

    def to_pandas(self) -> pd.DataFrame:
        """A ``pandas.DataFrame``.

        :raises UsageError: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError("pandas is not installed", hint="pip install pandas") from None
        return pandas.DataFrame(self.rows(), columns=self.attributes())

    def to_polars(self) -> pl.DataFrame:
        """A polars frame; a column that holds texts and numbers is one of texts.

        :raises UsageError: polars is not installed.
        """
        try:
            import polars
        except ImportError:
            raise UsageError("polars is not installed", hint="pip install 'slotwise[analysis]'") from None
        columns: dict[str, list[object]] = {name: [_plain(ad, name) for ad in self] for name in self.attributes()}
        for name, cells in columns.items():
            kinds = {type(cell) for cell in cells if cell is not None}
            if len(kinds) > 1 and not kinds <= {int, float}:
                columns[name] = [None if cell is None else str(cell) for cell in cells]
        return polars.DataFrame(columns, strict=False)

    def _repr_html_(self) -> str:
        """What Jupyter shows."""
        names = self.attributes()
        shown = names[:_COLUMNS]
        head = "".join(f"<th>{escape(name)}</th>" for name in shown)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(_plain(ad, name)))}</td>" for name in shown) + "</tr>"
            for ad in self[:_ROWS]
        )
        left_out = [
            f"{whole - part} more {what}"
            for whole, part, what in (
                (len(self), min(len(self), _ROWS), "ads"),
                (len(names), len(shown), "attributes"),
            )
            if whole > part
        ]
        note = f"<p>{len(self)} ads" + (f"; not shown: {', '.join(left_out)}" if left_out else "") + "</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _plain(ad: ClassAd, name: str) -> object:
    value = ad.eval(name) if name in ad else None
    if value is None or value is UNDEFINED:
        return None
    if isinstance(value, bool):
        return bool(value)
    return value if isinstance(value, int | float | str) else str(ad.lookup(name))


def _shown(value: object) -> str:
    return "" if value is None else str(value)
