"""Answers queries about jobs that have left the queue, from the database, and about runs, from files; newest first."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.clock import Clock
from slotwise.daemon.history_file import parts_of, read_ads
from slotwise.daemon.pages import Part
from slotwise.daemon.questions import Questions
from slotwise.errors import AdSyntaxError, HostError, NotFoundError, UsageError
from slotwise.model.job_id import JobId, last_of_history
from slotwise.schedd.history.bounds import Bounds, bounds_of
from slotwise.schedd.history.past_ads import COLUMNS, PastAds, PastJob
from slotwise.schedd.jobs.selection import JobSelection, constraint_of
from slotwise.schedd.storage.store import Batch, Store
from slotwise.table import AdTable, Form

#: Ads that are read at a time at most, and at first, and about the bytes that they may have.
_PIECE, _FIRST_PIECE, _PIECE_BYTES = 500, 50, 8 << 20
#: Where the first page of past jobs begins; they are numbered as they leave.
NEWEST = 1 << 62
#: Ads of a page at most.
_PAGE_MOST = 10_000


class HistoryQuery(Struct, frozen=True):
    """Which past jobs a caller asks about, and what it wants to see of them.

    :param alone: the attributes of the projection without those that they read.
    :param limit: most ads in the answer; 0 for no limit.
    :param form: None to count them.
    :param forwards: the oldest first.
    :param scan_limit: most ads that are looked at; 0 for no limit.
    :param since: a job id, a time or an expression; the ad for which it is true, and those after it, are left out.
    :param completed_since: only jobs that completed at that time or later, in epoch seconds.
    :param runs: the ads of runs (JOB_EPOCH_HISTORY) instead of past jobs.
    :param kinds: with ``runs``, only ads of these kinds, in upper case; empty for all.
    :param page_after: the number of the job at which the page before ended; None: all are wanted, not a page of them.
    """

    jobs: JobSelection = field(default_factory=JobSelection)
    constraint: str = ""
    projection: tuple[str, ...] = ()
    alone: bool = False
    limit: int = 0
    form: Form | None = "pack"
    forwards: bool = False
    scan_limit: int = 0
    since: str = ""
    completed_since: int = 0
    runs: bool = False
    kinds: frozenset[str] = frozenset()
    page_after: int | None = None


class History:
    """Answers queries from the history table, and from the file of runs.

    :param runs_file: where that file is at present; "" for none.
    :param has_environment: whether answers show jobs' environments at present.
    """

    def __init__(
        self,
        store: Store,
        schedd_name: str,
        clock: Clock,
        runs_file: Callable[[], str],
        has_environment: Callable[[], bool],
    ) -> None:
        self._has_environment = has_environment
        self._runs_file = runs_file
        self._store = store
        self._clock = clock
        self._name = schedd_name

    async def settled(self) -> None:
        """Wait until all decisions so far are in the database."""
        await self._store.commit(Batch())

    async def answer(self, questions: Questions, query: HistoryQuery) -> AsyncIterator[tuple[bytes, int]]:
        """The answer in pieces, each with the number of ads that it adds. Rows are read in worker threads.

        :raises UsageError: for a job id that is not one.
        :raises NotFoundError: when no history of runs is kept.
        """
        loop = asyncio.get_running_loop()
        if query.runs and query.completed_since and not query.since:
            query = replace(query, since=f"CompletionDate <= {query.completed_since}")
        left = query.limit or 1 << 60
        # These two depend on all rows that are read, not only on those that match.
        reads_all = bool(query.scan_limit or query.since or query.runs)
        constraint = constraint_of(
            query.jobs.ids if reads_all else (),
            query.jobs.owners,
            " && ".join(f"({p})" for p in (query.constraint, query.jobs.constraint) if p),
        )
        bounds = None if reads_all else bounds_of(constraint, int(self._clock.now()))
        pieces = self._runs(query) if query.runs else self._pieces(query, bounds)
        while (found := await loop.run_in_executor(None, next, pieces, None)) is not None:
            table, last = found
            last = await _cut(questions, table, query) or last
            if query.form is None:
                count = min(left, await questions.count(table, constraint))
                left -= count
                yield b"", count
            else:
                # In the order of insertion.
                found_ads = questions.chunks(
                    table, constraint, query.projection, left, query.form, _PIECE, alone=query.alone
                )
                async for chunks in found_ads:
                    left -= chunks.total
                    said = chunks.total
                    while (piece := await loop.run_in_executor(None, next, chunks, None)) is not None:
                        yield piece, said
                        said = 0
            if left <= 0 or last:
                return

    async def page(self, questions: Questions, query: HistoryQuery) -> AsyncIterator[Part]:
        """The jobs behind ``page_after``, piece by piece as they are read.

        :raises UsageError: for a page of runs, or one that is too large.
        """
        if not 0 < query.limit < _PAGE_MOST or query.runs:
            raise UsageError(
                f"a page has from 1 to {_PAGE_MOST - 1} past jobs", hint="give a limit, and no kinds of runs"
            )
        loop = asyncio.get_running_loop()
        parts = (query.constraint, query.jobs.constraint)
        constraint = constraint_of(
            query.jobs.ids, query.jobs.owners, " && ".join(f"({part})" for part in parts if part)
        )
        pieces = self._pieces(query, bounds_of(constraint, int(self._clock.now())))
        while (found := await loop.run_in_executor(None, next, pieces, None)) is not None:
            table, _ = found
            yield table, [(key, key) for key in await questions.keys(table, constraint)]

    def _runs(self, query: HistoryQuery) -> Iterator[tuple[AdTable, bool]]:
        """As :meth:`_pieces`, of the ads of runs."""
        path = self._runs_file()
        if not path:
            raise NotFoundError("the access point keeps no history of runs", hint="JOB_EPOCH_HISTORY is empty there")
        parts = parts_of(Path(path))
        left = query.scan_limit or 1 << 60
        for part in parts if query.forwards else reversed(parts):
            ads = read_ads(part, query.kinds, forwards=query.forwards)
            try:
                while left > 0 and (batch := list(islice(ads, min(_PIECE, left)))):
                    table = AdTable()
                    for number, ad in enumerate(batch):
                        table.upsert(str(number), ad)
                    left -= len(batch)
                    yield table, left <= 0
            except FileNotFoundError:  # put aside, or removed as the oldest, since the directory was read
                continue
            except (OSError, AdSyntaxError) as error:
                raise HostError(f"the history of runs cannot be read: {error}") from None

    def _pieces(self, query: HistoryQuery, bounds: Bounds | None) -> Iterator[tuple[AdTable, bool]]:
        """Tables of some hundred ads each, in order, and whether it is the last to be read."""
        direction = "ASC" if query.forwards else "DESC"
        try:
            connection = self._store.reader()
        except sqlite3.Error as error:
            raise HostError(f"the history cannot be read: {error}") from None
        try:
            where, values = ("", []) if bounds is None else _where(query, bounds, connection)
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM history {where} ORDER BY seq {direction}",
                values,
            )
            past = PastAds(connection, self._name, has_environment=self._has_environment())
            scanned = 0
            piece = min(_FIRST_PIECE, query.limit or _FIRST_PIECE)
            while batch := rows.fetchmany(piece):
                if query.scan_limit:
                    batch = batch[: query.scan_limit - scanned]
                scanned += len(batch)
                table = AdTable()
                for row in batch:
                    table.upsert(str(row[0]), past.ad(PastJob(*row)))
                piece = max(1, min(_PIECE, 4 * len(batch), len(batch) * _PIECE_BYTES // table.memory_bytes))
                yield table, bool(query.scan_limit and scanned >= query.scan_limit)
        finally:
            connection.close()


def _where(query: HistoryQuery, bounds: Bounds, connection: sqlite3.Connection) -> tuple[str, list[str | int]]:
    """The WHERE clause for the rows to read, as far as columns select them, and its values."""
    clauses: list[str] = []
    values: list[str | int] = []
    since = max(query.completed_since, bounds.completed_since or 0)
    if since:
        until = bounds.completed_until if bounds.completed_until is not None else 1 << 62
        # Rows are in the order in which jobs left, nearly that of completion.
        first, last = connection.execute(
            "SELECT min(seq), max(seq) FROM history INDEXED BY history_completed WHERE completed BETWEEN ? AND ?",
            (since, until),
        ).fetchone()
        clauses.append("seq BETWEEN ? AND ? AND completed BETWEEN ? AND ?")
        values += [first or 0, last or 0, since, until]
    if query.page_after is not None:
        clauses.append("seq < ?")
        values.append(query.page_after)
    ids = [JobId.parse(name) for name in query.jobs.ids]
    if ids:
        clauses.append(f"({' OR '.join('cluster=?' if proc is None else '(cluster=? AND proc=?)' for _, proc in ids)})")
        values += [number for found in ids for number in found if number is not None]
    if bounds.cluster is not None:
        clauses.append("cluster=?")
        values.append(bounds.cluster)
    if bounds.status is not None:
        clauses.append("+status=?")
        values.append(bounds.status)
    owners = None if any("@" in owner for owner in query.jobs.owners) else list(query.jobs.owners)
    if not owners and bounds.owner is not None:
        owners = [bounds.owner] if bounds.is_exact else _spelled(bounds.owner, connection)
    if owners:
        clauses.append(f"owner IN ({','.join('?' * len(owners))})")
        values += owners
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _spelled(owner: str, connection: sqlite3.Connection) -> list[str]:
    """The owners whose names match but for case. Takes one look-up in the index for each owner there is."""
    sql = """
        WITH RECURSIVE owners(name) AS (
          SELECT min(owner) FROM history
          UNION ALL SELECT (SELECT min(owner) FROM history WHERE owner > name) FROM owners WHERE name IS NOT NULL)
        SELECT name FROM owners WHERE lower(name) = lower(?)"""
    return [name for (name,) in connection.execute(sql, (owner,))] or [owner]


async def _cut(questions: Questions, table: AdTable, query: HistoryQuery) -> bool:
    """Remove the ad at which ``since`` stops the reading, and those after it; returns whether there is one."""
    since = query.since
    if not since:
        return False
    stops = set(await questions.keys(table, last_of_history(since)))
    has_stopped = False
    for key in list(table.keys()):  # in the order of insertion
        has_stopped = has_stopped or key in stops
        if has_stopped:
            table.remove(key)
    return has_stopped
