"""Keeps the collector's copy of a daemon's ads current, over one stream: whole ads first, then what changes.

A :class:`Publisher` has the stream, and sends at the right moments what its :class:`AdSource` has to say.
:class:`TableSource` is the source of daemons that keep their ads in tables; the startd has one of its own for slots.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

import grpc
from msgspec import Struct, field

from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.table import AdTable, PackBuilder, split_pack
from slotwise.wire import channel
from slotwise.wire.credential import Credential
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.sizes import PIECE
from slotwise.wire.stream import WARN_AFTER, ReconnectingStream

_log = logging.getLogger(__name__)
_CHUNK_ROWS = 2000
#: How long the collector may take to forget ads when a daemon ends, seconds.
_INVALIDATE_S = 2.0


class AdUpdate(Struct, frozen=True):
    """Ads of a kind (MyType), whole or in part, as the collector takes them."""

    kind: str
    #: Empty when there is nothing to say.
    pack: bytes
    #: Claim capabilities, which no query shows.
    private: bool = False


class AdSource(Protocol):
    """Has the ads of a daemon, and knows which of them the collector has on the present stream."""

    def whole(self) -> Iterable[AdUpdate]:
        """All ads: the stream is new, and the collector has none of them."""
        ...

    def changes(self) -> Iterable[AdUpdate]:
        """What has changed since what was sent last."""
        ...

    def confirmation(self) -> Iterable[AdUpdate]:
        """What shows, every update interval, that all ads hold, so that the collector does not expire them."""
        ...

    def missing(self, keys: Iterable[str]) -> None:
        """The collector got changes of these ads, but does not have the ads: send them whole with the next changes."""
        ...

    def advertised(self) -> Iterable[tuple[str, list[str]]]:
        """Kinds and keys that the collector has of this source, for when they end."""
        ...


class Publisher(ReconnectingStream[collector_pb2.AdvertiseReply]):
    """The stream on which a daemon advertises.

    :param collector: where the collector answers now.
    :param interval_s: how often ads that do not change are confirmed (UPDATE_INTERVAL and its kin).
    :param gather_s: changes within so many seconds after others travel together.
    """

    def __init__(
        self,
        source: AdSource,
        collector: Callable[[], str],
        credential: Credential,
        *,
        interval_s: Callable[[], float],
        gather_s: float = 0.0,
    ) -> None:
        super().__init__("the collector", warn_after=WARN_AFTER)
        self._source = source
        self._collector = collector
        self._credential = credential
        self._interval_s = interval_s
        self._gather_s = gather_s
        self._changed = asyncio.Event()
        self._serial = 0

    def publish(self) -> None:
        """Send what changed, soon."""
        self._changed.set()

    async def stop(self) -> None:
        """Stop, and have the collector forget the ads at once."""
        await self.close()
        with contextlib.suppress(grpc.RpcError, SlotwiseError):
            await self._invalidate()

    async def _invalidate(self) -> None:
        named = [(kind, keys) for kind, keys in self._source.advertised() if keys]
        if not named:
            return
        target = self._collector()
        async with channel.open_async(target) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            for kind, keys in named:
                request = collector_pb2.InvalidateRequest(kind=kind, keys=keys)
                await stub.Invalidate(request, metadata=self._credential.metadata(target), timeout=_INVALIDATE_S)

    # ---- the stream

    async def target(self) -> str:
        """Where the collector answers."""
        return self._collector()

    def call(self, opened: grpc.aio.Channel, target: str) -> grpc.aio.StreamStreamCall:
        """Advertise."""
        return collector_pb2_grpc.CollectorStub(opened).Advertise(metadata=self._credential.metadata(target))

    async def write(self, call: grpc.aio.StreamStreamCall) -> None:
        """Send all ads, then changes as they come."""
        self._changed.clear()
        await self._send(call, self._source.whole())
        while True:
            await asyncio.sleep(self._gather_s)
            due = False
            try:
                # Not wait_for: that of Python 3.11 loses a cancellation that comes together with the change.
                async with asyncio.timeout(self._interval_s()):
                    await self._changed.wait()
            except TimeoutError:
                due = True
            self._changed.clear()
            await self._send(call, self._source.confirmation() if due else self._source.changes())

    async def _send(self, call: grpc.aio.StreamStreamCall, updates: Iterable[AdUpdate]) -> None:
        for update in updates:
            for piece in split_pack(update.pack, PIECE) if update.pack else ():
                self._serial += 1
                request = collector_pb2.AdvertiseRequest(
                    kind=update.kind, pack=piece, serial=self._serial, private=update.private
                )
                await call.write(request)

    def received(self, frame: collector_pb2.AdvertiseReply) -> None:
        """The collector's word on an update."""
        for refusal in frame.refused:
            _log.error("the collector rejected an ad: %s", refusal)
        if frame.resend:
            self._source.missing(frame.resend)
            self._changed.set()


class _Kept(Struct):
    table: AdTable
    #: Version of the table that the collector was sent; 0: nothing on this stream.
    sent: int = 0
    #: Keys that the collector asked for.
    missing: set[str] = field(default_factory=set)


class TableSource:
    """Ads in tables, one for each kind, which know what has changed since what was sent.

    :param refresh: brings the tables up to date; called before they are looked at.
    """

    def __init__(self, refresh: Callable[[TableSource], None] = lambda source: None) -> None:
        self._refresh = refresh
        self._kept: dict[str, _Kept] = {}

    def table(self, kind: str) -> AdTable:
        """The ads of ``kind`` (MyType), by key."""
        found = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = _Kept(AdTable())
        return found.table

    def whole(self) -> Iterable[AdUpdate]:
        """All ads."""
        self._refresh(self)
        updates: list[AdUpdate] = []
        for kind, kept in self._kept.items():
            kept.missing.clear()
            kept.sent = kept.table.version
            updates += [AdUpdate(kind, p) for p in kept.table.query_chunks(form="keyed", chunk_rows=_CHUNK_ROWS)]
        return updates

    def changes(self) -> Iterable[AdUpdate]:
        """What has changed since what was sent last, and whole what the collector misses."""
        self._refresh(self)
        updates: list[AdUpdate] = []
        for kind, kept in self._kept.items():
            if kept.missing:
                updates.append(AdUpdate(kind, _whole(kept.table, kept.missing)))
                kept.missing.clear()
            if kept.sent != kept.table.version:
                updates.append(AdUpdate(kind, kept.table.changes_since(kept.sent)))
                kept.sent = kept.table.version
        return updates

    def confirmation(self) -> Iterable[AdUpdate]:
        """What has changed, and a change of nothing for each ad."""
        changes = self.changes()
        return [*changes, *(AdUpdate(kind, _touch(kept.table)) for kind, kept in self._kept.items())]

    def missing(self, keys: Iterable[str]) -> None:
        """Send these ads whole with the next changes."""
        named = set(keys)
        for kept in self._kept.values():
            kept.missing |= named

    def advertised(self) -> Iterable[tuple[str, list[str]]]:
        """All kinds and keys."""
        return [(kind, list(kept.table.keys())) for kind, kept in self._kept.items()]


class TablePublisher(Publisher):
    """Advertises what a daemon writes into tables, as soon as it is made.

    :param update_interval_s: how often ads that do not change are confirmed, in seconds; asked before each wait.
    :param refresh: see :class:`TableSource`.
    """

    def __init__(
        self,
        context: DaemonContext,
        update_interval_s: Callable[[], float],
        refresh: Callable[[TableSource], None] = lambda source: None,
    ) -> None:
        self._tables = TableSource(refresh)
        super().__init__(
            self._tables, lambda: collector_target(context), context.credential, interval_s=update_interval_s
        )
        self.start()

    def table(self, kind: str) -> AdTable:
        """The ads of ``kind`` (MyType), by key; write into it, then :meth:`publish`."""
        return self._tables.table(kind)


def _whole(table: AdTable, keys: Iterable[str]) -> bytes:
    builder = PackBuilder()
    for key in keys:
        if (ad := table.get(key)) is not None:
            builder.upsert(key, ad)
    return builder.finish() if len(builder) else b""


def _touch(table: AdTable) -> bytes:
    builder = PackBuilder()
    for key in table.keys():  # noqa: SIM118 - a table is not a dict
        builder.update(key, {})
    return builder.finish() if len(builder) else b""
