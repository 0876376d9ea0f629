"""What the slow model of the negotiator knows of slots, jobs and accounts, and how it reads ads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slotwise.classad import ClassAd, ExprTree

ROOT = "<none>"
USER_OF_SLOT = ("PreemptingAccountingGroup", "PreemptingUser", "AccountingGroup", "RemoteUser")
_NOISE = 1e-9


def at_least(amount: float, limit: float) -> bool:
    """Whether ``amount`` has reached ``limit``, rounding noise aside."""
    return amount >= limit - _NOISE * max(1.0, abs(amount), abs(limit) if math.isfinite(limit) else 0.0)


def whole(amount: float) -> float:
    """The whole part, where 17.9999999999 is 18."""
    return float(round(amount)) if abs(amount - round(amount)) < 1e-9 * max(1.0, abs(amount)) else math.floor(amount)


def number(ad: ClassAd, name: str, default: float | None = None) -> float | None:
    """A number (or boolean) attribute."""
    value = ad.eval(name) if name in ad else None
    return float(value) if isinstance(value, bool | int | float) else default


def text(ad: ClassAd, name: str) -> str | None:
    """A string attribute."""
    value = ad.eval(name) if name in ad else None
    return value if isinstance(value, str) else None


def flag(ad: ClassAd, name: str) -> bool:
    """Whether a boolean attribute is there and true."""
    value = ad.eval(name) if name in ad else False
    return isinstance(value, bool | int | float) and bool(value)


@dataclass
class Account:
    """What is known of a submitter or group."""

    priority: float = 0.5
    factor: float | None = None
    ceiling: int = -1
    floor: int = 0
    usage: float = 0.0
    share: float | None = None
    limit: float | None = None


@dataclass
class Request:
    """Like jobs of one submitter, next to each other in the queue."""

    ad: ClassAd
    jobs: list[str]
    autocluster: str
    offered: int = 0
    #: Matches with sleeping slots in this spin.
    given_back: int = 0

    @property
    def left(self) -> int:
        return len(self.jobs) - self.offered


@dataclass
class Entry:
    """A submitter."""

    name: str
    idle: int = 0
    demand: float = 0.0
    requests: list[Request] = field(default_factory=list)


@dataclass
class Slot:
    """A slot as the cycle sees it."""

    name: str
    ad: ClassAd
    weight: float
    claims: int = 0
    turns: int = 0


@dataclass
class Match:
    """One match."""

    job: str
    autocluster: str
    submitter: str
    slot: str
    preempts: str | None
    kind: str | None
    cost: float


@dataclass
class Group:
    """A node of the tree of groups."""

    name: str
    parent: Group | None
    children: list[Group] = field(default_factory=list)
    static: bool = False
    configured: float = 0.0
    surplus: bool = False
    regroup: bool = False
    quota: float = 0.0
    subtree_quota: float = 0.0
    requested: float = 0.0
    subtree_requested: float = 0.0
    allocated: float = 0.0
    usage: float = 0.0
    entries: list[Entry] = field(default_factory=list)

    def everyone(self) -> Iterator[Group]:
        """The nodes level by level."""
        level = [self]
        while level:
            yield from level
            level = [child for node in level for child in node.children]


def value_of(expr: ExprTree | None, my: ClassAd, target: ClassAd) -> float | None:
    """A rank: a number or boolean, or nothing."""
    if expr is None:
        return None
    value = expr.eval(my, target)
    return float(value) if isinstance(value, bool | int | float) and not math.isnan(value) else None


def symmetric(job: ClassAd, slot: ClassAd) -> bool:
    """Whether both Requirements hold."""
    return job.symmetric_match(slot)


def resources(ad: ClassAd) -> list[str]:
    """What a machine can be divided into, swap aside."""
    listed = (text(ad, "MachineResources") or "Cpus Memory Disk").replace(",", " ").split()
    return [name for name in listed if name.lower() != "swap"]


def has_policy(ad: ClassAd) -> bool:
    """Whether a slot says what matches consume."""
    if not flag(ad, "PartitionableSlot") or text(ad, "MachineResources") is None:
        return False
    return all(f"Consumption{name}" in ad for name in resources(ad))


def consumption(job: ClassAd, slot: ClassAd) -> dict[str, float] | None:
    """What a match takes of each resource; None when that is not there, is negative, or is nothing."""
    asking = job.copy()
    for name in resources(slot):
        if f"Request{name}" not in asking:
            asking[f"Request{name}"] = 0
    taken = {}
    for name in resources(slot):
        amount = slot.lookup(f"Consumption{name}").eval(slot, asking)
        free = number(slot, name, 0.0) or 0.0
        if not isinstance(amount, bool | int | float) or amount < 0 or amount > free:
            return None
        taken[name] = float(amount)
    return taken if any(amount > 0 for amount in taken.values()) else None


def policy_cost(slot: Slot, taken: Mapping[str, float]) -> float:
    """How much lighter a match makes a slot with a consumption policy."""
    rest = slot.ad.copy()
    for name, amount in taken.items():
        left = (number(rest, name, 0.0) or 0.0) - amount
        rest[name] = int(left) if left == int(left) else left
    return (number(slot.ad, "SlotWeight", 1.0) or 0.0) - (number(rest, "SlotWeight", 1.0) or 0.0)


def limits_of(limits: str) -> list[tuple[str, float]]:
    """Names and counts of a ConcurrencyLimits string; invalid names are left out."""
    out = []
    for item in limits.replace(",", " ").split():
        name, _, count = item.partition(":")
        try:
            tokens = float(count)
        except ValueError:
            tokens = 1.0
        parts = name.split(".")
        if len(parts) <= 2 and all(part.isidentifier() for part in parts):
            out.append((name.lower(), tokens if tokens > 0 else 1.0))
    return out
