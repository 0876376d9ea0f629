"""Calls of the collector about the hosts of its pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import node_pb2, node_pb2_grpc

Reply = TypeVar("Reply")
_CALL_S = 20.0


def ask(inv: Invocation, method: Callable[[node_pb2_grpc.NodesStub], Callable[..., Reply]], request: Message) -> Reply:
    """Ask the collector, which admits hosts.

    :raises SlotwiseError: when it refuses or does not answer.
    """
    import grpc

    from slotwise.wire.gen import node_pb2_grpc
    from slotwise.wire.status import to_error

    try:
        return method(inv.stub(node_pb2_grpc.NodesStub, "collector"))(request, timeout=_CALL_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer="the collector") from None


def admitted(inv: Invocation) -> dict[str, node_pb2.Node]:
    """The hosts that are part of the pool, by name."""
    from slotwise.wire.gen import common_pb2

    found = ask(inv, lambda stub: stub.List, common_pb2.Empty()).nodes
    return {each.name: each for each in found if each.state != "removed"}
