"""What the starter's log says of a run as it goes from phase to phase; every line begins with the job's id."""

from __future__ import annotations

import logging
from typing import Protocol

from slotwise.execution.exit_status import End, How
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.run.states import Phase, RunState
from slotwise.starter.transfer.run_files import RunFiles

_log = logging.getLogger(__name__)


class LoggedRun(Protocol):
    """What the log tells of a run."""

    assignment: Assignment
    job: RunJob
    files: RunFiles

    @property
    def state(self) -> RunState:
        """Where the run is."""
        ...


def changed(run: LoggedRun, former: RunState, now: float) -> None:
    """The run has gone from the state ``former`` into its present one, at ``now``."""
    state = run.state
    if state.phase is not former.phase:
        _phase(run, former.phase, state)
    if state.end is not None and state.end != former.end:
        _end(run, state.end, now)


def _phase(run: LoggedRun, former: Phase, state: RunState) -> None:
    job, run_id = run.assignment.job_id, run.assignment.run_id
    _log.debug("%s: %s -> %s (run %s)", job, former, state.phase, run_id)
    if former is Phase.OFFERED and state.phase in (Phase.PREPARING, Phase.INPUT, Phase.STARTING):
        who = run.job.identity.name or "the starter's own account"
        by = "fetched" if run.assignment.fetched_for else f"accepted by the shadow at {run.assignment.shadow_address}"
        _log.info("%s: %s, runs as %s (run %s)", job, by, who, run_id)
    elif former is Phase.INPUT and state.phase is Phase.STARTING:
        _log.info("%s: received %s", job, run.files.received.total())
    elif former is Phase.CHECKPOINT and state.phase is Phase.RUNNING:
        _log.info("%s: started again from its checkpoint as pid %d", job, state.pid)
    elif state.phase is Phase.RUNNING:
        _log.info("%s: started as pid %d on %s (run %s)", job, state.pid, run.assignment.slot.name, run_id)
    elif former is Phase.OUTPUT and state.phase is Phase.ENDED:
        _log.info("%s: sent %s", job, run.files.sent.total())


def _end(run: LoggedRun, end: End, now: float) -> None:
    job, run_id = run.assignment.job_id, run.assignment.run_id
    seconds = now - run.job.started_at if run.job.started_at else 0.0
    if end.how is How.EXITED:
        _log.info("%s: exited with status %d after %.1f s (run %s)", job, end.code, seconds, run_id)
    elif end.how is How.SIGNALED:
        _log.info("%s: died on signal %d after %.1f s (run %s)", job, end.code, seconds, run_id)
    else:
        verb, slot = _VERBS[end.how], run.assignment.slot.name
        codes = (end.reason_code, end.reason_subcode)
        _log.info("%s: %s on %s (run %s): %s (code %d, subcode %d)", job, verb, slot, run_id, end.reason, *codes)


_VERBS = {How.EVICTED: "evicted", How.HELD: "to be put on hold", How.NOT_STARTED: "not started"}
