"""What follows when the starter itself fails at a message or an action of a run: the run ends, and its slot is free."""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from slotwise.daemon.containment import cause
from slotwise.execution.exit_status import STARTER_ERROR, End, How, Kill
from slotwise.execution.keeper_link import KeeperLink
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.failures import NO_JOB
from slotwise.starter.job.run_job import RunJob
from slotwise.starter.links.shadow_connection import ShadowConnection
from slotwise.starter.messages import Accepted, Ack, FromShadow, Refused, SlotFree
from slotwise.starter.run import actions, events
from slotwise.starter.run.reporting import ended
from slotwise.starter.run.run_host import HostServices
from slotwise.starter.run.states import Phase, RunState


class FailingRun(Protocol):
    """What the containment of a fault needs of a run."""

    assignment: Assignment
    job: RunJob
    keeper: KeeperLink
    shadow: ShadowConnection
    state: RunState
    #: The starter failed at it: it is being killed.
    failed: bool

    @property
    def host(self) -> HostServices:
        """What all runs share."""
        ...

    def on(self, event: events.Event) -> None:
        """Apply an event."""
        ...

    def discard(self) -> None:
        """Clean up, and forget the run."""
        ...


def end(run: FailingRun, error: BaseException) -> None:
    """Kill what runs and let the run end; the job is not to blame, and goes back to its queue."""
    if run.state.phase is Phase.ENDED:
        send_bare_end(run)
        return
    if run.failed:
        return
    run.failed = True
    run.job.view = run.job.view or NO_JOB
    run.on(events.KillRequested(Kill(fast=True, reason=_reason(error), code=STARTER_ERROR)))


def give_up(run: FailingRun, error: BaseException) -> None:
    """End a run of whose family nothing is left, and for which nothing else would say so."""
    run.job.view = run.job.view or NO_JOB
    run.state = replace(run.state, pid=0, suspended=False)
    run.on(events.Failed(_end(error)))


def message_failed(run: FailingRun, message: FromShadow, error: Exception) -> None:
    """A message of the shadow could not be processed."""
    if isinstance(message, Ack | Refused):
        run.on(events.Unwanted(report_gone=True))  # the shadow wants no more of it
        return
    if isinstance(message, Accepted):
        run.shadow.accept()  # it hears the end
    end(run, error)


def action_failed(run: FailingRun, action: actions.Action, error: Exception) -> None:
    """Something that was to be done for the run could not be done."""
    match action:
        case actions.ReportGone():
            run.host.startd.report(run.assignment.run_id, SlotFree(how="failed"))
        case actions.SendEnd():
            send_bare_end(run)
        case actions.Discard():
            run.discard()
        case actions.Launch() | actions.Relaunch():
            give_up(run, error)
        case actions.StopHard():
            run.keeper.kill()
        case _:
            end(run, error)


def send_bare_end(run: FailingRun) -> None:
    """Report to the shadow how the run ended, without what else there is to report."""
    if run.state.end is not None:
        run.shadow.report(ended(run.state.end))


def _end(error: BaseException) -> End:
    return End(How.EVICTED, reason=_reason(error), reason_code=STARTER_ERROR)


def _reason(error: BaseException) -> str:
    return f"The starter failed: {cause(error)}"
