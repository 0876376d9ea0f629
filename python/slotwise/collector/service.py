"""The collector's gRPC service."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from slotwise.classad import ExprTree
from slotwise.clock import Clock
from slotwise.collector.store import AdStore
from slotwise.daemon.ad_query import answer, counts
from slotwise.errors import BusyError, SlotwiseError, UsageError
from slotwise.observe.log import listed
from slotwise.table import AdTable, ApplyReport, Form, pack_ads
from slotwise.wire import call
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)
#: A pack this long keeps the event loop busy for about a millisecond; longer ones go to a thread.
_SMALL_PACK = 48 * 1024
#: Tables of at most this many ads are searched on the event loop.
_SMALL_TABLE = 500
_FORMS: dict[int, Form] = {
    common_pb2.AdQuery.PACK: "pack",
    common_pb2.AdQuery.LONG: "long",
    common_pb2.AdQuery.JSON: "json",
}
#: Ads in a piece of an answer: packs are small, whole ads as text are not, and pieces of a few MB travel best.
_CHUNK_ROWS = 4000
_CHUNK_ROWS_TEXT = 200
T = TypeVar("T")


class _Subscriber:
    """One open Subscribe call: what it wants, and a bell that rings when some of that has changed."""

    def __init__(self, wanted: set[tuple[str, bool]]) -> None:
        self.wanted = wanted
        self.bell = asyncio.Event()


class CollectorServicer(collector_pb2_grpc.CollectorServicer):
    """Adapts calls to the store.

    :param refresh: brings the collector's own ad up to date before a query.
    """

    def __init__(self, store: AdStore, clock: Clock, refresh: Callable[[], None]) -> None:
        self.store = store
        self._clock = clock
        self._refresh = refresh
        self._subscribers: set[_Subscriber] = set()
        #: Queries so far, open now, open at once at most, and given up; for the collector's own ad.
        self.queries = 0
        self.open_queries = 0
        self.open_queries_peak = 0
        self.dropped_queries = 0
        #: Longest that a query may take, its reader included (COLLECTOR_QUERY_MAX_WORKTIME); 0: as long as it likes.
        self.longest_query_s = 0.0

    def ring(self, kind: str, private: bool) -> None:
        """Tell subscribers that ads of ``kind`` have changed."""
        changed = (self.store.canonical(kind), private)
        for subscriber in self._subscribers:
            if changed in subscriber.wanted:
                subscriber.bell.set()

    @answers_errors
    async def Advertise(
        self, requests: AsyncIterator[collector_pb2.AdvertiseRequest], context: Any
    ) -> AsyncIterator[collector_pb2.AdvertiseReply]:
        """Take over ads as they come."""
        async for request in requests:
            now = self._clock.now()
            kind, pack, private = request.kind, request.pack, request.private
            reply = collector_pb2.AdvertiseReply(serial=request.serial)
            try:
                if len(pack) <= _SMALL_PACK:
                    report = self.store.apply(kind, pack, now, private=private)
                else:
                    report = await asyncio.to_thread(self.store.apply, kind, pack, now, private=private)
            except (SlotwiseError, ValueError) as error:
                reply.refused.append(f"{kind}: {error}")
                yield reply
                continue
            self.ring(kind, private)
            if not private:
                _log_changes(kind, report)
            reply.accepted = report.inserted + report.updated + report.removed
            if report.unknown:
                reply.resend.extend(report.unknown)
            if report.refused:
                reply.refused.extend(f"{key}: {why}" for key, why in report.refused)
            yield reply

    @answers_errors
    async def Invalidate(self, request: collector_pb2.InvalidateRequest, context: Any) -> collector_pb2.InvalidateReply:
        """Forget ads."""
        if not request.keys and not request.constraint:
            raise UsageError("nothing was named to forget", hint="give keys or a constraint")
        removed = self.store.invalidate(request.kind, list(request.keys), request.constraint, self._clock.now())
        who = (call.caller.get(), call.peer_of(context))
        _log.info("invalidated %d %s ads by order of %s from %s: %s", len(removed), request.kind, *who, listed(removed))
        for private in (False, True):
            self.ring(request.kind, private)
        return collector_pb2.InvalidateReply(removed=len(removed))

    @answers_errors
    async def Query(self, request: common_pb2.AdQuery, context: Any) -> AsyncIterator[common_pb2.AdChunk]:
        """Answer with the ads asked for, in pieces; the next one is made when the reader has taken the last."""
        self._refresh()
        self.queries += 1
        self.open_queries += 1
        self.open_queries_peak = max(self.open_queries, self.open_queries_peak)
        began = self._clock.monotonic()
        complete = False
        try:
            async for chunk in self._answer(request):
                yield chunk
                if self.longest_query_s and self._clock.monotonic() - began > self.longest_query_s and not chunk.done:
                    raise BusyError(
                        f"the query took longer than {self.longest_query_s:g} s", hint="COLLECTOR_QUERY_MAX_WORKTIME"
                    )
            complete = True
        finally:
            self.open_queries -= 1
            self.dropped_queries += not complete

    async def _answer(self, request: common_pb2.AdQuery) -> AsyncIterator[common_pb2.AdChunk]:
        constraint = ExprTree(request.constraint) if request.constraint else None  # wrong even if there are no ads
        tables = self.store.selected(request.kind)
        now = int(self._clock.now())
        small = sum(len(table) for table in tables) <= _SMALL_TABLE
        if request.form == common_pb2.AdQuery.COUNT:
            work = (tables, constraint, list(request.count_by), now)
            total, rows = counts(*work) if small else await asyncio.to_thread(counts, *work)
            yield common_pb2.AdChunk(data=pack_ads(rows) if rows else b"", done=True, total=total)
            return
        pieces = answer(
            tables,
            constraint,
            list(request.projection),
            max(0, request.limit),
            _FORMS[request.form],
            now,
            chunk_rows=_CHUNK_ROWS if request.form == common_pb2.AdQuery.PACK else _CHUNK_ROWS_TEXT,
        )
        total = 0
        while True:
            piece = next(pieces, None) if small else await asyncio.to_thread(_next, pieces)
            if piece is None:
                break
            data, total = piece
            if data:
                yield common_pb2.AdChunk(data=data)
        yield common_pb2.AdChunk(done=True, total=total)

    @answers_errors
    async def Subscribe(
        self, request: collector_pb2.SubscribeRequest, context: Any
    ) -> AsyncIterator[collector_pb2.SubscribeReply]:
        """All ads of the kinds asked for, then every change."""
        kinds = [self.store.canonical(kind) for kind in request.kinds]
        wanted = {(kind, False) for kind in kinds}
        if request.include_private:  # the method needs the scope DAEMON, so the caller may see them
            wanted |= {(kind, True) for kind in kinds}
        subscriber = _Subscriber(wanted)
        self._subscribers.add(subscriber)
        sent: dict[tuple[str, bool], int] = {}
        try:
            # Capabilities first: a claim id is then never older than its public ad.
            for kind, private in sorted(wanted, key=lambda which: (not which[1], which[0])):
                table = self.store.table(kind, private=private)
                version = table.version
                async for pack in _whole(table):
                    yield collector_pb2.SubscribeReply(kind=kind, pack=pack, private=private)
                sent[(kind, private)] = version
                yield collector_pb2.SubscribeReply(kind=kind, private=private, complete=True, version=version)
            while True:
                await subscriber.bell.wait()
                if request.max_delay_ms:
                    await asyncio.sleep(request.max_delay_ms / 1000)
                subscriber.bell.clear()
                for kind, private in sorted(sent, key=lambda which: (not which[1], which[0])):
                    table = self.store.table(kind, private=private)
                    version = table.version
                    if version == sent[(kind, private)]:
                        continue
                    pack = await _off_loop(table, functools.partial(table.changes_since, sent[(kind, private)]))
                    sent[(kind, private)] = version
                    yield collector_pb2.SubscribeReply(kind=kind, pack=pack, private=private, version=version)
        finally:
            self._subscribers.discard(subscriber)


def _log_changes(kind: str, report: ApplyReport) -> None:
    if report.inserted:
        _log.info("inserted %d %s ads: %s", report.inserted, kind, listed(report.new_keys, report.inserted))
    if report.removed:
        _log.info("removed %d %s ads: %s", report.removed, kind, listed(report.removed_keys, report.removed))
    _log.debug("updated %d %s ads", report.updated, kind)


def _next(pieces: Iterator[tuple[bytes, int]]) -> tuple[bytes, int] | None:
    return next(pieces, None)


async def _off_loop(table: AdTable, work: Callable[[], T]) -> T:
    return work() if len(table) <= _SMALL_TABLE else await asyncio.to_thread(work)


async def _whole(table: AdTable) -> AsyncIterator[bytes]:
    chunks = iter(table.query_chunks(form="keyed", chunk_rows=_CHUNK_ROWS))
    while True:
        piece = await _off_loop(table, lambda: next(chunks, None))
        if piece is None:
            return
        yield piece
