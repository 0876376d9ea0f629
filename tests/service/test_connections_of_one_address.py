"""How many connections of one address, and of one account, a daemon keeps."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.clock import ManualClock
from slotwise.wire import call, channel, connections, server, socket_path
from slotwise.wire.call import RefusalDelays, network_of
from slotwise.wire.connections import UNPROVED_S, ConnectionBounds
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc, daemon_pb2, daemon_pb2_grpc
from slotwise.wire.known_peers import KnownPeers, key_at, key_of
from slotwise.wire.security import Authenticator

from tests.support.serving import authenticator, metadata
from tests.support.waiting import LIMIT_S, until


class _Answers(collector_pb2_grpc.CollectorServicer):
    async def Invalidate(self, request: Any, context: Any) -> Any:
        return collector_pb2.InvalidateReply()


class _Pings(daemon_pb2_grpc.DaemonServicer):
    async def Ping(self, request: Any, context: Any) -> Any:
        return daemon_pb2.PingReply()


def lives(one: socket.socket) -> bool:
    """Whether the other end has not shut the connection."""
    one.setblocking(False)
    try:
        while one.recv(4096):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def accepted(path: str, port: int) -> int:
    """How many connections to a socket and a port of this process it has taken."""
    bounds = ConnectionBounds(path, [port], of_user=0, of_address=0, exempt=frozenset())
    bounds._learn([int(name.name) for name in Path("/proc/self/fd").iterdir()])
    return sum(bool(seen.who) for seen in bounds._known.values())


@contextlib.contextmanager
def crowd(port: int, *sources: str, each: int) -> Iterator[dict[str, list[socket.socket]]]:
    """Connections to a port of this host, of addresses that are all its own."""
    with contextlib.ExitStack() as stack:
        made: dict[str, list[socket.socket]] = {}
        for source in sources:
            made[source] = []
            for _ in range(each):
                one = socket.create_connection(("127.0.0.1", port), LIMIT_S, source_address=(source, 0))
                made[source].append(stack.enter_context(one))
        yield made


@contextlib.asynccontextmanager
async def port_of(gate: Authenticator) -> AsyncIterator[tuple[str, int]]:
    """The address of a server behind ``gate``, and its port."""
    made = server.make_server(gate, peers=gate.peers)
    collector_pb2_grpc.add_CollectorServicer_to_server(_Answers(), made)
    address, _ = server.listen(made)
    await made.start()
    try:
        yield address, int(address.rpartition(":")[2])
    finally:
        await made.stop(None)


async def invalidate(address: str, who: str) -> None:
    async with channel.open_async(address) as opened:
        stub = collector_pb2_grpc.CollectorStub(opened)
        shown = metadata("ADVERTISE_STARTD", identity=who)
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=shown)


async def test_an_account_has_so_many_connections_from_all_loopback_addresses_together() -> None:
    """The youngest are closed, and who closes some may connect again."""
    me = pwd.getpwuid(os.getuid()).pw_name
    async with port_of(authenticator()) as (address, port):
        bounds = ConnectionBounds("", [port], of_user=5, of_address=3, exempt=frozenset())
        with crowd(port, "127.0.0.7", "127.0.0.8", each=2) as few:
            await until(lambda: accepted("", port) >= 4, "gRPC has accepted them")
            assert not bounds.look()
            with crowd(port, *(f"127.0.1.{n}" for n in range(16)), each=2) as many:
                closed = 0

                def those_beyond_are_closed() -> bool:
                    nonlocal closed
                    found = bounds.look()
                    assert set(found) <= {me}
                    closed += found[me]
                    return closed >= 31

                await until(those_beyond_are_closed)
                await until(lambda: sum(map(lives, itertools.chain(*many.values()))) <= 1)
                assert all(map(lives, [*few["127.0.0.7"], *few["127.0.0.8"]])), "these were there before"
        await until(lambda: accepted("", port) == 0)
        await invalidate(address, "ann@test")
        assert not bounds.look()


async def test_where_the_kernel_tells_no_account_the_loopback_interface_is_one_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "account_over_loopback", lambda peer, here: None)
    async with port_of(authenticator()) as (_, port):
        bounds = ConnectionBounds("", [port], of_user=1, of_address=5, exempt=frozenset({os.getuid()}))
        with crowd(port, "127.0.0.7", "127.9.9.9", each=4):
            await until(lambda: accepted("", port) >= 8, "gRPC has accepted them")
            assert bounds.look() == {"<127.0.0.1>": 3}


async def test_connections_without_a_valid_token_end_and_those_with_one_stay() -> None:
    gate, now = authenticator(), 1000.0
    gate.peers = KnownPeers(lambda: now)
    async with port_of(gate) as (address, port), channel.open_async(address) as opened:
        bounds = ConnectionBounds(
            "", [port], of_user=0, of_address=0, exempt=frozenset(), peers=gate.peers, now=lambda: now
        )
        stub = collector_pb2_grpc.CollectorStub(opened)
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("ADVERTISE_STARTD"))
        wrong = (("authorization", "Bearer nonsense"),)
        own = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
        async with grpc.aio.insecure_channel(address, own) as refused:
            with pytest.raises(grpc.RpcError):
                await collector_pb2_grpc.CollectorStub(refused).Invalidate(
                    collector_pb2.InvalidateRequest(), metadata=wrong
                )
            with crowd(port, "127.0.0.7", each=3) as silent:
                await until(lambda: accepted("", port) >= 5, "gRPC has accepted them")
                assert not bounds.look()
                now += UNPROVED_S - 1
                assert not bounds.look()
                now += 1
                assert sum(bounds.look().values()) == 4, "the silent ones, and the one with the wrong token"
                await until(lambda: not any(map(lives, silent["127.0.0.7"])))
        await until(lambda: accepted("", port) == 1)
        assert not bounds.look()
        await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("ADVERTISE_STARTD"))


async def test_who_asks_what_needs_no_token_is_not_cut_off_as_long_as_it_asks() -> None:
    gate, now = authenticator(), 1000.0
    gate.peers = KnownPeers(lambda: now)
    made = server.make_server(gate, peers=gate.peers)
    daemon_pb2_grpc.add_DaemonServicer_to_server(_Pings(), made)
    address, _ = server.listen(made)
    await made.start()
    port = int(address.rpartition(":")[2])
    bounds = ConnectionBounds(
        "", [port], of_user=0, of_address=0, exempt=frozenset(), peers=gate.peers, now=lambda: now
    )
    try:
        async with channel.open_async(address) as opened:
            stub = daemon_pb2_grpc.DaemonStub(opened)
            for _ in range(3):
                await stub.Ping(daemon_pb2.PingRequest())
                assert not bounds.look()
                now += UNPROVED_S - 1
            now += 1
            assert sum(bounds.look().values()) == 1
    finally:
        await made.stop(None)


async def test_strangers_leave_a_part_of_the_connections_to_those_who_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest of those that show nothing make room; an address that has shown a token is no stranger."""
    monkeypatch.setattr(connections, "account_over_loopback", lambda peer, here: None)
    monkeypatch.setattr(call, "network_of", lambda host: host.removeprefix("::ffff:"))
    gate = authenticator()
    async with port_of(gate) as (address, port):
        bounds = ConnectionBounds(
            "", [port], of_user=0, of_address=0, exempt=frozenset(), peers=gate.peers, unproved_most=6
        )
        async with channel.open_async(address) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=metadata("ADVERTISE_STARTD"))
            assert not bounds.look()
            with crowd(port, "127.0.0.7", each=4) as old:
                await until(lambda: accepted("", port) >= 5)
                assert not bounds.look()
                with crowd(port, "127.0.0.1", each=5) as known, crowd(port, "127.0.0.8", each=4) as young:
                    await until(lambda: accepted("", port) >= 14)
                    assert bounds.look() == {"<127.0.0.7>": 2}
                    await until(lambda: sum(map(lives, old["127.0.0.7"])) == 2)
                    assert all(map(lives, [*known["127.0.0.1"], *young["127.0.0.8"]]))


async def test_accounts_that_are_exempt_and_no_bound_at_all() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        made = server.make_server(authenticator())
        address, socket_of = server.listen(made, socket=Path(directory) / "test.sock")
        path = socket_path.usable(socket_of)
        await made.start()
        port = int(address.rpartition(":")[2])
        try:
            with contextlib.ExitStack() as stack:
                local = []
                for _ in range(12):
                    one = stack.enter_context(socket.socket(socket.AF_UNIX))
                    one.connect(path)
                    local.append(one)
                await until(lambda: accepted(path, port) >= 12, "gRPC has accepted them")
                exempt = ConnectionBounds(path, [port], of_user=3, of_address=3, exempt=frozenset({os.getuid()}))
                assert not exempt.look()
                assert not ConnectionBounds(path, [port], of_user=0, of_address=0, exempt=frozenset()).look()
                assert all(map(lives, local))
                bound = ConnectionBounds(path, [port], of_user=3, of_address=3, exempt=frozenset())
                assert sum(bound.look().values()) == 9
        finally:
            await made.stop(None)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "127.0.0.1"),
        ("127.8.9.10", "127.0.0.1"),
        ("a local socket", "a local socket"),
    ],
)
def test_addresses_that_one_host_may_have_count_as_one(host: str, counted: str) -> None:
    assert network_of(host) == counted


def test_who_shows_wrong_tokens_from_many_addresses_of_a_network_waits() -> None:
    waits = RefusalDelays(lambda: 0.0)
    said = [waits.failed(f"<[2001:db8:1:2::{n:x}]:5000>") for n in range(30)]
    assert said[:10] == [0.0] * 10 and said[-1] == 2.0
    assert waits.failed("<[2001:db8:1:3::1]:5000>") == 0.0


@pytest.mark.parametrize(
    ("peer", "host", "port"),
    [
        ("ipv4:192.0.2.7:5000", "192.0.2.7", 5000),
        ("ipv4:192.0.2.7:5000", "::ffff:192.0.2.7", 5000),
        ("ipv6:%5B2001:db8::1%5D:5000", "2001:db8::1", 5000),
        ("ipv6:%5Bfe80::1%252%5D:5000", "fe80::1%eth0", 5000),
    ],
)
def test_a_connection_is_the_same_to_grpc_and_to_the_kernel(peer: str, host: str, port: int) -> None:
    assert key_of(peer) == key_at(host, port)


def test_it_is_looked_again_when_descriptors_come_or_go_and_after_a_while() -> None:
    clock = ManualClock()
    bounds = ConnectionBounds("", [], of_user=1, of_address=1, exempt=frozenset(), now=clock.monotonic)
    assert bounds.is_due()
    if not Path("/proc/self/fd").stat().st_size:
        pytest.skip("the kernel does not say how many descriptors there are")

    def is_due_again() -> bool:
        bounds.look()
        return bounds.is_due()

    assert not is_due_again()
    with socket.socket():
        assert bounds.is_due() and not is_due_again()
    assert bounds.is_due() and not is_due_again()
    clock.advance(5.0)
    assert bounds.is_due() and not is_due_again()
    bounds.closed["ann", "who has too many"] = 1
    assert bounds.is_due() and not is_due_again()
