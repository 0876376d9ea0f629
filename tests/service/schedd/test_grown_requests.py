"""Requests that grow with what a job has used: each job is matched with what it asks for now."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.table import unpack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint

#: The request, and what a job that has used much has in its ad. HTCondor 25.14.1 gave the fresh job of the first 1500
#: and the other 4761, with AutoClusterAttrs that end in "...,MemoryUsage" and "...,MemoryUsage,ResidentSetSize".
GROWN: list[tuple[str, str, dict[str, Any], list[int], str]] = [
    (
        "RequestMemory",
        "ifThenElse(MemoryUsage =!= undefined, MAX({MemoryUsage * 3/2, 1500}), 1500)",
        {"MemoryUsage": ExprTree("(ResidentSetSize + 1023) / 1024"), "ResidentSetSize": 3_250_000},
        [1500, 4761],
        "MemoryUsage,ResidentSetSize",
    ),
    ("RequestMemory", "MAX({MemoryUsage ?: 0, 100})", {"MemoryUsage": 700}, [100, 700], "MemoryUsage"),
    ("RequestDisk", "MAX({DiskUsage * 2, 1000}) ?: 1000", {"DiskUsage": 6000}, [1000, 12_000], "DiskUsage"),
    ("RequestCpus", "(CpusUsage ?: 0) > 1.5 ? 4 : 1", {"CpusUsage": 2.5}, [1, 4], "CpusUsage"),
    ("RequestGPUs", "(GPUsUsage ?: 0) > 0.5 ? 2 : 1", {"GPUsUsage": 0.9}, [1, 2], "GPUsUsage"),
]


async def requests(schedd: RunningAccessPoint) -> list[ClassAd]:
    names = ["RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "MemoryUsage"]
    query = schedd_pb2.ResourceRequestsQuery(significant_attributes=names)
    found: list[ClassAd] = []
    async for reply in schedd.stub.ResourceRequests(query, metadata=schedd.daemon):
        found += unpack_ads(reply.pack) if reply.pack else []
    return found


@pytest.mark.parametrize(("attribute", "text", "used", "asked", "named"), GROWN)
async def test_a_grown_request_is_a_request_of_its_own(
    schedd: RunningAccessPoint, attribute: str, text: str, used: dict[str, Any], asked: list[int], named: str
) -> None:
    request: dict[str, Any] = {attribute: ExprTree(text)}
    await schedd.submit(procs=[{}, used, {}], **request)
    found = await requests(schedd)
    assert [(ad.eval(attribute), ad["ResourceRequestCount"]) for ad in found] == [(asked[0], 2), (asked[1], 1)]
    jobs = {ad["ProcId"]: ad for ad in await schedd.jobs()}
    assert jobs[0]["AutoClusterId"] == jobs[2]["AutoClusterId"] == found[0]["AutoClusterId"]
    assert jobs[1]["AutoClusterId"] == found[1]["AutoClusterId"]
    attrs = [str(jobs[proc]["AutoClusterAttrs"]) for proc in (0, 1)]
    assert f"{attrs[1]},".endswith(f",{named},") and "RequestMemory" in attrs[0].split(",")


async def test_what_others_have_used_does_not_tell_jobs_apart(schedd: RunningAccessPoint) -> None:
    await schedd.submit(procs=[{"MemoryUsage": 700}], RequestMemory=ExprTree("MAX({MemoryUsage ?: 0, 100})"))
    await requests(schedd)
    used = [{"MemoryUsage": 10 * number, "DiskUsage": number, "ResidentSetSize": number} for number in range(1, 6)]
    await schedd.submit(procs=used, RequestMemory=100)
    assert [ad["ResourceRequestCount"] for ad in await requests(schedd)] == [1, 5]
