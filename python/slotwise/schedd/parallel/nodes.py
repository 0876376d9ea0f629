"""What starters tell of the nodes of a parallel job, for the job as a whole: start, usage and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from slotwise.model import job_events
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision, RunEnd
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.parallel.gang_ends import NodeEnded
from slotwise.schedd.parallel.node_ends import combined


class Nodes:
    """Tells the queue of nodes."""

    def __init__(self, queue: Queue, node_ended: NodeEnded, host_of: Callable[[Run], str]) -> None:
        """
        :param host_of: how event logs name the execution point of a run.
        """
        self._queue = queue
        self._node_ended = node_ended
        self._host_of = host_of

    def executing(self, run: Run, properties: Mapping[str, str], decision: Decision) -> None:
        """A node executes; the job does when all do."""
        node = run.node
        assert node is not None
        first = node.gang.first
        node.executes = True
        if first.status != Status.RUNNING or not self._queue.has(first):
            return
        frame = replace(self._queue.frame(first, decision.now), node=node.number)
        entry = job_events.node_executing(frame, self._host_of(run), run.claim.slot_name, dict(properties))
        decision.log(first, entry)
        if node.gang.note_executing():
            for job in node.gang.jobs:
                self._queue.executing_together(job, decision, logs=job is first)

    def usage(self, run: Run, report: Changes, decision: Decision) -> None:
        """A node reports its usage."""
        node = run.node
        assert node is not None
        node.usage = report
        if self._queue.has(node.gang.first):
            self._queue.usage(node.gang.first, combined(one.usage for one in node.gang.nodes), decision)

    def ended(self, run: Run, end: RunEnd, turn: Turn) -> None:
        """The run of a node is over."""
        if run.node is not None and not run.executing_at and end.how.by_itself:
            self.executing(run, {}, turn.decision)
        self._node_ended(run, end, turn.decision, turn.batch)
