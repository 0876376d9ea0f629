"""`slotwise ping`: which daemons answer, who the caller is to them, and what the caller may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slotwise.cli.parser import Parser
from slotwise.errors import SlotwiseError

if TYPE_CHECKING:
    from slotwise.cli.invocation import Invocation

_TIMEOUT_S = 5.0


def main(args: list[str], inv: Invocation) -> int:
    """Ping daemons of the pool; exit status 0 when all of them answer."""
    parser = Parser(inv, "ping", "Which daemons answer, who you are to them, and what you may do there.")
    parser.add_argument("names", nargs="*", metavar="DAEMON", help="which (default: all that have been started)")
    parser.add_argument("--json", "-json", action="store_true", help="one JSON array")
    parser.add_argument("--quiet", "-quiet", "-q", action="store_true", help="only the exit status")
    options = parser.take(args)
    if options is None:
        return 0
    from slotwise.wire import address

    names = options.names or address.published(inv.home)
    if not names:
        inv.err(f"ERROR: no daemon runs in the pool at {inv.home.root} (start the pool with `slotwise up`)")
        return 1
    rows = [_ping(inv, name) for name in names]
    if options.json:
        inv.out(json.dumps(rows, indent=2))
    elif not options.quiet:
        _print_table(inv, rows)
    return 0 if all(row["Answers"] for row in rows) else 1


def _ping(inv: Invocation, name: str) -> dict[str, object]:
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    row: dict[str, object] = {"Daemon": name, "Answers": False}
    try:
        stub = inv.stub(daemon_pb2_grpc.DaemonStub, name)
        reply = stub.Ping(daemon_pb2.PingRequest(), metadata=inv.metadata(), timeout=_TIMEOUT_S)
    except grpc.RpcError as failure:
        return row | {"Error": str(to_error(failure, peer=name))}
    except SlotwiseError as error:
        return row | {"Error": str(error)}
    return row | {
        "Answers": True,
        "Name": reply.name,
        "Version": reply.version,
        "DaemonStartTime": reply.started_at,
        "Identity": reply.identity,
        "Scopes": list(reply.scopes),
    }


def greeting(inv: Invocation, daemon: str, address: str | None = None) -> tuple[str, str]:
    """Name and version of a daemon.

    :raises PeerUnavailableError: when it does not answer.
    """
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    channel = inv.open(address.strip("<>")) if address else inv.channel(daemon)
    try:
        stub = daemon_pb2_grpc.DaemonStub(channel)
        reply = stub.Ping(daemon_pb2.PingRequest(), metadata=inv.metadata(), timeout=_TIMEOUT_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer=daemon) from None
    return reply.name, reply.version


def _print_table(inv: Invocation, rows: list[dict[str, object]]) -> None:
    inv.out(f"{'DAEMON':<11} {'ANSWERS':<8} {'IDENTITY':<28} SCOPES")
    for row in rows:
        if row["Answers"]:
            scopes = row["Scopes"]
            assert isinstance(scopes, list)
            identity = row["Identity"] or "unauthenticated"
            inv.out(f"{row['Daemon']:<11} {'yes':<8} {identity:<28} {' '.join(scopes) or 'none'}")
        else:
            inv.out(f"{row['Daemon']:<11} {'no':<8} {row['Error']}")
