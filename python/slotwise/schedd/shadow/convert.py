"""Messages of starters as our own values."""

from __future__ import annotations

from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.lifecycle.run_events import EndReport
from slotwise.wire.gen import schedd_pb2

_OUTCOMES = {
    schedd_pb2.RunEnded.EXITED: RunOutcome.EXITED,
    schedd_pb2.RunEnded.SIGNALED: RunOutcome.SIGNALED,
    schedd_pb2.RunEnded.EVICTED: RunOutcome.EVICTED,
    schedd_pb2.RunEnded.HELD: RunOutcome.HELD,
    schedd_pb2.RunEnded.NOT_STARTED: RunOutcome.NOT_STARTED,
    schedd_pb2.RunEnded.STARTER_LOST: RunOutcome.LOST,
}


def end_report(ended: schedd_pb2.RunEnded) -> EndReport:
    """The end of a run; one of a kind that this schedd does not know counts as lost."""
    return EndReport(
        _OUTCOMES.get(ended.how, RunOutcome.LOST),
        ended.code,
        ended.reason,
        ended.reason_code,
        ended.reason_subcode,
        ended.at,
        ended.core_dumped,
        ended.ad,
    )
