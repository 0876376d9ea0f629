"""Answers questions about jobs that have left the queue, from the database, newest first."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from typing import Any

from slotwise.daemon.questions import Questions
from slotwise.errors import HostError, UsageError
from slotwise.schedd.past_ads import COLUMNS, PastAds, PastJob
from slotwise.schedd.selection import constraint_of
from slotwise.schedd.store import Batch, Store
from slotwise.table import AdTable, Form
from slotwise.wire.gen import common_pb2, schedd_pb2

_PIECE = 500
_FORMS: dict[int, Form] = {
    common_pb2.AdQuery.PACK: "pack",
    common_pb2.AdQuery.LONG: "long",
    common_pb2.AdQuery.JSON: "json",
}


class History:
    """Reads history rows."""

    def __init__(self, store: Store, schedd_name: str) -> None:
        self._store = store
        self._name = schedd_name

    async def settled(self) -> None:
        """Wait until everything decided so far is in the database."""
        await self._store.commit(Batch())

    async def answer(self, questions: Questions, query: schedd_pb2.HistoryQuery) -> AsyncIterator[tuple[bytes, int]]:
        """(piece, number of ads in it), in order. Rows are read in worker threads.

        :raises UsageError: for a selection that is none.
        """
        loop = asyncio.get_running_loop()
        ask = query.query
        form: Form = _FORMS.get(ask.form, "pack")
        left = ask.limit or 1 << 60
        constraint = constraint_of(
            [], list(query.jobs.owners), " && ".join(f"({p})" for p in (ask.constraint, query.jobs.constraint) if p)
        )
        projection = list(ask.projection)
        counting = ask.form == common_pb2.AdQuery.COUNT
        pieces = self._pieces(query)
        while (found := await loop.run_in_executor(None, next, pieces, None)) is not None:
            table, last = found
            last = await _cut(questions, table, query) or last
            if counting:
                count = min(left, await questions.count(table, constraint))
                left -= count
                yield b"", count
            else:
                # Rows come in the order they were put in.
                async for chunks in questions.chunks(table, constraint, projection, left, form, _PIECE):
                    left -= chunks.total
                    said = chunks.total
                    while (piece := await loop.run_in_executor(None, next, chunks, None)) is not None:
                        yield piece, said
                        said = 0
            if left <= 0 or last:
                return

    def _pieces(self, query: schedd_pb2.HistoryQuery) -> Iterator[tuple[AdTable, bool]]:
        """Tables of some hundred ads each, in order, and whether no more shall be read."""
        where, values = _where(query)
        direction = "ASC" if query.forwards else "DESC"
        try:
            connection = self._store.reader()
        except sqlite3.Error as error:
            raise HostError(f"the history cannot be read: {error}") from None
        try:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM history {where} ORDER BY seq {direction}",
                values,
            )
            past = PastAds(connection, self._name)
            scanned = 0
            piece = min(_PIECE, query.query.limit or _PIECE)
            while batch := rows.fetchmany(piece):
                piece = _PIECE
                if query.scan_limit:
                    batch = batch[: query.scan_limit - scanned]
                scanned += len(batch)
                table = AdTable()
                for row in batch:
                    table.upsert(str(row[0]), past.ad(PastJob(*row)))
                yield table, bool(query.scan_limit and scanned >= query.scan_limit)
        finally:
            connection.close()


def _where(query: schedd_pb2.HistoryQuery) -> tuple[str, list[Any]]:
    clauses: list[str] = []
    values: list[Any] = []
    ids: list[str] = []
    for name in query.jobs.ids:
        head, dot, tail = name.partition(".")
        if not head.isdigit() or (dot and not tail.isdigit()):
            raise UsageError(f"{name!r} is not a job id", hint="give CLUSTER or CLUSTER.PROC")
        ids.append("(cluster=? AND proc=?)" if dot else "cluster=?")
        values.extend([int(head), int(tail)] if dot else [int(head)])
    if ids:
        clauses.append(f"({' OR '.join(ids)})")
    if query.completed_since:
        clauses.append("completed>=?")
        values.append(query.completed_since)
    if query.jobs.owners and not any("@" in owner for owner in query.jobs.owners):
        clauses.append(f"owner IN ({','.join('?' * len(query.jobs.owners))})")
        values.extend(query.jobs.owners)
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


async def _cut(questions: Questions, table: AdTable, query: schedd_pb2.HistoryQuery) -> bool:
    """Take out the ads from the one on at which ``since`` stops the reading; whether there is one."""
    since = query.since.strip()
    if not since:
        return False
    head, dot, tail = since.partition(".")
    if head.isdigit() and (not dot or tail.isdigit()):
        if not dot and int(head) > 100_000_000:
            stop = f"CompletionDate =!= undefined && CompletionDate < {head}"
        elif dot:
            stop = f"ClusterId == {head} && ProcId == {tail}"
        else:
            stop = f"ClusterId == {head}"
    else:
        stop = since
    stops = set(await questions.keys(table, stop))
    has_stopped = False
    for key in list(table.keys()):  # in the order they were put in
        has_stopped = has_stopped or key in stops
        if has_stopped:
            table.remove(key)
    return has_stopped
