"""Small random pools in which the rules of the negotiator meet each other."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.matchmaking.engine import Accounting, CycleOutcome, Knobs, run_cycle
from slotwise.table import AdTable

from tests.support.negotiation.model import Model

NOW = 1_800_000_000
USERS = ("ann", "bob", "eve", "Zoe")
GROUPED = ("phys.ann", "phys.hep.bob", "phys.lep.eve", "chem.joe", "PHYS.HEP.kim", "none.tom", "dora")


@dataclass
class Drawn:
    """A pool, its queue, its knobs and its accounts."""

    slots: list[ClassAd] = field(default_factory=list)
    jobs: list[ClassAd] = field(default_factory=list)
    knobs: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def engine(self) -> CycleOutcome:
        """The cycle by the real engine."""
        slots, jobs = AdTable(), AdTable()
        for ad in self.slots:
            slots.upsert(str(ad["Name"]), ad)
        for ad in self.jobs:
            jobs.upsert(f"{ad['ClusterId']}.{ad['ProcId']}", ad)
        return run_cycle(slots, jobs, None, Knobs(self.knobs), Accounting(self.accounts), NOW)

    def model(self) -> Model:
        """The cycle by the slow model."""
        return Model(self.slots, self.jobs, self.knobs, self.accounts).run()


def _ad(**attributes: Any) -> ClassAd:
    return ClassAd(
        {name: ExprTree(v[1:]) if isinstance(v, str) and v[:1] == "=" else v for name, v in attributes.items()}
    )


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.out = Drawn()
        self.users: tuple[str, ...] = USERS

    def maybe(self, chance: float) -> bool:
        return self.r.random() < chance

    def draw(self) -> Drawn:
        r, out = self.r, self.out
        out.knobs["NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT"] = "False"
        if self.maybe(0.4):
            self.users = GROUPED
            self._groups()
        self._knobs()
        kinds = [k for k in ("static", "busy", "partitionable", "policy", "parents", "odd") if self.maybe(0.45)] or [
            "static"
        ]
        for host, kind in enumerate(kinds):
            getattr(self, f"_{kind}")(f"h{host}")
        for cluster in range(1, r.randint(2, 7)):
            self._cluster(cluster)
        for user in self.users:
            if self.maybe(0.6):
                self._account(f"{user}@d")
        self._starts()
        return out

    def _starts(self) -> None:
        """START that reads what only the negotiator knows; drawn last, so that the rest of a pool stays as it is."""
        if not self.maybe(0.25):
            return
        self.out.knobs |= {"NEGOTIATOR_MATCH_EXPRS": "Most", "Most": self.r.choice(["1", "2", "MY.Cpus - 1"])}
        hosts = {str(ad["Name"]).partition("@")[2] for ad in self.out.slots}
        for host in sorted(hosts):
            start = self.r.choice(
                [
                    None,
                    "RequestCpus <= NegotiatorMatchExprMost",
                    "MY.RemoteUserPrio =?= undefined || RemoteUserPrio > 1000",
                    "RemoteUserFloor =!= 3 && TARGET.SubmitterUserPrio =!= 7300",
                    'RemoteGroup =!= "chem"',
                ]
            )
            for ad in self.out.slots if start else ():
                if str(ad["Name"]).endswith(f"@{host}"):
                    ad["Start"] = ExprTree(str(start))

    def _groups(self) -> None:
        r, knobs = self.r, self.out.knobs
        names = [n for n in ("Phys", "chem", "phys.hep", "Phys.lep") if self.maybe(0.8)] or ["chem"]
        r.shuffle(names)
        knobs["GROUP_NAMES"] = ", ".join(names)
        for name in names:
            if self.maybe(0.6):
                knobs[f"GROUP_QUOTA_{name}"] = r.choice(["0", "2", "5", "7.5", "12", "40"])
            else:
                knobs[f"GROUP_QUOTA_DYNAMIC_{name}"] = r.choice(["0", "0.25", "0.5", "0.75", "1.0"])
            if self.maybe(0.4):
                knobs[f"GROUP_ACCEPT_SURPLUS_{name}"] = r.choice(["True", "False"])
            if self.maybe(0.15):
                knobs[f"GROUP_AUTOREGROUP_{name}"] = "True"
            if self.maybe(0.15):
                knobs[f"GROUP_PRIO_FACTOR_{name}"] = r.choice(["10", "3000"])
        for name, values, chance in (
            ("GROUP_ACCEPT_SURPLUS", ["True"], 0.3),
            ("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", ["False"], 0.4),
            ("NEGOTIATOR_STRICT_ENFORCE_QUOTA", ["False"], 0.2),
            ("NEGOTIATOR_USE_WEIGHTED_DEMAND", ["False"], 0.2),
            ("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS", ["1", "2", "5"], 0.3),
            ("GROUP_QUOTA_ROUND_ROBIN_RATE", ["1", "2", "3.5"], 0.25),
            ("GROUP_SORT_EXPR", ['ifThenElse(AccountingGroup =?= "chem", 1, 2)', "-GroupQuota", "undefined"], 0.2),
        ):
            if self.maybe(chance):
                knobs[name] = r.choice(values)

    def _knobs(self) -> None:
        for name, values, chance in (
            ("NEGOTIATOR_CONSIDER_PREEMPTION", ["False"], 0.2),
            ("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION", ["True"], 0.2),
            # Remainders of unweighted quotas are not modelled.
            ("NEGOTIATOR_USE_SLOT_WEIGHTS", ["False"], 0.0 if self.users is GROUPED else 0.2),
            ("NEGOTIATOR_IGNORE_USER_PRIORITIES", ["True"], 0.1),
            ("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES", ["True"], 0.2),
            ("SLOT_WEIGHT", ["Memory / 1000", "Cpus * 2"], 0.2),
            ("FORCE_NEGOTIATOR_SLOT_WEIGHT", ["True"], 0.15),
            ("ALLOW_PSLOT_PREEMPTION", ["True"], 0.5),
            ("LIC_LIMIT", ["2", "3.5"], 0.5),
            ("CONCURRENCY_LIMIT_DEFAULT_SW", ["2"], 0.5),
            ("CONCURRENCY_LIMIT_DEFAULT", ["4"], 0.2),
            ("NEGOTIATOR_PRE_JOB_RANK", ["0", "Memory", "MY.Rank", "TARGET.RequestMemory - Memory"], 0.3),
            ("NEGOTIATOR_POST_JOB_RANK", ["-SlotID", "KFlops"], 0.2),
            ("PREEMPTION_RANK", ["-RemoteUserPrio", "TotalJobRuntime", "SlotID"], 0.3),
            ("PREEMPTION_REQUIREMENTS_STABLE", ["False"], 0.2),
            ("PREEMPTION_RANK_STABLE", ["False"], 0.2),
            (
                "PREEMPTION_REQUIREMENTS",
                [
                    "True",
                    "RemoteUserPrio > SubmitterUserPrio * 1.2",
                    "TotalJobRuntime > 100",
                    "RemoteUserResourcesInUse > SubmitterUserResourcesInUse",
                    "RemoteGroupResourcesInUse > RemoteGroupQuota",
                    "SubmitterGroup =!= RemoteGroup",
                    "RemoteUserFloor > 0",
                ],
                0.6,
            ),
            ("NEGOTIATOR_IGNORE_JOB_RANKS", ["True"], 0.1),
            ("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", ["Memory > 1000", 'State == "Unclaimed"'], 0.1),
            ("NEGOTIATOR_JOB_CONSTRAINT", ["RequestMemory < 900"], 0.1),
        ):
            if self.maybe(chance):
                self.out.knobs[name] = self.r.choice(values)

    def _account(self, name: str) -> None:
        r = self.r
        values: dict[str, Any] = {"priority": r.choice([0.5, 1.0, 2.0, 7.3, 40.0])}
        if self.maybe(0.6):
            values["factor"] = r.choice([1.0, 500.0, 1000.0, 2500.0, 1e6])
        if self.maybe(0.2):
            values["ceiling"] = r.choice([0, 1, 3, 6])
        if self.maybe(0.25):
            values["floor"] = r.choice([1, 3, 5])
        self.out.accounts[name] = values

    def _slot(self, name: str, number: int, **more: Any) -> None:
        r = self.r
        base: dict[str, Any] = {
            "MyType": "Machine",
            "Name": name,
            "SlotID": number,
            "Cpus": 1,
            "Memory": 1000,
            "Disk": 100000,
            "State": "Unclaimed",
            "Activity": "Idle",
            "Rank": 0.0,
            "CurrentRank": 0.0,
            "MachineResources": "Cpus Memory Disk Swap",
            "Requirements": "=Start && TARGET.RequestMemory <= MY.Memory && TARGET.RequestCpus <= MY.Cpus",
            "Start": True,
            "MyAddress": "<127.0.0.1:1?addrs=127.0.0.1-1>",
        }
        if self.maybe(0.9):
            base["SlotWeight"] = r.choice(["=Cpus", "=Cpus", "=Cpus", "=Cpus + Memory / 4000.0", 1.5])
        self.out.slots.append(_ad(**(base | more)))

    def _static(self, host: str) -> None:
        cpus, memory = self.r.choice([1, 1, 2, 4]), self.r.choice([800, 1000, 4000])
        start = self.r.choice(
            [True, True, "=TARGET.Vip =?= true", "=TARGET.SubmitterUserPrio < 2000", "=RequestCpus == 1"]
        )
        for n in range(1, self.r.randint(2, 14)):
            self._slot(f"slot{n}@{host}", n, Cpus=cpus, Memory=memory, Start=start, KFlops=self.r.choice([1000, 2000]))

    def _held(self) -> dict[str, Any]:
        r, user = self.r, f"{self.r.choice(self.users)}@d"
        held: dict[str, Any] = {
            "State": r.choice(["Claimed", "Claimed", "Preempting"]),
            "Activity": r.choice(["Busy", "Busy", "Idle", "Suspended"]),
            "RemoteUser": f"{user.rpartition('.')[2]}",
            "RemoteOwner": user,
            "AccountingGroup": user,
            "TotalJobRuntime": r.choice([5, 50, 500, 5000]),
            "CurrentRank": r.choice([0.0, 0.0, 1.0, 3.0]),
        }
        if self.maybe(0.15):
            del held["AccountingGroup"]
            held["RemoteUser"] = user
        if self.maybe(0.1):
            held |= {"PreemptingUser": f"{r.choice(self.users)}@d", "PreemptingRank": r.choice([0.0, 2.0])}
        if self.maybe(0.2):
            held["RetirementTimeRemaining"] = r.choice([0, 600])
        if self.maybe(0.2):
            held["ConcurrencyLimits"] = r.choice(["lic", "LIC:0.5,sw.a", "bad-name,lic"])
        return held

    def _rank(self) -> Any:
        return self.r.choice([0.0, 0.0, "=TARGET.Vip =?= true", "=(TARGET.Vip =?= true) * 2.0", "=TARGET.JobFavour"])

    def _busy(self, host: str) -> None:
        cpus, rank = self.r.choice([1, 1, 2]), self._rank()
        for n in range(1, self.r.randint(2, 12)):
            self._slot(f"slot{n}@{host}", n, Cpus=cpus, Rank=rank, **(self._held() if self.maybe(0.8) else {}))

    def _partitionable(self, host: str) -> None:
        for n in range(1, self.r.randint(2, 4)):
            cpus = self.r.choice([2, 4, 8])
            self._slot(f"slot1@{host}-{n}", 1, Cpus=cpus, Memory=cpus * 1000, PartitionableSlot=True)

    def _policy(self, host: str) -> None:
        for n in range(1, self.r.randint(2, 4)):
            cpus = self.r.choice([2, 4, 6])
            self._slot(
                f"slot1@{host}-{n}",
                1,
                Cpus=cpus,
                Memory=cpus * 1000,
                PartitionableSlot=True,
                SlotWeight=self.r.choice(["=Cpus", "=Memory / 1000.0"]),
                ConsumptionCpus="=quantize(TARGET.RequestCpus, {1})",
                ConsumptionMemory=self.r.choice(
                    ["=quantize(target.RequestMemory,{ 128 })", "=quantize(target.RequestMemory,{ 1000 })"]
                ),
                ConsumptionDisk="=quantize(target.RequestDisk,{ 1024 })",
                NumClaims=self.r.choice([cpus, cpus, 1]),
                **(
                    {
                        "Gadgets": 2,
                        "MachineResources": "Cpus Memory Disk Swap Gadgets",
                        "ConsumptionGadgets": "=TARGET.RequestGadgets ?: 0",
                    }
                    if self.maybe(0.4)
                    else {}
                ),
            )

    def _parents(self, host: str) -> None:
        """Partitionable slots that are all in use."""
        for n in range(1, self.r.randint(2, 4)):
            rank = self._rank()
            children = self.r.randint(1, 4)
            names = [f"slot1_{c}@{host}-{n}" for c in range(1, children + 1)]
            lists: dict[str, list[Any]] = {}
            for name in names:
                held = self._held() | {"Cpus": self.r.choice([1, 2]), "Memory": 1000}
                held.pop("PreemptingUser", None), held.pop("PreemptingRank", None)
                held["RetirementTimeRemaining"] = 0
                self._slot(name, 1, DynamicSlot=True, PslotRollupInformation=True, Rank=rank, **held)
                for attribute in ("State", "CurrentRank", "Cpus", "Memory", "RetirementTimeRemaining"):
                    lists.setdefault(attribute, []).append(held[attribute])
            rolled = {f"Child{name}": values for name, values in lists.items()}
            self._slot(
                f"slot1@{host}-{n}",
                1,
                Cpus=self.r.choice([0, 1]),
                Memory=self.r.choice([0, 500]),
                PartitionableSlot=True,
                PslotRollupInformation=True,
                NumDynamicSlots=children,
                Rank=rank,
                ChildName=names,
                ChildDisk=[100000] * children,
                **rolled,
            )

    def _odd(self, host: str) -> None:
        odd: list[dict[str, Any]] = [
            {"Requirements": "=undefined"},
            {"Requirements": "=error"},
            {"Requirements": 1},
            {"Requirements": "=TARGET.NoSuch"},
            {"SlotWeight": -1},
            {"SlotWeight": "=NoSuch"},
            {"SlotWeight": 0},
            {"Rank": "=TARGET.NoSuch"},
            {"NegotiatorRequirements": "=TARGET.Vip =?= true", "Start": False},
            {"State": "Owner"},
            {"State": "Drained"},
            {"Offline": True},
            {"CurrentRank": "=undefined"} | self._held(),
            {"AccountingGroup": "=undefined"} | {"State": "Claimed", "RemoteUser": "bob@d"},
        ]
        for n, more in enumerate(self.r.sample(odd, self.r.randint(1, 6)), 1):
            self._slot(f"slot{n}@{host}", n, **more)

    def _cluster(self, cluster: int) -> None:
        r = self.r
        job: dict[str, Any] = {
            "AccountingGroup": r.choice(self.users),
            "Owner": "peer",
            "User": "peer@d",
            "JobStatus": 1,
            "JobUniverse": 5,
            "QDate": r.choice([10, 10, 20]),
            "JobPrio": r.choice([0, 0, 0, 5, -3]),
            "RequestCpus": r.choice([1, 1, 1, 2, 3]),
            "RequestMemory": r.choice([100, 700, 1000, 3000]),
            "RequestDisk": 100,
            "Requirements": r.choice(
                [
                    "=true",
                    "=TARGET.Memory >= RequestMemory",
                    "=TARGET.Cpus >= RequestCpus && TARGET.Memory >= MY.RequestMemory",
                    "=TARGET.RemoteUserPrio =!= 500.0",
                ]
            ),
            "Rank": r.choice([0.0, 0.0, "=TARGET.Memory", "=-TARGET.SlotID", "=TARGET.Cpus > 1", "=NoSuch"]),
        }
        if self.maybe(0.25):
            job["Vip"] = True
        if self.maybe(0.25):
            job["JobFavour"] = r.choice([1, 2.5, 4])
        if self.maybe(0.2):
            job["RequestGadgets"] = 1
        if self.maybe(0.3):
            job["ConcurrencyLimits"] = r.choice(
                [
                    "lic",
                    "LIC:2",
                    "sw.b",
                    "sw.b:1.5,lic",
                    '=ifThenElse(TARGET.Memory > 2000, "lic", "other")',
                    '=strcat("l","ic")',
                ]
            )
        if self.maybe(0.1):
            job["PreJobPrio1"] = r.choice([-1, 1])
        for proc in range(r.randint(1, 14)):
            self.out.jobs.append(_ad(ClusterId=cluster, ProcId=proc, **job))


def drawn(seed: int) -> Drawn:
    """The pool with this number."""
    return _Drawing(seed).draw()


def alike(one: Any, other: Any) -> bool:
    """Whether both are the same, rounding noise of numbers aside."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def seen_by_engine(pool: Drawn) -> dict[str, Any]:
    """What the engine decided, in terms that the model has, too."""
    outcome = pool.engine()
    matches = [(m.job, m.slot, m.preempts, m.preemption, m.cost) for m in outcome.matches()]
    # The engine joins jobs that differ in nothing the cycle looks at, the model only equal ones.
    rejections = sorted({(r.submitter, r.reason) for r in outcome.rejections()})
    shares = {s.name: (s.share, s.limit) for s in outcome.submitters() if s.share is not None}
    quotas = {g.name: g.quota for g in outcome.groups()} if len(outcome.groups()) > 1 else {}
    return {"matches": matches, "rejections": rejections, "shares": shares, "quotas": quotas}


def seen_by_model(pool: Drawn) -> dict[str, Any]:
    """What the model decided."""
    model = pool.model()
    matches = [(m.job, m.slot, m.preempts, m.kind, m.cost) for m in model.matches]
    rejections = sorted({(name, why) for (name, _), reasons in model.rejections.items() for why in reasons})
    shares = {n: (a.share, a.limit) for n, a in model.accounts.items() if a.share is not None}
    quotas = {g.name: g.quota for g in model.root.everyone()} if model.root.children else {}
    return {"matches": matches, "rejections": rejections, "shares": shares, "quotas": quotas}
