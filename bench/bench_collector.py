"""The collector through real gRPC: slot-ad updates a second, and queries over 100,000 ads.

The collector runs in a process of its own (a pool with nothing else); the sender and the asker are this process. Ads
are like real ones: 18 KB of text in long form, some 260 attributes. Results are checked before they count.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from harness import Report
from slotwise.classad import ClassAd, ExprTree
from slotwise.home import PoolHome
from slotwise.table import PackBuilder, pack_ads
from slotwise.wire import address, channel
from slotwise.wire.credential import UserCredential, no_token
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, common_pb2

ADS = int(os.environ.get("BENCH_COLLECTOR_ADS", "100000"))
BATCH = 500
FILLER = {f"SiteAttribute{n}": f"value {n} of this machine class, long enough to weigh" for n in range(120)}


def slot(n: int, sequence: int) -> ClassAd:
    """A slot ad of one of eight machine classes."""
    random.seed(n % 8)
    host = f"node{n // 16:05d}.pool.example"
    return ClassAd(
        FILLER
        | {f"Number{k}": random.randint(0, 10**9) for k in range(60)}
        | {f"Flag{k}": random.random() < 0.5 for k in range(40)}
        | {
            "MyType": "Machine",
            "Name": f"slot{n % 16 + 1}@{host}",
            "Machine": host,
            "Arch": "X86_64",
            "OpSys": "LINUX",
            "Cpus": n % 8 + 1,
            "Memory": 1024 * (n % 8 + 1),
            "Disk": 10**7,
            "State": "Claimed" if n % 3 else "Unclaimed",
            "Activity": "Busy" if n % 3 else "Idle",
            "LoadAvg": (n % 100) / 100,
            "UpdateSequenceNumber": sequence,
            "Requirements": ExprTree("START && (TARGET.RequestMemory <= MY.Memory)"),
            "START": ExprTree('TARGET.ImageSize < 1000000 || TARGET.Owner == "ann"'),
            "SlotWeight": ExprTree("Cpus"),
        }
    )


def whole_batches() -> list[bytes]:
    """All ads, in packs."""
    packs = []
    for start in range(0, ADS, BATCH):
        ads = [slot(n, 1) for n in range(start, min(ADS, start + BATCH))]
        packs.append(pack_ads(ads, [str(ad["Name"]) for ad in ads]))
    return packs


def delta_batches(sequence: int) -> list[bytes]:
    """What a slot sends when its job changes: nine attributes."""
    packs, builder = [], PackBuilder()
    for n in range(ADS):
        name = f"slot{n % 16 + 1}@node{n // 16:05d}.pool.example"
        builder.update(
            name,
            {
                "State": "Claimed",
                "Activity": "Busy",
                "LoadAvg": (n + sequence) % 100 / 100,
                "UpdateSequenceNumber": sequence,
                "EnteredCurrentActivity": 1_700_000_000 + sequence,
                "RemoteUser": f"user{n % 50}@pool.example",
                "JobId": f"{n}.{sequence}",
                "TotalJobRunTime": n + sequence,
                "KeyboardIdle": n,
            },
        )
        if len(builder) == BATCH:
            packs.append(builder.finish())
    if len(builder):
        packs.append(builder.finish())
    return packs


async def advertise(stub: collector_pb2_grpc.CollectorStub, metadata: object, packs: list[bytes]) -> float:
    """Seconds to send the packs and have every one acknowledged."""

    async def requests() -> AsyncIterator[collector_pb2.AdvertiseRequest]:
        for serial, pack in enumerate(packs):
            yield collector_pb2.AdvertiseRequest(kind="Machine", pack=pack, serial=serial)

    accepted = 0
    start = time.perf_counter()
    async for reply in stub.Advertise(requests(), metadata=metadata):
        assert not reply.refused and not reply.resend
        accepted += reply.accepted
    seconds = time.perf_counter() - start
    assert accepted == ADS, accepted
    return seconds


async def ask(stub: collector_pb2_grpc.CollectorStub, metadata: object, **words: Any) -> tuple[float, bytes, int]:
    """Seconds, data and number of ads of a query."""
    parts, total = [], 0
    start = time.perf_counter()
    async for chunk in stub.Query(common_pb2.AdQuery(kind="Machine", **words), metadata=metadata):
        parts.append(chunk.data)
        total = chunk.total or total
    return time.perf_counter() - start, b"".join(parts), total


async def measure(home: PoolHome, report: Report) -> None:
    """All figures."""
    at = address.lookup(home, "collector")
    metadata = UserCredential({}, no_token).metadata(at.local)
    async with channel.open_async(at.local) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        packs = whole_batches()
        size = sum(map(len, packs)) / ADS
        report.add(
            "whole slot ads, first time",
            "ads/s",
            ADS / await advertise(stub, metadata, packs),
            note=f"{size:,.0f} B each",
        )
        report.add(
            "whole slot ads, again",
            "ads/s",
            [ADS / await advertise(stub, metadata, packs) for _ in range(3)],
            target="30,000",
            reference="10,000",
        )
        deltas = [delta_batches(n) for n in (2, 3, 4)]
        size = sum(map(len, deltas[0])) / ADS
        report.add(
            "updates that send what changed",
            "ads/s",
            [ADS / await advertise(stub, metadata, packs) for packs in deltas],
            target="30,000",
            note=f"{size:,.0f} B each",
        )
        seconds = []
        for _ in range(5):
            took, data, total = await ask(
                stub, metadata, constraint="Cpus > 4 && Memory >= 6000 && LoadAvg < 0.5", projection=["Name", "Cpus"]
            )
            assert data and 0 < total < ADS / 2, total
            seconds.append(took)
        report.add("query, constraint and projection", "s", seconds, target="0.1", reference="0.4", note=f"{total} ads")
        seconds = []
        for _ in range(3):
            took, data, total = await ask(stub, metadata, form=common_pb2.AdQuery.LONG)
            assert total == ADS and data.count(b"\n\n") == ADS
            seconds.append(took)
        report.add(
            "all ads in long form", "s", seconds, target="5", reference="30", note=f"{len(data) / 2**20:,.0f} MiB"
        )
        seconds = [(await ask(stub, metadata, form=common_pb2.AdQuery.COUNT, count_by=["State"]))[0] for _ in range(5)]
        report.add("totals by state", "s", seconds)
    status = Path(f"/proc/{at.pid}/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    report.add("peak memory of the collector", "MiB", peak)


def main() -> None:
    """Start a collector, measure, stop it."""
    report = Report("Collector")
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        home = PoolHome(Path(directory) / "home")
        config = Path(directory) / "condor_config"
        config.write_text("DAEMON_LIST = COLLECTOR\n")
        env = os.environ | {"SLOTWISE_HOME": str(home.root), "CONDOR_CONFIG": str(config)}
        command = [sys.executable, "-m", "slotwise"]
        subprocess.run([*command, "up"], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            asyncio.run(measure(home, report))
        finally:
            subprocess.run([*command, "down", "--fast"], env=env, stdout=subprocess.DEVNULL)
    report.save(Path(__file__).parent / "out")


if __name__ == "__main__":
    main()
