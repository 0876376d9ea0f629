"""Answers a daemon's server at every call: may this caller, from there, do what needs that level?"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from slotwise.authorization import names, settings
from slotwise.authorization.entries import Peer, parse_address
from slotwise.authorization.parts import PARTS_OF_NEGOTIATOR
from slotwise.authorization.policy import LEVELS, Caller, Decision, Policy
from slotwise.errors import DeniedError, PeerUnavailableError

if TYPE_CHECKING:
    from slotwise.config import Config

#: How long the names of a caller's host are cached, in seconds, and how long the lack of any.
_NAMES_KEPT_S, _NO_NAMES_KEPT_S = 600.0, 60.0
#: The most cached callers and hosts.
_REMEMBERED = 10_000


C = TypeVar("C", bound=Caller)


class Grants(Struct, Generic[C], frozen=True):
    """What a caller may do from where it calls. ``caller``: the caller with the levels that the lists grant."""

    caller: C
    decisions: Mapping[str, Decision]

    @classmethod
    def of(cls, policy: Policy, caller: C, peer: Peer) -> Grants[C]:
        """The decisions on all levels. No list revokes what a proof grants beyond levels, for one run, say."""
        decisions = {level: policy.decide(caller, level, peer) for level in (*LEVELS, *PARTS_OF_NEGOTIATOR)}
        levels = {level for level, decision in decisions.items() if decision.allowed}
        return cls(_having(caller, frozenset(levels | (caller.levels - decisions.keys()))), decisions)

    def and_of(self, other: Grants[C]) -> Grants[C]:
        """What both grant: a caller whose address a broker says may do what the broker might do from its own."""
        decisions = {
            level: found if not found.allowed else other.decisions[level] for level, found in self.decisions.items()
        }
        return Grants(_having(self.caller, self.caller.levels & other.caller.levels), decisions)

    def one_of(self, levels: Iterable[str]) -> Decision:
        """The decision on a call that needs one of ``levels``: the first that allows it, else the first."""
        found = [self.decisions.get(level) or self._beyond(level) for level in levels]
        return next((decision for decision in found if decision.allowed), found[0])

    def _beyond(self, level: str) -> Decision:
        """The decision on a call that no list covers."""
        return Decision(level in self.caller.levels, level, "the caller's proof is for that alone")


def _having(caller: C, levels: frozenset[str]) -> C:
    """The caller with these levels."""
    # Any dataclass with a caller's attributes has them as fields.
    having: Any = caller
    changed: C = replace(having, levels=levels)
    return changed


class Reading(Struct, frozen=True):
    """A configuration's lists. ``here``: this host; ``doubts``: doubtful entries, for the administrator."""

    policy: Policy
    here: Peer
    doubts: list[str]


class _Open(Struct, eq=False):
    """An open stream, and the levels that its caller had when it was opened."""

    caller: Caller
    source: str
    broker: str
    levels: frozenset[str]
    limit: asyncio.Timeout


class Authorizer:
    """Decides by the lists of one daemon, and caches decisions until the next reconfig."""

    def __init__(
        self,
        subsystem: str,
        *,
        now: Callable[[], float] = time.monotonic,
        names_of: Callable[[str], tuple[str, ...]] = names.names_of,
        addresses_of: Callable[[str], tuple[str, ...]] = names.addresses_of,
    ) -> None:
        self._subsystem = subsystem
        self._now = now
        self._names_of = names_of
        self._addresses_of = addresses_of
        self._policy = Policy()
        self._needs_names = False
        self._here = Peer((), local=True)
        #: Decisions and hosts, each with the time until which it holds.
        # Callers of all kinds, each with grants of its own kind: no type of a dictionary expresses that.
        self._grants: dict[tuple[Caller, str], tuple[Grants[Any], float]] = {}
        self._peers: dict[str, tuple[Peer, float]] = {}
        # Separate threads: a name service that does not answer must not hold up other work in threads.
        self._open: set[_Open] = set()
        self._asking: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="names")

    async def read(self, config: Config) -> Reading:
        """The lists of a configuration, for :meth:`follow`.

        :raises ConfigError: an entry cannot be honoured.
        """
        policy = settings.read(config, self._subsystem)
        wanted = sorted(settings.host_names(policy))
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._addresses_of, name) for name in wanted)
        )
        addresses = dict(zip(wanted, found, strict=True))
        own = await loop.run_in_executor(self._threads, names.own_addresses)
        full = config.get_str("FULL_HOSTNAME")
        here = Peer(own, tuple(dict.fromkeys([full, full.partition(".")[0], "localhost"])), local=True)
        unknown = [f"the name service knows no address of the host {name}" for name in wanted if not addresses[name]]
        return Reading(settings.resolved(policy, addresses), here, unknown)

    def follow(self, reading: Reading) -> list[str]:
        """Decide by these lists from now on; returns their doubtful entries."""
        self._policy, self._here = reading.policy, reading.here
        self._needs_names = reading.policy.needs_names
        self._grants.clear()
        self._peers.clear()
        for stream in self._open:
            task = asyncio.get_running_loop().create_task(self._look_again(stream))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return reading.doubts

    @contextlib.asynccontextmanager
    async def while_allowed(
        self, caller: Caller, source: str, needed: Sequence[str], broker: str = ""
    ) -> AsyncIterator[None]:
        """End what runs inside when new lists revoke the caller's rights: a stream lasts for days, and its rights were
        checked at its beginning.

        :raises DeniedError: the caller may no longer make the call.
        :raises PeerUnavailableError: the caller has lost another level.
        """
        levels = (await self.grants(caller, source, broker)).caller.levels
        stream = _Open(caller, source, broker, levels, asyncio.timeout(None))
        try:
            async with stream.limit:
                self._open.add(stream)
                yield
        except TimeoutError:
            if not stream.limit.expired():
                raise
            decision = (await self.grants(caller, source, broker)).one_of(needed)
            if decision.allowed:
                raise PeerUnavailableError(
                    f"{caller.name} may do less than when this stream was opened", hint="connect again"
                ) from None
            raise DeniedError(
                f"{caller.name} may no longer do this, which needs {' or '.join(needed)}: {decision.by}"
            ) from None
        finally:
            self._open.discard(stream)

    async def _look_again(self, stream: _Open) -> None:
        """End a stream whose caller has lost a level through new lists."""
        fresh = (await self.grants(stream.caller, stream.source, stream.broker)).caller.levels
        if not stream.levels <= fresh and stream in self._open:
            stream.limit.reschedule(asyncio.get_running_loop().time())

    async def grants(self, caller: C, source: str, broker: str = "") -> Grants[C]:
        """What ``caller`` may do, calling from ``source`` (in gRPC's form: ``unix:``, ``ipv4:1.2.3.4:5``).

        :param broker: by whose word it calls from there, in the same form; the lists have to allow both.
        """
        found = await self._grants_at(caller, source)
        return found.and_of(await self._grants_at(caller, broker)) if broker else found

    async def _grants_at(self, caller: C, source: str) -> Grants[C]:
        host = source.rpartition(":")[0] if source.startswith("ip") else "unix"
        key = (caller, host)
        known = self._grants.get(key)
        if known is not None and (known[1] == math.inf or self._now() < known[1]):
            return known[0]
        peer, until = await self._peer(host)
        found = Grants.of(self._policy, caller, peer)
        if len(self._grants) >= _REMEMBERED:
            self._grants.clear()
        self._grants[key] = (found, until)
        return found

    async def _peer(self, host: str) -> tuple[Peer, float]:
        """Addresses and names of a caller's host (this host for a local caller), and until when they hold."""
        if host == "unix":
            return self._here, math.inf
        address = parse_address(unquote(host.partition(":")[2]))
        if address is None:
            return Peer(()), math.inf
        if address.is_loopback:
            return self._here, math.inf
        if not self._needs_names:
            return Peer((str(address),)), math.inf
        known = self._peers.get(host)
        if known is not None and self._now() < known[1]:
            return known
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._names_of, str(address))
        if len(self._peers) >= _REMEMBERED:
            self._peers.clear()
        until = self._now() + (_NAMES_KEPT_S if found else _NO_NAMES_KEPT_S)
        self._peers[host] = (Peer((str(address),), found), until)
        return self._peers[host]
