"""Groups in the slow model of the negotiator: quotas, surplus, rounds and turns."""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.classad import ClassAd, ExprTree

from tests.support.negotiation.facts import ROOT, Entry, Group, at_least, whole

GROUP_SORT = (
    'ifThenElse(AccountingGroup =?= "<none>", 3.4e+38, '
    "ifThenElse(GroupQuota > 0, GroupResourcesInUse / GroupQuota, 3.3e+38))"
)


class Knobs:
    """Knob values by name in upper case."""

    def __init__(self, knobs: Mapping[str, str]) -> None:
        self.knobs = {name.upper(): value for name, value in knobs.items()}

    def flag(self, name: str, default: bool) -> bool:
        value = self.knobs.get(name.upper())
        return default if value is None else value.strip().lower() in ("true", "yes", "t", "1")

    def real(self, name: str, default: float) -> float:
        value = self.knobs.get(name.upper())
        return default if value is None else float(value)

    def expr(self, name: str, default: str) -> ExprTree:
        return ExprTree(self.knobs.get(name.upper(), default))


class Groups(Knobs):
    """The tree of groups and its allocation rounds."""

    entries: list[Entry]
    #: Weight of the pool, and its slots with partitionable ones counted by their cores.
    pool: float
    effective: float

    def __init__(self, knobs: Mapping[str, str]) -> None:
        super().__init__(knobs)
        self.consider = self.flag("NEGOTIATOR_CONSIDER_PREEMPTION", True)
        self.weighted = self.flag("NEGOTIATOR_USE_SLOT_WEIGHTS", True)
        self.root = self._tree()
        self.group_usage: dict[str, float] = {group.name: 0.0 for group in self.root.everyone()}

    def serve_all(self, entries: list[Entry], bounded: Group | None, under: Group, quota: float) -> None:
        """Cut one pie."""
        raise NotImplementedError

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
        group.quota = 0.0 if at_least(0.0, keeps) else keeps

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
        for round_ in range(int(self.real("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS", 3))):
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
                    # Once nobody is short of what a later round allots, nothing more is offered.
                    self.negotiate_group(group, turn / most if most > 0 else None if round_ else 1.0)
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
            order = float(value) if isinstance(value, bool | int | float) else 3.4028235e38
            return (self.root.regroup and group is self.root, order)

        return sorted(groups, key=key)

    def negotiate_group(self, group: Group, part: float | None) -> None:
        if group.allocated <= 0 or not group.entries:
            return
        if not self.consider and at_least(group.usage, group.allocated):
            return
        target = max(group.allocated, group.quota)
        missing = max(0.0, target - group.usage)
        amount = target if missing <= 0 else 0.0 if part is None else min(target, group.usage + missing * part)
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
