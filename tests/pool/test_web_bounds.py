"""What one caller may have of the web service at a time: requests, streams, sessions, connections, and memory."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from slotwise.client import Schedd

from tests.pool.test_web import DAEMONS, Caller
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S, block_until


@pytest.fixture
def served(make_pool: Callable[[str], Pool]) -> Iterator[tuple[Pool, Caller]]:
    pool = make_pool(DAEMONS + "SLOTWISE_HTTP_MAX_CONNECTIONS = 200\n")
    pool.up()
    anybody = Caller(pool)
    pool.until("the schedd's ad", lambda: anybody("GET", "/api/v1/schedds").json)
    yield pool, anybody


def token_of(pool: Pool, identity: str) -> str:
    return pool.run("token", "create", "-identity", identity, "-authz", "READ", "-authz", "WRITE").stdout.strip()


@contextlib.contextmanager
def connected(caller: Caller) -> Iterator[socket.socket]:
    where = urlsplit(caller.base)
    with socket.create_connection((where.hostname, where.port), LIMIT_S) as one:
        yield one


def status_of(one: socket.socket) -> int:
    """The status of the answer that begins to come."""
    return int(one.makefile("rb").readline().split()[1])


def head(method: str, path: str, token: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_token_is_looked_at_before_anything_of_the_body_is_read(served: tuple[Pool, Caller]) -> None:
    pool, caller = served
    good = token_of(pool, "alice@here")
    for path in ("/api/v1/jobs", "/api/v1/jobs/act", "/api/v1/jobs/edit", "/api/v1/jobs/preview"):
        for shown, size, status in (("nonsense", 3_000_000, 401), (good, 5_000_000, 400)):
            with connected(caller) as one:
                one.sendall(head("POST", path, shown, f"Content-Length: {size}"))
                assert status_of(one) == status, path  # of the body not a byte was sent
    for shown, size, status in (("nonsense", 3_000_000, 401), (good, 20 << 30, 400)):
        with connected(caller) as one:
            one.sendall(head("PUT", "/api/v1/jobs/1/input/data", shown, f"Content-Length: {size}"))
            assert status_of(one) == status
    with connected(caller) as one:
        one.sendall(head("POST", "/api/v1/jobs", good, "Transfer-Encoding: chunked"))
        with contextlib.suppress(ConnectionError):
            for _ in range(5):
                one.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        assert status_of(one) in (400, 429)


def test_one_caller_has_so_many_streams_of_events_however_fast_it_asks(served: tuple[Pool, Caller]) -> None:
    pool, caller = served
    shown = {name: token_of(pool, f"{name}@here") for name in ("alice", "bob")}
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(caller)) for _ in range(30)]
        for one in opened:  # all of them before the first is answered
            one.sendall(head("GET", "/api/v1/events", shown["alice"]))
        assert Counter(map(status_of, opened)) == {200: 20, 429: 10}
        other = stack.enter_context(connected(caller))
        other.sendall(head("GET", "/api/v1/events", shown["bob"]))
        assert status_of(other) == 200
        for one in opened:
            one.close()

        def again() -> bool:
            with connected(caller) as one:
                one.sendall(head("GET", "/api/v1/events", shown["alice"]))
                return status_of(one) == 200

        block_until(again, "streams that ended make room")


def test_sessions_of_one_user_sign_nobody_else_out(served: tuple[Pool, Caller]) -> None:
    pool, anybody = served
    users = {name: Caller(pool, token_of(pool, f"{name}@here")) for name in ("alice", "bob")}

    def session(user: Caller) -> str:
        reply = user("POST", "/api/v1/session", {})
        assert reply.status == 200, reply
        return next(value for name, value in reply.headers.items() if name.lower() == "set-cookie").partition(";")[0]

    alice, bobs = session(users["alice"]), [session(users["bob"]) for _ in range(25)]

    def signed_in(cookie: str) -> bool:
        return bool(anybody("GET", "/api/v1/pool", Cookie=cookie).json["signed_in"])

    assert signed_in(alice)
    assert [signed_in(cookie) for cookie in bobs] == [False] * 5 + [True] * 20


def test_requests_that_are_half_there_make_room_for_others_of_their_account(served: tuple[Pool, Caller]) -> None:
    _, caller = served
    with contextlib.ExitStack() as stack:
        halves = [stack.enter_context(connected(caller)) for _ in range(120)]
        for at, one in enumerate(halves):
            with contextlib.suppress(ConnectionError):
                one.sendall(
                    b"GET /api/v1/pool HT" if at % 2 else head("POST", "/api/v1/jobs", "x", "Content-Length: 9")
                )
        for _ in range(10):
            assert caller("GET", "/api/v1/pool").status == 200

        def ended(one: socket.socket) -> bool:
            one.setblocking(False)
            try:
                while one.recv(65536):
                    pass
            except BlockingIOError:
                return False
            except ConnectionError:
                pass
            return True

        block_until(lambda: sum(map(ended, halves)) >= 70, "a quarter of 200 connections is left to one account")


@pytest.mark.parametrize("where", ["jobs", "history"])
def test_large_ads_travel_in_pieces_and_whole_answers_are_bounded(served: tuple[Pool, Caller], where: str) -> None:
    pool, caller = served
    count, size = 100, 900_000
    with Schedd(env=pool.env) as schedd:
        description = {
            "executable": "/bin/true",
            "transfer_executable": False,
            "hold": True,
            "+Large": f'"{"x" * size}"',
        }
        cluster = schedd.submit(description, count).cluster
        if where == "history":
            schedd.act("remove", [str(cluster)])
            pool.until("their end", lambda: len(schedd.history("true", ("ProcId",))) == count)
    # In order and by pages, ads are put together before the first byte is sent.
    page = f"/api/v1/{where}?limit=1000" + ("&order=id" if where == "jobs" else "")
    first = caller("GET", page)
    assert 0 < len(first.json) < count and len(first.body) < 20 << 20
    assert 'rel="next"' in first.headers["link"]
    assert len(caller("GET", f"{page}&projection=ProcId").json) == count
    path = urlsplit(caller.base)
    connection = http.client.HTTPConnection(path.hostname or "", path.port, timeout=LIMIT_S)
    connection.request("GET", f"/api/v1/{where}?limit=100000")
    reply = connection.getresponse()
    taken = 0
    while piece := reply.read(1 << 20):
        taken += len(piece)
    connection.close()
    assert reply.status == 200 and taken > count * size
    assert len(json.loads(caller("GET", f"/api/v1/jobs/{cluster}?projection=ProcId&limit=100000").body)) == count
    assert len(caller("GET", f"/api/v1/jobs/{cluster}.0").body) > size
    peak = next(int(line.split()[1]) for line in _status_of_web(pool) if line.startswith("VmHWM"))
    assert peak < 400 * 1024, f"the service had {peak} KiB for an answer of {taken >> 20} MiB"


def _status_of_web(pool: Pool) -> list[str]:
    from pathlib import Path

    from slotwise.wire import address

    return Path(f"/proc/{address.lookup(pool.home, 'web').pid}/status").read_text().splitlines()
