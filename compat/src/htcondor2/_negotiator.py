"""``Negotiator``: priorities and usage of submitters."""

from __future__ import annotations

import contextlib

from classad2 import ClassAd, quote
from slotwise.client import Negotiator as Client
from slotwise.errors import NotFoundError

from htcondor2 import _pool
from htcondor2._collector import Collector
from htcondor2._enums import AdType


class Negotiator:
    """The pool's negotiator, or the one of an ad that a collector has given."""

    def __init__(self, location: ClassAd | None = None) -> None:
        self._addr = None if location is None else _pool.address_of(location, "negotiator")

    def _client(self) -> Client:
        return _pool.client(Client, self._addr)

    def _set(self, user: str, name: str, value: float) -> None:
        with _pool.calling("the negotiator"):
            self._client().set(_user(user), name, value)

    def getPriorities(self, rollup: bool = False) -> list[ClassAd]:
        """An ad for each submitter and accounting group."""
        with _pool.calling("the negotiator"):
            return [ClassAd._of(ad) for ad in self._client().accounting()]

    def getResourceUsage(self, user: str) -> list[ClassAd]:
        """The slots that a submitter holds: Name and StartTime."""
        who = quote(_user(user))
        found = Collector().query(
            AdType.Startd, f"AccountingGroup == {who} || RemoteUser == {who}", ["Name", "EnteredCurrentState"]
        )
        return [ClassAd({"Name": ad["Name"], "StartTime": ad.get("EnteredCurrentState", 0)}) for ad in found]

    def deleteUser(self, user: str) -> None:
        """Forget a submitter; nothing happens for one that is not known."""
        with _pool.calling("the negotiator"), contextlib.suppress(NotFoundError):
            self._client().delete(_user(user))

    def resetAllUsage(self) -> None:
        """Set everybody's usage to nothing."""
        with _pool.calling("the negotiator"):
            self._client().reset_usage()

    def resetUsage(self, user: str) -> None:
        """Set a submitter's usage to nothing; nothing happens for one that is not known."""
        with _pool.calling("the negotiator"), contextlib.suppress(NotFoundError):
            self._client().reset_usage(_user(user))

    def setBeginUsage(self, user: str, when: int) -> None:
        """Set when a submitter's usage began, in seconds since the epoch."""
        self._set(user, "begin_time", int(when))

    def setLastUsage(self, user: str, when: int) -> None:
        """Set when a submitter last used the pool, in seconds since the epoch."""
        self._set(user, "last_time", int(when))

    def setCeiling(self, user: str, ceiling: int) -> None:
        """Bound the slots that a submitter may hold; -1: no bound."""
        if ceiling < -1:
            raise ValueError("Ceiling must be greater than -1.")
        self._set(user, "ceiling", int(ceiling))

    def setFactor(self, user: str, factor: float) -> None:
        """Set a submitter's priority factor, 1 or more."""
        if factor < 1:
            raise ValueError("Priority factors must be >= 1")
        self._set(user, "factor", float(factor))

    def setPriority(self, user: str, priority: float) -> None:
        """Set a submitter's real priority."""
        if priority < 0:
            raise ValueError("User priority must be non-negative")
        self._set(user, "priority", float(priority))

    def setUsage(self, user: str, usage: float) -> None:
        """Set a submitter's accumulated usage, in seconds of weighted slots."""
        if usage < 0:
            raise ValueError("Usage must be non-negative")
        self._set(user, "usage", float(usage))


def _user(user: object) -> str:
    if not isinstance(user, str):
        raise TypeError("user must be a string")
    if "@" not in user:
        raise ValueError("You must specify the submitter (user@uid.domain)")
    return user
