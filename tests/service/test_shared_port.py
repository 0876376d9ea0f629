"""The shared port and the broker with real gRPC over TLS: who is reached, by whom, and what either of them sees."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.clock import SystemClock
from slotwise.daemon import reach
from slotwise.daemon.reach import Place, places
from slotwise.errors import HostError
from slotwise.home import PoolHome
from slotwise.shared_port import broker as brokering
from slotwise.shared_port import listening, outward, splice
from slotwise.shared_port.broker import Broker
from slotwise.shared_port.listening import Passage, open_places
from slotwise.shared_port.outward import Outward
from slotwise.shared_port.request import connect, status_of
from slotwise.wire import channel, origin, socket_path
from slotwise.wire.connections import ConnectionBounds
from slotwise.wire.contact import Contact
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, shared_port_pb2, shared_port_pb2_grpc
from slotwise.wire.security import Authenticator
from slotwise.wire.server import bind_socket, make_server
from slotwise.wire.status import to_error

from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.serving import HOST, TRUST, credential, metadata
from tests.support.waiting import LIMIT_S, until

SECRET = "s" * 64
ANN = metadata("ADVERTISE_STARTD", identity="ann@test")


@pytest.fixture
def authority() -> Iterator[Authority]:
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        made = Authority(Path(directory))
        channel.use_tls(grpc.ssl_channel_credentials(made.file.read_bytes()))
        yield made
        channel.use_tls(None)


class _Answers(collector_pb2_grpc.CollectorServicer):
    """A daemon that notes from where it is called."""

    def __init__(self) -> None:
        self.callers: list[str] = []
        self.brokers: list[str] = []

    async def Invalidate(self, request: Any, context: Any) -> Any:
        self.callers.append(origin.origin_of(context))
        self.brokers.append(origin.broker_of(context))
        return collector_pb2.InvalidateReply(removed=len(self.callers))


@dataclass
class Behind:
    """A host with a shared port, and one daemon behind it."""

    home: PoolHome
    passage: Passage
    daemon: _Answers
    port: int
    broker: Broker
    outward: Outward | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def at(self, sock: str) -> str:
        return str(Contact("127.0.0.1", self.port, sock=sock))

    def through(self, broker: Behind) -> str:
        host_id = reach.id_of(SECRET)
        at = Contact("127.0.0.1", 0, sock="startd", broker=f"127.0.0.1:{broker.port}", broker_id=host_id)
        return str(at)


@contextlib.asynccontextmanager
async def host(
    authority: Authority,
    name: str,
    broker: Callable[[], int] | None = None,
    *,
    port: int = 0,
    most: int = 0,
    descriptors: int = 10_000,
) -> AsyncIterator[Behind]:
    """A host; with ``broker`` it registers at that port."""
    async with contextlib.AsyncExitStack() as undo:
        home = PoolHome(Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="sw-"))))
        home.create()
        passage = Passage(home, "startd", descriptors, most, most)
        (listening,) = open_places([Place("127.0.0.1")], port)
        undo.enter_context(listening)
        port = listening.getsockname()[1]
        certificate = authority.issue(name)
        shown = (certificate.with_suffix(".key").read_bytes(), certificate.read_bytes())
        credentials = grpc.ssl_server_credentials([shown])
        daemon, made = _Answers(), Broker(passage, SystemClock())
        for sock in ("startd", "shared_port"):
            at = [f"127.0.0.1:{port}?sock={sock}"]
            server = make_server(Authenticator(lambda: TRUST, family=HOST.public, audiences=at))
            collector_pb2_grpc.add_CollectorServicer_to_server(daemon, server)
            shared_port_pb2_grpc.add_BrokerServicer_to_server(made, server)
            bind_socket(server, reach.forward_socket(home, sock), credentials)
            await server.start()
            undo.push_async_callback(server.stop, None)
        found = Behind(home, passage, daemon, port, made)
        found.tasks.append(asyncio.create_task(passage.accept(listening)))
        undo.push_async_callback(passage.close)
        undo.callback(found.tasks[0].cancel)
        if broker is not None:
            shows = credential(["ADVERTISE_STARTD"])
            found.outward = connecting = Outward(f"127.0.0.1:{broker()}", SECRET, shows, passage)
            connecting.start()
            undo.push_async_callback(connecting.close)
            await until(lambda: connecting.registered)
        yield found


def _account_at(caller: tuple[str, int], _here: object) -> int:
    """An account for each address of the loopback interface."""
    return 5000 + int(caller[0].rpartition(".")[2])


async def ask(target: str) -> int:
    """Call the daemon; how often it has been called."""
    async with channel.open_async(target) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        reply = await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ANN, timeout=LIMIT_S)
        return int(reply.removed)


async def refusal(target: str) -> str:
    """What a caller is told who does not reach a daemon: by gRPC, and by us."""
    with pytest.raises(grpc.RpcError) as caught:
        await ask(target)
    return f"{caught.value.details()}\n{to_error(caught.value, peer='the startd')}"


async def test_a_daemon_behind_the_port_is_reached_by_name_and_by_default(authority: Authority) -> None:
    async with host(authority, "ep") as ep:
        assert await ask(ep.at("startd")) == 1
        assert await ask(f"127.0.0.1:{ep.port}") == 2
        assert [caller.rpartition(":")[0] for caller in ep.daemon.callers] == ["ipv4:127.0.0.1"] * 2
        assert ep.daemon.brokers == ["", ""]
        assert "404" in await refusal(ep.at("schedd"))
        assert ep.passage.passed >= 2


async def test_a_proxy_of_the_environment_changes_nothing(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost,*")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with host(authority, "ep") as ep:
        assert await ask(ep.at("startd")) == 1


async def test_a_former_version_takes_the_address_for_a_plain_one(authority: Authority) -> None:
    """It reaches the daemon that is meant where none is named: on an execution point the startd."""
    async with host(authority, "ep") as ep:
        credentials = grpc.ssl_channel_credentials(authority.file.read_bytes())
        async with grpc.aio.secure_channel(ep.at("startd"), credentials) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            reply = await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ANN, timeout=LIMIT_S)
            assert reply.removed == 1


def test_a_port_is_open_on_addresses_of_both_families() -> None:
    def answers(address: str, port: int) -> bool:
        try:
            socket.create_connection((address, port), LIMIT_S).close()
        except OSError:
            return False
        return True

    port = free_port()
    with contextlib.ExitStack() as stack:
        for one in open_places(places(["*"], None, None), port):
            stack.enter_context(one)
        found = [answers("127.0.0.1", port), answers("::1", port)]
        assert found == [True, socket.has_ipv6 and Path("/proc/net/if_inet6").exists()]
    with contextlib.ExitStack() as stack:
        for one in open_places(places(["127.0.0.1", "127.0.0.2"], None, False), port):
            stack.enter_context(one)
        assert [answers(each, port) for each in ("127.0.0.1", "127.0.0.2", "127.0.0.3")] == [True, True, False]
        with pytest.raises(HostError, match="SHARED_PORT_PORT"):
            open_places([Place("127.0.0.2")], port)


async def test_connections_that_are_passed_on_are_bounded_by_address(authority: Authority) -> None:
    async with host(authority, "ep", most=3) as ep:
        path = socket_path.usable(reach.forward_socket(ep.home, "startd"))
        bounds = ConnectionBounds("", [], of_user=0, of_address=1, exempt=frozenset({os.getuid()}), behind=[path])
        with contextlib.ExitStack() as stack:
            callers = [stack.enter_context(socket.create_connection(("127.0.0.1", ep.port), LIMIT_S)) for _ in range(4)]
            assert await asyncio.to_thread(callers[3].recv, 1) == b"", "the port takes three of one address"
            for one in callers[:2]:
                one.sendall(connect("startd.sock.slotwise:1"))
                assert status_of(await asyncio.to_thread(one.recv, 4096)) == 200
            # gRPC takes them in its own time.
            closed = await until(bounds.look, "gRPC has taken them, and one is closed")
            assert closed == {"<127.0.0.1>": 1}


async def test_an_account_behind_the_port_is_bounded_as_one_whatever_its_addresses(authority: Authority) -> None:
    """All accounts of the host would share the bound of the loopback interface."""
    me = pwd.getpwuid(os.getuid()).pw_name
    async with host(authority, "ep", most=4) as ep:
        path = socket_path.usable(reach.forward_socket(ep.home, "startd"))
        others = ConnectionBounds("", [], of_user=1, of_address=1, exempt=frozenset({os.getuid()}), behind=[path])
        bounds = ConnectionBounds("", [], of_user=2, of_address=1, exempt=frozenset(), behind=[path])
        with contextlib.ExitStack() as stack:
            callers = [
                stack.enter_context(
                    socket.create_connection(("127.0.0.1", ep.port), LIMIT_S, source_address=(f"127.0.0.{n}", 0))
                )
                for n in range(10, 15)
            ]
            assert await asyncio.to_thread(callers[4].recv, 1) == b"", "the port takes four of one account"
            for one in callers[:3]:
                one.sendall(connect("startd.sock.slotwise:1"))
                assert status_of(await asyncio.to_thread(one.recv, 4096)) == 200
            assert await until(bounds.look, "gRPC has taken them, and one is closed") == {me: 1}
            assert not others.look(), "an account that is exempt is so behind the port, too"


@pytest.mark.parametrize("uid", [None, 0, 1002])
@pytest.mark.parametrize("broker", ["", "192.0.2.7"])
def test_the_name_of_a_passed_on_connection_says_whose_it_is(uid: int | None, broker: str) -> None:
    name = origin.name_for("127.0.0.1", 77, broker, uid)
    assert origin.account_of(name) == uid
    assert origin.named(name) == "ipv4:127.0.0.1:77"
    assert origin.account_of(b"\0somebody-1002") is None


async def test_connections_that_say_nothing_keep_nobody_out(authority: Authority) -> None:
    async with host(authority, "ep", descriptors=116) as ep:
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(("127.0.0.1", ep.port), LIMIT_S)) for _ in range(8)]
            await until(lambda: ep.passage.open >= 8)
            assert await ask(ep.at("startd")) == 1
            assert await asyncio.to_thread(silent[0].recv, 1) == b"", "the oldest has made room"
            assert await ask(ep.at("startd")) == 2


async def test_accounts_that_take_all_connections_keep_no_other_out(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say whom they mean, so that they are not silent, and stay for as long as they are let."""
    monkeypatch.setattr(listening, "account_over_loopback", _account_at)
    async with host(authority, "ep", descriptors=116) as ep:
        path = socket_path.usable(reach.forward_socket(ep.home, "deaf"))
        with contextlib.ExitStack() as stack:
            deaf = stack.enter_context(socket.socket(socket.AF_UNIX))
            deaf.bind(path)
            deaf.listen(100)

            def occupy(address: str) -> socket.socket:
                at = ("127.0.0.1", ep.port)
                one = stack.enter_context(socket.create_connection(at, LIMIT_S, source_address=(address, 0)))
                one.sendall(connect("deaf.sock.slotwise:1"))
                assert status_of(one.recv(4096)) == 200
                return one

            crowd = [await asyncio.to_thread(occupy, f"127.0.0.{5 + n % 2}") for n in range(8)]
            assert ep.passage.open == 8
            assert await ask(ep.at("startd")) == 1, "who has few connections gets one"
            assert await asyncio.to_thread(crowd[-2].recv, 1) == b"", "the youngest of who has the most"
            # Nobody makes room for one more of theirs.
            with pytest.raises((AssertionError, OSError)):
                await asyncio.to_thread(occupy, "127.0.0.5")
                await asyncio.to_thread(occupy, "127.0.0.6")


@pytest.mark.parametrize("reads", ["nobody", "the daemon", "the caller"])
async def test_a_side_that_takes_nothing_any_more_keeps_no_place(reads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side has long ended, which is not seen behind bytes that wait."""
    monkeypatch.setattr(splice, "_STALLED_S", 0.2)
    monkeypatch.setattr(splice, "_ALONE_S", 0.2)
    (caller, at_caller), (daemon, at_daemon) = socket.socketpair(), socket.socketpair()
    with caller, at_caller, daemon, at_daemon:
        for one in (caller, at_caller, daemon, at_daemon):
            one.setblocking(False)
        passing = asyncio.create_task(splice.splice(at_caller, at_daemon, lambda count: None))
        loop = asyncio.get_running_loop()
        if reads == "the caller":  # the daemon hangs, and says nothing when the caller has gone
            await loop.sock_sendall(caller, b"hello")
            caller.shutdown(socket.SHUT_WR)
        else:
            with contextlib.suppress(BlockingIOError):
                for _ in range(1000):
                    daemon.send(b"x" * 65536)
                    await asyncio.sleep(0)
            daemon.shutdown(socket.SHUT_RDWR)
            if reads == "the daemon":
                caller.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(BaseExceptionGroup) as ended:
                await passing
        assert ended.value.split(TimeoutError)[1] is None


async def test_a_slow_answer_is_passed_on_whole_after_the_caller_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice, "_ALONE_S", 0.5)
    (caller, at_caller), (daemon, at_daemon) = socket.socketpair(), socket.socketpair()
    with caller, at_caller, daemon, at_daemon:
        for one in (caller, at_caller, daemon, at_daemon):
            one.setblocking(False)
        passing = asyncio.create_task(splice.splice(at_caller, at_daemon, lambda count: None))
        loop, said, began = asyncio.get_running_loop(), b"", time.monotonic()
        caller.shutdown(socket.SHUT_WR)
        while time.monotonic() < began + 1.2:  # longer than it may be silent
            await loop.sock_sendall(daemon, b".")
            said += await loop.sock_recv(caller, 1)
        daemon.shutdown(socket.SHUT_WR)
        await passing
        assert await loop.sock_recv(caller, 1) == b"" and len(said) > 10


async def test_a_connection_registers_a_few_hosts_and_says_which_in_time(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With secrets that it makes up one glide-in's token could register hundreds of thousands."""
    monkeypatch.setattr(brokering, "_GREETING_S", 0.5)
    async with host(authority, "cm") as cm, channel.open_async(cm.at("shared_port")) as opened:
        calls = []
        for number in range(brokering._OF_CONNECTION_MOST):
            call = shared_port_pb2_grpc.BrokerStub(opened).Register(metadata=ANN)
            await call.write(shared_port_pb2.Registration(host_secret=f"{number:064}"))
            assert (await call.read()).host_id
            calls.append(call)
        more = shared_port_pb2_grpc.BrokerStub(opened).Register(metadata=ANN)
        with pytest.raises(grpc.RpcError) as refused:
            await more.read()
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert cm.broker.registered == brokering._OF_CONNECTION_MOST
        calls.pop().cancel()
        await until(lambda: cm.broker.registered < brokering._OF_CONNECTION_MOST)
        silent = shared_port_pb2_grpc.BrokerStub(opened).Register(metadata=ANN)
        with pytest.raises(grpc.RpcError) as ended:
            await silent.read()
        assert "has not said which" in str(ended.value.details())
        for call in calls:
            call.cancel()


@pytest.mark.parametrize(
    "caller",
    ["ipv6:[fe80::1%eth0]:77", "ipv6:[fe80::1%0]:1\nforged]:77", "ipv6:[fe80::1%25x]:1", "unix:", "ipv4:0x7f.1:1"],
)
def test_a_caller_of_a_broker_has_an_address_and_nothing_more(caller: str) -> None:
    with pytest.raises(OSError, match="is no caller"):
        outward._caller(caller, "192.0.2.7")


async def test_a_host_that_nobody_can_connect_to_is_reached_through_its_broker(authority: Authority) -> None:
    async with host(authority, "cm") as cm, host(authority, "ep", lambda: cm.port) as ep:
        assert cm.broker.registered == 1
        assert await ask(ep.through(cm)) == 1
        # The broker's word on where the caller is.
        assert ep.daemon.callers[0].startswith("ipv4:127.0.0.1:")
        assert ep.daemon.brokers == ["ipv4:127.0.0.1:0"]
        assert cm.daemon.callers == []
        unknown = Contact("127.0.0.1", 0, sock="startd", broker=f"127.0.0.1:{cm.port}", broker_id="0" * 40)
        assert "the startd cannot be reached: its host is not registered with its broker" in await refusal(str(unknown))
        absent = ep.through(cm).replace("sock=startd", "sock=schedd")
        assert "the startd cannot be reached: its host's shared port cannot connect to it" in await refusal(absent)
        counts = cm.broker.statistics.attributes(time.time())
    assert (counts["CCBEndpointsConnected"], counts["CCBEndpointsRegistered"]) == (1, 1)
    assert (counts["CCBRequestsSucceeded"], counts["CCBStreamingSessions"]) == (1, 1)
    assert counts["CCBRequestsNotFound"] >= 1 and counts["CCBRequestsFailed"] >= 1
    answers = ("Succeeded", "NotFound", "Failed")
    assert counts["CCBRequests"] == sum(counts[f"CCBRequests{answer}"] for answer in answers)
    assert counts["RecentCCBStreamingBytes"] > 1000 and counts["CCBStreamingHandshakesActivePeak"] >= 1


async def test_a_broker_cannot_answer_for_a_host(authority: Authority) -> None:
    """The certificate has to name the host that the address names, whoever passes the connection on."""
    async with host(authority, "cm") as cm, host(authority, "ep", lambda: cm.port) as ep:
        other = ep.through(cm).replace("127.0.0.1:0", "ep.example:0")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(other)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert ep.daemon.callers == []


async def test_streams_outlive_the_registration_and_hosts_come_back_to_a_new_broker(authority: Authority) -> None:
    async with contextlib.AsyncExitStack() as stack:
        undo = await stack.enter_async_context(contextlib.AsyncExitStack())
        first = await undo.enter_async_context(host(authority, "cm"))
        ep = await stack.enter_async_context(host(authority, "ep", lambda: first.port))
        ends = ep.outward
        assert ends is not None
        async with channel.open_async(ep.through(first)) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ANN, timeout=LIMIT_S)
            ends.hang_up()
            await until(lambda: not ends.registered)
            await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ANN, timeout=LIMIT_S)
        await undo.aclose()
        second = await stack.enter_async_context(host(authority, "cm", port=first.port))
        await until(lambda: second.broker.registered and ends.registered)
        assert await ask(ep.through(second)) == 3


async def test_connections_that_are_open_keep_no_caller_from_a_host(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a host behind a broker bounds by a fixed number is the connections that it is making."""
    monkeypatch.setattr(outward, "_MAKING_MOST", 2)
    async with contextlib.AsyncExitStack() as stack:
        cm = await stack.enter_async_context(host(authority, "cm"))
        ep = await stack.enter_async_context(host(authority, "ep", lambda: cm.port))
        for count in range(1, 5):
            opened = await stack.enter_async_context(channel.open_async(ep.through(cm)))
            stub = collector_pb2_grpc.CollectorStub(opened)
            reply = await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ANN, timeout=LIMIT_S)
            assert reply.removed == count


async def test_a_host_that_registers_again_is_reached_by_its_new_stream(authority: Authority) -> None:
    """The end of its former one, which may be long in coming, takes nothing from it."""
    async with host(authority, "cm") as cm, contextlib.AsyncExitStack() as stack:
        calls = []
        for _ in range(2):
            opened = await stack.enter_async_context(channel.open_async(cm.at("shared_port")))
            call = shared_port_pb2_grpc.BrokerStub(opened).Register(metadata=ANN)
            await call.write(shared_port_pb2.Registration(host_secret=SECRET))
            assert (await call.read()).host_id == reach.id_of(SECRET)
            calls.append(call)
        assert await calls[0].read() == grpc.aio.EOF
        await until(lambda: cm.broker.statistics.attributes(0)["CCBEndpointsConnected"] == 1)
        counts = cm.broker.statistics.attributes(0)
        assert (counts["CCBReconnects"], counts["CCBEndpointsConnectedPeak"]) == (1, 2)
        caller = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", cm.port), 10)
        with caller:
            caller.sendall(connect(f"startd.{reach.id_of(SECRET)}.ccb.slotwise:1"))
            told = await calls[1].read()
            assert told != grpc.aio.EOF and told.sock == "startd"
        calls[1].cancel()


async def test_who_has_no_level_registers_nothing_and_nobody_takes_the_place_of_a_host(authority: Authority) -> None:
    async with host(authority, "cm") as cm, host(authority, "ep", lambda: cm.port) as ep:
        intruder = Outward(f"127.0.0.1:{cm.port}", SECRET, credential(["READ"]), cm.passage)
        intruder.start()
        async with channel.open_async(cm.at("shared_port")) as opened:
            call = shared_port_pb2_grpc.BrokerStub(opened).Register(metadata=metadata("READ", "WRITE"))
            with pytest.raises(grpc.RpcError) as caught:
                await call.read()
            assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert cm.broker.registered == 1
        # The id follows from the secret: what others show gives them another one.
        other = Outward(f"127.0.0.1:{cm.port}", "t" * 64, credential(["ADVERTISE_STARTD"]), cm.passage)
        other.start()
        await until(lambda: other.registered)
        assert await ask(ep.through(cm)) == 1
        assert not intruder.registered
        await intruder.close()
        await other.close()


async def test_a_connection_that_nobody_waits_for_is_refused(authority: Authority) -> None:
    async with host(authority, "cm") as cm:

        def said(name: str) -> bytes:
            with socket.create_connection(("127.0.0.1", cm.port), LIMIT_S) as one:
                one.sendall(connect(name))
                return one.recv(4096)

        assert status_of(await asyncio.to_thread(said, f"{'0' * 32}.back.slotwise:1")) == 404
        assert status_of(await asyncio.to_thread(said, "www.example.org:443")) == 404


async def test_what_both_sides_say_is_passed_on_whole(authority: Authority) -> None:
    """Megabytes one way and back, and the end of one side does not cut off the other."""
    async with host(authority, "ep") as ep:
        path, data = reach.forward_socket(ep.home, "echo"), os.urandom(4 << 20)

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read())
            await writer.drain()
            writer.close()

        async with await asyncio.start_unix_server(echo, socket_path.usable(path), limit=8 << 20):
            reader, writer = await asyncio.open_connection("127.0.0.1", ep.port)
            writer.write(connect("echo.sock.slotwise:1"))
            assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
            writer.write(data)
            writer.write_eof()
            assert await reader.read() == data
            writer.close()
