"""The negotiator's rules once more, slowly: one slot after the other, nothing remembered, nothing shared.

A second opinion for the engine. It knows the rules of a cycle (shares, spins, groups, candidates, preemption, limits)
in the plainest form that can be read next to the manual, for pools of a few dozen slots. Partitionable slots without a
consumption policy are matched once (``NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT = False``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from slotwise.classad import ClassAd, ExprTree

from tests.support.ads import number_of
from tests.support.negotiation.facts import (
    Account,
    Entry,
    Group,
    Match,
    Request,
    Slot,
    at_least,
    flag,
    limits_of,
    number,
    text,
    whole,
)
from tests.support.negotiation.groups import Groups
from tests.support.negotiation.scan import Refused, Scan


class Model(Groups):
    """One cycle. Jobs are idle; ``accounts`` by submitter hold priority, factor, ceiling and floor."""

    def __init__(
        self,
        slots: list[ClassAd],
        jobs: list[ClassAd],
        knobs: Mapping[str, str],
        accounts: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__(knobs)
        self.accounts = {name: Account(**values) for name, values in accounts.items()}
        self.matches: list[Match] = []
        self.rejections: dict[tuple[str, str], list[str]] = {}
        self.tokens: dict[str, float] = {}
        self.slots = [self._slot(ad) for ad in slots]
        self.entries = self._entries(jobs)
        self.pool = self._measure()

    # ---- preparation

    def _slot(self, ad: ClassAd) -> Slot:
        ad = ad.copy()
        if self.flag("FORCE_NEGOTIATOR_SLOT_WEIGHT", False) or number(ad, "SlotWeight") is None:
            ad["SlotWeight"] = self.expr("SLOT_WEIGHT", "Cpus")
        preempting = number(ad, "PreemptingRank")
        if preempting is not None:
            ad["CurrentRank"] = preempting
        for name in self.knobs.get("NEGOTIATOR_MATCH_EXPRS", "").split():
            ad[f"NegotiatorMatchExpr{name}"] = self.expr(name, "undefined")
        if "NegotiatorRequirements" in ad:
            ad["Requirements"] = ad.lookup("NegotiatorRequirements")
        slot = Slot(str(ad["Name"]), ad, self.weight_of(ad))
        slot.claims = int(number(ad, "NumClaims", None) or math.ceil(number(ad, "Cpus", 1.0) or 1.0))
        for name in ("ConcurrencyLimits", "PreemptingConcurrencyLimits"):
            for limit, count in limits_of(text(ad, name) or ""):
                self.tokens[limit] = self.tokens.get(limit, 0.0) + count
        user = text(ad, "AccountingGroup") or text(ad, "RemoteUser")
        suspended = text(ad, "Activity") == "Suspended" and self.flag("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES", False)
        if text(ad, "State") in ("Claimed", "Preempting") and user and not suspended:
            self.charge(user, slot.weight)
        return slot

    def weight_of(self, ad: ClassAd) -> float:
        weight = number(ad, "SlotWeight", 1.0) if self.weighted else 1.0
        return 1.0 if weight is None or weight < 0 else weight

    def _entries(self, jobs: list[ClassAd]) -> list[Entry]:
        entries: dict[str, Entry] = {}
        order = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")

        def place(ad: ClassAd) -> tuple[float, ...]:
            ranks = tuple(-(number(ad, name, 0.0) or 0.0) for name in order)
            return (*ranks, number_of(ad, "ClusterId"), number_of(ad, "ProcId"))

        first: dict[tuple[str, str], str] = {}
        wanted = self.knobs.get("NEGOTIATOR_JOB_CONSTRAINT")
        for ad in sorted(jobs, key=place):
            name = f"{ad['AccountingGroup']}@d"
            entry = entries.setdefault(name, Entry(name))
            entry.idle += 1
            weight = number(ad, "RequestCpus", 1.0) or 1.0
            entry.demand += weight if self.flag("NEGOTIATOR_USE_WEIGHTED_DEMAND", True) else 1
            if wanted and ExprTree(wanted).eval(ad) is not True:
                continue
            like = ClassAd({k: ad.lookup(k) for k in ad if k not in ("ClusterId", "ProcId", "QDate", "JobPrio")})
            key = (name, repr(sorted((k.lower(), str(like.lookup(k))) for k in like)))
            job = f"{ad['ClusterId']}.{ad['ProcId']}"
            autocluster = first.setdefault(key, job)
            if entry.requests and entry.requests[-1].autocluster == autocluster:
                entry.requests[-1].jobs.append(job)
            else:
                entry.requests.append(Request(like, [job], autocluster))
        return list(entries.values())

    def _measure(self) -> float:
        constraint = self.knobs.get("NEGOTIATOR_SLOT_CONSTRAINT")
        assert not constraint, "not modelled"
        sized = self.knobs.get("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT")
        counted = [s for s in self.slots if not sized or ExprTree(sized).eval(s.ad) is True]
        self.lightest = min((s.weight for s in self.slots), default=math.inf)
        self.effective = sum(
            (number(s.ad, "Cpus", 1.0) or 0.0) if flag(s.ad, "PartitionableSlot") else 1.0 for s in counted
        )
        size = sum(s.weight for s in counted)
        kept = []
        for slot in self.slots:
            partitionable = flag(slot.ad, "PartitionableSlot")
            busy = text(slot.ad, "State") in ("Claimed", "Preempting")
            if self.consider:
                retiring = (number(slot.ad, "RetirementTimeRemaining", 0.0) or 0.0) > 0
                if retiring and not self.flag("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION", False):
                    continue
            elif busy and not partitionable:
                continue
            kept.append(slot)
        self.slots = kept
        return size

    # ---- accounts

    def account(self, name: str) -> Account:
        return self.accounts.setdefault(name, Account())

    def charge(self, name: str, weight: float) -> None:
        self.account(name).usage += weight
        self.group_usage[self.group_of(name).name] += weight

    def factor(self, name: str) -> float:
        stored = self.account(name).factor
        if stored is not None and stored >= 1:
            return stored
        group = self.real(f"GROUP_PRIO_FACTOR_{self.group_of(name).name}", 0.0)
        if name.startswith(self.knobs.get("NICE_USER_ACCOUNTING_GROUP_NAME", "nice-user")):
            return self.real("NICE_USER_PRIO_FACTOR", 1e10)
        return max(1.0, group or self.real("DEFAULT_PRIO_FACTOR", 1000.0))

    def effective_priority(self, name: str) -> float:
        return max(0.5, self.account(name).priority) * self.factor(name)

    # ---- the pie

    def run(self) -> Model:
        if self.root.children:
            self.negotiate_groups()
        else:
            self.serve_all(self.entries, None, self.root, math.inf)
        return self

    def serve_all(self, entries: list[Entry], bounded: Group | None, under: Group, quota: float) -> None:
        below = [e for e in entries if 0 < self.account(e.name).floor > self.account(e.name).usage]
        if below:
            self.pie(list(below), bounded, under, quota, floor_round=True)
        self.pie(entries, bounded, under, quota, floor_round=False)

    def limits(self, entries: list[Entry], entry: Entry, weight: float, headroom: float) -> tuple[float, float, float]:
        """Share, limit and limit for free slots of an entry."""
        names = {e.name for e in entries}
        total = sum(1 / self.effective_priority(name) for name in names)
        share = 1 / self.effective_priority(entry.name) / total
        used = self.account(entry.name).usage
        limit = 0.0 if at_least(used, share * weight) else share * weight - used
        if used <= 0 < share * weight:
            # A slice that nothing was taken of is not noise, however small.
            limit = max(share * weight, 2e-9)
        if self.flag("NEGOTIATOR_IGNORE_USER_PRIORITIES", False):
            limit = math.inf
        free = min(limit, max(0.0, headroom))
        return share, (limit if self.consider else free), free

    def pie(
        self, entries: list[Entry], bounded: Group | None, under: Group, quota: float, *, floor_round: bool
    ) -> None:
        weight = min(self.pool, quota)
        spin = 0
        while True:
            spin += 1
            lenient = spin == 1 and self.consider
            in_use = self.group_usage[bounded.name] if bounded else 0.0
            headroom = quota - in_use if bounded else math.inf
            if not lenient and bounded and at_least(in_use, quota):
                return
            if not self.consider:
                entries[:] = [e for e in entries if e.idle > 0]
            left = [sum(self.limits(entries, e, weight, headroom)[1] for e in entries)]
            if not self.consider and left[0] <= 0:
                return
            if spin == 1:
                entries[:] = sorted(entries, key=lambda e: self.order(entries, e, weight, headroom))
            before, many = left[0], len(entries)
            everybody = list(entries)
            # Shares are those of the list at the start of the spin, usage is of now.
            for entry in everybody:
                if not lenient and bounded and at_least(self.group_usage[bounded.name], quota):
                    break
                done = self.visit(
                    entry,
                    self.limits(everybody, entry, weight, headroom),
                    left,
                    spin,
                    lenient,
                    under,
                    weight,
                    floor_round,
                )
                if done:
                    entries.remove(entry)
            for entry in self.entries:
                for request in entry.requests:
                    request.offered -= request.given_back
                    request.given_back = 0
            progress = left[0] < before - 1e-12 or len(entries) < many
            if not progress or not entries or not self.slots or floor_round:
                return

    def order(self, entries: list[Entry], entry: Entry, weight: float, headroom: float) -> tuple[Any, ...]:
        used = self.account(entry.name).usage
        limit = self.limits(entries, entry, weight, headroom)[1]
        limit = min(limit, sys.float_info.max)
        starved = used / (used + limit) if used + limit > 0 else math.inf
        return (self.effective_priority(entry.name), starved, entry.name)

    def visit(
        self,
        entry: Entry,
        limits: tuple[float, float, float],
        left: list[float],
        spin: int,
        lenient: bool,
        under: Group,
        weight: float,
        floor_round: bool,
    ) -> bool:
        """Serve one submitter; whether it leaves the list."""
        share, limit, free_limit = limits
        account = self.account(entry.name)
        if floor_round:
            limit = min(limit, account.floor)
        if spin == 1:
            account.share, account.limit = share, share * weight
        if math.isfinite(limit):
            limit = 0.0 if at_least(0.0, left[0]) else min(limit, left[0])
        headroom = math.inf if account.ceiling < 0 else max(0.0, account.ceiling - whole(account.usage))
        if spin > 1 and not (at_least(limit, self.lightest) and at_least(left[0], self.lightest)):
            return False
        if headroom == 0 or headroom < self.lightest:
            return True
        return self.negotiate(entry, limit, free_limit, headroom, left, lenient, under)

    def negotiate(
        self,
        entry: Entry,
        limit: float,
        free_limit: float,
        headroom: float,
        left: list[float],
        lenient: bool,
        under: Group,
    ) -> bool:
        used = used_free = 0.0
        limited = False
        refused: set[str] = set()
        met: set[str] = set()
        for request in entry.requests:
            notes: dict[Any, Any] = {}
            refused_slots: dict[bool, Refused] = {}
            while request.left and request.autocluster not in refused:
                over = at_least(used, limit)
                if (over and not lenient) or at_least(used, headroom):
                    return False
                scan = Scan(self, entry, request, under, over, used, used_free, limit, free_limit)
                scan.met = met
                # With both STABLE switches on, preemption is judged once for all jobs of a request.
                if all(self.flag(f"PREEMPTION_{name}_STABLE", True) for name in ("REQUIREMENTS", "RANK")):
                    scan.notes = notes
                    scan.refused = refused_slots.setdefault(over, Refused())
                found = scan.best()
                if found is None:
                    refused.add(request.autocluster)
                    limited |= scan.refused.too_heavy
                    if not over:
                        self.reject(entry, request, scan.reason())
                    if scan.refused.too_heavy and not self.consider and not self.weighted:
                        return False
                    break
                cost, free = scan.take(found)
                used += cost
                used_free += cost if free else 0.0
                left[0] -= cost
        return not (at_least(used, limit) or limited)

    def reject(self, entry: Entry, request: Request, reason: str) -> None:
        reasons = self.rejections.setdefault((entry.name, request.autocluster), [])
        if reason not in reasons:
            reasons.append(reason)
