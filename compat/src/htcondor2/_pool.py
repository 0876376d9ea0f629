"""How the modules reach daemons: by slotwise.client, with the caller's token, certificate or account."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import grpc
from classad2 import ClassAd
from slotwise import environment
from slotwise.client import locate
from slotwise.client.daemon import BlockingClient
from slotwise.client.pool import Pool
from slotwise.errors import PeerUnavailableError, SlotwiseError
from slotwise.wire import contact
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
    return Pool(environment(), channels=_channels)


def client(
    kind: type[_Client],
    address: str | None = None,
    token: str | None = None,
    env: Mapping[str, str] | None = None,
) -> _Client:
    """A client of a daemon of this pool, or of the one at ``address`` (MyAddress of an ad). ``token``: the caller's own
    choice. ``env``: names the pool in place of the environment of this process.

    :raises SlotwiseError: the daemon cannot be found.
    """
    named = os.environ if env is None else env
    key = (kind, address, (token, *(named.get(name) for name in _NAMING)))
    found = _clients.get(key)
    if not isinstance(found, kind):
        found = _clients[key] = kind(address=address, token=token, env=env)
    return found


def forget() -> None:
    """Find daemons, and read the configuration, anew."""
    while _clients:
        _clients.popitem()[1].close()


# Streams that are open when the interpreter is torn down complain of it.
atexit.register(forget)


def stub(stub_class: Callable[[grpc.Channel], _Stub], address: str, token: str | None = None) -> _Stub:
    """A stub for the daemon at ``address`` (MyAddress of an ad). ``token``: shown in place of the usual one."""
    of = pool() if token is None else Pool.of_process(None, None, None, token, None)
    return stub_class(of.open(contact.target_of(address)))


def collector_at(named: str) -> str:
    """Where a collector answers that the caller names: ``host``, ``host:port``.

    :raises HTCondorException: it is no address.
    """
    try:
        return locate.collector_at(pool(), named)
    except SlotwiseError as error:
        raise HTCondorException(str(error)) from error


def here(daemon: str, env: Mapping[str, str] | None = None) -> frozenset[str]:
    """The targets at which the daemon of this home answers; none when there is none."""
    try:
        return locate.local_targets(pool() if env is None else Pool.of_process(env=env), daemon)
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


def projection(names: object) -> list[str]:
    """The attributes of a projection.

    :raises TypeError: it is not a list of names.
    """
    if not isinstance(names, list | tuple):
        raise TypeError("projection must be a list")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("projection must be a list of strings")
    return list(names)


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


__all__ = ["address_of", "calling", "client", "collector_at", "forget", "here", "pool", "projection", "stub"]
