"""Which hosts' daemons a command of an administrator is for: this host's, those of hosts by name, or all of a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
from google.protobuf.message import Message
from msgspec import Struct

from slotwise.cli.common.invocation import Invocation
from slotwise.errors import NotFoundError
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.status import to_error

#: MyType of the ads of each kind of daemon; startds are found by the ads of their slots.
_ADS = {
    "master": "DaemonMaster", "schedd": "Scheduler", "startd": "Machine", "negotiator": "Negotiator",
    "collector": "Collector",
}  # fmt: skip


class Target(Struct, frozen=True):
    """A daemon that a command goes to."""

    #: As it is shown: a host's name; empty for this host.
    name: str
    #: A call that goes to the daemon, and to the master of its host.
    inv: Invocation


def targets(kind: str, names: list[str], everyone: bool, constraint: str, inv: Invocation) -> Iterator[Target]:
    """The daemons of ``kind``: those on hosts ``names``, or all of the pool for whose ads ``constraint`` is true; else
    this host's.

    :raises NotFoundError: when no ad of the pool fits.
    :raises AdSyntaxError: when the constraint is not an expression.
    """
    if not everyone and not constraint:
        for name in names or [""]:
            yield Target(name, inv.aimed(None, name or None))
        return
    from slotwise.classad import ExprTree, new_syntax

    if constraint:
        ExprTree(constraint, old=True)
    query = common_pb2.AdQuery(
        kind=_ADS.get(kind, _ADS["master"]), constraint=new_syntax(constraint), projection=["Machine"]
    )
    try:
        chunks = list(inv.reading(collector_pb2_grpc.CollectorStub, "collector").Query(query))
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    ads = [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]
    hosts = sorted({str(ad.get("Machine")) for ad in ads})
    if not hosts:
        raise NotFoundError(f"the pool has no {kind}" + (" for which the constraint is true" if constraint else ""))
    for host in hosts:
        yield Target(host, inv.aimed(None, host))


def send(target: Target, call: Callable[[Message], Message], request: Message) -> Message:
    """Make a call to a target's master.

    :raises SlotwiseError: as the master says, or when it does not answer.
    """
    try:
        return call(request)
    except grpc.RpcError as failure:
        raise to_error(failure, peer=f"the master of {target.name or 'this machine'}") from None
