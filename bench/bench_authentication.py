"""What the check of a caller costs: the same call of the same servicer, with the check in front of it and without.

Both servers live in one process, side by side, and are asked in turn from another, so that what else the machine does
weighs on both alike. Processor time of the server is what counts; the time of a call is told as well. ``ConfigValues``
needs READ, does next to nothing, and is answered over a UNIX socket and over TCP with TLS.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from harness import Report
from slotwise.authorization.authorizer import Authorizer
from slotwise.config import load
from slotwise.wire.channel import OPTIONS
from slotwise.wire.credential import HostCredential, bearer
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
from slotwise.wire.keys import PoolTrust, SigningKey, mint, public_text
from slotwise.wire.security import Authenticator
from slotwise.wire.server import listen, make_server

CALLS, ROUNDS = int(os.environ.get("BENCH_AUTHENTICATION_CALLS", "500")), 9
#: Lists as a pool of some size has them, none of which names the caller before the last.
LISTS = "".join(
    f"{kind}_{level} = {' '.join(f'user{n}@{kind.lower()}.example' for n in range(50))} {last}\n"
    for kind, last in (("DENY", "eve@example.org"), ("ALLOW", "*@example.org condor@*"))
    for level in ("READ", "WRITE")
)


class Values(daemon_pb2_grpc.DaemonServicer):
    """Knows one knob."""

    async def ConfigValues(self, request: Any, context: Any) -> daemon_pb2.ConfigValuesReply:
        """The same for everybody."""
        return daemon_pb2.ConfigValuesReply(values=dict.fromkeys(request.names, "1"))


def certificate() -> tuple[bytes, bytes]:
    """A key, and a certificate of this address that it signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form), made.public_bytes(serialization.Encoding.PEM)


async def serve(place: Path) -> None:
    """Answer until standard input ends; says on the first line where, and whom it believes."""
    pool, host = SigningKey.generate(), SigningKey.generate()
    trust = PoolTrust("bench", {pool.kid: pool.public})
    checks = Authenticator(lambda: trust)
    (place / "condor_config").write_text(LISTS)
    authorizer = Authorizer("SCHEDD")
    authorizer.follow(await authorizer.read(load(place / "condor_config", subsystem="SCHEDD", env={})))
    key, shown = certificate()
    credentials = grpc.ssl_server_credentials([(key, shown)])
    servers = {"checked": make_server(checks, authorizer), "bare": grpc.aio.server()}
    targets: dict[str, str] = {}
    for name, server in servers.items():
        daemon_pb2_grpc.add_DaemonServicer_to_server(Values(), server)
        tcp, socket = listen(server, socket=place / f"{name}.sock", tls=credentials)
        targets |= {f"{name} unix": f"unix:{socket}", f"{name} tls": tcp}
        await server.start()
    checks.audiences |= {target.lower() for target in targets.values()}
    about: dict[str, Any] = {"issuer": "bench", "audience": "bench", "issued_at": time.time()}
    word = mint(pool, "condor@ep", ["ADVERTISE_SCHEDD", "READ"], bound_to=public_text(host.public), **about)
    proof = HostCredential("condor@ep", host, lambda: word, ["READ"], time.time)._made
    said = {
        "targets": targets,
        "certificate": shown.decode(),
        "token": mint(pool, "ann@example.org", ["WRITE"], **about),
        "proofs": {name: proof(target, word, False)[0][1].removeprefix("Bearer ") for name, target in targets.items()},
    }
    print(json.dumps(said), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for server in servers.values():
        await server.stop(0)


def processor_s(pid: int) -> float:
    """Processor time of a process, of all its threads."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


async def ask(report: Report, pid: int, said: dict[str, Any]) -> None:
    """Ask all servers in turn, round by round."""
    kinds: list[tuple[str, str, Any]] = []
    for way in ("unix", "tls"):
        kinds += [
            (f"{way}, no check", f"bare {way}", bearer(said["token"])),
            (f"{way}, token checked", f"checked {way}", bearer(said["token"])),
            (f"{way}, host's proof checked", f"checked {way}", bearer(said["proofs"][f"checked {way}"])),
        ]
    trusted = grpc.ssl_channel_credentials(said["certificate"].encode())
    plain = [option for option in OPTIONS if option[0] != "grpc.default_authority"]
    channels = {
        name: grpc.aio.insecure_channel(target, options=OPTIONS)
        if target.startswith("unix:")
        else grpc.aio.secure_channel(target, trusted, options=plain)
        for name, target in said["targets"].items()
    }
    request = daemon_pb2.ConfigValuesRequest(names=["START"])
    took: dict[str, list[float]] = {kind: [] for kind, *_ in kinds}
    used: dict[str, list[float]] = {kind: [] for kind, *_ in kinds}
    for turn in range(ROUNDS + 1):
        for kind, server, shown in kinds[turn % len(kinds) :] + kinds[: turn % len(kinds)]:
            stub = daemon_pb2_grpc.DaemonStub(channels[server])
            began, before = time.perf_counter(), processor_s(pid)
            for _ in range(CALLS):
                reply = await stub.ConfigValues(request, metadata=shown)
            if turn:  # the first round opens the connections
                took[kind].append((time.perf_counter() - began) / CALLS * 1e6)
                used[kind].append((processor_s(pid) - before) / CALLS * 1e6)
            assert reply.values["START"] == "1"
    for kind, *_ in kinds:
        report.add(f"{kind}: processor time of the server", "us a call", used[kind])
        report.add(f"{kind}: a call", "us", took[kind])
    for channel in channels.values():
        await channel.close()


def main() -> None:
    """Start the servers, ask them, say what it cost."""
    if sys.argv[1:]:
        asyncio.run(serve(Path(sys.argv[1])))
        return
    report = Report("authentication")
    with tempfile.TemporaryDirectory(prefix="sw-") as place:
        command = [sys.executable, __file__, place]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
            assert servers.stdout is not None and servers.stdin is not None
            asyncio.run(ask(report, servers.pid, json.loads(servers.stdout.readline())))
            servers.stdin.close()
    report.save(Path(__file__).parent / "out")


if __name__ == "__main__":
    main()
