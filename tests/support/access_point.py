"""An access point in this process, on a socket of its own, with its negotiator played by the test."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slotwise.classad import ClassAd
from slotwise.clock import Clock, SystemClock
from slotwise.config import load
from slotwise.daemon.membership import Trust
from slotwise.daemon.runtime import DaemonContext
from slotwise.home import PoolHome
from slotwise.schedd.app import AccessPoint, start
from slotwise.schedd.storage.store import Batch, Store
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire import address, channel, security
from slotwise.wire.address import DaemonAddress
from slotwise.wire.credential import HostCredential, bearer
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.keys import PoolSecrets, public_text
from slotwise.wire.server import listen, make_server

from tests.support import waiting
from tests.support.ads import number_of
from tests.support.waiting import ended


class Doom:
    """Lets ``after`` commits through, then none; ``commit_last``: one more reaches the disk, and nobody hears of it."""

    def __init__(self, store: Store, after: int, *, commit_last: bool) -> None:
        self.left = after
        self.commit_last = commit_last
        self.dead = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._transaction = store._transaction
        store._transaction = self  # type: ignore[method-assign]

    def __call__(self, connection: Any, batches: list[Batch]) -> None:
        if self.left <= 0:
            if self.commit_last:
                self._transaction(connection, batches)
            self._loop.call_soon_threadsafe(self.dead.set)
            raise SystemExit  # ends the writer's thread: nothing is committed or told any more
        self.left -= 1
        self._transaction(connection, batches)


class RunningAccessPoint:
    """A started schedd with stubs for callers."""

    def __init__(self, root: Path) -> None:
        self.home = PoolHome(root)
        self.home.create()
        self.secrets = PoolSecrets(self.home)
        self.secrets.create("here")
        self.point: AccessPoint
        self.cycle = 0
        #: The clock of the schedd; tests put theirs in its place before it starts.
        self.clock: Clock = SystemClock()
        #: What the schedd said became of matches; the id of a match is the number of its cycle.
        self.outcomes: list[schedd_pb2.MatchOutcome] = []
        #: Files at the access point are touched with the owner's rights, so the owner must be someone who has some.
        self.owner = pwd.getpwuid(os.getuid()).pw_name
        self._user = self.secrets.mint(f"{self.owner}@here", ["WRITE"], now=1)
        self.daemon_token = self.secrets.mint("condor@here", ["ADMINISTRATOR", "NEGOTIATOR", "DAEMON"], now=1)

    async def start(self, **knobs: str) -> RunningAccessPoint:
        file = self.home.root / "config"
        text = {"UID_DOMAIN": "here", "FILESYSTEM_DOMAIN": "here", "SLOTWISE_MIN_UID": "0", **knobs}
        file.write_text("".join(f"{name} = {value}\n" for name, value in text.items()))
        env = {"CONDOR_CONFIG": str(file), "SLOTWISE_HOME": str(self.home.root)}
        self.config = load(str(file), subsystem="SCHEDD", env=env, home=self.home)
        host_key = self.secrets.host_key()
        authenticator = security.Authenticator(Trust(self.secrets), family=host_key.public)
        self.server = make_server(authenticator)
        word = self.secrets.mint("condor@here", ["ADVERTISE_SCHEDD"], now=1, bound_to=public_text(host_key.public))
        credential = HostCredential("condor@here", host_key, lambda: word, ["ADVERTISE_SCHEDD"], time.time)
        socket = self.home.run / "schedd.sock"
        tcp, path = listen(self.server, socket=socket)
        me = DaemonAddress("schedd", os.getpid(), tcp, path, name="here", started_at=int(time.time()))
        context = DaemonContext(
            "schedd", self.home, self.config, self.clock, self.server, authenticator, credential, me, env
        )
        self.point = await start(context)
        await self.server.start()
        address.publish(self.home, me)
        self.channel = channel.open_async(me.target)
        self.stub = schedd_pb2_grpc.ScheddStub(self.channel)
        self.user = bearer(self._user)
        self.daemon = bearer(self.daemon_token)
        return self

    def token_file(self, name: str, scope: str = "WRITE") -> Path:
        """A token file for a caller."""
        path = self.home.root / f"{name}.token"
        security.write_secret(path, self.secrets.mint(f"{name}@here", [scope], now=1))
        return path

    def as_user(self, name: str) -> Any:
        return bearer(self.secrets.mint(f"{name}@here", ["WRITE"], now=1))

    async def stop(self) -> None:
        await self.channel.close()
        await self.server.stop(0)
        await ended(self.point.stop("fast"), "the schedd")

    async def kill(self) -> None:
        """What the process had in memory is gone; nothing it planned happens any more."""
        point = self.point
        point.stopping.close()
        never = asyncio.get_running_loop().create_future
        store: Any = point.store  # killed: it answers nothing more
        store.commit = lambda batch, may_fail=False, on_committed=None: never()
        for task in [*point._tasks, point.committer._task]:
            if task is not None:
                task.cancel()
        await point.local.close(end="")
        await point.claiming.links.close()
        await self.channel.close()
        await self.server.stop(0)
        for task in list(point.transfers.tasks):
            task.cancel()
        await asyncio.gather(*point._tasks, return_exceptions=True)
        point._threads.shutdown(wait=True)
        point._log_threads.shutdown(wait=True)
        point.history_export._threads.shutdown(wait=True)
        point.store.close()

    async def act(self, action: schedd_pb2.ActRequest.Action | str, constraint: str) -> None:
        """As the submitter: ``HOLD``, ``REMOVE``, ..."""
        request = schedd_pb2.ActRequest(action=action)
        request.jobs.constraint = constraint
        await self.stub.Act(request, metadata=self.user)

    async def submit(self, count: int = 1, *, procs: list[dict[str, Any]] | None = None, **attributes: Any) -> int:
        ad = {
            "Cmd": "/bin/true",
            "Iwd": str(self.home.root),
            "JobUniverse": 5,
            "Requirements": True,
            "RequestCpus": 1,
            "RequestMemory": 128,
            "RequestDisk": 1024,
            "TransferExecutable": False,
            "ShouldTransferFiles": "IF_NEEDED",
            **attributes,
        }
        batch = schedd_pb2.ProcBatch(count=count)
        if procs is not None:
            batch = schedd_pb2.ProcBatch(count=len(procs), deltas=pack_ads([ClassAd(p) for p in procs]))
        bundle = schedd_pb2.SubmitBundle(
            clusters=[schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ClassAd(ad)]), procs=batch)]
        )
        reply = await self.stub.SubmitOne(bundle, metadata=self.user)
        return int(reply.clusters[0].cluster_id)

    async def negotiate(self, startd: str, *, slots: int = 100, name: str = "ep") -> int:
        """Play a cycle: every request gets slots at ``startd``, named ``name``; returns the number of matches."""
        query = schedd_pb2.ResourceRequestsQuery(significant_attributes=["RequestCpus", "RequestMemory"])
        batch = schedd_pb2.MatchBatch(cycle=self.cycle, negotiator_name="test")
        self.cycle += 1
        matched = 0
        async for reply in self.stub.ResourceRequests(query, metadata=self.daemon):
            self.outcomes += reply.outcomes
            for ad in unpack_ads(reply.pack) if reply.pack else []:
                count = min(int(number_of(ad, "ResourceRequestCount")), slots - matched)
                if count <= 0:
                    continue
                matched += count
                group = batch.submitters.add(submitter=ad["Submitter"])
                group.matches.add(
                    autocluster_id=ad["AutoClusterId"],
                    slot_name=f"slot1@{name}",
                    startd_address=startd,
                    claim_id="<ep>#1#0#pslot",
                    count=count,
                    match_id=self.cycle,
                    first_job_id=ad["FirstJobId"],
                )
        await self.stub.OfferMatches(batch, metadata=self.daemon)
        return matched

    async def jobs(self, constraint: str = "") -> list[Any]:
        query = schedd_pb2.JobQuery()
        query.query.constraint = constraint
        found: list[Any] = []
        async for chunk in self.stub.Query(query, metadata=self.daemon):
            if chunk.data:
                found += unpack_ads(chunk.data)
        return found

    async def history(self, **fields: Any) -> list[Any]:
        found: list[Any] = []
        async for chunk in self.stub.History(schedd_pb2.HistoryQuery(**fields), metadata=self.daemon):
            if chunk.data:
                found += unpack_ads(chunk.data)
        return found

    async def until(self, true: Callable[..., Any], what: str = "") -> None:
        """Wait until ``true()`` or ``await true()`` holds."""
        await waiting.until(true, what, told=self.jobs)

    async def until_gone(self) -> None:
        async def empty() -> bool:
            return not await self.jobs()

        await self.until(empty, "no job is left")
