"""Visits to running jobs: what a command and the starter of its job say to each other passes through here.

The access point is asked, not the starter, because it knows where a job runs, and the starter need not be reached from
where the user is. Only the owner may visit a job (and who may act on all jobs).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable

from slotwise.errors import BusyError, DeniedError, NotFoundError, SlotwiseError, UsageError
from slotwise.model.ownership import same_user
from slotwise.schedd.claims import ClaimBook, Run
from slotwise.schedd.codes import Status
from slotwise.schedd.job_book import JobBook
from slotwise.wire.gen import schedd_pb2

#: States from which a job does not come to run by waiting.
_NOT_RUNNING = {
    Status.REMOVED: "is being removed",
    Status.COMPLETED: "has completed",
    Status.HELD: "is on hold",
}


class Visits:
    """The visits that are under way."""

    def __init__(self, jobs: JobBook, book: ClaimBook) -> None:
        self._jobs = jobs
        self._book = book
        self._ids = itertools.count(1)
        self._open: dict[int, tuple[Run, asyncio.Queue[schedd_pb2.JobVisit]]] = {}

    def run_of(self, key: str, user: str, *, superuser: bool) -> Run:
        """The run of a job that may be visited.

        :raises NotFoundError: when there is no such job.
        :raises DeniedError: when it is somebody else's.
        :raises BusyError: when it does not execute yet.
        :raises SlotwiseError: when it will not without something else.
        """
        job = self._jobs.by_key(key)
        if job is None:
            raise NotFoundError(f"there is no job {key} in the queue")
        if not superuser and not same_user(job.cluster.user, user):
            raise DeniedError(f"job {key} is {job.cluster.user}'s")
        for run in self._book.runs.values():
            if run.job is job and not run.over and run.stream is not None and run.executing_at:
                return run
        status = Status(job.status)
        if status in _NOT_RUNNING:
            raise SlotwiseError(f"job {key} {_NOT_RUNNING[status]}", hint="only running jobs can be visited")
        said = "is idle" if status is Status.IDLE else "has not begun, or cannot be reached at the moment"
        raise BusyError(f"job {key} {said}", hint="only running jobs can be visited; -auto-retry waits for it")

    async def serve(
        self, said: AsyncIterator[schedd_pb2.JobVisit], may_visit: Callable[[str], Run]
    ) -> AsyncIterator[schedd_pb2.JobVisit]:
        """One visit, from the command's first message to its end."""
        first = await anext(said, None)
        if first is None or not first.job:
            raise UsageError("a visit begins with the name of its job")
        run = may_visit(first.job)
        number = next(self._ids)
        answers: asyncio.Queue[schedd_pb2.JobVisit] = asyncio.Queue()
        self._open[number] = (run, answers)
        self._tell(run, number, first)
        reading = asyncio.get_running_loop().create_task(self._listen(said, run, number))
        try:
            while True:
                answer = await answers.get()
                answer.id = 0
                yield answer
                if answer.WhichOneof("what") == "end":
                    return
        finally:
            reading.cancel()
            if self._open.pop(number, None) is not None:
                self._tell(run, number, schedd_pb2.JobVisit(end=schedd_pb2.VisitEnd()))

    async def _listen(self, said: AsyncIterator[schedd_pb2.JobVisit], run: Run, number: int) -> None:
        async for message in said:
            self._tell(run, number, message)

    def _tell(self, run: Run, number: int, said: schedd_pb2.JobVisit) -> None:
        if run.stream is not None:
            said.id = number
            run.stream.send(schedd_pb2.ShadowMessage(run_id=run.id, visit=said))

    def hear(self, said: schedd_pb2.JobVisit) -> None:
        """A starter has answered."""
        found = self._open.get(said.id)
        if found is None:
            return
        if said.WhichOneof("what") == "end":
            del self._open[said.id]
        found[1].put_nowait(said)

    def lost(self, run: Run) -> None:
        """The run is over, or its starter is out of reach."""
        for number, (visited, answers) in list(self._open.items()):
            if visited is run:
                del self._open[number]
                error = f"the visit ended because job {run.key} ended, or its machine is out of reach"
                answers.put_nowait(schedd_pb2.JobVisit(end=schedd_pb2.VisitEnd(status=255, error=error)))
