"""A real gRPC server inside the test's event loop, with tokens, and a manual clock beside it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
from slotwise.wire import channel
from slotwise.wire.security import Authenticator
from slotwise.wire.server import listen, make_server
from slotwise.wire.token import mint

KEY = "a key that is only good for tests, and long enough"


def metadata(*scopes: str, identity: str = "ann@test") -> tuple[tuple[str, str], ...]:
    """Call metadata of a caller with these scopes."""
    return channel.token_metadata(mint(KEY, identity, scopes, issued_at=1))


@contextlib.asynccontextmanager
async def serving(*add: Callable[[grpc.aio.Server], Any]) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server to which each of ``add`` has added its servicer."""
    server = make_server(Authenticator(KEY))
    for added in add:
        added(server)
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        _, socket = listen(server, socket=Path(directory) / "test.sock")
        await server.start()
        try:
            async with channel.open_async(f"unix:{socket}") as opened:
                yield opened
        finally:
            await server.stop(grace=None)
