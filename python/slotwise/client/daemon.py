"""What all clients share: locating the daemon, authenticating to it, raising its errors."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Protocol, Self, TypeVar

import grpc
from google.protobuf.message import Message

from slotwise.classad import ClassAd
from slotwise.client import locate
from slotwise.client.pool import Pool
from slotwise.table import unpack_ads
from slotwise.wire import channel
from slotwise.wire.credential import Metadata
from slotwise.wire.status import to_error

Reply = TypeVar("Reply")

#: How long a question may take, in seconds, that says nothing else.
TIMEOUT_S = 60.0


class AdPiece(Protocol):
    """Part of a reply with ads."""

    @property
    def data(self) -> bytes:
        """A pack of ads, or nothing."""
        ...


class Connection:
    """A daemon as a client reaches it.

    :param address: where it answers (MyAddress of its ad), which saves looking for it.
    :param name: which of the pool's daemons of this kind; None: this host's, else the pool's.
    """

    def __init__(self, daemon: str, pool: Pool, name: str | None, address: str | None) -> None:
        self.peer = f"the {daemon}"
        self.pool = pool
        self._credential = pool.credential()
        look = locate.reading_target if daemon == "collector" else locate.target_of
        found = target_of_address(address) if address else look(pool, daemon, name)
        self.target = pool.reached(found, self._credential)

    def metadata(self) -> Metadata:
        """Call metadata that authenticates the caller.

        :raises DeniedError: when a token could be read on its way.
        """
        return self._credential.metadata(self.target)


def target_of_address(address: str) -> str:
    """The gRPC target of an address as ads and commands write it: ``<host:port?parameters>``."""
    return address.strip("<> ").partition("?")[0]


def ads_of(pieces: Iterable[AdPiece]) -> list[ClassAd]:
    """The ads of a reply that comes in pieces."""
    return [ad for piece in pieces if piece.data for ad in unpack_ads(piece.data)]


class BlockingClient:
    """A daemon of a pool. Calls block; errors are those of :mod:`slotwise.errors`.

    :param home: the pool's state directory; ``SLOTWISE_HOME`` or the default when None.
    :param pool: ``host:port`` of another pool's collector.
    :param name: name of the daemon there; without one this host's, or the first that the collector has.
    :param address: where it answers (MyAddress of its ad); nothing is looked up then.
    :param token: the caller's token; that of ``SLOTWISE_TOKEN_FILE`` when None; on the pool's own host none is needed.
    :param env: the environment that names pool and token; that of the process when None.
    :raises PeerUnavailableError: when no such daemon is known.
    """

    #: Which daemon it is, as the pool calls it, and the stub of its service.
    daemon: ClassVar[str]
    stub_class: ClassVar[type]

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        pool: str | None = None,
        name: str | None = None,
        address: str | None = None,
        token: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._at = Connection(self.daemon, Pool.of_process(home, env, pool, token), name, address)
        self._channel = channel.open_blocking(self._at.target)
        self._stub = self.stub_class(self._channel)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()
        self._at.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self, call: Callable[..., Reply], request: Message | Iterable[Message], timeout_s: float | None = TIMEOUT_S
    ) -> Reply:
        try:
            return call(request, metadata=self._at.metadata(), timeout=timeout_s)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None

    def _replies(
        self,
        call: Callable[..., Iterable[Reply]],
        request: Message | Iterable[Message],
        timeout_s: float | None = None,
    ) -> list[Reply]:
        try:
            return list(call(request, metadata=self._at.metadata(), timeout=timeout_s))
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None

    def _ads(self, call: Callable[..., Iterable[AdPiece]], query: Message) -> list[ClassAd]:
        return ads_of(self._replies(call, query))


class AsyncClient:
    """As :class:`BlockingClient`, in coroutines. Make it inside a running event loop.

    Where the daemon has to be looked up in a collector, the constructor waits for the answer; a loop that must not wait
    asks :meth:`AsyncCollector.locate`, and gives the address.
    """

    daemon: ClassVar[str]
    stub_class: ClassVar[type]

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        pool: str | None = None,
        name: str | None = None,
        address: str | None = None,
        token: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._at = Connection(self.daemon, Pool.of_process(home, env, pool, token), name, address)
        self._channel = channel.open_async(self._at.target)
        self._stub = self.stub_class(self._channel)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()
        self._at.pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(
        self,
        call: Callable[..., Awaitable[Reply]],
        request: Message | Iterable[Message],
        timeout_s: float | None = TIMEOUT_S,
    ) -> Reply:
        try:
            return await call(request, metadata=self._at.metadata(), timeout=timeout_s)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None

    async def _replies(
        self,
        call: Callable[..., AsyncIterable[Reply]],
        request: Message | Iterable[Message],
        timeout_s: float | None = None,
    ) -> list[Reply]:
        try:
            return [reply async for reply in call(request, metadata=self._at.metadata(), timeout=timeout_s)]
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None

    async def _ads(self, call: Callable[..., AsyncIterable[AdPiece]], query: Message) -> list[ClassAd]:
        return ads_of(await self._replies(call, query))
