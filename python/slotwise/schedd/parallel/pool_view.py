"""Asks the collector which slots are dedicated to the parallel jobs of this schedd, while such jobs wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc

from slotwise.classad import ClassAd
from slotwise.errors import SlotwiseError
from slotwise.schedd.jobs.values import quoted
from slotwise.schedd.parallel.dedicated_scheduler import DedicatedScheduler
from slotwise.table import unpack_ads
from slotwise.wire import channel
from slotwise.wire.credential import Credential
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.stream import reason_of

_log = logging.getLogger(__name__)
#: How old the view may be, seconds; and while the pool seems to have too few slots for a job.
_AGE_S, _PASSED_OVER_AGE_S = 20.0, 5.0
_CALL_S = 30.0


class PoolView:
    """Keeps the dedicated scheduler's view of the pool."""

    def __init__(self, dedicated: DedicatedScheduler, collector: Callable[[], str], credential: Credential) -> None:
        self._dedicated = dedicated
        self._collector = collector
        self._credential = credential

    async def run(self) -> None:
        """Look for ever."""
        age = _AGE_S
        while True:
            await asyncio.sleep(1.0)
            age += 1.0
            if age < (_PASSED_OVER_AGE_S if self._dedicated.passes_over else _AGE_S) or not self._dedicated.waiting():
                continue
            age = 0.0
            try:
                self._dedicated.places.slots = await self._slots()
                self._dedicated.soon()
            except (grpc.RpcError, SlotwiseError, OSError) as error:
                _log.warning("could not ask the collector for dedicated slots: %s", reason_of(error))

    async def _slots(self) -> list[ClassAd]:
        query = common_pb2.AdQuery(kind="Machine", constraint=f"DedicatedScheduler =?= {quoted(self._dedicated.name)}")
        found: list[ClassAd] = []
        target = self._collector()
        async with channel.open_async(target) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            async for chunk in stub.Query(query, metadata=self._credential.metadata(target), timeout=_CALL_S):
                found += unpack_ads(chunk.data) if chunk.data else []
        return found
