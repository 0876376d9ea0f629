"""How the modules reach daemons: by slotwise.client, with the caller's token, certificate or account."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
from classad2 import ClassAd
from slotwise.client import locate
from slotwise.client.daemon import BlockingClient, target_of_address
from slotwise.client.pool import Pool
from slotwise.errors import PeerUnavailableError, SlotwiseError
from slotwise.wire.status import to_error

from htcondor2._errors import HTCondorException

_Client = TypeVar("_Client", bound=BlockingClient)
_Stub = TypeVar("_Stub")

#: What names the pool and the caller.
_NAMING = ("SLOTWISE_HOME", "CONDOR_CONFIG", "CONDOR_HOST", "_CONDOR_CONDOR_HOST", "SLOTWISE_TOKEN_FILE", "HOME")
#: Open channels of this process, by target.
_channels: dict[str, grpc.Channel] = {}
#: Clients of this process by class, address, and the environment in which they were made.
_clients: dict[tuple[type[BlockingClient], str | None, tuple[str | None, ...]], BlockingClient] = {}


def pool() -> Pool:
    """The pool that the environment of this process names."""
    return Pool(dict(os.environ), channels=_channels)


def client(kind: type[_Client], address: str | None = None) -> _Client:
    """A client of a daemon of this pool, or of the one at ``address`` (MyAddress of an ad).

    :raises SlotwiseError: the daemon cannot be found.
    """
    key = (kind, address, tuple(os.environ.get(name) for name in _NAMING))
    found = _clients.get(key)
    if not isinstance(found, kind):
        found = _clients[key] = kind(address=address)
    return found


def forget() -> None:
    """Find daemons, and read the configuration, anew."""
    while _clients:
        _clients.popitem()[1].close()


# Streams that are open when the interpreter is torn down complain of it.
atexit.register(forget)


def stub(stub_class: Callable[[grpc.Channel], _Stub], address: str) -> _Stub:
    """A stub for the daemon at ``address`` (MyAddress of an ad)."""
    return stub_class(pool().open(target_of_address(address)))


def here(daemon: str) -> frozenset[str]:
    """The targets at which the daemon of this home answers; none when there is none."""
    try:
        return locate.local_targets(pool(), daemon)
    except SlotwiseError:
        return frozenset()


@contextmanager
def calling(peer: str) -> Iterator[None]:
    """A call of a daemon.

    :raises HTCondorException: the daemon cannot be reached, or refuses.
    """
    try:
        yield
    except grpc.RpcError as error:
        raise HTCondorException(str(to_error(error, peer=peer))) from error
    except SlotwiseError as error:
        if isinstance(error, PeerUnavailableError):
            forget()  # it may come back elsewhere
        raise HTCondorException(str(error)) from error


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


__all__ = ["address_of", "calling", "client", "forget", "here", "pool", "stub"]
