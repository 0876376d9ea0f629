"""A startd on real gRPC with a manual clock, a fake starter beside it, and a schedd's end of the Claims stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import ManualClock
from slotwise.config import load
from slotwise.daemon.runtime import DaemonContext
from slotwise.daemon.starter_key import accept_startd
from slotwise.home import PoolHome
from slotwise.startd.app import Startd
from slotwise.startd.journal import Journal
from slotwise.startd.service import StartdServicer
from slotwise.table import pack_ads
from slotwise.wire import address, channel
from slotwise.wire.gen import collector_pb2_grpc, startd_pb2, startd_pb2_grpc, starter_pb2_grpc
from slotwise.wire.server import listen, make_server

from tests.support.fake_collector import FakeCollector
from tests.support.fake_starter import FakeStarter
from tests.support.serving import authenticator, credential, metadata
from tests.support.waiting import until

START = 1_700_000_000.0
BASE = "NUM_CPUS = 4\nMEMORY = 8192\nRunBenchmarks = false\n"


class DeafJournal(Journal):
    """A journal that writes nothing: the process was killed."""

    def __init__(self) -> None:
        """No file."""

    def save(self, changed: object, gone: object, calls: object = (), settled: object = ()) -> None:
        """Nothing."""

    def remember(self, name: str, value: object) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


@dataclass
class Host:
    """The startd and what surrounds it."""

    home: PoolHome
    clock: ManualClock
    startd: Startd
    starter: FakeStarter
    channel: grpc.aio.Channel
    server: grpc.aio.Server

    @property
    def point(self) -> Any:
        """The execution point inside."""
        return self.startd.point

    def place(self, name: str) -> str:
        """``State/Activity`` of a slot, empty when there is none."""
        record = self.point.slots.get(name if "@" in name else f"{name}@{self.point.settings.name}")
        return "/".join(record.slot.state_activity) if record else ""

    def capability(self, name: str = "slot1") -> str:
        """What the negotiator would hand out for a slot."""
        return str(self.point.slots[f"{name}@{self.point.settings.name}"].ids.current)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock and let the startd notice."""
        self.clock.advance(seconds)
        self.startd.dispatcher.wake.set()
        await asyncio.sleep(0.02)


def write_config(home: PoolHome, text: str) -> Path:
    """The pool's configuration file."""
    path = home.root / "condor_config"
    path.write_text(BASE + text)
    return path


@contextlib.asynccontextmanager
async def startd_host(
    root: Path,
    text: str = "",
    *,
    clock: ManualClock | None = None,
    starter: FakeStarter | None = None,
    env: Mapping[str, str] | None = None,
    collector: FakeCollector | None = None,
) -> AsyncIterator[Host]:
    """A startd configured by ``text``; home, clock and starter may be those of a former one."""
    home = PoolHome(root)
    home.create()
    clock = clock or ManualClock(START)
    starter = starter or FakeStarter()
    checks = authenticator(str(home.run / "starter.sock"))
    accept_startd(home, checks)
    peer = make_server(checks)
    starter_pb2_grpc.add_StarterServicer_to_server(starter, peer)
    if collector is not None:
        collector_pb2_grpc.add_CollectorServicer_to_server(collector, peer)
    tcp, socket = listen(peer, socket=home.run / "starter.sock")
    await peer.start()
    if collector is not None:
        address.publish(home, address.DaemonAddress("collector", os.getpid(), tcp, socket))
    address.publish(home, address.DaemonAddress("starter", os.getpid(), tcp, socket))
    config = load(str(write_config(home, text)), subsystem="STARTD", env=env or {}, home=home)
    checks = authenticator(str(home.run / "startd.sock"))
    server = make_server(checks)
    tcp, socket = listen(server, socket=home.run / "startd.sock")
    me = address.DaemonAddress("startd", os.getpid(), tcp, socket, name="host.test", started_at=int(clock.now()))
    context = DaemonContext(
        "startd", home, config, clock, server, checks, credential(["ADVERTISE_STARTD"]), me, env or {}
    )
    startd = Startd(context, starter_alive=lambda pid: True)
    startd_pb2_grpc.add_StartdServicer_to_server(StartdServicer(startd.dispatcher), server)
    startd.begin()
    await server.start()
    async with channel.open_async(f"unix:{socket}") as opened:
        host = Host(home, clock, startd, starter, opened, server)
        await until(lambda: startd._link.connected, "connected to the starter")
        try:
            yield host
        finally:
            await startd.stop("fast")
            await server.stop(grace=None)
            await peer.stop(grace=None)


def job_ad(cluster: int = 1, proc: int = 0, **attributes: Any) -> bytes:
    """A packed job ad that asks for one core, 128 MiB and 1 MiB of disk."""
    ad = ClassAd(
        {
            "ClusterId": cluster, "ProcId": proc, "Owner": "ann", "User": "ann@test", "JobUniverse": 5,
            "RequestCpus": 1, "RequestMemory": 128, "RequestDisk": 1024, "Requirements": ExprTree("true"),
            **attributes,
        }
    )  # fmt: skip
    return pack_ads([ad])


@dataclass
class Schedd:
    """A schedd's end of a Claims stream. Events arrive in ``events``, unbundled."""

    call: Any
    events: list[startd_pb2.ClaimEvent] = field(default_factory=list)
    serial: int = 0

    async def send(self, claim_id: str = "", **what: Any) -> int:
        """Send a request; returns its serial."""
        self.serial += 1
        await self.call.write(startd_pb2.ClaimRequest(serial=self.serial, claim_id=claim_id, **what))
        return self.serial

    async def answer(self, serial: int) -> startd_pb2.ClaimEvent:
        """The answer to a request.

        :raises ConnectionError: when the stream ends without one.
        """

        def found() -> startd_pb2.ClaimEvent | None:
            return next((event for event in self.events if event.serial == serial), None)

        await until(lambda: found() or self.call.done(), f"answer {serial}")
        if (event := found()) is None:
            raise ConnectionError("the startd has ended the stream")
        return event

    async def claim(self, capability: str, **terms: Any) -> startd_pb2.ClaimEvent:
        """Request a claim and wait for the answer."""
        ad = terms.pop("job_ad", None) or job_ad()
        terms = {"lease_s": 1200, "submitter": "ann@test", "user": "ann@test", **terms}
        asked = startd_pb2.RequestClaim(job_ad=ad, **terms)
        return await self.answer(await self.send(capability, request=asked))

    async def activate(self, claim_id: str, run_id: str, **attributes: Any) -> startd_pb2.ClaimEvent:
        """Activate a claim and wait for the answer."""
        return await self.answer(await self.send_activate(claim_id, run_id, **attributes))

    async def send_activate(
        self, claim_id: str, run_id: str, *, shadow: str = "unix:/x", token: str = "token", **attributes: Any
    ) -> int:
        """Activate a claim; returns the serial."""
        cluster, proc = run_id.partition("#")[0].split(".")
        asked = startd_pb2.ActivateClaim(
            run_id=run_id, run_token=token, shadow_address=shadow, user="ann@test",
            job_ad=job_ad(int(cluster), int(proc), **attributes),
        )  # fmt: skip
        return await self.send(claim_id, activate=asked)

    def states(self, claim_id: str) -> list[str]:
        """``State/Activity`` that the schedd was told of a claim."""
        return [
            f"{e.state.state}/{e.state.activity}"
            for e in self.events
            if e.claim_id == claim_id and e.WhichOneof("what") == "state"
        ]

    def ended(self, claim_id: str) -> startd_pb2.ClaimEnded | None:
        """How a claim ended, None while it has not."""
        return next((e.ended for e in self.events if e.claim_id == claim_id and e.WhichOneof("what") == "ended"), None)


@contextlib.asynccontextmanager
async def schedd_at(
    host: Host,
    name: str = "schedd@ap",
    claim_ids: list[str] | None = None,
    *,
    address: str = "unix:/x",
    identity: str = "condor@ap",
) -> AsyncIterator[Schedd]:
    """A schedd connected to the startd; it has said hello and knows which claims live."""
    call = startd_pb2_grpc.StartdStub(host.channel).Claims(metadata=metadata("DAEMON", identity=identity))
    schedd = Schedd(call)

    async def read() -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.CancelledError):
            while (frame := await call.read()) is not grpc.aio.EOF:
                more = list(frame.more)
                del frame.more[:]
                schedd.events += [frame, *more]

    reader = asyncio.get_running_loop().create_task(read())
    hello = startd_pb2.ScheddHello(schedd_name=name, schedd_address=address, claim_ids=claim_ids or [])
    await schedd.send(hello=hello)

    def known() -> bool:
        return any(event.WhichOneof("what") == "known" for event in schedd.events)

    try:
        await until(lambda: known() or reader.done(), "known")
        if not known():
            raise ConnectionError("the startd has ended the stream")
        yield schedd
    finally:
        call.cancel()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
