"""Connections of the web service that say nothing end by themselves."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from slotwise.web.server import Accepting, Connection, Handshake, Peers, secured
from uvicorn.server import ServerState

from tests.support.certificates import Authority
from tests.support.waiting import LIMIT_S


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Answers when it has the whole request, a little later."""
    while (await receive()).get("more_body"):
        pass
    await asyncio.sleep(2 * _WHOLE_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


#: How long a whole request may take: enough for one that is there at once on a host that is busy.
_WHOLE_S = 0.5
_WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", 0),
        (b"GET / HT", 0),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", 0),
        (_WHOLE, 1),
        (_WHOLE + b"GET / HT", 1),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nwhol", 1),
    ],
)
def test_a_request_has_to_come_in_time(sent: bytes, answers: int) -> None:
    async def talk() -> bytes:
        config = uvicorn.Config(_app, http=Connection, lifespan="off", log_config=None, timeout_keep_alive=0)
        config.load()

        def connection() -> Connection:
            made = Connection(config, ServerState(), {})
            made.request_s = _WHOLE_S if answers else 0.1
            return made

        server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(sent)
            try:
                async with asyncio.timeout(LIMIT_S):
                    return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(talk()).count(b"200 OK") == answers


def test_a_caller_that_takes_nothing_of_its_answer_is_let_go() -> None:
    async def much(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    gone: asyncio.Future[bool]

    async def talk() -> None:
        nonlocal gone
        gone = asyncio.get_running_loop().create_future()
        config = uvicorn.Config(much, http=Connection, lifespan="off", log_config=None)
        config.load()

        class Watched(Connection):
            stall_s = 0.1

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                gone.set_result(True)

        server = await asyncio.get_running_loop().create_server(
            lambda: Watched(config, ServerState(), {}), "127.0.0.1", 0
        )
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1)
            writer.write(_WHOLE)
            async with asyncio.timeout(LIMIT_S):
                assert await gone
            writer.close()

    asyncio.run(talk())


def test_handshakes_count_as_requests_that_have_not_come(tmp_path: Path) -> None:
    """A caller that begins one and says nothing more has its part of the connections, and the oldest makes room."""
    Authority(tmp_path).issue("server")

    async def talk() -> None:
        config = uvicorn.Config(
            _app, http=Connection, lifespan="off", log_config=None,
            ssl_certfile=str(tmp_path / "server.pem"), ssl_keyfile=str(tmp_path / "server.key"),
        )  # fmt: skip
        config.load()
        peers = Peers(4, 100)
        assert config.ssl is not None
        made: list[Handshake] = []

        def connection() -> Any:
            one = handshakes(config=config, server_state=ServerState(), app_state={})
            made.append(one)
            return one

        handshakes: Any = secured(peers, Connection, config.ssl, LIMIT_S)
        server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        async with server, asyncio.timeout(LIMIT_S):
            at = server.sockets[0].getsockname()
            context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            context.check_hostname = False
            reader, writer = await asyncio.open_connection(*at, ssl=context)
            writer.write(_WHOLE)
            assert b"200 OK" in await reader.readline()
            half = [await asyncio.open_connection(*at) for _ in range(20)]
            for _, one in half:
                one.write(b"\x16\x03\x01")
            assert [await reader.read() for reader, _ in half[:16]] == [b""] * 16
            assert sum(one.waits for one in peers._open[f"uid {os.getuid()}"]) == 4
            # Whoever means to ask has a turn all the same.
            again, asks = await asyncio.open_connection(*at, ssl=context)
            asks.write(_WHOLE)
            assert b"200 OK" in await again.readline()
            for one in (writer, asks, *(one for _, one in half)):
                one.close()
            while peers._open:
                await asyncio.sleep(0.01)
        assert len(made) == 22

    asyncio.run(talk())


def test_a_handshake_has_to_end_in_time(tmp_path: Path) -> None:
    Authority(tmp_path).issue("server")

    async def talk() -> None:
        config = uvicorn.Config(
            _app, http=Connection, lifespan="off", log_config=None,
            ssl_certfile=str(tmp_path / "server.pem"), ssl_keyfile=str(tmp_path / "server.key"),
        )  # fmt: skip
        config.load()
        assert config.ssl is not None
        handshakes: Any = secured(Peers(4, 100), Connection, config.ssl, 0.1)
        server = await asyncio.get_running_loop().create_server(
            lambda: handshakes(config=config, server_state=ServerState(), app_state={}), "127.0.0.1", 0
        )
        async with server, asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b""
            writer.close()

    asyncio.run(talk())


def test_callers_with_few_connections_have_room_where_others_have_taken_all() -> None:
    class One:
        def __init__(self, who: str) -> None:
            self.waits, self.gone, self.who, self.transport = True, False, who, self

        def abort(self) -> None:
            self.gone = True

        def get_extra_info(self, name: str) -> tuple[str, int]:
            return (self.who, 1)

    peers = Peers(4, 8)
    crowds = [One(f"192.0.2.{n % 2}") for n in range(8)]
    assert all(peers.enter(one) for one in crowds)  # type: ignore[arg-type]
    late = [One(f"198.51.100.{n}") for n in range(3)]
    assert all(peers.enter(one) for one in late)  # type: ignore[arg-type]
    assert sum(one.gone for one in crowds) == 3 and not any(one.gone for one in late)


def test_a_file_has_time_while_enough_of_it_comes() -> None:
    part = 300_000

    async def talk() -> bytes:
        again = asyncio.Event()
        config = uvicorn.Config(_app, http=Connection, lifespan="off", log_config=None, timeout_keep_alive=0)
        config.load()

        class Watched(Connection):
            request_s = 0.1
            given = 0

            def _expect(self, seconds: float | None) -> None:
                super()._expect(seconds)
                self.given += 1
                if self.given == 2:  # the time of the first part is over
                    type(self).request_s = LIMIT_S
                    super()._expect(None if seconds is None else LIMIT_S)
                    again.set()

        server = await asyncio.get_running_loop().create_server(
            lambda: Watched(config, ServerState(), {}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (2 * part))
            writer.write(b"x" * part)
            try:
                async with asyncio.timeout(LIMIT_S):
                    await again.wait()
                    writer.write(b"x" * part)
                    return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    assert b"200 OK" in asyncio.run(talk())


def test_a_shortage_that_goes_on_is_one_line_for_all_that_asyncio_reports(caplog: pytest.LogCaptureFixture) -> None:
    async def report() -> None:
        loop, accepting = asyncio.get_running_loop(), Accepting()
        loop.set_exception_handler(accepting)
        for _ in range(100):
            no_descriptor = OSError(errno.EMFILE, "Too many open files")
            loop.call_exception_handler({"message": "socket.accept()", "exception": no_descriptor, "socket": None})
        loop.call_exception_handler({"message": "something else", "exception": OSError(errno.EMFILE, "of a file")})
        accepting.works()

    with caplog.at_level(logging.WARNING):
        asyncio.run(report())
    told = [record.getMessage().split("\n")[0] for record in caplog.records]
    assert told[:2] == ["connections wait to be accepted: Too many open files (errno 24)", "something else"]
    assert [line.partition(", after")[0] for line in told[2:]] == ["connections are accepted again"]
