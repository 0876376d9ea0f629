"""Answers a query for ads from tables, in pieces ready for the wire. Shared by the daemons that keep ads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from slotwise.classad import ExprTree
from slotwise.classad.values import whole
from slotwise.daemon.questions import Questions
from slotwise.table import AdTable, Form, pack_ads
from slotwise.wire.gen import common_pb2

_FORMS: dict[int, Form] = {
    common_pb2.AdQuery.PACK: "pack",
    common_pb2.AdQuery.LONG: "long",
    common_pb2.AdQuery.JSON: "json",
}
#: Ads in a piece of an answer: packs are small, whole ads as text are not, and pieces of a few MB travel best.
_CHUNK_ROWS = 4000
_CHUNK_ROWS_TEXT = 200


async def answer(
    questions: Questions, tables: Sequence[AdTable], constraint: ExprTree | None, request: common_pb2.AdQuery
) -> AsyncIterator[common_pb2.AdChunk]:
    """The answer to a query over several tables; a piece is made when the reader has taken the one before.

    JSON pieces together are one array.

    :param constraint: that of the request.
    :raises BusyError: when the constraint takes more work than a question may.
    """
    if request.form == common_pb2.AdQuery.COUNT:
        yield await _counts(questions, tables, constraint, list(request.count_by))
        return
    form: Form = _FORMS.get(request.form, "pack")
    chunk_rows = _CHUNK_ROWS if form == "pack" else _CHUNK_ROWS_TEXT
    left = request.limit if request.limit > 0 else None
    is_json, total = form == "json", 0
    opening = b"[" if is_json else b""
    for table in tables:
        if left == 0:
            break
        found = questions.chunks(
            table, constraint, list(request.projection), left, form, chunk_rows, alone=request.alone
        )
        async for chunks in found:
            total += chunks.total
            left = None if left is None else left - chunks.total
            while (piece := await asyncio.to_thread(next, chunks, None)) is not None:
                if piece:
                    yield common_pb2.AdChunk(data=opening + piece)
                    opening = b",\n" if is_json else b""
    closing = b"[]\n" if opening == b"[" else b"]\n"  # ads that were found may be gone before they are written
    yield common_pb2.AdChunk(data=closing if is_json else b"", done=True, total=total)


async def _counts(
    questions: Questions, tables: Sequence[AdTable], constraint: ExprTree | None, names: list[str]
) -> common_pb2.AdChunk:
    """How many ads match, and with ``names`` how many per distinct values of these attributes, as ads with Count."""
    if not names:
        return common_pb2.AdChunk(done=True, total=sum([await questions.count(each, constraint) for each in tables]))
    rows = []
    for table in tables:
        for *values, count in await questions.count_by(table, names, constraint):
            rows.append(dict(zip(names, values, strict=True)) | {"Count": count})
    total = sum(whole(row["Count"]) for row in rows)
    return common_pb2.AdChunk(data=pack_ads(rows) if rows else b"", done=True, total=total)
