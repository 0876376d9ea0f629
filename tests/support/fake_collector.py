"""A collector that keeps what is advertised in two tables."""

from __future__ import annotations

from typing import Any

from slotwise.classad import ExprTree
from slotwise.clock import SystemClock
from slotwise.daemon.ad_query import answer
from slotwise.daemon.questions import Questions
from slotwise.table import AdTable
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc


class FakeCollector(collector_pb2_grpc.CollectorServicer):
    """``public`` and ``private`` ads by name; asks for whole ads where a delta finds none."""

    def __init__(self) -> None:
        self.public = AdTable()
        self.private = AdTable()
        self.daemons = AdTable()
        self.invalidated: list[str] = []
        self._questions = Questions(SystemClock())

    async def Advertise(self, requests: Any, context: Any) -> Any:
        """Take in a stream of ads."""
        async for request in requests:
            table = self.private if request.private else self.public if request.kind == "Machine" else self.daemons
            report = table.apply(request.pack)
            yield collector_pb2.AdvertiseReply(serial=request.serial, accepted=1, resend=report.unknown)

    async def Invalidate(self, request: Any, context: Any) -> Any:
        """Drop ads."""
        self.invalidated += list(request.keys)
        return collector_pb2.InvalidateReply(removed=len(request.keys))

    async def Query(self, request: Any, context: Any) -> Any:
        """Public ads."""
        constraint = ExprTree(request.constraint) if request.constraint else None
        async for chunk in answer(self._questions, [self.public], constraint, request):
            yield chunk
