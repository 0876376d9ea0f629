"""The broker's books: which hosts are registered, and which callers wait for one to connect. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct, field

Way = TypeVar("Way")
#: Callers that wait at a time: for one host, from one address, and in all.
MOST_OF_HOST, MOST_OF_ADDRESS, MOST = 200, 100, 2000


class Waiting(Struct, Generic[Way]):
    """A caller that waits. ``way``: how it is told, of its own kind."""

    host_id: str
    address: str
    way: Way


class Book(Struct, Generic[Way]):
    """Who is registered and who waits.

    :param secret: makes a name for a connection that nobody can guess.
    """

    secret: Callable[[], str]
    #: By a host's id, how it is told to connect; a host that registers again takes its former place.
    hosts: dict[str, object] = field(default_factory=dict)
    _waiting: dict[str, Waiting[Way]] = field(default_factory=dict)
    _of_host: Counter[str] = field(default_factory=Counter)
    _of_address: Counter[str] = field(default_factory=Counter)

    def may_wait(self, host_id: str, address: str) -> bool:
        """Whether one more caller from ``address`` may wait for a host."""
        return (
            len(self._waiting) < MOST
            and self._of_host[host_id] < MOST_OF_HOST
            and self._of_address[address] < MOST_OF_ADDRESS
        )

    def makes_room(self, host_id: str, address: str) -> str | None:
        """The name of the caller that has to give way to one more from ``address``, where there is no place left for
        the host, or at all: the one that has waited longest of the address with the most. So two addresses that ask for
        a host without end do not keep others from it. None: nobody has to."""
        if self._of_address[address] >= MOST_OF_ADDRESS:
            return None
        of_host = self._of_host[host_id] >= MOST_OF_HOST
        if not of_host and len(self._waiting) < MOST:
            return None
        in_the_way = {
            name: each.address for name, each in self._waiting.items() if not of_host or each.host_id == host_id
        }
        counts = Counter(in_the_way.values())
        crowded, most = counts.most_common(1)[0]
        if most <= counts[address] + 1:
            return None
        return next(name for name, other in in_the_way.items() if other == crowded)

    def wait(self, host_id: str, address: str, way: Way) -> str:
        """A caller waits: the name by which its host asks for it."""
        name = self.secret()
        self._waiting[name] = Waiting(host_id, address, way)
        self._of_host[host_id] += 1
        self._of_address[address] += 1
        return name

    def take(self, name: str, host_id: str | None = None) -> Way | None:
        """The caller that waits under a name, who waits no more; None when there is none, or it waits for another host
        than ``host_id``."""
        found = self._waiting.get(name)
        if found is None or host_id not in (None, found.host_id):
            return None
        del self._waiting[name]
        for counts, key in ((self._of_host, found.host_id), (self._of_address, found.address)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
        return found.way

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)
