"""docs/reference/machine-attributes.md against the ads of a startd that has seen everything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from slotwise.startd.publish import daemon_ad
from slotwise.startd.slot import events as ev
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2, startd_pb2, startd_pb2_grpc, starter_pb2

from tests.support.serving import metadata
from tests.support.startd_host import Host, job_ad, schedd_at, startd_host
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs/reference/machine-attributes.md"
#: What this host, or a starter that is pretended, does not decide here.
ELSEWHERE = {"host", "collector", "starter-lvm", "benchmarks", "claimed pslot", "devices", "cron", "no"}


def table() -> dict[str, str]:
    """When each attribute is in the ad, by name in small letters."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    return {name.strip().strip("`").lower(): when.strip() for names, when in rows for name in names.split(",")}


async def test_the_page_tells_what_the_ads_have(tmp_path: Path) -> None:
    seen: set[str] = set()
    own: set[str] = set()
    text = "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1 = cpus=2\nSLOT_TYPE_1_PARTITIONABLE = true\nMaxJobRetirementTime = 900\n"
    text += "NUM_SLOTS_TYPE_2 = 1\nSLOT_TYPE_2 = cpus=1\nRANK = 7\nKILLING_TIMEOUT = 5\n"
    text += "NUM_SLOTS_TYPE_3 = 1\nSLOT_TYPE_3 = cpus=1\nSLOT_TYPE_3_BACKFILL = true\nSLOTWISE_POWER_WATTS = 90\n"
    text += "STATISTICS_TO_PUBLISH_LIST = JobBusyTime, JobDuration\n"

    def look(host: Host) -> None:
        now = host.clock.now()
        for record in host.point.slots:
            host.point.ads.show(record, now)
            seen.update(name.lower() for name in record.shown)
        own.update(name.lower() for name in daemon_ad.daemon_attributes(host.point, now))

    async def step(host: Host, local: str, stimulus: Any) -> None:
        record = host.point.slots[f"{local}@{host.point.settings.name}"]
        host.point.apply(record, stimulus, host.clock.now())
        host.startd.dispatcher.flush()
        await host.pass_time(2)
        look(host)

    async with startd_host(tmp_path, text) as host, schedd_at(host) as schedd:
        look(host)
        facts = pack_ads([{"CgroupVersion": 2, "EnforcesDisk": "volume"}])
        host.starter.tell(starter_pb2.JobEvent(host_facts=common_pb2.AdBatch(pack=facts)))
        await until(lambda: host.point.ads.starter_abilities)
        job: dict[str, Any] = {"ProjectName": "p", "RemoteNegotiatingGroup": "g", "RemoteAutoregroup": True, "Rank": 0}
        dynamic = (await schedd.claim(host.capability(), job_ad=job_ad(**job))).granted.slots[0].claim_id
        static = (await schedd.claim(host.capability("slot2"), job_ad=job_ad(**job))).granted.slots[0].claim_id
        await host.pass_time(2)
        for claim_id, run_id in ((dynamic, "1.0#1"), (static, "2.0#1")):
            await schedd.activate(claim_id, run_id, **job)
        await until(lambda: len(host.starter.runs) == 2)
        await host.pass_time(2)
        look(host)
        await step(host, "slot2", ev.SuspendCommanded())
        await step(host, "slot2", ev.ContinueCommanded())
        async with schedd_at(host, "other") as other:
            await other.send(
                host.capability("slot2"), request=startd_pb2.RequestClaim(job_ad=job_ad(), user="ann@test")
            )
            await until(lambda: host.place("slot2") == "Claimed/Retiring")
            await host.pass_time(2)
            look(host)
        stub = startd_pb2_grpc.StartdStub(host.channel)
        await stub.Drain(startd_pb2.DrainRequest(start="true"), metadata=metadata("ADMINISTRATOR"))
        await host.pass_time(2)
        third = (await schedd.claim(host.capability(), job_ad=job_ad(**job))).granted.slots[0].claim_id
        await schedd.activate(third, "3.0#1", **job)
        look(host)
        await step(host, "slot2", ev.VacateCommanded(fast=False))
        await host.pass_time(3)
        look(host)
        await stub.CancelDrain(startd_pb2.CancelDrainRequest(), metadata=metadata("ADMINISTRATOR"))
        await step(host, "slot2", ev.RunFinishing())
        host.starter.gone("2.0#1", bytes_received=1e6)
        host.starter.gone("1.0#1", broken=True)
        await until(lambda: not host.place("slot1_1"), "the broken slot is gone")
        await step(host, "slot2", ev.FoundBroken("a fan"))
        page = table()
        wrong = {name: when for name, when in page.items() if when == "no" and name in seen | own}
        assert not wrong, "said never to be there"
        missing = {
            name: when
            for name, when in page.items()
            if when not in ELSEWHERE and when != "times" and name not in (own if when == "own ad" else seen)
        }
        assert missing == {}
        times = {name for name in page if page[name] == "times"}
        assert {"totaltimeclaimedbusy", "totaltimeclaimedsuspended", "totaltimeclaimedretiring"} <= seen & times
        assert all(re.fullmatch(r"[\w<>]+", name) for name in page)
