"""InteractiveSessions to running jobs: what a command and the starter of its job say to each other passes through here.

The access point is asked, not the starter, because it knows where a job runs, and the starter need not be reached from
where the user is. Only the owner may visit a job (and who may act on all jobs).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable

from msgspec import Struct, field

from slotwise.errors import BusyError, DeniedError, NotFoundError, SlotwiseError, UsageError
from slotwise.model.job_id import NodeId
from slotwise.schedd.claims.records import ClaimTable, Run
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job_index import JobIndex
from slotwise.schedd.parallel.gang import Node
from slotwise.wire import audit
from slotwise.wire.gen import schedd_pb2

_log = logging.getLogger(__name__)
#: States from which a job does not come to run by waiting.
_NOT_RUNNING = {
    Status.REMOVED: "is being removed",
    Status.COMPLETED: "has completed",
    Status.HELD: "is on hold",
}


class _Visit(Struct, frozen=True):
    """``may_act``: whether the visitor may still act on jobs of a user."""

    run: Run
    visitor: str
    may_act: Callable[[str], bool]
    answers: asyncio.Queue[schedd_pb2.JobVisit] = field(default_factory=asyncio.Queue)


class InteractiveSessions:
    """The visits that are under way."""

    def __init__(self, jobs: JobIndex, claim_table: ClaimTable) -> None:
        self._jobs = jobs
        self._claim_table = claim_table
        self._ids = itertools.count(1)
        self._open: dict[int, _Visit] = {}

    def run_of(self, key: str, may_act: Callable[[str], bool], *, any_node: bool = False) -> Run:
        """The run of a job that may be visited by somebody who ``may_act`` on jobs of some users.

        :param key: the job, as ``cluster.proc``; of a parallel job ``cluster.proc.node``, counted within the proc.
        :param any_node: without a node the first will do.
        :raises NotFoundError: when there is no such job.
        :raises UsageError: when it is not said which node of a parallel job is meant.
        :raises DeniedError: when it is somebody else's.
        :raises BusyError: when it does not execute yet.
        :raises SlotwiseError: when it will not without something else.
        """
        named = NodeId.match(key)
        key, number = (str(named.job), named.node) if named is not None else (key, None)
        job = self._jobs.by_key(key)
        if job is None:
            raise NotFoundError(f"there is no job {key} in the queue")
        if not may_act(job.cluster.user):
            raise DeniedError(f"job {key} is {job.cluster.user}'s")
        runs = [run for run in self._claim_table.runs.values() if run.job is job and not run.over]
        if runs and runs[0].node is not None:
            runs = _of_node(runs[0].node, 0 if number is None and any_node else number, runs)
        for run in runs:
            if run.stream is not None and run.executing_at:
                return run
        status = Status(job.status)
        if status in _NOT_RUNNING:
            raise SlotwiseError(f"job {key} {_NOT_RUNNING[status]}", hint="only running jobs can be visited")
        said = "is idle" if status is Status.IDLE else "has not begun, or cannot be reached at the moment"
        raise BusyError(f"job {key} {said}", hint="only running jobs can be visited; -auto-retry waits for it")

    async def serve(
        self, said: AsyncIterator[schedd_pb2.JobVisit], visitor: str, may_act: Callable[[str], bool]
    ) -> AsyncIterator[schedd_pb2.JobVisit]:
        """One visit, from the command's first message to its end; ``may_act``: see :meth:`run_of`."""
        first = await anext(said, None)
        if first is None or not first.job:
            raise UsageError("a visit begins with the name of its job")
        run = self.run_of(first.job, may_act, any_node=first.WhichOneof("what") == "peek")
        audit.note_now("visit of %s", first.job)
        number = next(self._ids)
        visit = self._open[number] = _Visit(run, visitor, may_act)
        self._tell(run, number, first)
        reading = asyncio.get_running_loop().create_task(self._listen(said, run, number))
        try:
            while True:
                answer = await visit.answers.get()
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
        found.answers.put_nowait(said)

    def lost(self, run: Run) -> None:
        """The run is over, or its starter is out of reach."""
        for number, visit in list(self._open.items()):
            if visit.run is run:
                self._end(number, f"job {run.key} ended, or its machine is out of reach")

    def look_again(self) -> None:
        """End the visits of those who may no longer act on the job: QUEUE_SUPER_USERS has changed."""
        for number, visit in list(self._open.items()):
            if not visit.may_act(visit.run.job.cluster.user):
                _log.info("ending the visit of %s to job %s, who may no longer act on it", visit.visitor, visit.run.key)
                self._tell(visit.run, number, schedd_pb2.JobVisit(end=schedd_pb2.VisitEnd()))
                self._end(number, f"{visit.visitor} may no longer act on job {visit.run.key}")

    def _end(self, number: int, why: str) -> None:
        ended = schedd_pb2.VisitEnd(status=255, error=f"the visit ended because {why}")
        self._open.pop(number).answers.put_nowait(schedd_pb2.JobVisit(end=ended))


def _of_node(one: Node, number: int | None, runs: list[Run]) -> list[Run]:
    """The run of a node of the proc that ``one`` belongs to; empty when that has ended.

    :raises UsageError: when the proc has several nodes and this is the number of none, in HTCondor's words.
    """
    nodes = [node for node in one.gang.nodes if node.job is one.job]
    if number is None and len(nodes) == 1:
        number = 0
    if number is None or number >= len(nodes):
        job = one.job.key
        last = len(nodes) - 1
        raise UsageError(f"This is a parallel job.  Please specify job {job}.X where X is an integer from 0 to {last}.")
    return [run for run in runs if run.node is nodes[number]]
