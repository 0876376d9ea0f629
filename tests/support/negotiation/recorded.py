"""What HTCondor decided on recorded pools, and what a report of ours says in the same terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

Report = dict[str, Any]

#: What slots and jobs of cases in short form say, unless the case says otherwise.
SLOT = {
    "Activity": '"Idle"',
    "Arch": '"X86_64"',
    "Cpus": "1",
    "CurrentRank": "0.0",
    "Disk": "10485760",
    "HasFileTransfer": "true",
    "KFlops": "1500000",
    "LoadAvg": "0.1",
    "MachineResources": '"Cpus Memory Disk Swap"',
    "Memory": "2048",
    "MyType": '"Machine"',
    "OpSys": '"LINUX"',
    "Rank": "0.0",
    "Requirements": "Start && WithinResourceLimits",
    "RetirementTimeRemaining": "0",
    "SlotWeight": "Cpus",
    "Start": "true",
    "State": '"Unclaimed"',
    "WithinResourceLimits": (
        "MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && TARGET.RequestMemory <= MY.Memory"
        " && MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk"
    ),
}
JOB = {
    "JobPrio": "0",
    "JobStatus": "1",
    "JobUniverse": "5",
    "MyType": '"Job"',
    "Owner": '"peer"',
    "Rank": "0.0",
    "RequestCpus": "1",
    "RequestDisk": "1024",
    "RequestMemory": "1024",
    "Requirements": (
        '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk)'
        " && (TARGET.Memory >= RequestMemory) && (TARGET.HasFileTransfer)"
    ),
    "User": '"peer@peer.local"',
}


def _long_form(ads: list[dict[str, Any]]) -> str:
    return "\n\n".join("\n".join(f"{name} = {value}" for name, value in ad.items()) for ad in ads) + "\n"


def slots_of(case: Report) -> str:
    """The slot ads of a case in short form: name and what differs from :data:`SLOT`."""
    ads = []
    for name, own in case["slots"]:
        slot, _, host = name.partition("@")
        contact = f'"<127.0.0.1:9618?addrs=127.0.0.1-9618&alias={host}>"'
        where = {"Name": f'"{name}"', "Machine": f'"{host}"', "MyAddress": contact, "StartdIpAddr": contact}
        ads.append(SLOT | where | {"SlotID": slot.removeprefix("slot").partition("_")[0]} | own)
    return _long_form(ads)


def jobs_of(case: Report) -> str:
    """The job ads of a case in short form: first id, how many, and what differs from :data:`JOB`."""
    ads = []
    for first, count, own in case["jobs"]:
        cluster, _, proc = first.partition(".")
        own = dict(own)
        schedd = own.pop("Schedd", '"schedd"').strip('"')
        for at in range(int(proc), int(proc) + count):
            ids = {"ClusterId": cluster, "ProcId": str(at), "GlobalJobId": f'"{schedd}#{cluster}.{at}#1"'}
            ads.append(JOB | ids | own)
    return _long_form(ads)


def unfold(ranges: list[str]) -> list[str]:
    """``["1.0-2", "3.4"]`` as single job ids."""
    jobs = []
    for item in ranges:
        cluster, procs = item.split(".")
        first, _, last = procs.partition("-")
        jobs += [f"{cluster}.{proc}" for proc in range(int(first), int(last or first) + 1)]
    return jobs


class Seen:
    """A report in the terms of expect.json."""

    def __init__(self, report: Report, expected: Report) -> None:
        self.report = report
        self.matches = report["matches"]
        self.groups = expected.get("groups", {})
        self.first = {job: a["first"] for a in expected["autoclusters"] for job in unfold(a["jobs"])}
        self.autoclusters = expected["autoclusters"]

    def per(self, key: Callable[[Report], str], names: list[str]) -> dict[str, int]:
        counts = Counter(key(match) for match in self.matches)
        return {name: counts.pop(name, 0) for name in names} | dict(counts)

    def part(self, name: str, wanted: Any) -> Any:
        method = getattr(self, f"get_{name}")
        return method(wanted)

    def get_total(self, _wanted: Any) -> int:
        return len(self.matches)

    def get_per_submitter(self, wanted: Report) -> Report:
        return self.per(lambda m: m["submitter"], list(wanted))

    def get_per_group(self, wanted: Report) -> Report:
        return self.per(lambda m: self.groups[m["submitter"]], list(wanted))

    def get_per_autocluster(self, wanted: Report) -> Report:
        return self.per(lambda m: self.first[m["job"]], list(wanted))

    def get_jobs(self, _wanted: Any) -> set[str]:
        return {match["job"] for match in self.matches}

    def get_slots(self, _wanted: Any) -> list[str]:
        return sorted(match["slot"] for match in self.matches)

    def get_pairs(self, _wanted: Any) -> dict[str, list[str]]:
        pairs: dict[str, list[str]] = {}
        for match in self.matches:
            pairs.setdefault(self.first[match["job"]], []).append(match["slot"])
        return {first: sorted(slots) for first, slots in pairs.items()}

    def get_preempted(self, _wanted: Any) -> dict[str, list[str]]:
        return {m["slot"]: [m["preempts"], m["preemption"]] for m in self.matches if m["preempts"]}

    def get_preempted_counts(self, _wanted: Any) -> dict[str, int]:
        return dict(Counter(f"{m['preempts']} {m['preemption']}" for m in self.matches if m["preempts"]))

    def get_rejections(self, _wanted: Any) -> list[list[str]]:
        rows = self.report["rejections"]
        return sorted([r["submitter"], self.first[r["autocluster"]], r["reason"]] for r in rows)

    def get_shares(self, wanted: Report) -> Report:
        return self.noted("share", wanted)

    def get_limits(self, wanted: Report) -> Report:
        return self.noted("limit", wanted)

    def noted(self, key: str, wanted: Report) -> Report:
        rows = {row["name"]: row[key] for row in self.report["submitters"]}
        return {name: pytest.approx(rows[name], abs=1e-3, rel=1e-3) for name in wanted}

    def get_group_quota(self, wanted: Report) -> Report:
        rows = {row["name"]: row["quota"] for row in self.report["groups"]}
        return {name: pytest.approx(rows[name], abs=1e-3, rel=1e-3) for name in wanted}


def shaped(name: str, wanted: Any) -> Any:
    if name == "jobs":
        return set(unfold(wanted))
    if name in ("slots", "rejections"):
        return sorted(wanted)
    if name == "pairs":
        return {first: sorted(slots) for first, slots in wanted.items()}
    return wanted


def compared(report: Report, expected: Report, names: list[str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What a report says and what was recorded, of the named parts."""
    seen = Seen(report, expected)
    wanted = {name: shaped(name, expected["expect"][name]) for name in names}
    return {name: seen.part(name, wanted[name]) for name in wanted}, wanted
