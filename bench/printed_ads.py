"""Slots and jobs made of ads that the tools of HTCondor print, kept in folders of ``bench/scenarios``.

A pool repeats the one ad of its kind of slot, expressions as they are; names, sizes, addresses, versions and what is
measured differ from machine to machine as they do in a real pool.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.classad import ClassAd, ExprTree, parse_ads

if TYPE_CHECKING:
    from pool_generator import Scenario

SCENARIOS = Path(__file__).resolve().parent / "scenarios"

#: By machine class: cores and MiB of memory of a static slot, and the version of HTCondor on the machine.
_CLASSES = [
    (1, 4096, "25.14.1 2026-10-16"),
    (1, 2048, "25.14.1 2026-10-16"),
    (2, 8192, "25.14.1 2026-10-16"),
    (1, 4096, "25.12.0 2026-08-20"),
    (1, 3072, "25.14.1 2026-10-16"),
    (4, 16384, "25.4.0 2025-12-11"),
    (1, 4096, "25.14.1 2026-10-16"),
    (8, 65536, "25.14.1 2026-10-16"),
]


@cache
def printed(folder: str, kind: str) -> list[ClassAd]:
    """The ads of a file of a folder."""
    return list(parse_ads((SCENARIOS / folder / f"{kind}.ads").read_bytes()))


def printed_slot(scenario: Scenario, number: int) -> ClassAd:
    """The slot ad that a machine class repeats."""
    kind = "gpu-slot" if scenario.gpus else "partitionable-slot" if scenario.partitionable else "static-slot"
    ad = printed(scenario.ads, kind)[0].copy()
    for name in list(ad):
        if name.startswith("GPUs_MIG_"):
            del ad[name]
    cpus, memory, version = _CLASSES[number % len(_CLASSES)]
    pieces = scenario.cores if scenario.partitionable else 1
    ad["Cpus"] = ad["TotalSlotCpus"] = cpus * pieces
    ad["Memory"] = ad["TotalSlotMemory"] = memory * pieces
    ad["TotalCpus"] = float(scenario.cores)
    ad["TotalMemory"] = ad["DetectedMemory"] = memory * scenario.cores
    ad["CondorVersion"] = f"$CondorVersion: {version} PackageID: {version.split()[0]}-1 $"
    return ad


def printed_columns(number: int, rows: Sequence[tuple[int, int]], rng: random.Random) -> dict[str, list[Any]]:
    """What differs between the slots of a machine class: rows are numbers of machine and slot."""
    machines = sorted({machine for machine, _ in rows})
    total = {machine: 700_000_000 + rng.randrange(50_000_000) for machine in machines}
    duty = {machine: rng.random() / 100 for machine in machines}
    return {
        "TotalDisk": [total[machine] for machine, _ in rows],
        "UtsnameNodename": [f"node{machine:06}" for machine, _ in rows],
        "DaemonCoreDutyCycle": [duty[machine] for machine, _ in rows],
        "TotalLoadAvg": [rng.randrange(6400) / 100 for _ in rows],
        "EnteredCurrentActivity": [1_799_000_000 + rng.randrange(900_000) for _ in rows],
    }


#: By machine class: capability and MiB of memory of its GPUs.
_GPUS = [(8.0, 40326), (9.0, 81000), (7.5, 15109), (7.0, 32510)]


def printed_gpus(scenario: Scenario, number: int, rng: random.Random) -> dict[str, Any]:
    """The attributes of a machine's GPUs: names follow the devices' own ids, so that no two machines share one."""
    capability, memory = _GPUS[number % len(_GPUS)]
    names = [f"{rng.getrandbits(32):08x}" for _ in range(scenario.gpus)]
    device = (
        '[ Id = "GPU-{0}"; ClockMhz = 1410.0; Capability = {1}; CoresPerCU = 64; '
        'DeviceUuid = "{0}-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; GlobalMemoryMb = {2} ]'
    )
    return {
        "GPUs": scenario.gpus,
        "TotalGPUs": scenario.gpus,
        "TotalSlotGPUs": scenario.gpus,
        "AssignedGPUs": ",".join(f"GPU-{name}" for name in names),
        "AvailableGPUs": ExprTree("{ " + ",".join(f"GPUs_GPU_{name}" for name in names) + " }"),
        **{f"GPUs_GPU_{name}": ExprTree(device.format(name, capability, memory)) for name in names},
    }


def printed_request(scenario: Scenario, noise: int, name: str, cluster: int) -> ClassAd:
    """One of the printed jobs with sizes of its own."""
    jobs = printed(scenario.ads, "jobs")
    ad = jobs[noise % 4 if noise % 20 else noise // 20 % len(jobs)].copy()
    owner = name.split("@")[0]
    more: dict[str, Any] = {
        "ClusterId": cluster,
        "ProcId": 0,
        "GlobalJobId": f"ap1#{cluster}.0#1795350881",
        "Submitter": name,
        "ScheddName": "ap1",
        "Owner": owner,
        "User": name,
        "JobStatus": 1,
        "ResourceRequestCount": scenario.jobs,
        "AutoClusterId": cluster,
        "RequestMemory": 256 * (1 + noise % 8),
        "TransferInputSizeMB": 1 + noise // 8 % 2000,
    }
    if isinstance(ad.get("RequestDisk"), int):
        more["RequestDisk"] = 1024 * (1 + noise // 8 % 2000)
    if scenario.gpus:
        more["RequestGPUs"] = 1
        more["RequireGPUs"] = ExprTree(
            f"Capability >= {7 + noise % 3}.0 && GlobalMemoryMb > {10_000 + noise % 7 * 4000}"
        )
        more["Requirements"] = ExprTree(
            '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Memory >= RequestMemory) && '
            "(countMatches(MY.RequireGPUs,TARGET.AvailableGPUs) >= RequestGPUs) && TARGET.HasFileTransfer"
        )
    ad.update(more)
    return ad
