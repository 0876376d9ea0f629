"""Takes over the ends of nodes, and with the last of them the end of their parallel job.

An end is durable before its starter hears so, also while other nodes go on: it is kept in the row of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from slotwise.model import job_events
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.claims.records import Run
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision, Kill, RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.parallel.gang import Gang, Node
from slotwise.schedd.parallel.node_ends import to_text, whole
from slotwise.schedd.policy.at_exit import exit_verdict
from slotwise.schedd.storage.batch import Batch
from slotwise.schedd.storage.run_rows import StoredNode

#: Why nodes are ended that outlive their job.
JOB_IS_OVER = "the parallel job has ended"


class NodeEnded(Protocol):
    """Takes over the end of a node's run."""

    def __call__(self, run: Run, end: RunEnd, decision: Decision, batch: Batch) -> None:
        """See :meth:`GangEnds.node_ended`."""
        ...


class GangEnds:
    """Ends parallel jobs."""

    def __init__(self, queue: Queue, ads: JobAds, forget: Callable[[Gang], None]) -> None:
        """
        :param forget: removes a gang of which no node runs any more.
        """
        self._queue = queue
        self._ads = ads
        self._forget = forget

    def node_ended(self, run: Run, end: RunEnd, decision: Decision, batch: Batch) -> None:
        """The run of a node is over. Its job goes on, or its other nodes are ended, or all is over."""
        node = run.node
        assert node is not None
        gang, row = node.gang, run.row()
        if node.end is not None:
            return
        known = gang.outcome
        gang.note_end(node, end)
        if isinstance(row, StoredNode):
            batch.put_run(replace(row, end=to_text(end)))
        self._tell(node, run, end, decision)
        if gang.over:
            self._end(gang, decision)
        elif known is None and gang.outcome is not None:
            decision.kills.append(Kill(gang.id, True, _why(gang.outcome), _code(gang.outcome), forced=True))

    def _tell(self, node: Node, run: Run, end: RunEnd, decision: Decision) -> None:
        gang, place = node.gang, run.claim.slot_name
        if not end.how.by_itself:
            reason = end.reason or "no reason given"
            decision.note("%s: node %d on %s is over: %s (run %s)", run.key, node.number, place, reason, run.id)
            return
        normal = end.how == RunOutcome.EXITED
        how = "exited with status" if normal else "died on signal"
        decision.note("%s: node %d %s %d on %s (run %s)", run.key, node.number, how, end.code, place, run.id)
        if self._queue.has(gang.first):
            frame = replace(self._queue.frame(gang.first, decision.now), node=node.number)
            entry = job_events.node_terminated(frame, normal=normal, code=end.code, usage=end.usage, core=end.core)
            decision.log(gang.first, entry)

    def _end(self, gang: Gang, decision: Decision) -> None:
        """No node runs any more: the job completes, is held, waits again, or leaves."""
        self._forget(gang)
        deciding = gang.outcome
        assert deciding is not None
        for job in gang.jobs:
            if not self._queue.has(job) or job.run != gang.id:
                continue  # removed by force
            ends = [node.end for node in gang.nodes if node.end is not None]
            first = job is gang.first
            end = self._of_job(job, gang, deciding, ends if first else [one.end for one in _of(gang, job) if one.end])
            if end.how.by_itself and not gang.executes:  # node 0 was faster than others were to start
                self._queue.executing_together(job, decision, logs=first)
            before = len(decision.entries), len(decision.notices)
            self._queue.end_run(job, end, decision)
            if not first:  # its end is told as that of the first one, and once
                del decision.entries[before[0] :], decision.notices[before[1] :]
            if job.status == Status.COMPLETED and not self._ads.stays(job, decision.now):
                self._queue.leave(job, decision)

    def _of_job(self, job: Job, gang: Gang, deciding: RunEnd, ends: list[RunEnd]) -> RunEnd:
        used = float(job.number("CumulativeRemoteUserCpu")), float(job.number("CumulativeRemoteSysCpu"))
        end = whole(deciding, ends, used, (float(job.number("BytesSent")), float(job.number("BytesRecvd"))))
        wall_s = max(end.wall_s, (end.at or gang.born_at) - gang.born_at)
        if not end.how.by_itself or not self._ads.has(job):
            return replace(end, wall_s=wall_s)
        signaled = end.how == RunOutcome.SIGNALED
        at = end.at or gang.born_at
        return replace(end, wall_s=wall_s, verdict=exit_verdict(job, signaled, end.code, end.attributes, self._ads, at))


def _of(gang: Gang, job: Job) -> list[Node]:
    return [node for node in gang.nodes if node.job is job]


def _why(outcome: RunEnd) -> str:
    return JOB_IS_OVER if outcome.how.by_itself else outcome.reason or JOB_IS_OVER


def _code(outcome: RunEnd) -> int:
    vacates = not outcome.how.by_itself and outcome.is_vacate and outcome.reason_code
    return outcome.reason_code if vacates else int(Vacate.SCHEDD_VACATE)
