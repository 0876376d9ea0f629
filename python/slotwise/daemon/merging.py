"""Adds to the ads of slots that the collector has: what others than their startd know of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import grpc

from slotwise.classad.values import Value
from slotwise.daemon.locate import collector_target
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.table import PackBuilder
from slotwise.wire import channel
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc

_log = logging.getLogger(__name__)


async def merge_into_slots(context: DaemonContext, updates: Mapping[str, Mapping[str, Value]]) -> None:
    """Merge the attributes into the collector's ads, None takes one away; a failure is only logged."""
    if not updates:
        return
    pack = PackBuilder()
    for slot, attributes in updates.items():
        there = {name: value for name, value in attributes.items() if value is not None}
        pack.update(slot, there, [name for name in attributes if name not in there])
    request = collector_pb2.AdvertiseRequest(kind="Machine", pack=pack.finish())
    try:
        target = collector_target(context)
        async with channel.open_async(target) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            async for reply in stub.Advertise(
                iter([request]), metadata=context.credential.metadata(target), timeout=10
            ):
                for refused in reply.refused:
                    _log.warning("the collector rejected the update of an offline slot: %s", refused)
    except (grpc.RpcError, SlotwiseError) as error:
        _log.warning("could not update offline slots in the collector: %s", error)
