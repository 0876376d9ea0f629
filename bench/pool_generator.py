"""Synthetic pools and queues for the negotiation bench: everything follows from a scenario's numbers and seed.

Slot ads have 150 and more attributes, in a few machine classes with START expressions that read the job; volatile
numbers (load, idle time, disk, benchmark results) differ from machine to machine as they do in a real pool.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from printed_ads import printed_columns, printed_gpus, printed_request, printed_slot
from slotwise.classad import ClassAd
from slotwise.table import AdTable

SCENARIOS = Path(__file__).resolve().parent / "scenarios"
NOW = 1_800_000_000

_STARTS = [
    "true",
    "TARGET.RequestMemory <= 65536",
    "(TARGET.JobUniverse == 5 || TARGET.JobUniverse == 7) && TARGET.NiceUser =!= true",
    'TARGET.Owner =!= "banned" && (TARGET.RequestCpus ?: 1) <= 8',
    'TARGET.AcctGroup =?= undefined || stringListMember(TARGET.AcctGroup, "physics,chem,bio")',
    "(KeyboardIdle > 15 * 60 && LoadAvg - CondorLoadAvg <= 0.3) || TARGET.WantInteractive =?= true",
    "TARGET.RequestGPUs > 0 || TARGET.MayUseGpuNodes =?= true || TARGET.JobPrio >= 0",
    "ifThenElse(TARGET.ExpectedRuntime =?= undefined, true, TARGET.ExpectedRuntime < 86400)",
]
_LIMITS = (
    "MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && TARGET.RequestMemory <= MY.Memory"
    " && MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk"
)
_JOB_REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk)'
    " && (TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer)"
)
_MORE = [
    "",
    " && (TARGET.OpSysMajorVer >= 9)",
    ' && regexp("^EPYC", TARGET.CpuModel)',
    ' && (TARGET.Site =!= "south")',
    "",
]
_RANKS = ["0.0", "TARGET.KFlops", "TARGET.Memory", "0.0"]


@dataclass(frozen=True)
class Scenario:
    """A workload of the bench. ``jobs`` is per autocluster, ``autoclusters`` per submitter."""

    name: str
    slots: int
    submitters: int
    autoclusters: int
    jobs: int
    machine_classes: int = 8
    slots_per_machine: int = 32
    cores: int = 64
    partitionable: bool = False
    churn: float = 0.01
    #: Part of the slots that run jobs, of this many other users.
    claimed: float = 0.0
    users: int = 50
    #: Every request asks for another amount of disk; otherwise for one of 2,000.
    distinct_requests: bool = False
    #: Knobs of the cycle.
    knobs: dict[str, str] = field(default_factory=dict)
    seed: int = 1
    target_s: float | None = None
    reference: str = ""
    quick: bool = True
    #: A folder of ``scenarios`` with ads as the tools of a reference print them; the pool and the queue are made of
    #: those, with names, sizes and versions varied.
    ads: str = ""
    #: GPUs of each machine, each an attribute of its own.
    gpus: int = 0

    @property
    def demand(self) -> int:
        """Idle jobs."""
        return self.submitters * self.autoclusters * self.jobs


def scenarios() -> list[Scenario]:
    """The scenarios of the files in ``bench/scenarios``, in the order of their names."""
    return [Scenario(**json.loads(path.read_text())) for path in sorted(SCENARIOS.glob("*.json"))]


def slot_table(scenario: Scenario) -> AdTable:
    """The slot ads of a scenario."""
    table = AdTable()
    rng = random.Random(scenario.seed)
    machines = scenario.slots if scenario.partitionable else -(-scenario.slots // scenario.slots_per_machine)
    by_class: dict[int, list[int]] = {}
    for machine in range(machines):
        by_class.setdefault(rng.randrange(scenario.machine_classes), []).append(machine)
    per = 1 if scenario.partitionable else scenario.slots_per_machine
    for number, members in sorted(by_class.items()):
        rows = [(m, s) for m in members for s in range(1, per + 1) if m * per + s <= scenario.slots]
        busy = set(rng.sample(rows, int(len(rows) * scenario.claimed)))
        _add_class(table, scenario, number, [row for row in rows if row not in busy], claimed=False)
        if busy:
            _add_class(table, scenario, number, sorted(busy), claimed=True)
    return table


def _add_class(table: AdTable, scenario: Scenario, number: int, rows: list[tuple[int, int]], *, claimed: bool) -> None:
    machines = sorted({m for m, _ in rows})
    rng = random.Random(scenario.seed * 1000 + number)
    speed = {m: 1_300_000 + rng.randrange(400_000) for m in machines}
    disk = {m: (900_000_000 + rng.randrange(50_000_000)) // (1 if scenario.partitionable else 64) for m in machines}
    keys = [f"slot{s}@node{m:06}.cluster.example.org" for m, s in rows]
    address = "<10.{}.{}.{}:9618?addrs=10.{}.{}.{}-9618&alias=node{:06}>"
    sinful = [address.format(m >> 16, m >> 8 & 255, m & 255, m >> 16, m >> 8 & 255, m & 255, m) for m, _ in rows]
    columns: dict[str, list[Any]] = {
        "Name": keys,
        "Machine": [f"node{m:06}.cluster.example.org" for m, _ in rows],
        "MyAddress": sinful,
        "StartdIpAddr": sinful,
        "SlotID": [s for _, s in rows],
        "Disk": [disk[m] for m, _ in rows],
        "LoadAvg": [rng.randrange(20) / 100 for _ in rows],
        "KeyboardIdle": [1000 + rng.randrange(500_000) for _ in rows],
        "ConsoleIdle": [1000 + rng.randrange(500_000) for _ in rows],
        "LastHeardFrom": [NOW - rng.randrange(300) for _ in rows],
        "MyCurrentTime": [NOW - rng.randrange(300) for _ in rows],
        "UpdateSequenceNumber": [rng.randrange(3000) for _ in rows],
    }
    if scenario.ads:
        columns |= printed_columns(number, rows, rng)
    else:
        columns |= {
            "KFlops": [speed[m] for m, _ in rows],
            "Mips": [speed[m] // 50 for m, _ in rows],
        }
    template = _template(scenario, number)
    if claimed:
        users = [f"held{rng.randrange(scenario.users)}@example.org" for _ in rows]
        columns |= {
            "RemoteUser": users,
            "RemoteOwner": users,
            "AccountingGroup": users,
            "EnteredCurrentState": [NOW - rng.randrange(100_000) for _ in rows],
            "TotalJobRunTime": [rng.randrange(100_000) for _ in rows],
        }
        template["State"], template["Activity"] = "Claimed", "Busy"
    table.insert_from_template(template, keys, columns=columns)
    if scenario.gpus:
        for key in keys:
            table.update(key, printed_gpus(scenario, number, rng), [])


def _template(scenario: Scenario, number: int) -> ClassAd:
    if scenario.ads:
        return printed_slot(scenario, number)
    cpus = scenario.cores if scenario.partitionable else 1
    memory = [4096, 2048, 8192, 4096, 3072, 2048, 4096, 6144][number % 8]
    text = {
        "MyType": '"Machine"',
        "Arch": '"X86_64"',
        "OpSys": '"LINUX"',
        "OpSysAndVer": f'"AlmaLinux{8 + number % 2}"',
        "OpSysMajorVer": str(8 + number % 2),
        "CpuModel": f'"{["EPYC 7543", "Xeon 6226R", "EPYC 9654", "Xeon 8358"][number % 4]}"',
        "Site": f'"{["north", "south"][number % 2]}"',
        "Cpus": str(cpus),
        "Memory": str(memory * cpus),
        "TotalCpus": str(scenario.cores),
        "TotalMemory": str(memory * scenario.cores),
        "SlotType": '"Partitionable"' if scenario.partitionable else '"Static"',
        "MachineResources": '"Cpus Memory Disk Swap"',
        "HasFileTransfer": "true",
        "State": '"Unclaimed"',
        "Activity": '"Idle"',
        "CondorLoadAvg": "0.0",
        "CurrentRank": "0.0",
        "RetirementTimeRemaining": "0",
        "SlotWeight": "Cpus",
        "START": _STARTS[number % len(_STARTS)],
        "Rank": '(TARGET.AcctGroup =?= "physics") * 10.0' if number % 4 == 1 else "0.0",
        "Requirements": "START && WithinResourceLimits",
        "WithinResourceLimits": _LIMITS,
    }
    if scenario.partitionable:
        text["PartitionableSlot"] = "true"
    for at in range(125):
        text[f"SiteFact{at:03}"] = f'"value {at} of class {number}"' if at % 2 else str(at * number)
    return ClassAd("[ " + "; ".join(f"{name} = {value}" for name, value in text.items()) + " ]")


def demand_tables(scenario: Scenario) -> tuple[AdTable, AdTable]:
    """Request ads and submitter ads of a scenario."""
    rng = random.Random(scenario.seed + 7)
    requests, submitters = AdTable(), AdTable()
    for submitter in range(scenario.submitters):
        name = f"user{submitter}@example.org"
        idle = scenario.autoclusters * scenario.jobs
        submitters.upsert(name, {"Name": name, "ScheddName": "ap1", "IdleJobs": idle, "RunningJobs": 0})
        for autocluster in range(scenario.autoclusters):
            cluster = submitter * 10_000 + autocluster + 1
            requests.upsert(f"{cluster}.0", _request(scenario, rng, name, cluster))
    return requests, submitters


def _request(scenario: Scenario, rng: random.Random, name: str, cluster: int) -> ClassAd:
    noise = rng.randrange(1 << 20)
    if scenario.ads:
        return printed_request(scenario, noise, name, cluster)
    text = {
        "ClusterId": str(cluster),
        "ProcId": "0",
        "Submitter": f'"{name}"',
        "ScheddName": '"ap1"',
        "Owner": f'"{name.split("@")[0]}"',
        "User": f'"{name}"',
        "JobUniverse": "5",
        "JobStatus": "1",
        "JobPrio": "0",
        "QDate": str(NOW - 600),
        "ResourceRequestCount": str(scenario.jobs),
        "AutoClusterId": str(cluster),
        "RequestCpus": "1",
        "RequestMemory": str(256 * (1 + noise % 8)),
        "RequestDisk": str(1024 + cluster if scenario.distinct_requests else 1024 * (1 + noise // 8 % 2000)),
        "Requirements": _JOB_REQUIREMENTS + _MORE[noise // 3 % len(_MORE)],
        "Rank": "0.0" if scenario.partitionable else _RANKS[noise // 5 % len(_RANKS)],
    }
    if noise % 2:
        text["AcctGroup"] = '"physics"'
    return ClassAd("[ " + "; ".join(f"{key} = {value}" for key, value in text.items()) + " ]")


def accounting_records(scenario: Scenario) -> dict[str, dict[str, float]]:
    """What is stored of those who hold slots: priorities from the best there is to a hundred times worse."""
    if not scenario.claimed:
        return {}
    return {f"held{user}@example.org": {"priority": 0.5 + user} for user in range(scenario.users)}


def churn(table: AdTable, scenario: Scenario, round_: int) -> int:
    """Let a part of the slots report anew; returns how many."""
    rng = random.Random(scenario.seed * 31 + round_)
    keys = table.keys()
    chosen = rng.sample(keys, max(1, int(len(keys) * scenario.churn)))
    for key in chosen:
        change = {
            "LoadAvg": rng.randrange(20) / 100,
            "KeyboardIdle": rng.randrange(500_000),
            "LastHeardFrom": NOW + round_,
        }
        table.update(key, change, [])
    return len(chosen)
