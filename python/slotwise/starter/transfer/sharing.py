"""Which jobs of a host share which sets of common input files, and who of them is sent one. Pure.

A set is sent for one job at a time, while others of it wait; when that fails, the next of them is sent it. It is kept
until no job has it any more, and for a while after that.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


class Turn(Enum):
    """What a job that asks for a set is to do."""

    SEND = "send"
    WAIT = "wait"
    PLACE = "place"


class _Set(Struct):
    """One set, by its key."""

    size: int = 0
    whole: bool = False
    sender: str = ""
    waiting: list[str] = field(default_factory=list)
    users: set[str] = field(default_factory=set)


class Left(Struct, frozen=True):
    """What follows when a job leaves a set: who is sent it next, if anyone, and whether nobody has it any more."""

    next: str = ""
    idle: bool = False


class Sharing:
    """All sets of a host. Jobs are named by their runs."""

    def __init__(self) -> None:
        self._sets: dict[str, _Set] = {}

    def ask(self, key: str, run: str, size: int, free: int) -> Turn | None:
        """A job names a set; None: it has to get its own files, since there is no room for the set.

        :param size: of the set, as it is offered, in bytes.
        :param free: bytes that may still be written where sets are kept. All of them together take no more than half of
            what would be free without them.
        """
        found = self._sets.get(key)
        if found is None:
            kept = sum(one.size for one in self._sets.values() if one.whole)
            to_come = sum(one.size for one in self._sets.values() if not one.whole)
            if size < 0 or 2 * (kept + to_come + size) > kept + free:
                return None
            found = self._sets[key] = _Set(size)
        if found.whole:
            found.users.add(run)
            return Turn.PLACE
        if found.sender in ("", run):
            found.sender = run
            return Turn.SEND
        if run not in found.waiting:
            found.waiting.append(run)
        return Turn.WAIT

    def arrived(self, key: str, run: str) -> list[str]:
        """The set of a job has come whole; returns those that waited for it."""
        found = self._sets.get(key)
        if found is None or found.sender != run:
            return []
        waiting, found.waiting = found.waiting, []
        found.whole, found.sender = True, ""
        found.users |= {run, *waiting}
        return waiting

    def leave(self, key: str, run: str) -> Left:
        """A job is over, or its transfer failed."""
        found = self._sets.get(key)
        if found is None:
            return Left()
        if run in found.waiting:
            found.waiting.remove(run)
        if found.whole:
            had = run in found.users
            found.users.discard(run)
            return Left(idle=had and not found.users)
        if found.sender != run:
            return Left()
        found.sender = found.waiting.pop(0) if found.waiting else ""
        if not found.sender:
            del self._sets[key]
        return Left(next=found.sender)

    def drop(self, key: str) -> bool:
        """Forget a set that no job has; False when one has it."""
        found = self._sets.get(key)
        if found is None or not found.whole or found.users:
            return False
        del self._sets[key]
        return True

    def idle(self) -> list[str]:
        """The sets that no job has."""
        return [key for key, found in self._sets.items() if found.whole and not found.users]
