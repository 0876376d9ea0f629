"""Submissions under an administrator's rules: ten transforms and five requirements.

A cluster of 20,000 jobs is submitted to an access point in this process: without rules, under rules that read what all
jobs share, and under rules of which some read what differs from job to job (ProcId and an argument). Before anything is
timed, the ads of the jobs are compared with what the rules say, and a submission that breaks a requirement is refused.
CPU time is that of this process, the client's part included; it says more than wall-clock time on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import grpc
from harness import Report
from slotwise.classad import ClassAd
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint

OUT = Path(__file__).parent / "out"
#: Rules of a site, each with another statement of the language.
SHARED = {
    "Group": 'REQUIREMENTS AcctGroup is undefined\nSET AcctGroup "none"',
    "Site": 'SET SiteName "here"\nSET SubmittedBy strcat(Owner, "@here")',
    "Memory": "REQUIREMENTS RequestMemory < 256\nSET RequestMemory 256",
    "Rounded": "EVALSET RoundedDisk quantize(RequestDisk, 1024)",
    "Copied": "COPY RequestMemory AskedMemory",
    "Renamed": "RENAME Colour Color",
    "Deleted": "DELETE Unwanted",
    "Default": "DEFAULT MaxRetries 3",
    "Macro": 'tag = $(MY.SiteName)-1\nSET Tag "$(tag)"',
    "If": "if defined MY.Color\n  SET HasColor true\nelse\n  SET HasColor false\nendif",
}
EACH = {
    "Copied": "EVALSET Half ProcId / 2",
    "Macro": 'tag = $(MY.ProcId)\nSET Tag "n$(tag)"',
    "If": "REQUIREMENTS Number % 2 == 0\nSET Even true",
}
REQUIRED = {
    "Memory": "RequestMemory <= 4096",
    "Group": "AcctGroup isnt undefined",
    "Disk": "RequestDisk > 0",
    "Owner": 'Owner != "nobody"',
    "Universe": "JobUniverse == 5",
}
EACH_REQUIRED = {"Disk": "ProcId < 100000", "Owner": "Number < 100000"}


def knobs(transforms: dict[str, str], requirements: dict[str, str]) -> dict[str, str]:
    """The configuration of rules; a transform's text has lines, so it follows the names that it is one of."""
    texts = "".join(f"\nJOB_TRANSFORM_{name} @=end\n{text}\n@end" for name, text in transforms.items())
    return {
        "JOB_TRANSFORM_NAMES": " ".join(transforms) + texts,
        "SUBMIT_REQUIREMENT_NAMES": " ".join(requirements),
        **{f"SUBMIT_REQUIREMENT_{name}": text for name, text in requirements.items()},
    }


async def submit(running: RunningAccessPoint, jobs: int, **attributes: Any) -> int:
    """One cluster whose jobs differ in Number."""
    return await running.submit(
        procs=[{"Number": number} for number in range(jobs)], Colour="red", Unwanted=1, **attributes
    )


async def check(running: RunningAccessPoint, *, each: bool) -> None:
    """The rules do what they say."""
    cluster = await submit(running, 10)
    ads = await running.jobs(f"ClusterId == {cluster}")
    assert len(ads) == 10
    for ad in ads:
        number = ad["ProcId"]
        assert ad["Number"] == number and ad["Color"] == "red", ad
        assert all(name not in ad or str(ad.lookup(name)) == "undefined" for name in ("Colour", "Unwanted")), ad
        assert (ad["AcctGroup"], ad["RequestMemory"], ad["MaxRetries"]) == ("none", 256, 3), ad
        if each:
            assert (ad["Half"], ad["Tag"]) == (number // 2, f"n{number}"), ad
            assert (ad.get("Even") is True) is (number % 2 == 0), ad
        else:
            assert (ad["Tag"], ad["HasColor"], ad["AskedMemory"]) == ("here-1", True, 256), ad
    try:
        await submit(running, 10, RequestMemory=5000)
    except grpc.aio.AioRpcError as error:
        assert "Memory" in (error.details() or ""), error.details()
    else:
        raise AssertionError("a submission that breaks a requirement was queued")
    await running.act("REMOVE", "true")


async def rate(rules: dict[str, str], jobs: int, runs: int, *, each: bool | None) -> tuple[list[float], list[float]]:
    """Jobs per second of CPU time and of wall-clock time."""
    cpu, wall = [], []
    limits = {"MAX_JOBS_PER_SUBMISSION": "1000000", "MAX_JOBS_PER_OWNER": "1000000"}
    with tempfile.TemporaryDirectory() as root:
        running = await RunningAccessPoint(Path(root) / "pool").start(**limits, **rules)
        if each is not None:
            await check(running, each=each)
        batch = schedd_pb2.ProcBatch(count=jobs, deltas=pack_ads([ClassAd({"Number": n}) for n in range(jobs)]))
        shared = {
            "Cmd": "/bin/true", "Iwd": root, "JobUniverse": 5, "Requirements": True, "RequestCpus": 1,
            "RequestMemory": 128, "RequestDisk": 1024, "Colour": "red", "Unwanted": 1,
        }  # fmt: skip
        bundle = schedd_pb2.SubmitBundle(
            clusters=[schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ClassAd(shared)]), procs=batch)]
        )
        for _ in range(runs):
            before, began = time.process_time(), time.perf_counter()
            await running.stub.SubmitOne(bundle, metadata=running.user)
            cpu.append(jobs / (time.process_time() - before))
            wall.append(jobs / (time.perf_counter() - began))
        await running.stop()
    return cpu, wall


async def main() -> None:
    """Measure."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--jobs", type=int, default=20_000)
    words.add_argument("--runs", type=int, default=5)
    args = words.parse_args()
    report = Report("Rules")
    cases: tuple[tuple[str, dict[str, str], bool | None], ...] = (
        ("no rules", {}, None),
        ("10 transforms, 5 requirements", knobs(SHARED, REQUIRED), False),
        ("the same, reading what differs from job to job", knobs(SHARED | EACH, REQUIRED | EACH_REQUIRED), True),
    )
    for name, rules, each in cases:
        cpu, wall = await rate(rules, args.jobs, args.runs, each=each)
        report.add(f"a cluster of {args.jobs} jobs, {name}", "jobs/s", wall, target="20,000" if rules else "")
        report.add("    by CPU time", "jobs/s", cpu)
    report.save(OUT)


if __name__ == "__main__":
    asyncio.run(main())
