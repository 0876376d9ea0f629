"""The pool as one request sees it: its daemons, called with what the request shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct

from slotwise.client import AsyncCollector, AsyncNegotiator, AsyncSchedd, AsyncStartd
from slotwise.errors import NotFoundError
from slotwise.wire.credential import Credential


class PoolClient(Struct, frozen=True):
    """Opens clients of the pool that ``env`` names."""

    env: Mapping[str, str]
    credential: Credential
    #: Called with the bytes of replies that are kept whole; what it raises ends the call.
    hold: Callable[[int], None] | None = None

    @asynccontextmanager
    async def collector(self) -> AsyncIterator[AsyncCollector]:
        """The pool's collector."""
        async with AsyncCollector(env=self.env, credential=self.credential) as collector:
            collector.hold = self.hold
            yield collector

    @asynccontextmanager
    async def negotiator(self) -> AsyncIterator[AsyncNegotiator]:
        """The pool's negotiator."""
        async with AsyncNegotiator(
            env=self.env, credential=self.credential, address=await self._address("negotiator", None)
        ) as negotiator:
            negotiator.hold = self.hold
            yield negotiator

    @asynccontextmanager
    async def schedd(self, name: str | None) -> AsyncIterator[AsyncSchedd]:
        """An access point: the one of this name, or this host's, or the only one.

        :raises NotFoundError: when the pool has none.
        """
        address = await self._address("schedd", name)
        async with AsyncSchedd(env=self.env, credential=self.credential, address=address) as schedd:
            schedd.hold = self.hold
            yield schedd

    @asynccontextmanager
    async def startd(self, machine: str) -> AsyncIterator[AsyncStartd]:
        """The startd of a machine.

        :raises NotFoundError: when the pool has none there.
        """
        address = await self._address("startd", machine)
        async with AsyncStartd(env=self.env, credential=self.credential, address=address) as startd:
            yield startd

    async def _address(self, daemon: str, name: str | None) -> str:
        async with self.collector() as collector:
            found = await collector.locate(daemon, name)
        if found is None:
            raise NotFoundError(f"the pool has no {daemon}" + (f" named {name}" if name else ""))
        return found.address
