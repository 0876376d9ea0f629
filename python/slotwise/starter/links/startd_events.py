"""What the startd is told: events of runs, on whatever stream it has at the time."""

from __future__ import annotations

import asyncio

from slotwise.wire.gen import starter_pb2

#: Bytes of usage and other events in one frame; more than enough for a burst.
_FRAME = 256


class StartdBoard:
    """Events for the startd. That a slot is free or whole again is kept until heard; the rest may get lost."""

    def __init__(self) -> None:
        self._waiting: list[starter_pb2.JobEvent] = []
        self._stir = asyncio.Event()
        self._generation = 0
        self.listening = False

    def post(self, event: starter_pb2.JobEvent) -> None:
        """Tell the startd."""
        if self.listening or event.WhichOneof("what") in ("gone", "mended"):
            self._waiting.append(event)
            self._stir.set()

    def attach(self) -> int:
        """A new stream of the startd: it replaces the former one."""
        self._generation += 1
        self.listening = True
        self._stir.set()
        return self._generation

    def detach(self, generation: int) -> None:
        """The stream ended."""
        if generation == self._generation:
            self.listening = False

    async def frame(self, generation: int) -> starter_pb2.JobEvent | None:
        """The next events in one frame; None when another stream has taken over. Waits."""
        while True:
            if generation != self._generation:
                return None
            if self._waiting:
                await asyncio.sleep(0)  # what else happens in this turn goes into the same frame
                if generation != self._generation or not self._waiting:
                    continue
                count = _together(self._waiting)
                batch, self._waiting = self._waiting[:count], self._waiting[count:]
                first = batch[0]
                first.more.extend(batch[1:])
                return first
            self._stir.clear()
            await self._stir.wait()


def _together(events: list[starter_pb2.JobEvent]) -> int:
    """How many of the events go into one frame. A list of jobs goes alone: it sets what all later events build on."""
    for index, event in enumerate(events[:_FRAME]):
        if event.WhichOneof("what") == "jobs":
            return max(1, index)
    return min(len(events), _FRAME)
