"""Which machines to drain, and which drains to cancel. Pure: ads, time and the shuffle are arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree, quote
from slotwise.defrag.rules import DefragRules, pace

#: The slots that the defragmenter considers.
BASE = "PartitionableSlot =?= true && Offline =!= true"
#: How much the cost of a drain may have grown since the ad was made: a factor, and what is negligible (cpu-s, s).
_GROWTH, _SMALL_BADPUT, _SMALL_DELAY_S = 1.25, 1200, 1200


class Target(Struct, frozen=True):
    """A machine's startd; ``check`` must still be true when the startd is asked to drain."""

    machine: str
    slot: str
    address: str
    check: str = ""


class Plan(Struct, frozen=True):
    """The plan of a poll. ``drain`` has all candidates, best first; ``wanted`` of them are to be drained."""

    draining: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    cancel: tuple[Target, ...] = ()
    drain: tuple[Target, ...] = ()
    wanted: int = 0
    why_not: str = ""


def due(rules: DefragRules, last_poll: float, now: float) -> int:
    """How many machines this poll may drain: its share, and in the first poll of an hour or day the share of that, too.

    The rest of the hour (or day) counts: a late first poll gets less.
    """
    parts = pace(rules)
    count = parts.per_poll
    if last_poll <= 0:
        return count
    for number, length in ((parts.per_hour, 3600), (parts.per_day, 86400)):
        if int(now) // length != int(last_poll) // length:
            count += _prorated(number, now - int(now) // length * length, length, rules.interval_s)
    return count


def _prorated(number: int, elapsed: float, length: float, granularity: float) -> int:
    part = (length - elapsed) / length + granularity / length
    return min(number, max(0, math.floor(number * part + 0.5)))


def plan(
    rules: DefragRules,
    slots: Iterable[ClassAd],
    last_poll: float,
    now: float,
    shuffled: Callable[[list[ClassAd]], list[ClassAd]],
) -> Plan:
    """The plan for ``slots``, the pool's partitionable ones. ``shuffled`` puts equals in a random order."""
    slots = list(slots)
    mine = f"(DrainReason =?= undefined || DrainReason == {quote(rules.reason)})"
    draining = _machines(slots, f"{BASE} && Draining =?= true && {mine}", now)
    whole = _machines(slots, f"({rules.whole}) && {BASE} && {mine}", now)
    ranked = _ranked(rules.rank, shuffled(slots), now)
    cancel: tuple[Target, ...] = ()
    if rules.cancel:
        cancel = _first_of_each(_matching(ranked, f"{BASE} && Draining =?= true && {mine} && ({rules.cancel})", now))
    wanted = due(rules, last_poll, now)
    why_not = _why_not(rules, wanted, len(draining), len(whole))
    if why_not:
        return Plan(draining, whole, cancel, why_not=why_not)
    candidates = _matching(ranked, f"{BASE} && Draining =!= true && ({rules.requirements})", now)
    cancelled = {target.machine for target in cancel}
    found = [
        Target(target.machine, target.slot, target.address, _check(rules, ad, now))
        for target, ad in _with_ads(candidates)
        if target.machine not in whole and target.machine not in cancelled
    ]
    return Plan(draining, whole, cancel, tuple(found), wanted)


def _why_not(rules: DefragRules, wanted: int, draining: int, whole: int) -> str:
    if rules.per_hour <= 0:
        return "DEFRAG_DRAINING_MACHINES_PER_HOUR is 0"
    if wanted <= 0:
        return "none is due in this interval"
    if 0 <= rules.max_draining <= draining:
        return f"{draining} machines drain already (DEFRAG_MAX_CONCURRENT_DRAINING)"
    if 0 <= rules.max_whole <= whole:
        return f"there are {whole} whole machines (DEFRAG_MAX_WHOLE_MACHINES)"
    return ""


def _matching(slots: Iterable[ClassAd], text: str, now: float) -> list[ClassAd]:
    tree = ExprTree(text)
    return [ad for ad in slots if tree.eval(ad, None, now=int(now)) is True]


def machine_of(ad: ClassAd) -> str:
    """The startd's name: the part of the slot's behind the ``@``."""
    name = str(ad.get("Name") or "")
    return name.partition("@")[2] or name


def _machines(slots: Iterable[ClassAd], text: str, now: float) -> frozenset[str]:
    return frozenset(machine_of(ad) for ad in _matching(slots, text, now))


def _ranked(rank: str, slots: list[ClassAd], now: float) -> list[ClassAd]:
    """Sort best first; equals keep their order. A rank that is not a number is 0."""
    tree = ExprTree(rank)

    def worth(ad: ClassAd) -> float:
        value = tree.eval(ad, None, now=int(now))
        return float(value) if isinstance(value, bool | int | float) else 0.0

    return sorted(slots, key=worth, reverse=True)


def _with_ads(slots: Iterable[ClassAd]) -> list[tuple[Target, ClassAd]]:
    """One slot of each machine."""
    found: dict[str, tuple[Target, ClassAd]] = {}
    for ad in slots:
        target = Target(machine_of(ad), str(ad.get("Name") or ""), str(ad.get("MyAddress") or ""))
        found.setdefault(target.machine, (target, ad))
    return list(found.values())


def _first_of_each(slots: Iterable[ClassAd]) -> tuple[Target, ...]:
    return tuple(target for target, _ in _with_ads(slots))


def _check(rules: DefragRules, ad: ClassAd, now: float) -> str:
    """A condition: the drain costs about what the ad said."""
    kind = "Graceful" if rules.schedule <= 0 else "Quick"
    limits = []
    for what, more in (("Completion", _SMALL_DELAY_S), ("Badput", _SMALL_BADPUT)):
        name = f"ExpectedMachine{kind}Draining{what}"
        value = ad.eval(name, None, now=int(now)) if name in ad else 0
        cost = value if isinstance(value, int | float) else 0
        limits.append(f"{name} <= {int(cost if what == 'Completion' else _GROWTH * cost) + more}")
    return " && ".join(limits)


class Arrivals(Struct):
    """How often machines become whole: a poll sees machines that are whole now, or that no longer drain."""

    whole: frozenset[str] = frozenset()
    draining: frozenset[str] = frozenset()
    count: int = 0
    _last_at: float = 0
    _sum_s: float = 0
    _squares: float = field(default=0.0)

    def seen(self, whole: frozenset[str], draining: frozenset[str], now: float) -> None:
        """Add the machines that a poll saw."""
        arrived = len(whole - self.whole) + len(self.draining - draining)
        self.whole, self.draining = whole, draining
        if not arrived:
            return
        if self._last_at > 0:
            took_s = max(1.0, now - self._last_at)
            self.count += arrived
            self._sum_s += arrived * took_s
            self._squares += (arrived / took_s - self.rate) ** 2
        self._last_at = now

    @property
    def rate(self) -> float:
        """Machines per second (MeanDrainedArrival)."""
        return self.count / self._sum_s if self._sum_s else 0.0

    @property
    def deviation(self) -> float:
        """MeanDrainedArrivalSD."""
        return math.sqrt(self._squares / self.count) if self.count else 0.0


def costs(slots: Iterable[ClassAd], now: float) -> tuple[float, float]:
    """What drains cost the pool per core and second: lost work (AvgDrainingBadput), idle time (...Unclaimed)."""
    badput = unclaimed = cpus = 0.0
    for ad in slots:

        def number(name: str, ad: ClassAd = ad) -> float:
            value = ad.eval(name, None, now=int(now)) if name in ad else 0
            return float(value) if isinstance(value, int | float) else 0.0

        drained = "TotalMachineDrainingBadput" in ad or "TotalMachineDrainingUnclaimedTime" in ad
        age_s = number("LastHeardFrom") - number("DaemonStartTime")
        if number("SlotID") != 1 or not drained or not number("DaemonStartTime") or age_s <= 0:
            continue
        badput += number("TotalMachineDrainingBadput") / age_s
        unclaimed += number("TotalMachineDrainingUnclaimedTime") / age_s
        cpus += number("TotalCpus")
    return (badput / cpus, unclaimed / cpus) if cpus else (0.0, 0.0)
