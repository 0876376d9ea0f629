"""A starter that runs nothing: it remembers what it was told, and says what a test wants."""

from __future__ import annotations

import asyncio
from typing import Any

from slotwise.wire.gen import starter_pb2, starter_pb2_grpc


class FakeStarter(starter_pb2_grpc.StarterServicer):
    """Takes commands into ``commands``; ``tell`` sends events. Runs live until :meth:`gone`."""

    def __init__(self) -> None:
        self.commands: list[starter_pb2.JobCommand] = []
        self.runs: dict[str, starter_pb2.StartJob] = {}
        self._events: asyncio.Queue[starter_pb2.JobEvent | None] = asyncio.Queue()
        #: Ends every job as soon as it is started.
        self.instant = False
        #: What runs left behind, told with every list.
        self.left: list[starter_pb2.JobLeft] = []
        #: Runs whose leftovers are gone, told with every list.
        self.repaired: list[str] = []
        #: Runs that are listed as suspended.
        self.suspended: set[str] = set()

    async def Jobs(self, requests: Any, context: Any) -> Any:
        """The startd's stream."""
        reader = asyncio.get_running_loop().create_task(self._read(requests))
        try:
            while (event := await self._events.get()) is not None:
                yield event
        finally:
            reader.cancel()

    async def _read(self, requests: Any) -> None:
        async for frame in requests:
            for command in [frame, *frame.more]:
                self._take(command)

    def _take(self, command: starter_pb2.JobCommand) -> None:
        what = command.WhichOneof("what")
        if what == "list":
            listed = [
                starter_pb2.JobListed(
                    run_id=run_id,
                    slot_name=job.slot_name,
                    suspended=run_id in self.suspended,
                    shadow_address=job.shadow_address,
                )
                for run_id, job in self.runs.items()
            ]
            jobs = starter_pb2.JobList(jobs=listed, left=self.left, repaired=self.repaired)
            self.tell(starter_pb2.JobEvent(jobs=jobs))
            return
        self.commands.append(command)
        if what == "start":
            self.runs[command.run_id] = command.start
            if self.instant:
                self.gone(command.run_id)
        elif what == "shadow_moved":
            for run_id in command.shadow_moved.run_ids:
                if run_id in self.runs:
                    self.runs[run_id].shadow_address = command.shadow_moved.address
        elif what == "forget" or (what == "kill" and command.kill.fast):
            self.gone(command.run_id)

    def tell(self, event: starter_pb2.JobEvent) -> None:
        """Send an event to the startd."""
        self._events.put_nowait(event)

    def hang_up(self) -> None:
        """End the startd's stream; it will open another."""
        self._events.put_nowait(None)

    def gone(self, run_id: str, **how: Any) -> None:
        """The run is over."""
        self.runs.pop(run_id, None)
        self.tell(starter_pb2.JobEvent(run_id=run_id, gone=starter_pb2.JobGone(how="exited", **how)))

    def told(self, kind: str) -> list[starter_pb2.JobCommand]:
        """The commands of a kind so far."""
        return [command for command in self.commands if command.WhichOneof("what") == kind]
