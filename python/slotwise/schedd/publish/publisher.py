"""Advertises to the collector, and requests negotiation cycles from the negotiator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc

from slotwise.daemon.publish import Publisher, TableSource
from slotwise.errors import PeerUnavailableError
from slotwise.schedd.jobs.ads import native
from slotwise.schedd.jobs.values import Changes
from slotwise.wire import channel
from slotwise.wire.credential import Credential
from slotwise.wire.gen import negotiator_pb2, negotiator_pb2_grpc

_log = logging.getLogger(__name__)

#: Changes within this time are advertised together, in seconds.
_GATHER_S = 0.5


class ScheddPublisher(Publisher):
    """Advertises the access point and its current submitters.

    :param ads: returns all current ads, by kind and key.
    """

    def __init__(
        self,
        collector: Callable[[], str],
        credential: Credential,
        ads: Callable[[], dict[str, dict[str, Changes]]],
    ) -> None:
        self._ads = ads
        #: How often unchanged ads are advertised again (SCHEDD_INTERVAL), in seconds.
        self.interval_s = 300.0
        source = TableSource(self._refresh)
        super().__init__(source, collector, credential, interval_s=lambda: self.interval_s, gather_s=_GATHER_S)

    def _refresh(self, source: TableSource) -> None:
        """Update the tables from the current ads."""
        for kind, ads in self._ads().items():
            table = source.table(kind)
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
    """Requests a negotiation cycle when there are jobs to start; one request at a time stands for all."""

    def __init__(self, negotiator: Callable[[], Awaitable[str]], credential: Credential, schedd_name: str) -> None:
        self._negotiator = negotiator
        self._credential = credential
        self._name = schedd_name
        self._wanted = asyncio.Event()
        self._channel: grpc.aio.Channel | None = None
        self._target = ""
        self.enabled = True

    def ask(self) -> None:
        """Request a cycle: there are jobs to start."""
        self._wanted.set()

    async def run(self) -> None:
        """Send requests until cancelled."""
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
        """Close the channel: the negotiator may have another address next time."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
