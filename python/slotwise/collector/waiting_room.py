"""How many requests wait for an administrator, and which makes room for another. No I/O.

Anybody may ask for a place in the pool or for a token, so requests are bounded: from one address, or of one user of the
collector's own host, and in all. A host
or user whose command still runs asks for the answer every few seconds. A request of which nothing has been heard for
a while makes room for one of the same address, and so does the oldest that has had its time to be seen by an
administrator: hosts behind one router take turns, and whoever goes on asking holds no place for good. Where all
places are taken, the address that has the most of them gives one up to an address that has fewer. So nobody who stops
asking keeps others out, and a flood from one address is that address's alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from slotwise.errors import BusyError

#: How long a request waits, in seconds; how many may wait, and how many from one address.
LASTS_S = 3600.0
MOST, MOST_OF_ADDRESS = 1000, 20
#: After this time without a word, in seconds, nobody seems to wait for the answer any more.
SILENT_S = 60.0
#: For how long, in seconds, a request whose host goes on asking keeps its place when others of its address want one.
TURN_S = 300.0


class Waits(Protocol):
    """A request that waits. ``network``: whom it counts to: the address that it came from, or a user of this host
    (``call.asked_by``)."""

    @property
    def network(self) -> str: ...

    @property
    def asked_at(self) -> float: ...

    @property
    def heard_at(self) -> float:
        """When it was made, or its answer was asked for last."""
        ...

    @property
    def is_decided(self) -> bool:
        """Whether an administrator has decided on it."""
        ...


W = TypeVar("W", bound=Waits)


def making_room(waiting: Mapping[str, Waits], network: str, now: float) -> str | None:
    """The id of the request that makes room for a further one from ``network``; None while there is room.

    :raises BusyError: when none does.
    """
    counts = Counter(each.network for each in waiting.values())
    undecided = {name: each for name, each in waiting.items() if not each.is_decided}
    own = {name: each for name, each in undecided.items() if each.network == network}
    if counts[network] >= MOST_OF_ADDRESS:
        victim = _stalest(own, now) or _had_its_turn(own, now)
        if victim is None:
            raise BusyError(
                f"{counts[network]} requests from this address or user wait for approval",
                hint="an administrator decides on them; a join token (`slotwise node token`) needs no approval",
            )
        return victim
    if len(waiting) < MOST:
        return None
    of_networks = Counter(each.network for each in undecided.values())
    crowded, most = max(of_networks.items(), key=lambda found: found[1], default=("", 0))
    if most > counts[network] + 1:
        return min(
            (name for name, each in undecided.items() if each.network == crowded),
            key=lambda name: undecided[name].heard_at,
        )
    victim = _stalest(undecided, now)
    if victim is None:
        raise BusyError("too many requests wait for approval", hint="an administrator decides on those that wait")
    return victim


def _stalest(requests: Mapping[str, Waits], now: float) -> str | None:
    """The request that nothing was heard of for the longest time; None when all wait for their answers."""
    found = min(requests, key=lambda name: requests[name].heard_at, default=None)
    return found if found is not None and requests[found].heard_at + SILENT_S <= now else None


def _had_its_turn(requests: Mapping[str, Waits], now: float) -> str | None:
    """The oldest request, if it has waited for as long as it may keep others of its address out."""
    found = min(requests, key=lambda name: requests[name].asked_at, default=None)
    return found if found is not None and requests[found].asked_at + TURN_S <= now else None


def as_listed(requests: Iterable[W]) -> list[W]:
    """Requests as administrators see them: first those of addresses with few, so that no flood hides them."""
    every = list(requests)
    counts = Counter(each.network for each in every)
    return sorted(every, key=lambda each: (counts[each.network], each.network, each.asked_at))
