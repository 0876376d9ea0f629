"""A daemon that asks for a user gets what both of them may read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.authorization.authorizer import Authorizer
from slotwise.wire import channel
from slotwise.wire.gate import FOR_USER
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.server import listen, make_server

from tests.support.configured import configured
from tests.support.serving import authenticator, metadata
from tests.support.waiting import LIMIT_S


class Answering(collector_pb2_grpc.CollectorServicer):
    async def Query(self, request: common_pb2.AdQuery, context: Any) -> Any:
        yield common_pb2.AdChunk(done=True)


@pytest.mark.parametrize(
    ("levels", "user", "allowed"),
    [
        (("ADVERTISE_MASTER",), None, True),
        (("ADVERTISE_MASTER",), "ann@example.org", True),
        (("ADVERTISE_MASTER",), "banned@example.org", False),
        (("ADVERTISE_MASTER",), "jürgen@example.org", True),
        # Naming somebody else gives nothing.
        (("RUN",), "ann@example.org", False),
        ((), "root@example.org", False),
    ],
)
async def test_the_lists_count_for_whom_it_asks(levels: tuple[str, ...], user: str | None, allowed: bool) -> None:
    config = configured(DENY_READ="banned@example.org")
    lists = Authorizer("COLLECTOR")
    lists.follow(await lists.read(config))
    server = make_server(authenticator(), lists)
    collector_pb2_grpc.add_CollectorServicer_to_server(Answering(), server)
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        _, socket = listen(server, socket=Path(directory) / "test.sock")
        await server.start()
        shown = (*metadata(*levels), *(((FOR_USER, user.encode()),) if user else ()))
        try:
            async with channel.open_async(f"unix:{socket}") as opened:
                stub = collector_pb2_grpc.CollectorStub(opened)
                call = stub.Query(common_pb2.AdQuery(), metadata=shown, timeout=LIMIT_S)
                try:
                    assert [chunk.done async for chunk in call] == [True]
                    code = grpc.StatusCode.OK
                except grpc.aio.AioRpcError as error:
                    code = error.code()
        finally:
            await server.stop(grace=None)
    assert (code is grpc.StatusCode.OK) is allowed
