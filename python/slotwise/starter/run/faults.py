"""What follows when the starter itself fails at a message or an action of a run: the run ends, and its slot is free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slotwise.daemon.containment import cause
from slotwise.execution import launcher
from slotwise.execution.exit_status import STARTER_ERROR, End, How, Kill
from slotwise.starter.job.failures import NO_JOB
from slotwise.starter.run import actions, events
from slotwise.starter.run.states import Phase
from slotwise.wire.gen import schedd_pb2, starter_pb2

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run


def end(run: Run, error: BaseException) -> None:
    """Kill what runs and let the run end; the job is not to blame, and goes back to its queue."""
    if run.state.phase is Phase.ENDED:
        send_bare_end(run)
        return
    if run.failed:
        return
    run.failed = True
    run.job = run.job or NO_JOB
    run.on(events.KillRequested(Kill(fast=True, reason=_reason(error), code=STARTER_ERROR)))


def give_up(run: Run, error: BaseException) -> None:
    """End a run of whose family nothing is left, and for which nothing else would say so."""
    run.job = run.job or NO_JOB
    run.state = replace(run.state, pid=0, suspended=False)
    run.on(events.Failed(_end(error)))


def message_failed(run: Run, message: schedd_pb2.ShadowMessage, error: Exception) -> None:
    """A message of the shadow could not be processed."""
    what = message.WhichOneof("what")
    if what in ("ack", "refused"):
        run.on(events.Unwanted(report_gone=True))  # the shadow wants no more of it
        return
    if what == "accepted":
        run.accepted, run.lost_at = True, None  # it hears the end
    end(run, error)


def action_failed(run: Run, action: actions.Action, error: Exception) -> None:
    """Something that was to be done for the run could not be done."""
    match action:
        case actions.ReportGone():
            run.host.board.post(starter_pb2.JobEvent(run_id=run.run_id, gone=starter_pb2.JobGone(how="failed")))
        case actions.SendEnd():
            send_bare_end(run)
        case actions.Discard():
            run.discard()
        case actions.Launch() | actions.Relaunch():
            give_up(run, error)
        case actions.StopHard():
            launcher.command(run.directory.control, "hard")
        case _:
            end(run, error)


def left(run: Run, error: Exception) -> None:
    """Its directory could not be removed, for a reason of our own: that is tried again, and the link forgets it."""
    if run.link is not None:
        run.link.drop(run.run_id)
    run.host.clean_later(run)


def send_bare_end(run: Run) -> None:
    """Tell the shadow how the run ended, without what else there is to report."""
    told = run.state.end
    if told is not None:
        run.say(
            ended=schedd_pb2.RunEnded(
                how=str(told.how),
                code=told.code,
                reason=told.reason.encode("utf-8", "replace").decode(),
                reason_code=told.reason_code,
                reason_subcode=told.reason_subcode,
                core_dumped=told.core,
            )
        )


def _end(error: BaseException) -> End:
    return End(How.EVICTED, reason=_reason(error), reason_code=STARTER_ERROR)


def _reason(error: BaseException) -> str:
    return f"The starter failed: {cause(error)}"
