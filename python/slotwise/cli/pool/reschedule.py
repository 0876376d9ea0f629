"""``slotwise reschedule``: ask the negotiator for a cycle."""

from __future__ import annotations

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.wire.gen import negotiator_pb2, negotiator_pb2_grpc
from slotwise.wire.status import to_error

USAGE = """usage: slotwise reschedule
  Asks for a negotiation cycle at once instead of at the end of NEGOTIATOR_INTERVAL."""


def main(args: list[str], inv: Invocation) -> int:
    """Ask for a cycle."""
    # All schedds of the pool have one negotiator: which of them are meant, as in HTCondor, makes no difference.
    schedds = [Option("address", 2, 1), Option("all", 2), Option("constraint", 3, 1)]
    parsed = parse(args, [Option("help", 1), Option("pool", 1, 1), Option("name", 1, 1), Option("debug", 1), *schedds])
    inv = inv.aimed(parsed.value("pool"))
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    names = [*parsed.words, *(given.values[0] for given in parsed.all("name"))]
    for name in names:
        inv.aimed(None, name).channel("schedd")  # that there is none is said
    request = negotiator_pb2.RescheduleRequest(on_demand=True)
    try:
        inv.stub(negotiator_pb2_grpc.NegotiatorStub, "negotiator").Reschedule(request, timeout=20)
    except grpc.RpcError as error:
        raise to_error(error, peer="the negotiator") from None
    for name in names or [""]:
        schedd = f"schedd {name}" if name else "local schedd"
        inv.out(f'Sent "Reschedule" command to {schedd if inv.called else "the negotiator"}')
    return 0
