"""What the starter's log says of a run as it goes from phase to phase; every line begins with the job's id."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from slotwise.execution.exit_status import End, How
from slotwise.starter.run.states import Phase, RunState

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run

_log = logging.getLogger(__name__)


def changed(run: Run, former: RunState) -> None:
    """The run has gone from the state ``former`` into its present one."""
    state = run.state
    if state.phase is not former.phase:
        _phase(run, former.phase, state)
    if state.end is not None and state.end != former.end:
        _end(run, state.end)


def _phase(run: Run, former: Phase, state: RunState) -> None:
    job = run.job_id
    _log.debug("%s: %s -> %s (run %s)", job, former, state.phase, run.run_id)
    if former is Phase.OFFERED and state.phase in (Phase.PREPARING, Phase.INPUT, Phase.STARTING):
        who = run.identity.name or "the starter's own account"
        by = "fetched" if run.fetched_for else f"accepted by the shadow at {run.shadow_address}"
        _log.info("%s: %s, runs as %s (run %s)", job, by, who, run.run_id)
    elif former is Phase.INPUT and state.phase is Phase.STARTING:
        _log.info("%s: received %s", job, run.received.total())
    elif former is Phase.CHECKPOINT and state.phase is Phase.RUNNING:
        _log.info("%s: started again from its checkpoint as pid %d", job, state.pid)
    elif state.phase is Phase.RUNNING:
        _log.info("%s: started as pid %d on %s (run %s)", job, state.pid, run.slot.name, run.run_id)
    elif former is Phase.OUTPUT and state.phase is Phase.ENDED:
        _log.info("%s: sent %s", job, run.sent.total())


def _end(run: Run, end: End) -> None:
    job, seconds = run.job_id, run.host.clock.now() - run.started_at if run.started_at else 0.0
    if end.how is How.EXITED:
        _log.info("%s: exited with status %d after %.1f s (run %s)", job, end.code, seconds, run.run_id)
    elif end.how is How.SIGNALED:
        _log.info("%s: died on signal %d after %.1f s (run %s)", job, end.code, seconds, run.run_id)
    else:
        verb = _VERBS[end.how]
        codes = (end.reason_code, end.reason_subcode)
        _log.info(
            "%s: %s on %s (run %s): %s (code %d, subcode %d)", job, verb, run.slot.name, run.run_id, end.reason, *codes
        )


_VERBS = {How.EVICTED: "evicted", How.HELD: "to be put on hold", How.NOT_STARTED: "not started"}
