"""Bounds on what one peer holds of a daemon: connections by account or address, calls by caller.

gRPC bounds the connections of a port or socket as a whole, so that one user of the host could take them all. It offers
no place to look at a connection before it is taken: so this process looks at its own descriptors, from time to time,
and shuts the youngest connections of who has too many. Root and the daemons' account are not bounded.
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

from slotwise.wire import call, origin

_OWN_DESCRIPTORS = "/proc/self/fd"
#: The least time between two looks, and how much longer that is than a look takes: at most a twentieth of a core.
_PAUSE_S, _SHARE = 0.25, 20.0


class ConnectionBounds:
    """Keeps the connections of each peer to a daemon's socket and port bounded.

    :param own: path of the daemon's UNIX socket, empty without one.
    :param ports: its TCP ports.
    :param of_user: most connections of one account on the socket; 0: any number.
    :param of_address: most connections of one address on the port, or of one IPv6 network of 64 bits; 0: any number.
    :param exempt: accounts that are not bounded.
    :param behind: paths of sockets at which the host's shared port passes on connections.
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
    ) -> None:
        self._own, self._ports, self._behind = own, frozenset(ports), frozenset(behind)
        self.of_user, self.of_address = of_user, of_address
        self._exempt = exempt
        #: By descriptor, in the order in which they were seen: the socket's inode, and whose it is.
        self._known: dict[int, tuple[int, str]] = {}

    async def watch(self) -> None:
        """Look again for ever."""
        while True:
            began = time.monotonic()
            with contextlib.suppress(OSError):
                for who, count in self.look().items():
                    text = "closed %d connections of %s, who has more than %s allows"
                    knob = "SLOTWISE_MAX_CONNECTIONS_PER_" + ("ADDRESS" if who.startswith("<") else "USER")
                    call.refusals.note(who, who, text, count, who, knob)
            await asyncio.sleep(max(_PAUSE_S, _SHARE * (time.monotonic() - began)))

    def look(self) -> Counter[str]:
        """Shut connections beyond the bounds; how many of whom."""
        least = min((most for most in (self.of_user, self.of_address) if most), default=0)
        numbers = [int(name) for name in os.listdir(_OWN_DESCRIPTORS)]  # noqa: PTH208 - asked all the time
        if not least or len(numbers) <= least:
            return Counter()
        self._learn(numbers)
        counts: Counter[str] = Counter()
        closed: Counter[str] = Counter()
        for descriptor, (inode, who) in list(self._known.items()):
            if not who:
                continue
            counts[who] += 1
            most = self.of_address if who.startswith("<") else self.of_user
            if most and counts[who] > most and self._shut(descriptor, inode):
                closed[who] += 1
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
            if known is not None and known[0] == about.st_ino:
                continue
            self._known.pop(descriptor, None)  # another one, and so a young one
            who = self._peer(descriptor) if stat.S_ISSOCK(about.st_mode) else ""
            self._known[descriptor] = (about.st_ino, who)

    def _peer(self, descriptor: int) -> str:
        """Whose connection to this daemon a socket is: an account, an ``<address>``, or nobody's that is bounded."""
        try:
            with socket.socket(fileno=os.dup(descriptor)) as one:
                if one.type != socket.SOCK_STREAM:
                    return ""
                if one.family == socket.AF_UNIX:
                    if one.getsockname() in self._behind:
                        return self._passed_on(one)
                    if not self._own or one.getsockname() != self._own or not _is_connected(one):
                        return ""
                    uid = struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
                    return "" if uid in self._exempt else _account_name(uid)
                if one.getsockname()[1] in self._ports:
                    return f"<{call.network_of(one.getpeername()[0])}>"
        except OSError:
            pass  # it listens, or is gone
        return ""

    def _passed_on(self, one: socket.socket) -> str:
        name = one.getpeername() if _is_connected(one) else b""
        found = origin.named(name) if isinstance(name, bytes) else ""
        return f"<{call.network_of(found.partition(':')[2].rpartition(':')[0])}>" if found else ""

    def _shut(self, descriptor: int, inode: int) -> bool:
        try:
            with socket.socket(fileno=os.dup(descriptor)) as one:
                if os.fstat(one.fileno()).st_ino != inode:
                    return False
                one.shutdown(socket.SHUT_RDWR)  # gRPC sees its end, and closes it
        except OSError:
            return False
        return True


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
