"""Keeps the collector told of a daemon's ads, over one stream, sending only what changed.

The daemon writes its ads into tables of this object and calls :meth:`Advertiser.publish`; the tables know what changed
since what was sent. After a break, of whichever side, everything is sent whole again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import grpc

from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.table import AdTable, PackBuilder, split_pack
from slotwise.wire import channel
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.sizes import PIECE

_log = logging.getLogger(__name__)
_CHUNK_ROWS = 2000
#: After how many failures in a row people are warned: a pool that comes up has its collector last, or nearly so.
_PATIENCE = 5
_RETRY_S = (0.05, 0.2, 0.5, 1.0, 2.0)


@dataclass
class _Outgoing:
    kind: str
    private: bool
    table: AdTable = field(default_factory=AdTable)
    #: Version of the table that the collector was sent; 0: nothing on this stream.
    sent: int = 0


class Advertiser:
    """The ads of one daemon on their way to the collector.

    :param update_interval_s: how often ads that do not change are confirmed (UPDATE_INTERVAL and its kin), so that
        the collector does not expire them.
    :param stale: per kind, a constraint for ads that a former life of this daemon may have left in the collector;
        they are removed once the present ones are there.
    """

    def __init__(
        self, context: DaemonContext, *, update_interval_s: float = 300.0, stale: Mapping[str, str] | None = None
    ) -> None:
        self._context = context
        self._interval_s = update_interval_s
        self._stale = dict(stale or {})
        self._outgoing: dict[tuple[str, bool], _Outgoing] = {}
        self._wake = asyncio.Event()
        self._resend = False
        self._task = asyncio.create_task(self._run(), name="advertise")

    def table(self, kind: str, *, private: bool = False) -> AdTable:
        """The ads of ``kind`` (MyType), by key; write into it, then :meth:`publish`."""
        found = self._outgoing.get((kind, private))
        if found is None:
            found = self._outgoing[(kind, private)] = _Outgoing(kind, private)
        return found.table

    def publish(self) -> None:
        """Send what changed, soon."""
        self._wake.set()

    async def close(self, *, invalidate: bool = True) -> None:
        """Stop; with ``invalidate`` the collector forgets the ads at once."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if invalidate:
            with contextlib.suppress(grpc.RpcError, SlotwiseError):
                target = collector_target(self._context)
                async with channel.open_async(target) as opened:
                    stub = collector_pb2_grpc.CollectorStub(opened)
                    for out in self._outgoing.values():
                        request = collector_pb2.InvalidateRequest(kind=out.kind, keys=out.table.keys())
                        await stub.Invalidate(request, metadata=self._context.credential.metadata(target), timeout=2)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                target = collector_target(self._context)
                async with channel.open_async(target) as opened:
                    stub = collector_pb2_grpc.CollectorStub(opened)
                    for out in self._outgoing.values():
                        out.sent = 0
                    replies = stub.Advertise(
                        self._requests(stub, target), metadata=self._context.credential.metadata(target)
                    )
                    async for reply in replies:
                        failures = 0
                        self._take(reply)
            except (grpc.RpcError, SlotwiseError) as error:
                level = logging.WARNING if failures == _PATIENCE else logging.INFO
                _log.log(level, "could not update the collector: %s", _why(error))
            except Exception:
                _log.exception("error in the stream to the collector")
            await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
            failures += 1

    def _take(self, reply: collector_pb2.AdvertiseReply) -> None:
        for refusal in reply.refused:
            _log.error("the collector rejected an ad: %s", refusal)
        if reply.resend:
            self._resend = True
            self._wake.set()

    async def _requests(
        self, stub: collector_pb2_grpc.CollectorStub, target: str
    ) -> AsyncIterator[collector_pb2.AdvertiseRequest]:
        serial = 0
        for pack, out in self._changes():
            for piece in split_pack(pack, PIECE):
                serial += 1
                yield _request(out, piece, serial)
        for kind, constraint in self._stale.items():
            request = collector_pb2.InvalidateRequest(kind=kind, constraint=constraint)
            await stub.Invalidate(request, metadata=self._context.credential.metadata(target), timeout=10)
        while True:
            touch = False
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
            except TimeoutError:
                touch = True
            self._wake.clear()
            if self._resend:
                self._resend = False
                for out in self._outgoing.values():
                    out.sent = 0
            packs = list(self._changes())
            if touch:
                packs += [(_touch(out.table), out) for out in self._outgoing.values() if len(out.table)]
            for pack, out in packs:
                for piece in split_pack(pack, PIECE):
                    serial += 1
                    yield _request(out, piece, serial)

    def _changes(self) -> list[tuple[bytes, _Outgoing]]:
        packs: list[tuple[bytes, _Outgoing]] = []
        for out in list(self._outgoing.values()):
            version = out.table.version
            if out.sent == version:
                continue
            if out.sent == 0:
                packs += [(p, out) for p in out.table.query_chunks(form="keyed", chunk_rows=_CHUNK_ROWS)]
            else:
                packs.append((out.table.changes_since(out.sent), out))
            out.sent = version
        return packs


def _request(out: _Outgoing, pack: bytes, serial: int) -> collector_pb2.AdvertiseRequest:
    return collector_pb2.AdvertiseRequest(kind=out.kind, pack=pack, serial=serial, private=out.private)


def _touch(table: AdTable) -> bytes:
    builder = PackBuilder()
    for key in table.keys():  # noqa: SIM118 - a table is no dict
        builder.update(key, {})
    return builder.finish()


def _why(error: BaseException) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
