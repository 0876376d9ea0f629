"""``Negotiator``: priorities and usage of submitters."""

from __future__ import annotations

from typing import Any

from classad2 import ClassAd, quote
from slotwise.wire.gen import common_pb2, negotiator_pb2, negotiator_pb2_grpc

from htcondor2 import _pool
from htcondor2._collector import Collector
from htcondor2._enums import AdType

_Edit = negotiator_pb2.AccountingEdit


class Negotiator:
    """The pool's negotiator, or the one of an ad that a collector has given."""

    def __init__(self, location: ClassAd | None = None) -> None:
        self._addr = None if location is None else _pool.address_of(location, "negotiator")

    def _stub(self) -> negotiator_pb2_grpc.NegotiatorStub:
        found: negotiator_pb2_grpc.NegotiatorStub = _pool.stub(
            negotiator_pb2_grpc.NegotiatorStub, "negotiator", self._addr
        )
        return found

    def _edit(self, what: Any, user: str = "", value: float = 0.0) -> None:
        request = _Edit(what=what, submitter=user, value=value)
        _pool.asked("the negotiator", lambda: self._stub().EditAccounting(request, timeout=60))

    def getPriorities(self, rollup: bool = False) -> list[ClassAd]:
        """An ad for each submitter and accounting group."""
        asked = common_pb2.AdQuery(kind="Accounting")
        return _pool.ads("the negotiator", lambda: self._stub().Accounting(asked))

    def getResourceUsage(self, user: str) -> list[ClassAd]:
        """The slots that a submitter holds: Name and StartTime."""
        who = quote(_user(user))
        found = Collector().query(
            AdType.Startd, f"AccountingGroup == {who} || RemoteUser == {who}", ["Name", "EnteredCurrentState"]
        )
        return [ClassAd({"Name": ad["Name"], "StartTime": ad.get("EnteredCurrentState", 0)}) for ad in found]

    def deleteUser(self, user: str) -> None:
        """Forget a submitter."""
        self._edit(_Edit.DELETE, _user(user))

    def resetAllUsage(self) -> None:
        """Set everybody's usage to nothing."""
        self._edit(_Edit.RESET_ALL)

    def resetUsage(self, user: str) -> None:
        """Set a submitter's usage to nothing."""
        self._edit(_Edit.RESET_USAGE, _user(user))

    def setBeginUsage(self, user: str, when: int) -> None:
        """Set when a submitter's usage began, in seconds since the epoch."""
        self._edit(_Edit.BEGIN_TIME, _user(user), int(when))

    def setLastUsage(self, user: str, when: int) -> None:
        """Set when a submitter last used the pool, in seconds since the epoch."""
        self._edit(_Edit.LAST_TIME, _user(user), int(when))

    def setCeiling(self, user: str, ceiling: int) -> None:
        """Bound the slots that a submitter may hold; -1: no bound."""
        if ceiling < -1:
            raise ValueError("Ceiling must be greater than -1.")
        self._edit(_Edit.CEILING, _user(user), int(ceiling))

    def setFactor(self, user: str, factor: float) -> None:
        """Set a submitter's priority factor, 1 or more."""
        if factor < 1:
            raise ValueError("Priority factors must be >= 1")
        self._edit(_Edit.FACTOR, _user(user), float(factor))

    def setPriority(self, user: str, priority: float) -> None:
        """Set a submitter's real priority."""
        if priority < 0:
            raise ValueError("User priority must be non-negative")
        self._edit(_Edit.PRIORITY, _user(user), float(priority))

    def setUsage(self, user: str, usage: float) -> None:
        """Set a submitter's accumulated usage, in seconds of weighted slots."""
        if usage < 0:
            raise ValueError("Usage must be non-negative")
        self._edit(_Edit.ACCUMULATED_USAGE, _user(user), float(usage))


def _user(user: object) -> str:
    if not isinstance(user, str):
        raise TypeError("user must be a string")
    if "@" not in user:
        raise ValueError("You must specify the submitter (user@uid.domain)")
    return user
