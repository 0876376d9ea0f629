"""A call of a daemon as a value: what is asked, and what the reply means."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, MutableSequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from slotwise.classad import ClassAd
from slotwise.client.ad_list import AdList
from slotwise.table import unpack_ads

if TYPE_CHECKING:
    from slotwise.wire.gen import common_pb2

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: How long a call may take by default, in seconds.
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """One call of a daemon's service.

    :param rpc: the method of its stub.
    :param request: the message, or the messages of a stream.
    :param result: what the reply means; of a call with ``many`` replies, what the list of them means.
    :param timeout_s: None: as long as the daemon takes.
    :param service: the stub of another service of the same daemon that has the method; None: the client's own.
    :param gather: what the replies of a call with ``many`` are kept in.
    """

    rpc: str
    request: Message | Iterable[Message] | AsyncIterable[Message]
    result: Callable[..., T_co]
    many: bool = False
    timeout_s: float | None = TIMEOUT_S
    service: Callable[..., object] | None = None  # stubs take blocking channels and those of asyncio
    gather: Callable[[], MutableSequence[Any]] = list  # of whichever message the method replies with


class AdPiece(Protocol):
    """Part of a reply with ads."""

    @property
    def data(self) -> bytes:
        """A pack of ads, or nothing."""
        ...


class NewestPieces(deque[AdPiece]):
    """The newest replies of a stream, of ``most`` bytes together at least where that many came.

    :ivar is_cut: whether older ones were dropped.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.is_cut = False
        self._most = most
        self._size = 0

    def append(self, piece: AdPiece) -> None:
        """Keep a reply."""
        super().append(piece)
        self._size += len(piece.data)
        while self._size - len(self[0].data) >= self._most:
            self._size -= len(self.popleft().data)
            self.is_cut = True


def ads_of(pieces: Iterable[AdPiece]) -> AdList:
    """The ads of a reply that comes in pieces."""
    return AdList(ad for piece in pieces if piece.data for ad in unpack_ads(piece.data))


def read_ads(rpc: str, query: Message, result: Callable[[list[ClassAd]], T]) -> Call[T]:
    """A query for ads, and what ``result`` makes of them."""
    return Call(rpc, query, lambda pieces: result(ads_of(pieces)), many=True, timeout_s=None)


def ads(rpc: str, query: Message) -> Call[AdList]:
    """A query for ads."""
    return Call(rpc, query, ads_of, many=True, timeout_s=None)


def text(rpc: str, query: Message) -> Call[bytes]:
    """A query for ads in the form that the query names: the text as the daemon wrote it."""
    return Call(rpc, query, lambda pieces: b"".join(piece.data for piece in pieces), many=True, timeout_s=None)


@dataclass(frozen=True)
class JsonPage:
    """A page of a list.

    :param text: its ads as one JSON array.
    :param next: what the call for the next page takes as ``after``; empty: there is none.
    """

    text: bytes
    next: str


def page(rpc: str, query: Message) -> Call[JsonPage]:
    """A query for a page of ads as JSON."""

    def result(pieces: list[common_pb2.AdChunk]) -> JsonPage:
        return JsonPage(b"".join(piece.data for piece in pieces), pieces[-1].next if pieces else "")

    return Call(rpc, query, result, many=True, timeout_s=None)


def nothing(_: Message) -> None:
    """The meaning of a reply that only says that the call succeeded."""
