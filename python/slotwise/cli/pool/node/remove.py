"""``slotwise node remove``: takes a host out of the pool, and has the other hosts hear of it at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from slotwise.cli.common.parser import Parser
from slotwise.cli.pool.node.roster import admitted, ask
from slotwise.errors import SlotwiseError
from slotwise.model.pool_host import host_name

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import node_pb2

#: How many masters are told at a time, and how long one may take, in seconds.
_AT_A_TIME, _CALL_S = 32, 5.0


def remove(args: list[str], inv: Invocation) -> int:
    """Revoke the identity of a host."""
    from slotwise.wire.gen import node_pb2

    parser = Parser(
        inv,
        "node remove",
        "Take a host out of the pool: its key is revoked on all hosts, its ads are dropped, its certificate is not "
        "renewed, and its jobs go back to their queues. Drain it first if they are to end in peace.",
    )
    parser.add_argument("name", metavar="HOST")
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector of another pool")
    options = parser.take(args)
    if options is None:
        return 0
    aimed = inv.aimed(options.pool)
    name = host_name(options.name)
    others = [
        node for node in admitted(aimed).values() if node.state not in ("absent", "removed") and node.name != name
    ]
    done = ask(aimed, lambda stub: stub.Remove, node_pb2.NodeName(name=name))
    inv.out(f"{done.name} is removed from the pool. `slotwise node uninstall` there undoes its installation.")
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        unheard = [host for host in threads.map(lambda node: _tell(node, aimed), others) if host]
    if unheard:
        inv.err(f"{len(unheard)} hosts were not told, and hear of it within a minute: {', '.join(unheard[:5])}")
    return 0


def _tell(node: node_pb2.Node, inv: Invocation) -> str:
    """Have the master of a host ask now what is revoked; returns its name when it could not be told."""
    import grpc

    from slotwise.wire.gen import common_pb2, daemon_pb2_grpc

    try:
        daemon_pb2_grpc.DaemonStub(inv.open(node.address)).Reconfig(common_pb2.Empty(), timeout=_CALL_S)
    except (grpc.RpcError, SlotwiseError):
        return node.name
    return ""
