"""One job of the slow model looks at all slots, and takes the best."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slotwise.classad import ClassAd, ExprTree

from tests.support.ads import texts_of
from tests.support.negotiation.facts import (
    USER_OF_SLOT,
    Entry,
    Group,
    Match,
    Request,
    Slot,
    at_least,
    consumption,
    flag,
    has_policy,
    limits_of,
    number,
    policy_cost,
    resources,
    symmetric,
    text,
    value_of,
)

if TYPE_CHECKING:
    from tests.support.negotiation.model import Model

PRE_JOB_RANK = "(10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) - (100000 * Cpus) - Memory"
POST_JOB_RANK = (
    "(RemoteOwner =?= UNDEFINED) * (ifThenElse(isUndefined(KFlops), 1000, KFlops) - SlotID "
    "- 1.0e10 * (Offline =?= True))"
)
PREEMPTION_RANK = "(RemoteUserPrio * 1000000) - ifThenElse(isUndefined(TotalJobRuntime), 0, TotalJobRuntime)"


@dataclass
class Candidate:
    """A slot that a request could get."""

    slot: Slot
    #: The slot's ad as the job sees it: with its user, and as large as it is after eviction.
    ad: ClassAd
    state: int
    key: tuple[Any, ...]
    cost: float
    evicts: list[Slot] = field(default_factory=list)


@dataclass
class Refused:
    """Slots that were a request's best and could not be had: limits only get tighter while it is served."""

    slots: set[str] = field(default_factory=set)
    too_heavy: bool = False
    limits: set[str] = field(default_factory=set)


class Scan:
    """All slots looked at for one job."""

    def __init__(
        self,
        model: Model,
        entry: Entry,
        request: Request,
        under: Group,
        only_rank: bool,
        used: float,
        used_free: float,
        limit: float,
        free_limit: float,
    ) -> None:
        self.model, self.entry, self.request, self.only_rank = model, entry, request, only_rank
        self.used, self.used_free, self.limit, self.free_limit = used, used_free, limit, free_limit
        self.protected = False
        self.refused = Refused()
        self.job = request.ad.copy()
        priority = model.effective_priority(entry.name)
        self.job["SubmittorPrio"] = self.job["SubmitterUserPrio"] = priority
        self.job["SubmitterUserResourcesInUse"] = model.account(entry.name).usage
        self.job["SubmitterNegotiatingGroup"] = under.name
        self.job["SubmitterAutoregroup"] = model.root.regroup and under is model.root
        if model.root.children:
            group = model.group_of(entry.name)
            self.job["SubmitterGroup"] = group.name
            self.job["SubmitterGroupResourcesInUse"] = model.group_usage[group.name]
            self.job["SubmitterGroupQuota"] = group.quota
        self.under = under
        self.notes: dict[Any, Any] = {}
        #: Limits that requests of this turn met one after the other, by what their ads say.
        self.met: set[str] = set()

    def noted(self, what: str, slot: Slot, expr: ExprTree, ad: ClassAd) -> Any:
        """The value of a preemption expression, worked out once."""
        key = (what, slot.name, self.only_rank)
        if key not in self.notes:
            self.notes[key] = expr.eval(ad, self.job)
        return self.notes[key]

    def reason(self) -> str:
        if self.refused.limits:
            return f"concurrency limit: {', '.join(sorted(self.refused.limits))}"
        if self.protected:
            return "PREEMPTION_REQUIREMENTS == False"
        return "submitter limit exceeded" if self.refused.too_heavy else "no match found"

    def best(self) -> Candidate | None:
        fixed = text(self.job, "ConcurrencyLimits")
        if fixed is not None and self.over(fixed):
            # No slot is looked at, so none is too heavy.
            self.refused.too_heavy = False
            self.met |= self.refused.limits
            self.refused.limits |= self.met
            return None
        self.met.clear()
        slots = [slot for slot in self.model.slots if slot.name not in self.refused.slots]
        found = [c for c in map(self.look, slots) if c is not None]
        # Of equals the one that was put back least, then the first by name.
        found.sort(key=lambda c: (*(-k for k in c.key), c.slot.turns, c.slot.name.encode()))
        for candidate in found:
            if self.fits(candidate):
                return candidate
            self.refused.slots.add(candidate.slot.name)
        return None

    def fits(self, candidate: Candidate) -> bool:
        """Whether limits let the submitter have it."""
        prio = candidate.state == 0
        used, limit = (self.used, self.limit) if prio else (self.used_free, self.free_limit)
        fits = at_least(limit, used + candidate.cost) or (used <= 0 and not at_least(0.0, limit))
        if candidate.state != 1 and not fits:
            self.refused.too_heavy = True
            return False
        limits = self.limits_on(candidate)
        return limits is None or not self.over(limits)

    def limits_on(self, candidate: Candidate) -> str | None:
        """ConcurrencyLimits where they are no text in the job's ad, but depend on the slot."""
        if "ConcurrencyLimits" not in self.job or text(self.job, "ConcurrencyLimits") is not None:
            return None
        value = self.job.lookup("ConcurrencyLimits").eval(self.job, candidate.ad)
        return value if isinstance(value, str) else None

    def over(self, limits: str) -> bool:
        for name, count in limits_of(limits):
            if not at_least(self.model_limit(name), self.model.tokens.get(name, 0.0) + count):
                self.refused.limits.add(name)
                return True
        return False

    def model_limit(self, name: str) -> float:
        default = self.model.real("CONCURRENCY_LIMIT_DEFAULT", 2308032.0)
        if "." in name:
            default = self.model.real(f"CONCURRENCY_LIMIT_DEFAULT_{name.rpartition('.')[0]}", default)
        return self.model.real(f"{name}_LIMIT", default)

    def remote(self, ad: ClassAd) -> ClassAd:
        """The slot with what is known of its user."""
        user = next((found for found in (text(ad, name) for name in USER_OF_SLOT) if found), None)
        if user is None or not self.model.consider:
            return ad
        ad, model = ad.copy(), self.model
        ad["RemoteUserPrio"] = model.effective_priority(user)
        ad["RemoteUserFloor"] = model.account(user).floor
        ad["RemoteUserResourcesInUse"] = model.account(user).usage
        if model.root.children:
            group = model.group_of(user)
            ad["RemoteGroup"] = group.name
            ad["RemoteGroupResourcesInUse"] = model.group_usage[group.name]
            ad["RemoteGroupQuota"] = group.quota
        return ad

    def look(self, slot: Slot) -> Candidate | None:
        model = self.model
        evicting = model.consider and model.flag("ALLOW_PSLOT_PREEMPTION", False)
        if evicting and flag(slot.ad, "DynamicSlot") and flag(slot.ad, "PslotRollupInformation"):
            return None
        ad = self.remote(slot.ad)
        taken = consumption(self.job, ad) if has_policy(ad) else None
        if has_policy(ad) and (taken is None or slot.claims <= 0):
            return None
        job = self.job
        if taken is not None:
            job = job.copy()
            for name, amount in taken.items():
                if f"Request{name}" in job:
                    job[f"Request{name}"] = int(amount) if amount == int(amount) else amount
        if not symmetric(job, ad):
            return self.evict(slot, ad) if evicting and flag(ad, "PartitionableSlot") else None
        user = next((found for found in (text(ad, name) for name in USER_OF_SLOT) if found), None)
        state = 2
        if model.consider and user is not None:
            rank = value_of(ad.lookup("Rank") if "Rank" in ad else None, ad, self.job)
            current = number(ad, "CurrentRank")
            higher = rank is not None and current is not None and rank > current
            if higher:
                state = 1
            elif self.only_rank or user == self.entry.name:
                return None
            else:
                state = 0
                if self.noted("allowed", slot, model.expr("PREEMPTION_REQUIREMENTS", "False"), ad) is not True:
                    self.protected = True
                    return None
                if rank is None or current is None or rank < current:
                    return None
        elif self.only_rank:
            return None
        cost = slot.weight if taken is None else policy_cost(slot, taken)
        return self.weigh(slot, ad, state, cost, [])

    def weigh(self, slot: Slot, ad: ClassAd, state: int, cost: float, evicts: list[Slot]) -> Candidate:
        model, low = self.model, -math.inf
        unseen = model.flag("NEGOTIATOR_IGNORE_JOB_RANKS", False)
        # Slots may have to be in order before any job is known.
        job = ClassAd() if unseen else self.job
        pre = value_of(model.expr("NEGOTIATOR_PRE_JOB_RANK", PRE_JOB_RANK), ad, job)
        post = value_of(model.expr("NEGOTIATOR_POST_JOB_RANK", POST_JOB_RANK), ad, job)
        own = value_of(self.job.lookup("Rank") if "Rank" in self.job else None, self.job, ad)
        if unseen:
            own = 0.0
        by = model.expr("PREEMPTION_RANK", PREEMPTION_RANK)
        why = 0.0 if state == 2 or unseen else self.noted("rank", slot, by, ad)
        why = float(why) if isinstance(why, bool | int | float) and why == why else low
        key = (low if pre is None else pre, own or 0.0, low if post is None else post, state, why)
        return Candidate(slot, ad, state, key, cost, evicts)

    def evict(self, slot: Slot, ad: ClassAd) -> Candidate | None:
        """A partitionable slot that fits once some of its dynamic slots are gone."""
        model = self.model
        names = texts_of(ad, "ChildName") if "ChildName" in ad else []
        all_slots = {s.name: s for s in model.slots}
        rank = value_of(ad.lookup("Rank") if "Rank" in ad else None, ad, self.job) or 0.0
        children = [all_slots[name] for name in names if name in all_slots]
        children = [c for c in children if text(c.ad, "State") != "Preempting"]
        children.sort(key=lambda c: number(c.ad, "CurrentRank", 0.0) or 0.0)
        grown, victims, state = ad.copy(), [], 1
        for child in children:
            current = number(child.ad, "CurrentRank", 0.0) or 0.0
            if current > rank:
                break
            if current == rank:
                own = self.remote(child.ad)
                user = next((found for found in (text(own, name) for name in USER_OF_SLOT) if found), "")
                wanted = model.expr("PREEMPTION_REQUIREMENTS", "False")
                if self.only_rank or user == self.entry.name or self.noted("allowed", child, wanted, own) is not True:
                    continue
                state = 0
            for name in resources(ad):
                free, more = number(grown, name), number(child.ad, name, 0.0) or 0.0
                if free is not None:
                    total = math.floor(free) + more
                    grown[name] = int(total) if total == int(total) else total
            victims.append(child)
            if symmetric(self.job, grown):
                grown["RemoteUser"] = "various_dSlot_users"
                return self.weigh(slot, grown, state, model.weight_of(grown), victims)
        return None

    def take(self, found: Candidate) -> tuple[float, bool]:
        model, slot, request = self.model, found.slot, self.request
        ad = slot.ad
        job = request.jobs[request.offered]
        request.offered += 1
        request.given_back += flag(ad, "Offline")
        user = next((u for u in (text(ad, name) for name in USER_OF_SLOT) if u), None)
        busy = found.state != 2
        if found.evicts:
            users = [text(v.ad, "AccountingGroup") or text(v.ad, "RemoteUser") or "" for v in found.evicts]
            user = ",".join(dict.fromkeys(users))
        kind = {0: "priority", 1: "rank", 2: None}[found.state]
        model.matches.append(
            Match(job, request.autocluster, self.entry.name, slot.name, user if busy else None, kind, found.cost)
        )
        limits = text(self.job, "ConcurrencyLimits") or self.limits_on(found)
        for name, count in limits_of(limits or ""):
            model.tokens[name] = model.tokens.get(name, 0.0) + count
        model.charge(self.entry.name, found.cost)
        if has_policy(ad):
            taken = consumption(self.job, ad) or {}
            slot.claims -= 1
            for name, amount in taken.items():
                rest = (number(ad, name, 0.0) or 0.0) - amount
                ad[name] = int(rest) if rest == int(rest) else rest
            slot.weight = model.weight_of(ad)
        else:
            model.slots.remove(slot)
            # Dynamic slots that are evicted stay in the list, where nobody takes them: they go with their machine.
        return found.cost, not busy
