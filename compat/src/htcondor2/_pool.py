"""How the modules reach daemons: as the commands of the pool do, with the caller's token, certificate or account."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import grpc
from classad2 import ClassAd
from slotwise.cli.common.invocation import Invocation
from slotwise.errors import SlotwiseError
from slotwise.table import unpack_ads
from slotwise.wire.status import to_error

from htcondor2._errors import HTCondorException

_Reply = TypeVar("_Reply")

#: Open channels of this process, by target.
_channels: dict[str, grpc.Channel] = {}


def caller(pool: str | None = None, name: str | None = None) -> Invocation:
    """The present process as a caller of the pool that its environment names, or of another one."""
    call = Invocation.of_process()
    call.channels = _channels
    return call.aimed(pool, name)


def stub(stub_class: Callable[[grpc.Channel], Any], daemon: str, address: str | None = None) -> Any:
    """A stub for a daemon of this pool, or for the one at ``address`` (MyAddress of an ad).

    :raises HTCondorException: the daemon cannot be found.
    """
    call = caller()
    try:
        return stub_class(call.open(address) if address else call.channel(daemon))
    except SlotwiseError as error:
        raise HTCondorException(str(error)) from error


def asked(peer: str, call: Callable[[], _Reply]) -> _Reply:
    """What a call brings back.

    :raises HTCondorException: the daemon cannot be reached, or refuses.
    """
    try:
        return call()
    except grpc.RpcError as error:
        raise HTCondorException(str(to_error(error, peer=peer))) from error
    except SlotwiseError as error:
        raise HTCondorException(str(error)) from error


def ads(peer: str, chunks: Callable[[], Iterable[Any]]) -> list[ClassAd]:
    """The ads of a streamed reply."""
    return asked(peer, lambda: [ClassAd._of(ad) for chunk in chunks() if chunk.data for ad in unpack_ads(chunk.data)])


def account() -> str:
    """Who calls: the account's name."""
    return caller().account


def address_of(location: ClassAd, what: str) -> str:
    """Where the daemon of an ad answers.

    :raises TypeError: ``location`` is not an ad.
    :raises ValueError: it has no address.
    """
    if not isinstance(location, ClassAd):
        raise TypeError("location must be a ClassAd")
    found = location.get("MyAddress")
    if not isinstance(found, str) or not found:
        raise ValueError(f"the ad of the {what} has no MyAddress")
    return found


__all__ = ["account", "address_of", "ads", "asked", "caller", "stub"]
