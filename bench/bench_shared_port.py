"""How fast a stream is that goes directly, by a shared port, and by a broker: one gRPC stream with TLS on this machine.

    python bench/bench_shared_port.py [--mib 1024]

Servers, shared ports and the caller are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
from slotwise.clock import SystemClock
from slotwise.daemon import reach
from slotwise.daemon.reach import Place
from slotwise.home import PoolHome
from slotwise.shared_port.broker import Broker
from slotwise.shared_port.listening import Passage, open_places
from slotwise.shared_port.outward import Outward
from slotwise.wire import channel
from slotwise.wire.contact import Contact
from slotwise.wire.gen import shared_port_pb2_grpc
from slotwise.wire.server import bind_socket

from tests.support.certificates import Authority
from tests.support.serving import credential

_PIECE = 1 << 20
_SECRET = "s" * 64


class _Takes(grpc.GenericRpcHandler):
    """Counts the bytes of a stream."""

    def service(self, details: Any) -> Any:
        async def take(requests: AsyncIterator[bytes], context: Any) -> bytes:
            total = 0
            async for piece in requests:
                total += len(piece)
            return str(total).encode()

        async def echo(request: bytes, context: Any) -> bytes:
            return request

        if details.method == "/bench/take":
            return grpc.stream_unary_rpc_method_handler(take)
        return grpc.unary_unary_rpc_method_handler(echo)


def _credentials(tls: Path) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials([((tls / "host.key").read_bytes(), (tls / "host.pem").read_bytes())])


async def _serve(home: PoolHome, tls: Path, said: Connection) -> None:
    channel.use_tls(grpc.ssl_channel_credentials((tls / "ca.pem").read_bytes()))
    server = grpc.aio.server(options=channel.OPTIONS)
    server.add_generic_rpc_handlers((_Takes(),))
    port = server.add_secure_port("127.0.0.1:0", _credentials(tls))
    bind_socket(server, reach.forward_socket(home, "startd"), _credentials(tls))
    await server.start()
    said.send(port)
    await server.wait_for_termination()


async def _share(home: PoolHome, tls: Path, said: Connection, broker: int) -> None:
    channel.use_tls(grpc.ssl_channel_credentials((tls / "ca.pem").read_bytes()))
    passage = Passage(home, "startd", 10_000, 0)
    (listening,) = open_places([Place("127.0.0.1")], 0)
    port = listening.getsockname()[1]
    server = grpc.aio.server()  # whoever registers may, here
    shared_port_pb2_grpc.add_BrokerServicer_to_server(Broker(passage, SystemClock()), server)
    bind_socket(server, reach.forward_socket(home, "shared_port"), _credentials(tls))
    await server.start()
    if broker:
        outward = Outward(f"127.0.0.1:{broker}", _SECRET, credential(["ADVERTISE_STARTD"]), passage)
        outward.start()
        while not outward.registered:
            await asyncio.sleep(0.01)
    said.send(port)
    await passage.accept(listening)


def _run(what: Callable[..., Any], home: PoolHome, tls: Path, said: Connection, *rest: int) -> None:
    asyncio.run(what(home, tls, said, *rest))


async def _measure(target: str, mib: int) -> tuple[float, float]:
    """MiB a second of a stream, and milliseconds of a small call."""
    piece = b"x" * _PIECE

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(mib):
            yield piece

    async with channel.open_async(target) as opened:
        echo, take = opened.unary_unary("/bench/echo"), opened.stream_unary("/bench/take")
        await echo(b"x")
        began = time.perf_counter()
        for _ in range(500):
            await echo(b"x")
        small_ms = (time.perf_counter() - began) * 2
        began = time.perf_counter()
        await take(pieces())
        return mib / (time.perf_counter() - began), small_ms


def main() -> None:
    """Measure the three ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    mib = parser.parse_args().mib
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="sw-") as directory, contextlib.ExitStack() as undo:
        root = Path(directory)
        authority = Authority(root / "tls")
        authority.issue("host")
        channel.use_tls(grpc.ssl_channel_credentials(authority.file.read_bytes()))

        def start(what: Callable[..., Any], name: str, *rest: int) -> int:
            home = PoolHome(root / name)
            home.create()
            hears, says = spawn.Pipe(duplex=False)
            made = spawn.Process(target=_run, args=(what, home, authority.directory, says, *rest), daemon=True)
            made.start()
            undo.callback(made.terminate)
            return int(hears.recv())

        own = start(_serve, "ep")
        broker = start(_share, "cm", 0)
        shared = start(_share, "ep", broker)
        far = Contact("127.0.0.1", 0, "startd", broker=f"127.0.0.1:{broker}", broker_id=reach.id_of(_SECRET))
        ways = {
            "directly": f"127.0.0.1:{own}",
            "by the shared port": f"127.0.0.1:{shared}?sock=startd",
            "by the broker": str(far),
        }
        for way, target in ways.items():
            rate, small_ms = asyncio.run(_measure(target, mib))
            print(f"{way:20} {rate:7.0f} MiB/s   a small call takes {small_ms:.3f} ms")


if __name__ == "__main__":
    main()
