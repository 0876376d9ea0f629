"""The `Starter` service: the startd's stream of commands and reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

from slotwise.daemon.containment import contained
from slotwise.errors import SlotwiseError
from slotwise.execution.exit_status import Kill
from slotwise.ids import doing_for_run
from slotwise.starter.convert import start_job
from slotwise.starter.host.job_host import JobHost
from slotwise.starter.messages import StartJob, StartRefused
from slotwise.wire.frames import unbundled
from slotwise.wire.gen import starter_pb2, starter_pb2_grpc
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)


class StarterServicer(starter_pb2_grpc.StarterServicer):
    """Takes commands from the startd and reports to it. One stream at a time: a new one replaces the former."""

    def __init__(self, host: JobHost) -> None:
        self._host = host

    @answers_errors
    async def Jobs(
        self, request_iterator: AsyncIterator[starter_pb2.JobCommand], context: object
    ) -> AsyncIterator[starter_pb2.JobEvent]:
        """Commands in, reports out, until either side ends the stream."""
        startd = self._host.startd
        generation = startd.attach()
        reading = asyncio.get_running_loop().create_task(self._read(request_iterator))
        try:
            while not reading.done():
                writing = asyncio.get_running_loop().create_task(startd.frame(generation))
                await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
                if not writing.done():
                    writing.cancel()
                    return
                frame = writing.result()
                if frame is None:
                    return
                yield frame
        finally:
            reading.cancel()
            startd.detach(generation)

    async def _read(self, requests: AsyncIterator[starter_pb2.JobCommand]) -> None:
        async for frame in requests:
            for command in unbundled(frame):
                self._obey(command)

    def _obey(self, command: starter_pb2.JobCommand) -> None:
        host, run_id = self._host, command.run_id
        what = command.WhichOneof("what")
        recover = partial(self._failed, command)
        with contained(_log, doing_for_run(run_id, f"processing {what!r} of the startd"), recover) as attempt:
            if what == "start":
                self._start(run_id, start_job(command.start))
            elif what == "kill":
                host.kill(run_id, _kill(command.kill))
            elif what == "suspend":
                host.suspend(run_id, command.suspend.resume)
            elif what == "forget":
                host.drop(run_id)
            elif what == "list":
                host.report_runs()
            elif what == "end_noted":
                host.end_noted(run_id)
            elif what == "left_noted":
                host.leftovers.confirm(run_id)
            elif what == "repair_noted":
                host.leftovers.confirm_repair(run_id)
            elif what == "slot_usage":
                host.measured(run_id, command.slot_usage.pack)
            elif what == "shadow_moved":
                host.move(list(command.shadow_moved.run_ids), command.shadow_moved.address)
            elif what == "facts":
                host.machine.report_host_facts()
        if attempt.failed and what == "list":
            raise SlotwiseError("the list of runs could not be made")  # the startd asks again on another stream

    def _start(self, run_id: str, start: StartJob) -> None:
        try:
            self._host.start(run_id, start)
        except SlotwiseError as error:  # a command that cannot be understood
            self._refuse(run_id, error)

    def _failed(self, command: starter_pb2.JobCommand, error: Exception) -> None:
        """A command could not be processed: the run it is about ends."""
        run = self._host.runs.get(command.run_id)
        if command.WhichOneof("what") == "start":
            self._refuse(command.run_id, error)
        elif run is not None:
            run.fail(error)

    def _refuse(self, run_id: str, error: Exception) -> None:
        self._host.startd.report(run_id, StartRefused(reason=str(error)))


def _kill(kill: starter_pb2.KillJob) -> Kill:
    return Kill(
        fast=kill.fast,
        reason=kill.reason,
        code=kill.reason_code,
        subcode=kill.reason_subcode,
        vacate_s=kill.vacate_s or None,
        hold=kill.hold,
    )
