"""How many connections of one address, and of one account, a daemon keeps."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire import channel, server, socket_path
from slotwise.wire.call import RefusalDelays, network_of
from slotwise.wire.connections import ConnectionBounds
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc

from tests.support.serving import authenticator, metadata
from tests.support.waiting import LIMIT_S, until


class _Answers(collector_pb2_grpc.CollectorServicer):
    async def Invalidate(self, request: Any, context: Any) -> Any:
        return collector_pb2.InvalidateReply()


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
    return sum(bool(who) for _, who in bounds._known.values())


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


async def test_an_address_has_so_many_connections_and_no_more() -> None:
    """The youngest are closed, others' are not, and others are answered."""
    made = server.make_server(authenticator())
    collector_pb2_grpc.add_CollectorServicer_to_server(_Answers(), made)
    address, _ = server.listen(made)
    await made.start()
    port = int(address.rpartition(":")[2])
    bounds = ConnectionBounds("", [port], of_user=1, of_address=5, exempt=frozenset({os.getuid()}))
    try:
        with crowd(port, "127.0.0.7", "127.0.0.8", each=4) as few:
            await until(lambda: accepted("", port) >= 8, "gRPC has accepted them")
            assert not bounds.look()
            with crowd(port, "127.0.0.7", each=20) as many:
                closed = 0

                def those_beyond_are_closed() -> bool:
                    nonlocal closed
                    found = bounds.look()
                    assert set(found) <= {"<127.0.0.7>"}
                    closed += found["<127.0.0.7>"]
                    return closed >= 19

                await until(those_beyond_are_closed)
                await until(lambda: sum(map(lives, many["127.0.0.7"])) <= 1)
                assert all(map(lives, [*few["127.0.0.7"], *few["127.0.0.8"]])), "these were there before"
                async with channel.open_async(address) as opened:
                    stub = collector_pb2_grpc.CollectorStub(opened)
                    ann = metadata("ADVERTISE_STARTD", identity="ann@test")
                    await stub.Invalidate(collector_pb2.InvalidateRequest(), metadata=ann)
                assert not bounds.look()
    finally:
        await made.stop(None)


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
        ("::1", "::1"),
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
