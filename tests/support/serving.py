"""A real gRPC server inside the test's event loop, with tokens, and a manual clock beside it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from slotwise.clock import Clock
from slotwise.config import load
from slotwise.daemon.runtime import DaemonContext
from slotwise.home import PoolHome
from slotwise.wire.address import DaemonAddress
from slotwise.wire.channel import open_async
from slotwise.wire.credential import HostCredential, bearer
from slotwise.wire.keys import PoolTrust, SigningKey, mint, public_text
from slotwise.wire.security import Authenticator
from slotwise.wire.server import listen, make_server
from slotwise.wire.token import DAEMON_LEVELS

#: The key of the pool ``test``, and that of the host that all daemons of a test run on.
KEY, HOST = SigningKey.generate(), SigningKey.generate()
TRUST = PoolTrust("test", {KEY.kid: KEY.public})


def authenticator(*sockets: str) -> Authenticator:
    """What a daemon of the pool goes by that listens at these sockets."""
    return Authenticator(lambda: TRUST, family=HOST.public, audiences=[f"unix:{socket}" for socket in sockets])


def token(*scopes: str, identity: str = "ann@test", **more: Any) -> str:
    """A token of the pool."""
    return mint(KEY, identity, scopes, **{"issued_at": 1, "issuer": "test", "audience": "test", **more})


def credential(levels: Iterable[str]) -> HostCredential:
    """What a daemon of the host shows."""
    bound_to = public_text(HOST.public)
    word = token(*DAEMON_LEVELS["master"], *levels, identity="condor@host.test", bound_to=bound_to)
    return HostCredential("condor@host.test", HOST, lambda: word, levels, time.time)


def metadata(*scopes: str, identity: str = "ann@test") -> tuple[tuple[str, str], ...]:
    """Call metadata of a caller with these scopes."""
    return bearer(token(*scopes, identity=identity))


@contextlib.asynccontextmanager
async def serving(*add: Callable[[grpc.aio.Server], Any]) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server to which each of ``add`` has added its servicer."""
    server = make_server(authenticator())
    for added in add:
        added(server)
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        _, socket = listen(server, socket=Path(directory) / "test.sock")
        await server.start()
        try:
            async with open_async(f"unix:{socket}") as opened:
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
    shown = credential(DAEMON_LEVELS[name])
    return DaemonContext(name, home, config, clock, server, authenticator(), shown, me, env, str(file))
