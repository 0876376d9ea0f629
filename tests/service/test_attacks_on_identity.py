"""Attacks on who one is, each of which succeeded once: what is caught from one caller is tried against another."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.authorization.authorizer import Authorizer
from slotwise.config import load
from slotwise.wire import channel, login, socket_path
from slotwise.wire.credential import HostCredential, UserCredential, bearer, no_token
from slotwise.wire.gen import (
    collector_pb2_grpc,
    common_pb2,
    daemon_pb2,
    daemon_pb2_grpc,
    schedd_pb2,
    schedd_pb2_grpc,
)
from slotwise.wire.keys import PoolTrust, mint
from slotwise.wire.login import LoginServer
from slotwise.wire.security import Authenticator
from slotwise.wire.server import listen, make_server

from tests.support.serving import HOST, KEY, TRUST, authenticator, credential, token
from tests.support.waiting import LIMIT_S


class Listening(schedd_pb2_grpc.ScheddServicer):
    """An access point that keeps what its callers show."""

    def __init__(self) -> None:
        self.shown: list[tuple[tuple[str, str], ...]] = []

    async def ResourceRequests(self, request: Any, context: Any) -> AsyncIterator[schedd_pb2.RequestList]:
        self.shown.append(tuple((key, value) for key, value in context.invocation_metadata() if key == "authorization"))
        yield schedd_pb2.RequestList(done=True)


class Endless(collector_pb2_grpc.CollectorServicer):
    """A collector whose answers do not end."""

    async def Query(self, request: Any, context: Any) -> AsyncIterator[common_pb2.AdChunk]:
        yield common_pb2.AdChunk(total=1)
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def daemon(directory: Path, name: str, checks: Authenticator | None, *servicers: Any) -> AsyncIterator[str]:
    """A daemon's target; one without ``checks`` is an attacker's, and believes everybody."""
    server = grpc.aio.server() if checks is None else make_server(checks)
    for add, servicer in servicers:
        add(servicer, server)
    if checks is None:
        target = f"unix:{directory / name}"
        server.add_insecure_port(socket_path.usable_target(target))
    else:
        _, path = listen(server, socket=directory / name)
        target = f"unix:{path}"
    await server.start()
    try:
        yield target
    finally:
        await server.stop(None)


@pytest.fixture
def place() -> Any:
    with tempfile.TemporaryDirectory(prefix="sw-") as made:
        yield Path(made)


async def test_what_the_negotiator_shows_to_a_hostile_access_point_is_worth_nothing_elsewhere(place: Path) -> None:
    """An advertised Scheduler at the attacker's address got the token of an administrator."""
    hostile = Listening()
    add = schedd_pb2_grpc.add_ScheddServicer_to_server
    honest = authenticator(str(place / "schedd.sock"))
    negotiator = credential(["NEGOTIATOR"])
    query = schedd_pb2.ResourceRequestsQuery()
    async with (
        daemon(place, "evil.sock", None, (add, hostile)) as evil,
        daemon(place, "schedd.sock", honest, (add, Listening())) as victim,
        channel.open_async(evil) as to_evil,
        channel.open_async(victim) as to_victim,
    ):
        async for _ in schedd_pb2_grpc.ScheddStub(to_evil).ResourceRequests(query, metadata=negotiator.metadata(evil)):
            pass
        ((caught),) = hostile.shown
        stub = schedd_pb2_grpc.ScheddStub(to_victim)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in stub.ResourceRequests(query, metadata=caught):
                pass
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        async for _ in stub.ResourceRequests(query, metadata=negotiator.metadata(victim)):
            pass


async def test_root_on_an_execution_host_is_nobody_but_that_host() -> None:
    """With the key that every host had, it could sign for any user at any host."""
    checks = authenticator("/schedd.sock")
    for forged in (
        mint(HOST, "alice@test", ["ADMINISTRATOR"], issued_at=1, issuer="test", audience="test"),
        mint(HOST, "alice@test", ["WRITE"], issued_at=1, audience="unix:/schedd.sock"),
    ):
        with pytest.raises(Exception, match="not valid in this pool"):
            checks.identity(forged)
    word = token("ADVERTISE_STARTD", identity="condor@ep", bound_to=keys_text())
    greedy = HostCredential("alice@test", HOST, lambda: word, ["ADMINISTRATOR", "ADVERTISE_STARTD"], time.time)
    shown = greedy.metadata("unix:/schedd.sock")[0][1].removeprefix("Bearer ")
    elsewhere = Authenticator(lambda: TRUST, audiences=["unix:/schedd.sock"])  # whose host is another
    identity = elsewhere.identity(shown)
    assert identity.name == "condor@ep" and identity.levels == {"ADVERTISE_STARTD"}


def keys_text() -> str:
    from slotwise.wire.keys import public_text

    return public_text(HOST.public)


async def until_it_ends(target: str, shown: str) -> grpc.aio.AioRpcError:
    async with channel.open_async(target) as opened:
        call = collector_pb2_grpc.CollectorStub(opened).Query(common_pb2.AdQuery(), metadata=bearer(shown))
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            async for _ in call:
                pass
        return ended.value


async def test_a_stream_ends_with_its_token(place: Path) -> None:
    """One that was open when its token expired went on for ever."""
    add = collector_pb2_grpc.add_CollectorServicer_to_server
    async with daemon(place, "c.sock", authenticator(str(place / "c.sock")), (add, Endless())) as target:
        short = token("READ", issued_at=time.time(), lifetime_s=2)
        ended = await asyncio.wait_for(until_it_ends(target, short), LIMIT_S)
        assert ended.code() == grpc.StatusCode.UNAVAILABLE and "has ended" in str(ended.details())
        again = await until_it_ends(target, short)
        assert again.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_a_stream_ends_when_its_token_is_revoked(place: Path) -> None:
    now = [TRUST]
    checks = Authenticator(lambda: now[0])
    add = collector_pb2_grpc.add_CollectorServicer_to_server
    async with daemon(place, "c.sock", checks, (add, Endless())) as target, channel.open_async(target) as opened:
        call = collector_pb2_grpc.CollectorStub(opened).Query(common_pb2.AdQuery(), metadata=bearer(token("READ")))
        await call.read()
        now[0] = PoolTrust("test", {KEY.kid: KEY.public}, {}, "true")
        checks.refresh()
        assert await asyncio.wait_for(call.code(), LIMIT_S) == grpc.StatusCode.UNAVAILABLE


async def test_a_stream_ends_when_a_list_takes_its_caller_out(place: Path) -> None:
    """One that was open when its user was banned went on until its token ended."""
    authorizer, checks = Authorizer("COLLECTOR"), authenticator(str(place / "c.sock"))
    knobs = place / "condor_config"

    async def follow(text: str) -> None:
        knobs.write_text(text)
        authorizer.follow(await authorizer.read(load(str(knobs), subsystem="COLLECTOR", env={})))

    async def opened_by(stub: Any, who: str, *scopes: str) -> Any:
        call = stub.Query(common_pb2.AdQuery(), metadata=bearer(token(*scopes, identity=who)))
        await call.read()
        return call

    await follow("")
    server = make_server(checks, authorizer)
    collector_pb2_grpc.add_CollectorServicer_to_server(Endless(), server)
    _, path = listen(server, socket=place / "c.sock")
    await server.start()
    try:
        async with channel.open_async(f"unix:{path}") as to:
            stub = collector_pb2_grpc.CollectorStub(to)
            banned, lesser = await opened_by(stub, "eve@test", "READ"), await opened_by(stub, "bob@test", "WRITE")
            others = [await opened_by(stub, "ann@test", "WRITE"), await opened_by(stub, "eve@other", "READ")]
            await follow("DENY_READ = eve@test\nDENY_WRITE = bob@test\n")
            assert await asyncio.wait_for(banned.code(), LIMIT_S) == grpc.StatusCode.PERMISSION_DENIED
            assert f"DENY_READ (eve@test) in {knobs}, line 1" in await banned.details()
            assert await asyncio.wait_for(lesser.code(), LIMIT_S) == grpc.StatusCode.UNAVAILABLE
            for call in others:
                assert not call.done()
    finally:
        await server.stop(None)


class Ping(daemon_pb2_grpc.DaemonServicer):
    """Says who calls."""

    def __init__(self, checks: Authenticator) -> None:
        self._checks = checks

    async def Ping(self, request: Any, context: Any) -> daemon_pb2.PingReply:
        caller = self._checks.caller(context)
        return daemon_pb2.PingReply(identity=caller.name, scopes=sorted(caller.levels))


async def test_a_local_account_needs_no_token_and_is_who_the_kernel_says(place: Path) -> None:
    checks = authenticator(str(place / "d.sock"))
    asked: list[int] = []

    def token_for(uid: int) -> tuple[str, float]:
        asked.append(uid)
        return checks.login(uid, f"user{uid}@here", ["WRITE"], 3600)

    add = daemon_pb2_grpc.add_DaemonServicer_to_server
    async with daemon(place, "d.sock", checks, (add, Ping(checks))) as target, channel.open_async(target) as opened:
        server = LoginServer(login.socket_of(str(place / "d.sock")), token_for)
        server.start()
        try:
            shown = await asyncio.to_thread(UserCredential({}, no_token).metadata, target)
            assert await asyncio.to_thread(UserCredential({}, no_token).metadata, target) == shown
        finally:
            server.close()
        reply = await daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), metadata=shown)
        import os

        assert reply.identity == f"user{os.getuid()}@here" and list(reply.scopes) == ["READ", "WRITE"]
        assert asked == [os.getuid()], "the second time the token was known"
        caught = shown[0][1].removeprefix("Bearer ")
        with pytest.raises(Exception, match="not valid in this pool"):
            authenticator("/other.sock").identity(caught)
