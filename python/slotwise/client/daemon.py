"""What all clients share: locating the daemon, authenticating to it, raising its errors, blocking or in coroutines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from types import MethodType
from typing import ClassVar, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

import grpc

from slotwise.client import locate
from slotwise.client.call import Call
from slotwise.client.pool import Pool
from slotwise.client.request_streams import stated
from slotwise.wire import channel, contact
from slotwise.wire.credential import Credential, Metadata
from slotwise.wire.status import to_error

T = TypeVar("T")
OfDaemon = TypeVar("OfDaemon", bound="Client")
Parameters = ParamSpec("Parameters")


class Where(TypedDict, total=False):
    """Which daemon of which pool, and as whom it is called: keyword arguments of each client, all optional."""

    #: ``host:port`` of another pool's collector.
    pool: str | None
    #: Name of the daemon there; without one this host's, or the first that the collector has.
    name: str | None
    #: Where it answers (MyAddress of its ad); no collector is asked then.
    address: str | None
    #: The caller's token; None: that of ``SLOTWISE_TOKEN_FILE``. None is needed on the pool's own host.
    token: str | None
    #: What is shown in place of a token.
    credential: Credential | None
    #: The environment that names pool and token; None: that of the process.
    env: Mapping[str, str] | None


class Connection:
    """A daemon as a client reaches it: see :class:`Where`.

    :param home: the pool's state directory; ``SLOTWISE_HOME`` or the default when None.
    """

    def __init__(
        self,
        daemon: str,
        home: str | Path | None = None,
        *,
        pool: str | None = None,
        name: str | None = None,
        address: str | None = None,
        token: str | None = None,
        credential: Credential | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.peer = f"the {daemon}"
        self.pool = Pool.of_process(home, env, pool, token, credential)
        self._credential = self.pool.credential()
        look = locate.reading_target if daemon == "collector" else locate.target_of
        found = contact.target_of(address) if address else look(self.pool, daemon, name)
        self.target = self.pool.reached(found, self._credential)

    def metadata(self) -> Metadata:
        """Call metadata that authenticates the caller.

        :raises DeniedError: a token could be read on its way.
        """
        return self._credential.metadata(self.target)


class Client:
    """A daemon of a pool.

    :param home: the pool's state directory; ``SLOTWISE_HOME`` or the default when None.
    :param where: ``pool``, ``name``, ``address``, ``token`` and ``env``; see :class:`Where`.
    :raises PeerUnavailableError: no such daemon is known.
    """

    #: The kind of daemon, and the stub of its service.
    daemon: ClassVar[str]
    stub_class: ClassVar[type]

    def __init__(self, home: str | Path | None = None, **where: Unpack[Where]) -> None:
        self._at = Connection(self.daemon, home, **where)


class BlockingClient(Client):
    """A client whose calls block; errors are those of :mod:`slotwise.errors`."""

    def __init__(self, home: str | Path | None = None, **where: Unpack[Where]) -> None:
        super().__init__(home, **where)
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

    def _perform(self, call: Call[T]) -> T:
        rpc = getattr(call.service(self._channel) if call.service else self._stub, call.rpc)
        try:
            reply = rpc(call.request, metadata=self._at.metadata(), timeout=call.timeout_s)
            if not call.many:
                return call.result(reply)
            pieces = call.gather()
            for piece in reply:
                pieces.append(piece)
            return call.result(pieces)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None


class AsyncClient(Client):
    """A client whose calls are coroutines, with the same errors. Make it inside a running event loop.

    If the daemon has to be located by a collector, the constructor waits for the answer; a loop that must not wait
    calls :meth:`AsyncCollector.locate`, and passes the address.
    """

    def __init__(self, home: str | Path | None = None, **where: Unpack[Where]) -> None:
        super().__init__(home, **where)
        self._channel = channel.open_async(self._at.target)
        self._stub = self.stub_class(self._channel)
        #: Called with the bytes of each message of a reply that is kept whole; what it raises ends the call.
        self.hold: Callable[[int], None] | None = None

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()
        self._at.pool.close()

    async def _pieces(self, call: Call[bytes]) -> AsyncIterator[bytes]:
        """The text of a call as it comes: the daemon makes a piece when the one before has been taken."""
        rpc = getattr(call.service(self._channel) if call.service else self._stub, call.rpc)
        reply = rpc(call.request, metadata=self._at.metadata(), timeout=call.timeout_s)
        try:
            async for piece in reply:
                if piece.data:
                    yield piece.data
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None
        finally:
            reply.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _perform(self, call: Call[T]) -> T:
        rpc = getattr(call.service(self._channel) if call.service else self._stub, call.rpc)
        reply = rpc(call.request, metadata=self._at.metadata(), timeout=call.timeout_s)
        try:
            if not call.many:
                return call.result(await (stated(reply) if isinstance(reply, grpc.aio.StreamUnaryCall) else reply))
            pieces = call.gather()
            async for piece in reply:
                if self.hold is not None:
                    self.hold(piece.ByteSize())
                pieces.append(piece)
            return call.result(pieces)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=self._at.peer) from None
        finally:
            reply.cancel()


class calls(Generic[OfDaemon, Parameters, T]):
    """A method of both clients of a daemon, from a function that describes the call.

    A :class:`BlockingClient` has it as a method that returns the result, an :class:`AsyncClient` as a coroutine.
    """

    def __init__(self, describe: Callable[Concatenate[OfDaemon, Parameters], Call[T]]) -> None:
        described: Callable[..., Call[T]] = describe

        @functools.wraps(describe)
        def method(client: BlockingClient, *args: Parameters.args, **named: Parameters.kwargs) -> T:
            return client._perform(described(client, *args, **named))

        @functools.wraps(describe)
        async def coroutine(client: AsyncClient, *args: Parameters.args, **named: Parameters.kwargs) -> T:
            return await client._perform(described(client, *args, **named))

        shown = inspect.signature(describe)
        returned = str(shown.return_annotation).removeprefix("Call[").removesuffix("]")
        shown = shown.replace(return_annotation=returned)
        method.__dict__["__signature__"] = coroutine.__dict__["__signature__"] = shown
        self._method: Callable[..., object] = method
        self._coroutine: Callable[..., object] = coroutine

    @overload
    def __get__(self, client: BlockingClient, owner: type) -> Callable[Parameters, T]: ...

    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[Parameters, Coroutine[object, None, T]]: ...

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...

    def __get__(self, client: Client | None, owner: type) -> Callable[..., object]:
        made = self._coroutine if issubclass(owner, AsyncClient) else self._method
        return made if client is None else MethodType(made, client)
