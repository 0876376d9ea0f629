"""The negotiator's rules once more, slowly: one slot after the other, nothing remembered, nothing shared.

A second opinion for the engine. It knows the rules of a cycle (shares, spins, groups, candidates, preemption, limits)
in the plainest form that can be read next to the manual, for pools of a few dozen slots. Partitionable slots without a
consumption policy are matched once (``NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT = False``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import UNDEFINED, ClassAd, ExprTree

ROOT = "<none>"
PRE_JOB_RANK = "(10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) - (100000 * Cpus) - Memory"
POST_JOB_RANK = (
    "(RemoteOwner =?= UNDEFINED) * (ifThenElse(isUndefined(KFlops), 1000, KFlops) - SlotID "
    "- 1.0e10 * (Offline =?= True))"
)
PREEMPTION_RANK = "(RemoteUserPrio * 1000000) - ifThenElse(isUndefined(TotalJobRuntime), 0, TotalJobRuntime)"
GROUP_SORT = (
    'ifThenElse(AccountingGroup =?= "<none>", 3.4e+38, '
    "ifThenElse(GroupQuota > 0, GroupResourcesInUse / GroupQuota, 3.3e+38))"
)
_USER_OF_SLOT = ("PreemptingAccountingGroup", "PreemptingUser", "AccountingGroup", "RemoteUser")
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


class Model:
    """One cycle. Jobs are idle; ``accounts`` by submitter hold priority, factor, ceiling and floor."""

    def __init__(
        self,
        slots: list[ClassAd],
        jobs: list[ClassAd],
        knobs: Mapping[str, str],
        accounts: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.knobs = {name.upper(): value for name, value in knobs.items()}
        self.accounts = {name: Account(**values) for name, values in accounts.items()}
        self.matches: list[Match] = []
        self.rejections: dict[tuple[str, str], list[str]] = {}
        self.consider = self.flag("NEGOTIATOR_CONSIDER_PREEMPTION", True)
        self.weighted = self.flag("NEGOTIATOR_USE_SLOT_WEIGHTS", True)
        self.root = self._tree()
        self.group_usage: dict[str, float] = {group.name: 0.0 for group in self.root.everyone()}
        self.tokens: dict[str, float] = {}
        self.slots = [self._slot(ad) for ad in slots]
        self.entries = self._entries(jobs)
        self.pool = self._measure()

    # ---- knobs

    def flag(self, name: str, default: bool) -> bool:
        value = self.knobs.get(name.upper())
        return default if value is None else value.strip().lower() in ("true", "yes", "t", "1")

    def real(self, name: str, default: float) -> float:
        value = self.knobs.get(name.upper())
        return default if value is None else float(value)

    def expr(self, name: str, default: str) -> ExprTree:
        return ExprTree(self.knobs.get(name.upper(), default))

    # ---- preparation

    def _slot(self, ad: ClassAd) -> Slot:
        ad = ad.copy()
        if self.flag("FORCE_NEGOTIATOR_SLOT_WEIGHT", False) or number(ad, "SlotWeight") is None:
            ad["SlotWeight"] = self.expr("SLOT_WEIGHT", "Cpus")
        preempting = number(ad, "PreemptingRank")
        if preempting is not None:
            ad["CurrentRank"] = preempting
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
            return (*ranks, number(ad, "QDate", 0.0) or 0.0, float(ad["ClusterId"]), float(ad["ProcId"]))

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

    # ---- groups

    def _tree(self) -> Group:
        root = Group(ROOT, None, surplus=True)
        names = self.knobs.get("GROUP_NAMES", "").replace(",", " ").split()
        surplus, regroup = self.flag("GROUP_ACCEPT_SURPLUS", False), self.flag("GROUP_AUTOREGROUP", False)
        self.by_name = {ROOT: root}
        for name in sorted(names, key=lambda n: n.lower().split(".")):
            parent = self.by_name.get(name.lower().rpartition(".")[0] or ROOT)
            if parent is None or name.lower() in self.by_name:
                continue
            static = f"GROUP_QUOTA_{name}".upper() in self.knobs
            quota = self.real(f"GROUP_QUOTA_{name}" if static else f"GROUP_QUOTA_DYNAMIC_{name}", 0.0)
            group = Group(
                name,
                parent,
                static=static,
                configured=quota,
                surplus=self.flag(f"GROUP_ACCEPT_SURPLUS_{name}", surplus),
                regroup=self.flag(f"GROUP_AUTOREGROUP_{name}", regroup),
            )
            parent.children.append(group)
            self.by_name[name.lower()] = group
        root.regroup = any(group.regroup for group in self.by_name.values())
        return root

    def group_of(self, submitter: str) -> Group:
        group = self.root
        path = submitter.rpartition("@")[0].rpartition(".")[0].lower()
        at = ""
        for part in path.split(".") if path else ():
            at = f"{at}.{part}" if at else part
            if at not in self.by_name:
                break
            group = self.by_name[at]
        return group

    def assign(self, group: Group, quota: float) -> None:
        if quota <= 0:
            return
        oversubscribe = self.flag("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", True)
        fixed = sum(c.configured for c in group.children if c.static)
        fractions = sum(c.configured for c in group.children if not c.static)
        fixed_given = fixed if oversubscribe else min(fixed, quota)
        rest = max(0.0, quota - fixed_given)
        given = 0.0
        for child in group.children:
            if child.static:
                part = child.configured * fixed_given / fixed if fixed > 0 else 0.0
            else:
                part = child.configured * rest / max(1.0, fractions)
            self.assign(child, part)
            given += part
        group.subtree_quota = quota
        keeps = quota if oversubscribe and group is not self.root else quota - given
        group.quota = max(0.0, keeps)

    def fairshare(self, group: Group) -> float:
        group.allocated = min(group.requested, group.quota)
        group.requested -= group.allocated
        group.subtree_requested = group.requested
        surplus = group.quota - group.allocated
        if not group.children:
            return surplus
        for child in group.children:
            surplus += self.fairshare(child)
            if child.surplus:
                group.subtree_requested += child.subtree_requested
        return self.hand_down(group, surplus)

    def hand_down(self, group: Group, surplus: float) -> float:
        demand = group.subtree_requested
        if surplus <= 0 or demand <= 0:
            return max(0.0, surplus)
        wanted = [c.subtree_requested if c.surplus else 0.0 for c in group.children] + [group.requested]
        quotas = [c.subtree_quota for c in group.children] + [group.quota]
        given = [0.0] * len(wanted)
        if surplus >= demand:
            given = [max(0.0, w) for w in wanted]
            surplus -= demand
        else:
            for weights in (quotas, [1.0] * len(wanted)):
                while surplus > 1e-12:
                    total = sum(w for w, want in zip(weights, wanted, strict=True) if want > 0)
                    if total <= 0:
                        break
                    parts = [
                        min(want, surplus * w / total) if want > 0 else 0.0
                        for w, want in zip(weights, wanted, strict=True)
                    ]
                    capped = any(
                        want > 0 and surplus * w / total > want for w, want in zip(weights, wanted, strict=True)
                    )
                    given = [g + p for g, p in zip(given, parts, strict=True)]
                    wanted = [w - p for w, p in zip(wanted, parts, strict=True)]
                    surplus = surplus - sum(parts) if capped else 0.0
        for child, part in zip(group.children, given, strict=False):
            if part > 0:
                self.hand_down(child, part)
        group.allocated += given[-1]
        group.requested -= given[-1]
        group.subtree_requested = demand - sum(given)
        return max(0.0, surplus)

    def negotiate_groups(self) -> None:
        groups = list(self.root.everyone())
        for entry in self.entries:
            self.group_of(entry.name).entries.append(entry)
        for group in groups:
            group.requested = sum(entry.demand for entry in group.entries)
            group.usage = self.group_usage[group.name]
        # What runs is demand, too; jobs of the model are all idle.
        if self.root.regroup:
            for group in groups[1:]:
                if group.regroup:
                    self.root.entries += group.entries
        total = self.pool if self.weighted else self.effective
        self.assign(self.root, total)
        for _ in range(int(self.real("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS", 3))):
            self.fairshare(self.root)
            if self.root.regroup:
                self.root.quota = self.root.allocated = total
            allocated = sum(group.allocated for group in groups)
            any_surplus = any(g.surplus for g in groups[1:]) or self.flag("GROUP_ACCEPT_SURPLUS", False)
            most = max(max(0.0, (g.allocated if any_surplus else g.quota) - g.usage) for g in groups)
            rate, turn = self.real("GROUP_QUOTA_ROUND_ROBIN_RATE", 1e100), 0.0
            order = self.sorted_groups(groups)
            while True:
                turn = min(turn + rate, most)
                for group in order:
                    self.negotiate_group(group, turn / most if most > 0 else 1.0)
                if turn >= most:
                    break
            used = 0.0
            for group in groups:
                group.usage = self.group_usage[group.name]
                used += min(group.usage, group.allocated)
                if at_least(group.usage, group.allocated):
                    group.requested += group.allocated
                else:
                    group.requested = group.usage
            if at_least(used, allocated):
                break

    def sorted_groups(self, groups: list[Group]) -> list[Group]:
        expr = self.expr("GROUP_SORT_EXPR", GROUP_SORT)

        def key(group: Group) -> tuple[bool, float]:
            ad = ClassAd(
                {
                    "AccountingGroup": group.name,
                    "GroupQuota": group.quota,
                    "GroupResourcesAllocated": group.allocated,
                    "GroupResourcesInUse": self.group_usage[group.name],
                }
            )
            value = expr.eval(ad)
            known = isinstance(value, bool | int | float)
            return (self.root.regroup and group is self.root, float(value) if known else 3.4028235e38)

        return sorted(groups, key=key)

    def negotiate_group(self, group: Group, part: float) -> None:
        if group.allocated <= 0 or not group.entries:
            return
        if not self.consider and at_least(group.usage, group.allocated):
            return
        target = max(group.allocated, group.quota)
        missing = max(0.0, target - group.usage)
        amount = min(target, group.usage + missing * part) if missing > 0 else target
        if not self.weighted:
            amount = whole(amount)
        if self.flag("NEGOTIATOR_STRICT_ENFORCE_QUOTA", True):
            held = self.group_usage[group.name]
            more = amount - held
            node: Group | None = group
            while node is not None:
                if not node.surplus:
                    cap = node.configured if node.static else node.subtree_quota
                    subtree = sum(self.group_usage[g.name] for g in node.everyone())
                    more = min(more, max(0.0, cap - subtree))
                node = node.parent
            amount = held + more
        bounded = None if group is self.root and self.root.regroup else group
        self.serve_all(group.entries, bounded, group, whole(max(0.0, amount)))

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
        limit = max(0.0, share * weight - self.account(entry.name).usage)
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
            limit = min(limit, left[0])
        headroom = math.inf if account.ceiling < 0 else max(0.0, account.ceiling - whole(account.usage))
        if not any(request.left for request in entry.requests):
            return True
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
        for request in entry.requests:
            notes: dict[Any, Any] = {}
            while request.left and request.autocluster not in refused:
                over = at_least(used, limit)
                if (over and not lenient) or at_least(used, headroom):
                    return False
                scan = Scan(self, entry, request, under, over, used, used_free, limit, free_limit)
                # With both STABLE switches on, preemption is judged once for all jobs of a request.
                if all(self.flag(f"PREEMPTION_{name}_STABLE", True) for name in ("REQUIREMENTS", "RANK")):
                    scan.notes = notes
                found = scan.best()
                if found is None:
                    refused.add(request.autocluster)
                    limited |= scan.too_heavy
                    if not over:
                        self.reject(entry, request, scan.reason())
                    if scan.too_heavy and not self.consider and not self.weighted:
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


@dataclass
class Candidate:
    """A slot that a request could get."""

    slot: Slot
    state: int
    key: tuple[Any, ...]
    cost: float
    evicts: list[Slot] = field(default_factory=list)


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
        self.too_heavy = self.protected = False
        self.limited: str | None = None
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

    def noted(self, what: str, slot: Slot, expr: ExprTree, ad: ClassAd) -> Any:
        """The value of a preemption expression, worked out once."""
        key = (what, slot.name, self.only_rank)
        if key not in self.notes:
            self.notes[key] = expr.eval(ad, self.job)
        return self.notes[key]

    def reason(self) -> str:
        if self.limited:
            return f"concurrency limit: {self.limited}"
        if self.protected:
            return "PREEMPTION_REQUIREMENTS == False"
        return "submitter limit exceeded" if self.too_heavy else "no match found"

    def best(self) -> Candidate | None:
        fixed = text(self.job, "ConcurrencyLimits")
        if fixed is not None and self.over(fixed):
            return None
        found = [c for c in map(self.look, self.model.slots) if c is not None]
        # Of equals the one that was put back least, then the first by name.
        return min(found, key=lambda c: (*(-k for k in c.key), c.slot.turns, c.slot.name.encode()), default=None)

    def over(self, limits: str) -> bool:
        for name, count in limits_of(limits):
            if not at_least(self.model_limit(name), self.model.tokens.get(name, 0.0) + count):
                self.limited = name
                return True
        return False

    def model_limit(self, name: str) -> float:
        default = self.model.real("CONCURRENCY_LIMIT_DEFAULT", 2308032.0)
        if "." in name:
            default = self.model.real(f"CONCURRENCY_LIMIT_DEFAULT_{name.rpartition('.')[0]}", default)
        return self.model.real(f"{name}_LIMIT", default)

    def remote(self, ad: ClassAd) -> ClassAd:
        """The slot with what is known of its user."""
        user = next((found for found in (text(ad, name) for name in _USER_OF_SLOT) if found), None)
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
        if has_policy(ad) and taken is None:
            return None
        job = self.job
        if taken is not None:
            job = job.copy()
            for name, amount in taken.items():
                if f"Request{name}" in job:
                    job[f"Request{name}"] = int(amount) if amount == int(amount) else amount
        if not symmetric(job, ad):
            return self.evict(slot, ad) if evicting and flag(ad, "PartitionableSlot") else None
        user = next((found for found in (text(ad, name) for name in _USER_OF_SLOT) if found), None)
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

    def weigh(self, slot: Slot, ad: ClassAd, state: int, cost: float, evicts: list[Slot]) -> Candidate | None:
        model = self.model
        used, limit = (self.used, self.limit) if state == 0 else (self.used_free, self.free_limit)
        if state != 1 and not (at_least(limit, used + cost) or (used <= 0 and limit > 0)):
            self.too_heavy = True
            return None
        if "ConcurrencyLimits" in self.job and text(self.job, "ConcurrencyLimits") is None:
            limits = self.job.lookup("ConcurrencyLimits").eval(self.job, ad)
            if isinstance(limits, str) and self.over(limits):
                return None
        low = -math.inf
        pre = value_of(model.expr("NEGOTIATOR_PRE_JOB_RANK", PRE_JOB_RANK), ad, self.job)
        post = value_of(model.expr("NEGOTIATOR_POST_JOB_RANK", POST_JOB_RANK), ad, self.job)
        own = value_of(self.job.lookup("Rank") if "Rank" in self.job else None, self.job, ad)
        if model.flag("NEGOTIATOR_IGNORE_JOB_RANKS", False):
            own = 0.0
        why = 0.0 if state == 2 else self.noted("rank", slot, model.expr("PREEMPTION_RANK", PREEMPTION_RANK), ad)
        why = float(why) if isinstance(why, bool | int | float) and why == why else low
        key = (low if pre is None else pre, own or 0.0, low if post is None else post, state, why)
        return Candidate(slot, state, key, cost, evicts)

    def evict(self, slot: Slot, ad: ClassAd) -> Candidate | None:
        """A partitionable slot that fits once some of its dynamic slots are gone."""
        model = self.model
        names = ad.eval("ChildName") if "ChildName" in ad else []
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
                user = next((found for found in (text(own, name) for name in _USER_OF_SLOT) if found), "")
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
        user = next((u for u in (text(ad, name) for name in _USER_OF_SLOT) if u), None)
        busy = found.state != 2
        if found.evicts:
            users = [text(v.ad, "AccountingGroup") or text(v.ad, "RemoteUser") or "" for v in found.evicts]
            user = ",".join(dict.fromkeys(users))
        kind = {0: "priority", 1: "rank", 2: None}[found.state]
        model.matches.append(
            Match(job, request.autocluster, self.entry.name, slot.name, user if busy else None, kind, found.cost)
        )
        limits = text(self.job, "ConcurrencyLimits")
        if limits is None and "ConcurrencyLimits" in self.job:
            value = self.job.lookup("ConcurrencyLimits").eval(self.job, self.remote(ad))
            limits = value if isinstance(value, str) else None
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
            if slot.claims <= 0:
                model.slots.remove(slot)
        else:
            model.slots.remove(slot)
            for victim in found.evicts:
                model.slots.remove(victim)
        return found.cost, not busy


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


__all__ = ["UNDEFINED", "Match", "Model"]
