"""Connections of the web service that say nothing end by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from slotwise.web.server import Connection
from uvicorn.server import ServerState

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
