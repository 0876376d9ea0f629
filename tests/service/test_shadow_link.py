"""The starter's stream to a schedd, over real gRPC."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.starter.links.shadow_link import ShadowLink
from slotwise.starter.messages import Hello
from slotwise.wire import socket_path
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc

from tests.support.waiting import until


class Schedd(schedd_pb2_grpc.ScheddServicer):
    """Takes in what starters say, and says nothing."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def Shadow(self, requests: Any, context: Any) -> Any:
        """One starter's stream."""
        async for message in requests:
            self.heard += [str(one.WhichOneof("what")) for one in (message, *message.more)]
            yield schedd_pb2.ShadowMessage()


class LinkedRun:
    """A run that says hello."""

    run_id = "1.0#1"
    token = "a token"
    lost = 0

    def hello(self) -> Hello:
        """Its greeting."""
        return Hello(token=self.token, slot_name="slot1")

    def link_lost(self) -> None:
        """The stream broke."""
        self.lost += 1

    def fail(self, error: BaseException) -> None:
        raise error

    def hear(self, message: Any) -> None:
        """Nothing is said."""


async def test_a_broken_stream_is_opened_again_and_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    target, run = f"unix:{tmp_path}/schedd.sock", LinkedRun()
    link = ShadowLink(target, "unix:/here", lambda link: None)
    stand_in: Any = run
    link.add(stand_in)
    for breaks in (1, 2):
        schedd, server = Schedd(), grpc.aio.server()
        schedd_pb2_grpc.add_ScheddServicer_to_server(schedd, server)
        server.add_insecure_port(socket_path.usable_target(target))
        await server.start()
        await until(lambda heard=schedd.heard: heard == ["runs", "hello"], "list and greeting have come")
        await server.stop(0)
        await until(lambda want=breaks: run.lost == want, "the run hears of the break")
        gc.collect()
        await asyncio.sleep(0)
    await link.close()
    gc.collect()
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
