"""The knobs of running daemons: their values, and changes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation

#: How long a call may take, in seconds.
_TIMEOUT_S = 20.0


def values(inv: Invocation, daemon: str, names: Sequence[str], timeout_s: float = _TIMEOUT_S) -> dict[str, str]:
    """The values of those of the knobs that a daemon has.

    :raises SlotwiseError: the daemon does not answer.
    """
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    stub = inv.stub(daemon_pb2_grpc.DaemonStub, daemon)
    try:
        reply = stub.ConfigValues(daemon_pb2.ConfigValuesRequest(names=names), timeout=timeout_s)
    except grpc.RpcError as failure:
        raise to_error(failure, peer=f"the {daemon}") from None
    return dict(reply.values)


def change(inv: Invocation, daemon: str, name: str, value: str | None, *, runtime: bool, peer: str = "") -> None:
    """Set a knob of a daemon, or remove the setting (``value`` None). Its SETTABLE_ATTRS lists must have the knob.

    :param runtime: only until the daemon restarts.
    :param peer: what errors call the daemon.
    :raises SlotwiseError: the daemon does not answer, or refuses.
    """
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    stub = inv.stub(daemon_pb2_grpc.DaemonStub, daemon)
    try:
        stub.SetConfig(daemon_pb2.SetConfigRequest(name=name, value=value, runtime=runtime), timeout=_TIMEOUT_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer=peer or f"the {daemon}") from None
