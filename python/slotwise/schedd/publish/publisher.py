"""Tells the pool of this access point: ads to the collector, and new work to the negotiator at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from slotwise.errors import PeerUnavailableError
from slotwise.schedd.jobs.ads import native
from slotwise.schedd.jobs.values import Changes
from slotwise.table import AdTable, split_pack
from slotwise.wire import channel
from slotwise.wire.credential import Credential
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, negotiator_pb2, negotiator_pb2_grpc
from slotwise.wire.sizes import PIECE

_log = logging.getLogger(__name__)

#: Ads of one kind by key.
Ads = Mapping[str, Mapping[str, Any]]


class Advertiser:
    """Keeps the collector's copy of this daemon's ads current, sending only what changed.

    :param collector: where the collector answers now; asked before each try.
    """

    def __init__(
        self,
        collector: Callable[[], str],
        credential: Credential,
        ads: Callable[[], dict[str, dict[str, Changes]]],
        *,
        interval_s: float = 300.0,
        gather_s: float = 0.5,
    ) -> None:
        self._collector = collector
        self._credential = credential
        self._ads = ads
        self.interval_s = interval_s
        self._gather_s = gather_s
        self._tables: dict[str, AdTable] = {}
        self._dirty = asyncio.Event()

    def changed(self) -> None:
        """Something that the ads tell has changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Advertise for ever, on one stream that is opened again when it breaks."""
        while True:
            try:
                target = self._collector()
                async with channel.open_async(target) as opened:
                    await self._advertise(collector_pb2_grpc.CollectorStub(opened), target)
            except (grpc.RpcError, PeerUnavailableError, asyncio.InvalidStateError) as error:
                _log.debug("cannot reach the collector: %s", error)
            await asyncio.sleep(1.0)

    async def _advertise(self, stub: Any, target: str) -> None:
        stream = stub.Advertise(metadata=self._credential.metadata(target))
        sent: dict[str, int] = {}
        reader = asyncio.get_running_loop().create_task(self._read(stream, sent))
        serial = 0
        try:
            while not reader.done():
                self._dirty.clear()
                whole = not sent
                self._refresh()
                for kind, table in self._tables.items():
                    if sent.get(kind) == table.version and not whole:
                        continue
                    pack = table.changes_since(sent.get(kind, 0))
                    sent[kind] = table.version
                    for piece in split_pack(pack, PIECE):
                        serial += 1
                        await stream.write(collector_pb2.AdvertiseRequest(kind=kind, pack=piece, serial=serial))
                await asyncio.sleep(self._gather_s)
                waits = [asyncio.ensure_future(self._dirty.wait()), reader]
                await asyncio.wait(waits, timeout=self.interval_s, return_when=asyncio.FIRST_COMPLETED)
                waits[0].cancel()
                if not self._dirty.is_set():
                    sent.clear()  # the regular update is whole, so that nothing expires
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError):
                await reader

    async def _read(self, stream: Any, sent: dict[str, int]) -> None:
        while (reply := await stream.read()) is not grpc.aio.EOF:
            if reply.resend:
                sent.clear()
                self._dirty.set()
            for refusal in reply.refused:
                _log.warning("the collector rejected an ad: %s", refusal)

    def _refresh(self) -> None:
        """Bring the tables up to date."""
        for kind, ads in self._ads().items():
            table = self._tables.setdefault(kind, AdTable())
            for key in list(table.keys()):
                if key not in ads:
                    table.remove(key)
            for key, ad in ads.items():
                former = table.get(key)
                if former is None:
                    table.upsert(key, native(ad))
                else:
                    table.update(key, native(ad), [name for name in former if name not in ad])


class NegotiatorCall:
    """Asks the negotiator for a cycle when there is new work; asks are gathered, one is under way at a time."""

    def __init__(self, negotiator: Callable[[], Awaitable[str]], credential: Credential, schedd_name: str) -> None:
        self._negotiator = negotiator
        self._credential = credential
        self._name = schedd_name
        self._wanted = asyncio.Event()
        self._channel: grpc.aio.Channel | None = None
        self._target = ""
        self.enabled = True

    def ask(self) -> None:
        """There is new work."""
        self._wanted.set()

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if not self.enabled:
                continue
            try:
                if self._channel is None:
                    self._target = await self._negotiator()
                    self._channel = channel.open_async(self._target)
                stub = negotiator_pb2_grpc.NegotiatorStub(self._channel)
                await stub.Reschedule(
                    negotiator_pb2.RescheduleRequest(schedd_name=self._name, on_demand=True),
                    metadata=self._credential.metadata(self._target),
                    timeout=10,
                )
            except (grpc.RpcError, PeerUnavailableError) as error:
                _log.debug("could not request a negotiation cycle: %s", error)
                await self._forget_channel()
                await asyncio.sleep(0.5)
            await asyncio.sleep(0.005)

    async def _forget_channel(self) -> None:
        """The negotiator may answer elsewhere next time."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
