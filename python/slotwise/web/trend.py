"""The pool over the last day, as the service has seen it: cores by the state of their slots, and jobs by state."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from slotwise.classad.values import whole
from slotwise.errors import SlotwiseError
from slotwise.web.machines import cores_by_state
from slotwise.web.pool_client import PoolClient

_log = logging.getLogger(__name__)
#: How often the service looks, in seconds, and how many looks it remembers: those of a day.
EVERY_S, _KEPT = 60.0, 1440
#: Samples of one answer.
_TOLD_MOST = 360
#: Attributes of a schedd's ad by state of its jobs.
_JOBS = {"idle": "TotalIdleJobs", "running": "TotalRunningJobs", "held": "TotalHeldJobs"}
_SLOT_ATTRIBUTES = ("State", "Cpus", "SlotBrokenReason", "Offline")


class Sample(Struct, frozen=True):
    """What one look saw: when (seconds since the epoch), cores by state of slots, jobs of all schedds by state."""

    at: int
    cores: Mapping[str, int]
    jobs: Mapping[str, int]


class Trend:
    """Samples of a day; the process's end forgets them."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=_KEPT)

    def add(self, sample: Sample) -> None:
        """Remember what was seen, and forget the oldest."""
        self._kept.append(sample)

    def told(self) -> dict[str, object]:
        """The samples as JSON, oldest first: of a whole day each fourth, the newest always."""
        step = max(1, -(-len(self._kept) // _TOLD_MOST))
        newest_first = [asdict(sample) for place, sample in enumerate(reversed(self._kept)) if place % step == 0]
        return {"every_s": step * EVERY_S, "samples": newest_first[::-1]}


def jobs_by_state(schedds: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Jobs of access points by state, from their ads."""
    return {state: sum(whole(ad.get(attribute)) for ad in schedds) for state, attribute in _JOBS.items()}


async def watch(pool: PoolClient, trend: Trend) -> None:
    """Look at the pool until it is cancelled. The collector counts: the size of the pool matters little."""
    while True:
        try:
            async with pool.collector() as collector:
                counted = await collector.count_by("startd", _SLOT_ATTRIBUTES)
                schedds = await collector.query("schedd", projection=("Name", *_JOBS.values()))
            trend.add(Sample(int(time.time()), cores_by_state(counted), jobs_by_state(schedds)))
        except SlotwiseError as error:
            _log.debug("the pool was not looked at: %s", error)
        await asyncio.sleep(EVERY_S)
