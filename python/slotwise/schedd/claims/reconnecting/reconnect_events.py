"""Events 022 and 023 of runs: that their starter is out of reach, and that it is back."""

from __future__ import annotations

from slotwise.model import job_events
from slotwise.schedd.claims.records import Run
from slotwise.schedd.claims.turn import Turn
from slotwise.schedd.jobs.queue import Queue


class ReconnectEvents:
    """Records in event logs, and durably for the next process, whether a run is disconnected."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def disconnected(self, run: Run, reason: str, turn: Turn) -> None:
        """Record event 022; the life cycle asks for it once until the run speaks again, however often links break."""
        frame = self._queue.frame(run.job, turn.decision.now)
        slot, startd = run.claim.slot_name, run.claim.startd or "unknown"
        others = _others_are_disconnected(run)
        if run.node is not None:
            run.node.disconnected = True
        if not others:
            turn.decision.log(run.job, job_events.disconnected(frame, reason, slot, startd))
        turn.decision.note("%s: disconnected from %s (run %s), reconnecting: %s", run.key, slot, run.id, reason)
        turn.batch.put_run(run.row())

    def reconnected(self, run: Run, turn: Turn) -> None:
        """Record event 023."""
        if run.node is not None:
            run.node.disconnected = False
        if run.goes_on:  # else its job's log has its eviction already
            frame = self._queue.frame(run.job, turn.decision.now)
            slot, startd = run.claim.slot_name, run.claim.startd or "unknown"
            if not _others_are_disconnected(run):
                turn.decision.log(run.job, job_events.reconnected(frame, slot, startd, run.starter or "unknown"))
            turn.decision.note("%s: reconnected to %s (run %s)", run.key, slot, run.id)
        turn.batch.put_run(run.row())


def _others_are_disconnected(run: Run) -> bool:
    """Whether other nodes of its parallel job are: its log tells of the first that is, and of the last that is back."""
    node = run.node
    return node is not None and any(other.disconnected for other in node.gang.alive if other is not node)
