"""The collector's gRPC service."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeVar

from slotwise.classad import ExprTree
from slotwise.clock import Clock
from slotwise.collector.ad_bounds import AdBounds, AdLimits
from slotwise.collector.naming import misnamings
from slotwise.collector.ownership import NAMING, Owners, Sender, misnamed, sender_of
from slotwise.collector.sleeps import SleepRecord
from slotwise.collector.store import AdStore
from slotwise.daemon.ad_query import answer
from slotwise.daemon.questions import Questions
from slotwise.errors import BusyError, DeniedError, SlotwiseError, UnauthenticatedError, UsageError
from slotwise.observe.log import listed
from slotwise.table import AdTable, ApplyReport, PackKeys, pack_keys, without
from slotwise.wire import call, security
from slotwise.wire.context import Context
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)
#: A pack of this size keeps the event loop busy for about a millisecond; larger ones go to a thread.
_SMALL_PACK = 48 * 1024
#: Tables of at most this many ads are read on the event loop.
_SMALL_TABLE = 500
#: Ads in one message to subscribers.
_CHUNK_ROWS = 4000
#: Refused ads of one message that are told one by one, and how often crowds of them are logged, of how many senders.
_TOLD = 10
_CROWD_TOLD_S, _CROWDS_MOST = 60.0, 1000
#: How long an ad says to stay when nobody sends it again, and how long it stays at most, whoever but an administrator
#: sends it, in seconds.
_LIFE, LONGEST_LIFE_S = "ClassAdLifetime", 86400
T = TypeVar("T")


class _Subscriber:
    """One open Subscribe call: what it wants, and an event that is set when some of that has changed."""

    def __init__(self, wanted: set[tuple[str, bool]]) -> None:
        self.wanted = wanted
        self.bell = asyncio.Event()


class CollectorServicer(collector_pb2_grpc.CollectorServicer):
    """Adapts calls to the store.

    :param refresh: updates the collector's own ad before a query.
    :param sleeps: the record of which machines slept when, or None.
    """

    def __init__(
        self, store: AdStore, clock: Clock, refresh: Callable[[], None], sleeps: SleepRecord | None = None
    ) -> None:
        self.store = store
        self._clock = clock
        self._refresh = refresh
        self._sleeps = sleeps
        self.owners = Owners(store.has)
        #: Whoever advertises is bounded once the configuration says so.
        self.ad_bounds = AdBounds(AdLimits())
        #: When it is time to log again that a sender has too many ads.
        self._crowds_told: dict[str, float] = {}
        self._questions = Questions(clock, in_threads_from=_SMALL_TABLE)
        self._subscribers: set[_Subscriber] = set()
        #: Queries so far, open now, open at once at most, and given up; for the collector's own ad.
        self.queries = 0
        self.open_queries = 0
        self.open_queries_peak = 0
        self.dropped_queries = 0
        #: The longest that a query may take, its reader included (COLLECTOR_QUERY_MAX_WORKTIME); 0: no limit.
        self.longest_query_s = 0.0
        #: Raises DeniedError where a proof names a host that another key belongs to; set by the collector.
        self.require_free: Callable[[str, str], None] = lambda identity, public_key: None

    def ring(self, kind: str, private: bool) -> None:
        """Notify subscribers that ads of ``kind`` have changed."""
        changed = (self.store.canonical(kind), private)
        for subscriber in self._subscribers:
            if changed in subscriber.wanted:
                subscriber.bell.set()

    @answers_errors
    async def Advertise(
        self, requests: AsyncIterator[collector_pb2.AdvertiseRequest], context: Context
    ) -> AsyncIterator[collector_pb2.AdvertiseReply]:
        """Apply ads as they arrive."""
        async for request in requests:
            now = self._clock.now()
            kind, pack, private, offline = request.kind, request.pack, request.private, request.goes_offline
            reply = collector_pb2.AdvertiseReply(serial=request.serial)
            try:
                found = pack_keys(pack, NAMING)
                pack, found = await self._without(pack, found, self._misnamed(kind, found, context), reply)
                self._require_own(kind, found, context)
                pack, found = await self._without(pack, found, self._crowded_out(kind, found, context), reply)
                pack, found = await self._without(pack, found, self._oversized(kind, found, context), reply)
                touched = self.store.touched(kind, found, private=private, goes_offline=offline)
                if len(pack) <= _SMALL_PACK:
                    report = self.store.apply(kind, pack, now, private=private)
                else:
                    report = await asyncio.to_thread(self.store.apply, kind, pack, now, private=private)
                self._take_names(kind, (*found.whole, *found.changed), context)
                kind_of = self.store.canonical(kind)
                self._note_sizes(kind_of, found, private=private)
                if not private:
                    self._bound_lives(kind_of, found, context)
                self.owners.release(kind_of, [key for key in found.removed if not self.store.has(kind_of, key)])
                self.store.settle(touched, now, goes_offline=offline)
            except OSError as error:
                reply.refused.append(f"{kind}: cannot keep the ads of machines that are off: {error}")
                _log.error("cannot keep the ads of machines that are off: %s", error)
                self.ring(kind, private)
                yield reply
                continue
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

    async def _without(
        self, pack: bytes, found: PackKeys, refused: tuple[set[str], list[str]], reply: collector_pb2.AdvertiseReply
    ) -> tuple[bytes, PackKeys]:
        """A pack, and what is in it, without the ads of some keys; the reply says why."""
        keys, told = refused
        if not keys:
            return pack, found
        reply.refused.extend(told)
        rest = await asyncio.to_thread(without, pack, keys)
        return rest, pack_keys(rest, NAMING)

    def _require_kind(self, kind: str, context: Context) -> Sender:
        """The caller, if it may send ads of this kind."""
        caller = call.identity.get()
        if caller is None:
            raise UnauthenticatedError("nobody said who advertises")
        security.require_kind(caller, self.store.canonical(kind))
        granted = call.host_token.get()
        if granted is not None:
            self.require_free(caller.name, str(granted["cnf"]["jwk"]["x"]))
        return sender_of(caller, has_proof=granted is not None, is_here=call.is_local(context))

    def _require_own(self, kind: str, pack: PackKeys, context: Context) -> None:
        """Check that a pack changes nobody else's ads.

        :raises DeniedError: it does; none of it is applied.
        """
        sender, kind = self._require_kind(kind, context), self.store.canonical(kind)
        why = next(self._refusals(sender, kind, pack), None)
        if why is not None:
            raise self._taken(sender, kind, why, context)

    def _refusals(self, sender: Sender, kind: str, pack: PackKeys) -> Iterator[str]:
        for keys, new in ((pack.whole, True), (pack.changed, True), (pack.removed, False)):
            for key in keys:
                why = self.owners.refusal(sender, kind, key, new=new)
                if why is not None:
                    yield why
        why = misnamed(sender, kind, pack, self.owners.is_execution_point)
        if why is not None:
            yield why

    def _take_names(self, kind: str, keys: Iterable[str], context: Context) -> None:
        taken = self.owners.take(self._require_kind(kind, context), self.store.canonical(kind), keys)
        if taken:
            who = (call.caller.get(), call.peer_of(context))
            _log.warning("%s ads are now those of %s from %s, whose host they name: %s", kind, *who, listed(taken))

    def _taken(self, sender: Sender, kind: str, why: str, context: Context) -> DeniedError:
        who, peer = sender.identity.name, call.peer_of(context)
        call.refusals.note(who, peer, "refused %s ads of %s from %s: %s", kind, who, peer, why)
        return DeniedError(
            f"{sender.identity.name} may not advertise this: {why}",
            hint="an administrator releases a name with `slotwise advertise INVALIDATE_..._ADS`",
        )

    def _misnamed(self, kind: str, pack: PackKeys, context: Context) -> tuple[set[str], list[str]]:
        """The keys of ads of a pack with names that are none, and why, for the sender and the log."""
        sender = self._require_kind(kind, context)
        found = misnamings(self.store.canonical(kind), pack, by_administrator=sender.is_administrator)
        told = [f"{why}; names are printed and quoted: slot1@host, name@host" for why in list(found.values())[:_TOLD]]
        if len(found) > _TOLD:
            told.append(f"{len(found) - _TOLD} more ads have no proper names")
        who, peer = sender.identity.name, call.peer_of(context)
        for why in told:
            call.refusals.note(who, peer, "refused a %s ad of %s from %s: %s", kind, who, peer, why)
        return set(found), told

    def _crowded_out(self, kind: str, pack: PackKeys, context: Context) -> tuple[set[str], list[str]]:
        """The keys of new ads of a pack beyond what the sender may add, and why, for the sender and the log."""
        sender, kind = self._require_kind(kind, context), self.store.canonical(kind)
        new = [key for key in dict.fromkeys(pack.whole) if not self.store.has(kind, key)]
        if not new:
            return set(), []
        who, peer = sender.identity.name, call.peer_of(context)
        network = call.network_of(call.host_of(peer))
        room, bound = self.ad_bounds.room(sender, network, self.owners.held(who), len(new), self._clock.monotonic())
        beyond = new[room:]
        if not beyond:
            return set(), []
        why = f"{len(beyond)} new ads of {who} are more than {bound} allows: {listed(beyond)}"
        self._note_crowd(kind, who, peer, why)
        return set(beyond), [f"{why}; they are taken when they are sent again and there is room"]

    def _oversized(self, kind: str, pack: PackKeys, context: Context) -> tuple[set[str], list[str]]:
        """The keys of ads of a pack with which the sender's ads would be larger than they may be, and why."""
        sender, kind = self._require_kind(kind, context), self.store.canonical(kind)
        who = sender.identity.name
        held, beyond = self.owners.bytes_of(who), []
        for key, size in zip(pack.whole, pack.whole_bytes, strict=True):
            growth = size - self.owners.bytes_at(kind, key)
            if self.ad_bounds.has_room_for(sender, held, growth):
                held += growth
            else:
                beyond.append(key)
        for key, size in zip(pack.changed, pack.changed_bytes, strict=True):
            if self.ad_bounds.has_room_for(sender, held, size):
                held += size
            else:
                beyond.append(key)
        if not beyond:
            return set(), []
        most = self.ad_bounds.limits.bytes_of_identity >> 20
        why = f"the ads of {who} are larger than SLOTWISE_MAX_AD_MB_PER_IDENTITY = {most} allows with {listed(beyond)}"
        self._note_crowd(kind, who, call.peer_of(context), why)
        return set(beyond), [why]

    def _note_sizes(self, kind: str, pack: PackKeys, *, private: bool) -> None:
        """Note how large the ads of a pack are. What is private of an ad adds to it."""
        sizes = zip((*pack.whole, *pack.changed), (*pack.whole_bytes, *pack.changed_bytes), strict=True)
        for n, (key, size) in enumerate(sizes):
            if self.owners.measure(kind, key, size=size, whole=n < len(pack.whole) and not private):
                tables = (self.store.table(kind, private=each) for each in (False, True))
                self.owners.measure(kind, key, size=sum(table.bytes_of(key) for table in tables), whole=True)

    def _bound_lives(self, kind: str, pack: PackKeys, context: Context) -> None:
        """See that ads go some time after their senders do, also those whose token has ended or is revoked."""
        if not any(name.lower() == _LIFE.lower() for name in pack.names):
            return
        sender, table = self._require_kind(kind, context), self.store.table(kind)
        if sender.is_administrator:
            return
        keys = [*pack.whole, *pack.changed]
        for key, life in zip(keys, table.values_of(keys, [_LIFE])[0], strict=True):
            if isinstance(life, int | float) and life > LONGEST_LIFE_S:
                table.update(key, {_LIFE: LONGEST_LIFE_S}, received_at=self._clock.now())

    def _note_crowd(self, kind: str, who: str, peer: str, why: str) -> None:
        """Log a refusal, the first of a minute."""
        now = self._clock.monotonic()
        if now >= self._crowds_told.get(who, 0.0):
            if len(self._crowds_told) >= _CROWDS_MOST:
                self._crowds_told.clear()
            self._crowds_told[who] = now + _CROWD_TOLD_S
            _log.warning("refused %s ads from %s: %s", kind, peer, why)

    @answers_errors
    async def Invalidate(
        self, request: collector_pb2.InvalidateRequest, context: Context
    ) -> collector_pb2.InvalidateReply:
        """Invalidate ads."""
        if not request.keys and not request.constraint:
            raise UsageError("nothing was named to forget", hint="give keys or a constraint")
        kind, sender = self.store.canonical(request.kind), self._require_kind(request.kind, context)
        keys, refused = await self._own_of(sender, kind, request)
        if refused and not keys:
            raise self._taken(sender, kind, refused, context)
        removed = self.store.invalidate(kind, keys, self._clock.now()) if keys else []
        self.owners.release(kind, removed)
        who = (call.caller.get(), call.peer_of(context))
        _log.info("invalidated %d %s ads by order of %s from %s: %s", len(removed), request.kind, *who, listed(removed))
        for private in (False, True):
            self.ring(request.kind, private)
        return collector_pb2.InvalidateReply(removed=len(removed))

    async def _own_of(
        self, sender: Sender, kind: str, request: collector_pb2.InvalidateRequest
    ) -> tuple[list[str], str]:
        """The keys in a request that the sender may invalidate, and why it may not invalidate the first of the others.

        A constraint means the ads for which it is true, of those that the sender may invalidate.
        """
        keys = {key: self.owners.refusal(sender, kind, key, new=False) for key in request.keys}
        meant: set[str] = set()
        if request.constraint:
            constraint = ExprTree(request.constraint)
            for table in self.store.selected(kind, constraint):
                meant.update(await self._questions.keys(table, constraint))
        meant = {key for key in meant if self.owners.refusal(sender, kind, key, new=False) is None}
        why = next((why for key, why in keys.items() if why and self.store.has(kind, key)), "")
        return [*(key for key, each in keys.items() if each is None), *sorted(meant)], why

    @answers_errors
    async def Query(self, request: common_pb2.AdQuery, context: Context) -> AsyncIterator[common_pb2.AdChunk]:
        """Reply with the ads in pieces; the next is made when the reader has taken the last."""
        self._refresh()
        self.queries += 1
        self.open_queries += 1
        self.open_queries_peak = max(self.open_queries, self.open_queries_peak)
        began = self._clock.monotonic()
        complete = False
        try:
            constraint = ExprTree(request.constraint) if request.constraint else None  # an error even without ads
            tables = self.store.selected(request.kind, constraint)
            async for chunk in answer(self._questions, tables, constraint, request):
                yield chunk
                if self.longest_query_s and self._clock.monotonic() - began > self.longest_query_s and not chunk.done:
                    raise BusyError(
                        f"the query took longer than {self.longest_query_s:g} s", hint="COLLECTOR_QUERY_MAX_WORKTIME"
                    )
            complete = True
        finally:
            self.open_queries -= 1
            self.dropped_queries += not complete

    @answers_errors
    async def Sleeps(
        self, request: collector_pb2.SleepsRequest, context: Context
    ) -> AsyncIterator[collector_pb2.SleepsReply]:
        """The sleeps of machines within a span of time, oldest first."""
        until = request.until or int(self._clock.now()) + 1
        found = iter(() if self._sleeps is None else self._sleeps.between(request.since, until, set(request.machines)))
        while piece := list(itertools.islice(found, _CHUNK_ROWS)):
            yield collector_pb2.SleepsReply(
                sleeps=[
                    collector_pb2.Sleep(
                        machine=one.machine,
                        level=one.level,
                        began=one.began,
                        ended=one.ended or 0,
                        saved_watts=one.saved_watts or 0.0,
                    )
                    for one in piece
                ]
            )

    @answers_errors
    async def Subscribe(
        self, request: collector_pb2.SubscribeRequest, context: Context
    ) -> AsyncIterator[collector_pb2.SubscribeReply]:
        """All ads of the requested kinds, then every change."""
        kinds = [self.store.canonical(kind) for kind in request.kinds]
        wanted = {(kind, False) for kind in kinds}
        if request.include_private:  # the method needs the level NEGOTIATOR, so the caller may see them
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


async def _off_loop(table: AdTable, work: Callable[[], T]) -> T:
    return work() if len(table) <= _SMALL_TABLE else await asyncio.to_thread(work)


async def _whole(table: AdTable) -> AsyncIterator[bytes]:
    chunks = iter(table.query_chunks(form="keyed", chunk_rows=_CHUNK_ROWS))
    while True:
        piece = await _off_loop(table, lambda: next(chunks, None))
        if piece is None:
            return
        yield piece
