"""A real gRPC server inside the test's event loop, with tokens, and a manual clock beside it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
from slotwise.clock import Clock
from slotwise.config import load
from slotwise.daemon.runtime import DaemonContext
from slotwise.home import PoolHome
from slotwise.wire import channel
from slotwise.wire.address import DaemonAddress
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


def daemon_context(
    home: PoolHome, name: str, server: grpc.aio.Server, clock: Clock, knobs: dict[str, str] | None = None
) -> DaemonContext:
    """What daemon ``name`` would get from the runtime; ``knobs`` are set as if in the configuration file."""
    home.create()
    file = home.root / f"{name}.config"
    file.write_text("".join(f"{key} = {value}\n" for key, value in (knobs or {}).items()))
    env = {"SLOTWISE_HOME": str(home.root), "CONDOR_CONFIG": str(file)}
    config = load(str(file), subsystem=name.upper(), env=env, home=home)
    me = DaemonAddress(name, os.getpid(), "127.0.0.1:0", name="host.test", started_at=int(clock.now()))
    token = mint(KEY, "condor@host.test", ["ADMINISTRATOR"], issued_at=1)
    return DaemonContext(name, home, config, clock, server, Authenticator(KEY), token, me, env, str(file))
