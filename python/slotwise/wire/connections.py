"""Bounds on what one peer holds of a daemon: connections by account or address, calls by caller.

gRPC bounds the connections of a port or socket as a whole, so that one user of the host could take them all. It offers
no place to look at a connection before it is taken: so this process looks at its own descriptors, from time to time,
and shuts the youngest connections of who has too many. Whoever connects over the loopback interface counts by its
account, which the kernel tells, whatever address of 127.0.0.0/8 it calls from. Root and the daemons' account are not
bounded.

A connection on which no valid token is shown is closed after a while. All such connections together take a part of
those that there may be at most: the rest is for those who show tokens, and for whoever has shown one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import stat
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection

from msgspec import Struct

from slotwise.wire import call, origin
from slotwise.wire.known_peers import KnownPeers, key_at
from slotwise.wire.local_peer import account_over_loopback

_OWN_DESCRIPTORS = "/proc/self/fd"
#: The least time between two looks, in general and while somebody has too many connections, and how much longer that is
#: than a look takes.
_PAUSE_S, _PAUSE_CROWDED_S, _SHARE = 0.25, 0.05, 4.0
#: The longest time between two looks while the number of descriptors stays the same, seconds: nobody's crowd grows
#: then, unless others leave as fast.
_STILL_S = 2.0
#: How long a connection may be there without a valid token, or after an answer that needs none, in seconds.
UNPROVED_S = 20.0


class Seen(Struct, frozen=True):
    """A connection.

    :param inode: tells it from an earlier one with the same descriptor.
    :param who: whose it is: an account, an ``<address>``, or empty: it is not bounded.
    :param key: what tells it from others to :class:`KnownPeers`; empty where callers have no address.
    :param since: when it was seen first, on the monotonic clock.
    """

    inode: int
    who: str
    key: str
    since: float


class ConnectionBounds:
    """Keeps the connections of each peer to a daemon's socket and port bounded.

    :param own: path of the daemon's UNIX socket, empty without one.
    :param ports: its TCP ports.
    :param of_user: most connections of one account, on the socket or over the loopback interface; 0: any number.
    :param of_address: most connections of one address on the port, or of one IPv6 network of 64 bits; 0: any number.
    :param exempt: accounts that are not bounded.
    :param behind: paths of sockets at which the host's shared port passes on connections.
    :param peers: which connections have shown a valid token.
    :param unproved_most: most connections that have not, of all peers that have not either; 0: any number.
    """

    def __init__(
        self,
        own: str,
        ports: Collection[int],
        *,
        of_user: int,
        of_address: int,
        exempt: frozenset[int],
        behind: Collection[str] = (),
        peers: KnownPeers | None = None,
        unproved_most: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own, self._ports, self._behind = own, frozenset(ports), frozenset(behind)
        self.of_user, self.of_address = of_user, of_address
        self._exempt = exempt
        self._peers = peers
        self._unproved_most = unproved_most
        self._now = now
        #: By descriptor, in the order in which they were seen.
        self._known: dict[int, Seen] = {}
        #: How many connections the last look shut, of whom, and why.
        self.closed: Counter[tuple[str, str]] = Counter()
        #: How many descriptors there were when it was looked last, and when that was.
        self._looked_at = (0, 0.0)

    async def watch(self) -> None:
        """Look again for ever, in a thread: thousands of new connections take a while."""
        while True:
            began = time.monotonic()
            with contextlib.suppress(OSError):
                if not self.is_due():
                    await asyncio.sleep(_PAUSE_S)
                    continue
                await asyncio.to_thread(self.look)
                for (who, why), count in self.closed.items():
                    call.refusals.note(who, who, "closed %d connections of %s, %s", count, who, why)
            least = _PAUSE_CROWDED_S if self.closed else _PAUSE_S
            await asyncio.sleep(max(least, _SHARE * (time.monotonic() - began)))

    def is_due(self) -> bool:
        """Whether it is to be looked: descriptors have become more or fewer, the last look has shut some, or it was
        a while ago.

        :raises OSError: /proc cannot be read.
        """
        there, (before, at) = _descriptors(), self._looked_at
        # Before Linux 6.2 their number is 0.
        return not there or there != before or self._now() >= at + _STILL_S or bool(self.closed)

    def look(self) -> Counter[str]:
        """Shut connections beyond the bounds; how many of whom."""
        if self._peers is not None:
            proved = self._peers.begin()
        self._looked_at = (_descriptors(), self._now())
        self._learn([int(name) for name in os.listdir(_OWN_DESCRIPTORS)])  # noqa: PTH208 - asked all the time
        self.closed = self._shut_crowds()
        if self._peers is not None:
            self.closed += self._shut_unproved(self._peers, proved)
            self._peers.keep({seen.key for seen in self._known.values() if seen.key})
        counts: Counter[str] = Counter()
        for (who, _), count in self.closed.items():
            counts[who] += count
        return counts

    def _shut_crowds(self) -> Counter[tuple[str, str]]:
        counts: Counter[str] = Counter()
        closed: Counter[tuple[str, str]] = Counter()
        for descriptor, seen in self._known.items():
            who = seen.who
            if not who:
                continue
            counts[who] += 1
            is_address = who.startswith("<")
            most = self.of_address if is_address else self.of_user
            if most and counts[who] > most and self._shut(descriptor, seen.inode):
                knob = "SLOTWISE_MAX_CONNECTIONS_PER_" + ("ADDRESS" if is_address else "USER")
                closed[who, f"who has more than {knob} allows"] += 1
        return closed

    def _shut_unproved(self, peers: KnownPeers, proved: Collection[str]) -> Counter[tuple[str, str]]:
        """Shut what has been there for a while without a valid token, and of the others the oldest beyond the bound."""
        closed: Counter[tuple[str, str]] = Counter()
        strangers: list[tuple[int, Seen]] = []
        now = self._now()
        for descriptor, seen in self._known.items():
            if not seen.who or not seen.key:
                continue
            if seen.key in proved:
                peers.remember(seen.who)
            elif now < max(seen.since, peers.last_answer(seen.key)) + UNPROVED_S:
                if not peers.knows(seen.who):
                    strangers.append((descriptor, seen))
            elif self._shut(descriptor, seen.inode):
                closed[seen.who, f"on which nobody showed a valid token in {UNPROVED_S:g} s"] += 1
        beyond = len(strangers) - self._unproved_most if self._unproved_most else 0
        for descriptor, seen in strangers[: max(0, beyond)]:
            if self._shut(descriptor, seen.inode):
                closed[seen.who, f"more than {self._unproved_most} on which nobody has shown a valid token"] += 1
        return closed

    def _learn(self, numbers: list[int]) -> None:
        there = set(numbers)
        for descriptor in [each for each in self._known if each not in there]:
            del self._known[descriptor]
        for descriptor in sorted(there):
            try:
                about = os.fstat(descriptor)
            except OSError:
                self._known.pop(descriptor, None)
                continue
            known = self._known.get(descriptor)
            if known is not None and known.inode == about.st_ino:
                continue
            self._known.pop(descriptor, None)  # another one, and so a young one
            who, key = self._peer(descriptor) if stat.S_ISSOCK(about.st_mode) else ("", "")
            self._known[descriptor] = Seen(about.st_ino, who, key, self._now())

    def _peer(self, descriptor: int) -> tuple[str, str]:
        """Whose connection to this daemon a socket is, or nobody's that is bounded, and its key."""
        try:
            with socket.socket(fileno=os.dup(descriptor)) as one:
                if one.type != socket.SOCK_STREAM:
                    return "", ""
                if one.family == socket.AF_UNIX:
                    if one.getsockname() in self._behind:
                        return self._passed_on(one)
                    if not self._own or one.getsockname() != self._own or not _is_connected(one):
                        return "", ""
                    uid = struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
                    return self._account(uid), ""
                here, peer = one.getsockname(), one.getpeername()
                if here[1] in self._ports:
                    key = key_at(peer[0], peer[1])
                    # Where accounts are not bounded, the loopback interface is an address like others.
                    if self.of_user and (uid := account_over_loopback(peer[:2], here[:2])) is not None:
                        return self._account(uid), key
                    return f"<{call.network_of(peer[0])}>", key
        except OSError:
            pass  # it listens, or is gone
        return "", ""

    def _account(self, uid: int) -> str:
        return "" if uid in self._exempt else _account_name(uid)

    def _passed_on(self, one: socket.socket) -> tuple[str, str]:
        name = one.getpeername() if _is_connected(one) else b""
        found = origin.named(name) if isinstance(name, bytes) else ""
        if not found:
            return "", ""
        key = name.lstrip(b"\0").decode(errors="replace")
        if self.of_user and (uid := origin.account_of(name)) is not None:
            return self._account(uid), key
        who = f"<{call.network_of(found.partition(':')[2].rpartition(':')[0])}>"
        return who, key

    def _shut(self, descriptor: int, inode: int) -> bool:
        try:
            with socket.socket(fileno=os.dup(descriptor)) as one:
                if os.fstat(one.fileno()).st_ino != inode:
                    return False
                one.shutdown(socket.SHUT_RDWR)  # gRPC sees its end, and closes it
        except OSError:
            return False
        return True


def _descriptors() -> int:
    return os.stat(_OWN_DESCRIPTORS).st_size  # noqa: PTH116 - asked all the time


def _is_connected(one: socket.socket) -> bool:
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0


def _account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class CallBounds:
    """Counts the calls of each user that are under way: streams too, which may stay open."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def enter(self, who: str) -> bool:
        """One more of ``who``; False, and not counted, when there are too many."""
        most = self._most()
        if most and self._open[who] >= most:
            return False
        self._open[who] += 1
        return True

    def leave(self, who: str) -> None:
        """One less."""
        self._open[who] -= 1
        if self._open[who] <= 0:
            del self._open[who]
