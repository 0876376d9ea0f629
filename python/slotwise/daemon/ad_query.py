"""Answers a query for ads from tables, in pieces ready for the wire. Shared by the daemons that keep ads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from slotwise.classad import ExprTree
from slotwise.table import AdTable, Form


def answer(
    tables: Sequence[AdTable],
    constraint: ExprTree | str | None,
    projection: Sequence[str],
    limit: int,
    form: Form,
    now: int,
    *,
    chunk_rows: int = 5000,
) -> Iterator[tuple[bytes, int]]:
    """Pieces of the answer to a query over several tables, each with the number of ads found in tables so far.

    Text forms are complete: JSON pieces together are one array.

    :raises SlotwiseError: when the constraint is no expression.
    """
    total = 0
    first = True
    if form == "json":
        yield b"[", 0
    for table in tables:
        left = None if not limit else max(0, limit - total)
        if left == 0:
            break
        chunks = table.query_chunks(
            constraint or None, list(projection) or None, left, now=now, form=form, chunk_rows=chunk_rows
        )
        for piece in chunks:
            if form == "json":
                piece = piece if first else b",\n" + piece
            first = first and not piece
            yield piece, total
        total += chunks.total
    yield (b"]\n" if form == "json" else b""), total


def counts(
    tables: Sequence[AdTable], constraint: ExprTree | str | None, names: Sequence[str], now: int
) -> tuple[int, list[dict[str, Any]]]:
    """How many ads match, and with ``names`` how many per distinct values of these attributes, as ads with Count."""
    if not names:
        return sum(table.count(constraint or None, now=now) for table in tables), []
    rows: list[dict[str, Any]] = []
    for table in tables:
        for *values, count in table.count_by(list(names), constraint or None, now=now):
            rows.append(dict(zip(names, values, strict=True)) | {"Count": count})
    return sum(int(row["Count"]) for row in rows), rows
