"""Ads as Parquet files. Needs the extra ``analysis``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from slotwise.classad import ClassAd
from slotwise.cli.common import written_file
from slotwise.errors import SlotwiseError, UsageError
from slotwise.table import AdTable

#: Ads that become columns at a time: the objects of all of them would be many times as large as the columns.
_PIECE = 20_000


def require() -> None:
    """See that a file can be written at all.

    :raises UsageError: when polars is not installed.
    """
    try:
        import polars  # noqa: F401
    except ImportError:
        raise UsageError("-parquet needs polars", hint="pip install 'slotwise[analysis]'") from None


def write(ads: Iterable[ClassAd], attributes: Sequence[str], path: Path) -> int:
    """Write a row for each ad and a column for each attribute, or for each of ``attributes``; returns the rows.
    A link of the file's name is replaced, not followed.

    Values of an attribute that have different types become texts, and expressions that have no value of their own, too.

    :raises SlotwiseError: when the file cannot be written.
    """
    import polars as pl

    left, pieces = iter(ads), []
    while batch := list(islice(left, _PIECE)):
        frame = AdTable.of(batch).to_polars(projection=list(attributes) or None, texts=True)
        kinds = {pl.Categorical: pl.String, pl.Enum: pl.String}
        pieces.append(
            frame.select(pl.col(name).cast(kinds.get(type(kind), kind)) for name, kind in frame.schema.items())
        )
    found = pl.concat(pieces, how="diagonal_relaxed") if pieces else pl.DataFrame()
    try:
        with written_file.replaced(path) as stream:
            found.write_parquet(stream)
    except OSError as error:
        raise SlotwiseError(f"cannot write {path}: {error.strerror or error}") from None
    return found.height
