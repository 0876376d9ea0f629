"""What the starter reports to the startd, on whatever stream it has at the time."""

from __future__ import annotations

import asyncio
from collections import deque

from slotwise.starter.convert import startd_report
from slotwise.starter.messages import SlotFree, ToStartd
from slotwise.wire.frames import bundled, encoded_size, take_frame
from slotwise.wire.gen import starter_pb2


class StartdOutbox:
    """Reports for the startd. That a slot is free is kept until there is a stream; the rest is in the next list."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[starter_pb2.JobEvent, int]] = deque()
        self._wake = asyncio.Event()
        self._generation = 0
        #: The startd has a stream open.
        self.listening = False

    def report(self, run_id: str, report: ToStartd) -> None:
        """Report something about a run; about the host if ``run_id`` is empty."""
        if self.listening or isinstance(report, SlotFree):
            message = startd_report(run_id, report)
            self._waiting.append((message, encoded_size(message)))
            self._wake.set()

    def attach(self) -> int:
        """A new stream of the startd: it replaces the former one."""
        self._generation += 1
        self.listening = True
        self._wake.set()
        return self._generation

    def detach(self, generation: int) -> None:
        """The stream ended."""
        if generation == self._generation:
            self.listening = False

    async def frame(self, generation: int) -> starter_pb2.JobEvent | None:
        """The next reports in one frame; None when another stream has taken over. Waits."""
        while True:
            if generation != self._generation:
                return None
            if self._waiting:
                await asyncio.sleep(0)  # what else happens in this turn goes into the same frame
                if generation != self._generation or not self._waiting:
                    continue
                reports, _ = take_frame(self._waiting, alone=_is_list)
                return bundled(reports)
            self._wake.clear()
            await self._wake.wait()


def _is_list(report: starter_pb2.JobEvent) -> bool:
    """A list of jobs sets what all later reports build on: it travels alone."""
    return report.WhichOneof("what") == "jobs"
