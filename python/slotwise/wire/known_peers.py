"""The connections on which a valid token was shown, and who has shown one: others are bounded more tightly. No I/O.

Calls are noted in the event loop while another thread looks at the connections.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from urllib.parse import unquote

#: Accounts and addresses that are remembered for having shown a valid token.
_REMEMBERED = 10_000


def key_of(peer: str) -> str:
    """What tells a connection from others, of the address of its caller as gRPC has it; empty for one at a UNIX
    socket, whose callers have no address."""
    kind, _, where = peer.partition(":")
    if kind == "unix-abstract":
        return unquote(where)
    if kind not in ("ipv4", "ipv6"):
        return ""
    host, _, port = unquote(where).rpartition(":")
    return key_at(host.strip("[]"), port)


def key_at(host: str, port: int | str) -> str:
    """The same of a connection from this address: without its scope, which is spelled in several ways."""
    return f"{host.partition('%')[0].removeprefix('::ffff:')}:{port}"


class KnownPeers:
    """Which connections have shown a valid token, and when others last had an answer that needs none."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._proved: set[str] = set()
        self._proved_lately: set[str] = set()
        self._answered: dict[str, float] = {}
        self._known: OrderedDict[str, None] = OrderedDict()
        self._began = 0.0

    def proved(self, peer: str) -> None:
        """A call with a valid token came from ``peer``."""
        if key := key_of(peer):
            self._proved_lately.add(key)

    def answered(self, peer: str) -> None:
        """A call that needs no token came from ``peer``."""
        if key := key_of(peer):
            self._answered[key] = self._now()

    def begin(self) -> set[str]:
        """Those that have proved themselves so far; for :meth:`keep`."""
        self._began = self._now()
        lately, self._proved_lately = self._proved_lately, set()
        self._proved |= lately
        return self._proved

    def keep(self, there: Collection[str]) -> None:
        """Of the connections at :meth:`begin`, only these are there."""
        self._proved.intersection_update(there)
        for key in list(self._answered):
            if key not in there and self._answered[key] < self._began:
                self._answered.pop(key, None)

    def last_answer(self, key: str) -> float:
        """When a connection had its last answer that needs no token; 0: it had none."""
        return self._answered.get(key, 0.0)

    def remember(self, who: str) -> None:
        """An account or address has shown a valid token."""
        self._known[who] = None
        self._known.move_to_end(who)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def knows(self, who: str) -> bool:
        """Whether it has, as far as that is remembered."""
        return who in self._known
