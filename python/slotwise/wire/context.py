"""The part of gRPC that servicers and interceptors see, with types: grpc has none of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NoReturn, Protocol, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

In = TypeVar("In", covariant=True)
Out = TypeVar("Out", contravariant=True)

#: Names and values of a call's metadata; those whose names end in ``-bin`` are bytes.
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
#: What a handler is given, whatever the kind of its method: a message, or a stream of them.
Request: TypeAlias = Message | AsyncIterator[Message]


class Context(Protocol):
    """A call that is being answered: what is used of ``grpc.aio.ServicerContext``."""

    def peer(self) -> str:
        """Where the call comes from: ``ipv4:1.2.3.4:5``, ``unix:``."""
        ...

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        """What the connection proves of its other end, by property."""
        ...

    def invocation_metadata(self) -> Metadata | None:
        """The metadata of the call."""
        ...

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        """End the call with a status."""
        ...


class StreamContext(Context, Protocol[In, Out]):
    """A call that is a stream both ways, read and written message by message."""

    async def read(self) -> In:
        """The next request; ``grpc.aio.EOF`` when there is none."""
        ...

    async def write(self, message: Out) -> None:
        """Send a reply."""
        ...
