"""gRPC's polling thread, kept for as long as the tests of a process run."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest


@pytest.fixture(scope="session", autouse=True)
def polling_stays() -> None:
    """With the last channel of a process gRPC takes its polling thread down, from whichever line happens to collect
    that channel, and waits there without a limit for calls that were cancelled. One more reference keeps it."""

    async def refer() -> None:
        grpc.aio.init_grpc_aio()

    asyncio.run(refer())
