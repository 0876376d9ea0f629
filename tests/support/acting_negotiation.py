"""A negotiator daemon between a real collector, and a schedd and a startd that play a part, over real gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import Clock, SystemClock
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.home import PoolHome
from slotwise.negotiator.app import Negotiator
from slotwise.table import pack_ads
from slotwise.wire import address, channel
from slotwise.wire.address import DaemonAddress
from slotwise.wire.gen import (
    collector_pb2,
    collector_pb2_grpc,
    common_pb2,
    negotiator_pb2_grpc,
    schedd_pb2,
    schedd_pb2_grpc,
    startd_pb2,
    startd_pb2_grpc,
)
from slotwise.wire.server import listen, make_server

from tests.support.serving import authenticator, daemon_context, metadata
from tests.support.waiting import until

DAEMON = metadata("DAEMON", "NEGOTIATOR")
#: Advertises ads with the sockets of daemons that have no proof of their host here.
_ADMINISTRATOR = metadata("DAEMON", "NEGOTIATOR", "ADMINISTRATOR")


class ActingSchedd(schedd_pb2_grpc.ScheddServicer):
    """Asks for what the test says, and remembers what it was offered."""

    def __init__(self) -> None:
        #: Clear: it takes its time to answer.
        self.answers = asyncio.Event()
        self.answers.set()
        #: Clear: it takes its time with offers.
        self.takes = asyncio.Event()
        self.takes.set()
        self.requests: list[dict[str, Any]] = []
        self.offers: list[schedd_pb2.MatchBatch] = []
        self.fails = False
        #: What became of matches; None: it does not tell.
        self.outcomes: list[schedd_pb2.MatchOutcome] | None = None

    async def ResourceRequests(self, request: Any, context: Any) -> AsyncIterator[schedd_pb2.RequestList]:
        if self.fails:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        await self.answers.wait()
        if self.outcomes is not None:
            yield schedd_pb2.RequestList(outcomes=self.outcomes, reports_outcomes=True)
            self.outcomes = []
        counts: dict[str, int] = {}
        for ad in self.requests:
            counts[ad["Submitter"]] = counts.get(ad["Submitter"], 0) + ad["ResourceRequestCount"]
            yield schedd_pb2.RequestList(pack=pack_ads([ClassAd(ad)]))
        submitters = [
            ClassAd({"MyType": "Submitter", "Name": n, "IdleJobs": c, "RunningJobs": 0, "ScheddIpAddr": "here"})
            for n, c in counts.items()
        ]
        yield schedd_pb2.RequestList(submitters=pack_ads(submitters), done=True)

    async def OfferMatches(self, request: schedd_pb2.MatchBatch, context: Any) -> common_pb2.Empty:
        self.offers.append(request)
        await self.takes.wait()
        return common_pb2.Empty()


class ActingStartd(startd_pb2_grpc.StartdServicer):
    """Remembers of which matches it was told, and whether the access point knew them by then."""

    def __init__(self, schedd: ActingSchedd) -> None:
        self.schedd = schedd
        self.notices: list[tuple[list[str], int]] = []

    async def NoticeMatch(self, request: startd_pb2.MatchNotice, context: Any) -> common_pb2.Empty:
        self.notices.append((sorted(request.claim_ids), len(self.schedd.offers)))
        return common_pb2.Empty()


def wants(submitter: str, count: int, cluster: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "MyType": "Job",
        "ClusterId": cluster,
        "ProcId": 0,
        "Owner": submitter.partition("@")[0],
        "User": submitter,
        "Submitter": submitter,
        "AutoClusterId": cluster,
        "ResourceRequestCount": count,
        "FirstJobId": f"{cluster}.0",
        "JobPrio": 0,
        "QDate": 1,
        "JobUniverse": 5,
        "JobStatus": 1,
        "RequestCpus": 1,
        "RequestMemory": 100,
        "RequestDisk": 100,
        "Requirements": ExprTree("TARGET.Cpus >= RequestCpus && TARGET.Memory >= RequestMemory"),
    } | more


def slot(n: int, **more: Any) -> dict[str, Any]:
    return {
        "MyType": "Machine",
        "Name": f"slot{n}@h",
        "Machine": "h",
        "MyAddress": "unix:/startd.sock",
        "Cpus": 1,
        "Memory": 1000,
        "Disk": 100000,
        "SlotWeight": ExprTree("Cpus"),
        "State": "Unclaimed",
        "Activity": "Idle",
        "Requirements": ExprTree("START"),
        "START": True,
        "Rank": 0.0,
        "CurrentRank": 0.0,
        "UpdateSequenceNumber": 1,
    } | more


class Harness:
    """A negotiator under test with its neighbours."""

    def __init__(self, home: PoolHome, server: grpc.aio.Server, opened: grpc.aio.Channel, store: AdStore) -> None:
        self.home, self.server, self.ads = home, server, store
        self.schedd = ActingSchedd()
        self.startd = ActingStartd(self.schedd)
        self.collector = collector_pb2_grpc.CollectorStub(opened)
        self.stub = negotiator_pb2_grpc.NegotiatorStub(opened)
        self.negotiator: Negotiator

    async def slots(self, *ads: dict[str, Any]) -> None:
        """Advertise slots and their capabilities, and wait until the negotiator has seen them."""
        names = [ad["Name"] for ad in ads]
        claims = [ClassAd({"Name": name, "ClaimId": f"claim of {name}"}) for name in names]
        batches = [(pack_ads(claims, names), True), (pack_ads([ClassAd(ad) for ad in ads], names), False)]
        requests = [collector_pb2.AdvertiseRequest(kind="Machine", pack=p, private=private) for p, private in batches]
        async for reply in self.collector.Advertise(iter(requests), metadata=_ADMINISTRATOR):
            assert not reply.refused, reply
        last = ads[-1]
        mirror = self.negotiator.cycles.mirror
        await until(
            lambda: (
                last["Name"] in mirror.slots
                and last["Name"] in mirror.capabilities
                and mirror.slots.value(last["Name"], "UpdateSequenceNumber") == last["UpdateSequenceNumber"]
            )
        )

    async def restart(self) -> None:
        """A new negotiator on the database of the one before."""
        await self.negotiator.stop("fast")
        self.negotiator = Negotiator(self.negotiator._context)
        mirror = self.negotiator.cycles.mirror
        await until(lambda: mirror.complete.is_set() and self.negotiator.cycles.history.cycles)

    async def cycle(self) -> list[schedd_pb2.Match]:
        """Run a cycle now; the matches it offered."""
        before = len(self.schedd.offers)
        await self.negotiator.cycles.run("test")
        return [m for batch in self.schedd.offers[before:] for s in batch.submitters for m in s.matches]


@contextlib.asynccontextmanager
async def harness(clock: Clock | None = None, **knobs: str) -> AsyncIterator[Harness]:
    clock = clock or SystemClock()
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        home = PoolHome(Path(directory) / "home")
        home.create()
        server = make_server(authenticator(str(home.run / "all.sock")))
        store = AdStore()
        _, socket = listen(server, socket=home.run / "all.sock")
        for name in ("collector", "schedd"):
            address.publish(home, DaemonAddress(name, 1, "", socket, name="host.test"))
        collector = CollectorServicer(store, clock, lambda: None)
        collector_pb2_grpc.add_CollectorServicer_to_server(collector, server)
        async with channel.open_async(f"unix:{socket}") as opened:
            made = Harness(home, server, opened, store)
            schedd_pb2_grpc.add_ScheddServicer_to_server(made.schedd, server)
            startd_pb2_grpc.add_StartdServicer_to_server(made.startd, server)
            # The regular timer stays out of the way: tests run cycles themselves, or ask for them.
            quiet = {"NEGOTIATOR_INTERVAL": "3600", "NEGOTIATOR_CYCLE_DELAY": "3600"}
            context = daemon_context(home, "negotiator", server, clock, quiet | knobs)
            made.negotiator = Negotiator(context)
            negotiator_pb2_grpc.add_NegotiatorServicer_to_server(made.negotiator.servicer, server)
            await server.start()
            try:
                await until(lambda: made.negotiator.cycles.history.cycles)
                yield made
            finally:
                await made.negotiator.stop("fast")
                await server.stop(grace=None)
