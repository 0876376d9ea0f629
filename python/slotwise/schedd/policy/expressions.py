"""Users' and administrators' policies for jobs: periodic expressions, and what to do at exit. Pure.

Order and meaning of undefined follow the manual, "Policy for jobs" (condor_submit: periodic_*, on_exit_*; knobs
SYSTEM_PERIODIC_*). An evaluator of one job's expressions is handed in; ``evaluate(name)`` gives the value of an
attribute of the job, ``evaluate_text(text)`` that of an expression in its scope.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from slotwise.classad import ExprTree
from slotwise.model.durations import days_and_time
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import PolicyAction, Verdict
from slotwise.schedd.jobs.job import finite
from slotwise.schedd.jobs.values import Evaluate


class SystemPolicy(Struct, frozen=True):
    """The administrator's expressions: lists of (name, expression, reason expression, subcode expression)."""

    hold: tuple[tuple[str, str, str, str], ...] = ()
    release: tuple[tuple[str, str, str, str], ...] = ()
    remove: tuple[tuple[str, str, str, str], ...] = ()
    vacate: tuple[tuple[str, str, str, str], ...] = ()
    max_releases: int = -1

    def texts(self) -> list[str]:
        """All expressions that may fire."""
        return [row[1] for row in (*self.hold, *self.release, *self.remove, *self.vacate)]


class JobState(Struct, frozen=True):
    """What policies depend on besides the ad. Times are epoch seconds, 0 = never."""

    status: int
    now: float
    hold_code: int = 0
    shadow_started: float = 0.0
    execution_started: float = 0.0
    last_checkpoint: float = 0.0
    evaluate: Evaluate = lambda name: None
    #: The text of an attribute's expression.
    text_of: Callable[[str], str] = lambda name: ""
    evaluate_text: Evaluate = lambda text: None


def truth(value: object) -> bool | None:
    """A ClassAd value as policies read it: booleans and numbers; None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value != 0
    return None


def periodic(job: JobState, system: SystemPolicy, *, has_ended: bool = False) -> Verdict | None:
    """The verdict of the periodic policies on the job now; the first that fires decides.

    :param has_ended: the job of a run has ended by itself: PeriodicVacate is not asked (UserPolicy::AnalyzePolicy of
        HTCondor 25.14, PERIODIC_THEN_EXIT).
    """
    running = job.status in (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT)
    if running and (verdict := _durations(job)):
        return verdict
    if job.status == Status.RUNNING and not has_ended and (verdict := _fired(job, "Vacate", system.vacate)):
        return verdict
    if verdict := _timer_remove(job):
        return verdict
    if job.status not in (Status.HELD, Status.COMPLETED, Status.REMOVED) and (
        verdict := _fired(job, "Hold", system.hold)
    ):
        return verdict
    may_release = (
        job.status == Status.HELD
        and job.hold_code != Hold.USER_REQUEST
        and (system.max_releases < 0 or int(finite(job.evaluate("NumHolds"))) < system.max_releases)
    )
    if may_release and (verdict := _fired(job, "Release", system.release)):
        return verdict
    if job.status != Status.REMOVED:
        return _fired(job, "Remove", system.remove)
    return None


def _durations(job: JobState) -> Verdict | None:
    limit = job.evaluate("AllowedJobDuration")
    if _is_number(limit) and job.shadow_started and job.now - job.shadow_started >= float(limit):  # type: ignore[arg-type]
        return Verdict(
            PolicyAction.HOLD,
            f"The job exceeded allowed job duration of {_span(int(limit))}",  # type: ignore[call-overload]
            Hold.JOB_DURATION_EXCEEDED,
        )
    limit = job.evaluate("AllowedExecuteDuration")
    since = max(job.execution_started, job.last_checkpoint)
    if _is_number(limit) and since and job.now - since > float(limit):  # type: ignore[arg-type]
        return Verdict(
            PolicyAction.HOLD,
            f"The job exceeded allowed execute duration of {_span(int(limit))}",  # type: ignore[call-overload]
            Hold.JOB_EXECUTE_EXCEEDED,
        )
    return None


def _timer_remove(job: JobState) -> Verdict | None:
    value = job.evaluate("TimerRemove")
    if _is_number(value) and 0 <= float(value) < job.now:  # type: ignore[arg-type]
        return Verdict(PolicyAction.REMOVE, _own("TimerRemove", job.text_of))
    return None


_CODES = {
    "Hold": (Hold.JOB_POLICY, Hold.SYSTEM_POLICY),
    "Vacate": (Vacate.JOB_POLICY, Vacate.SYSTEM_POLICY),
    "Release": (0, 0),
    "Remove": (0, 0),
}


def _fired(job: JobState, kind: str, system: tuple[tuple[str, str, str, str], ...]) -> Verdict | None:
    job_code, system_code = _CODES[kind]
    action = PolicyAction(kind.lower())
    name = f"Periodic{kind}"
    if truth(job.evaluate(name)):
        reason = job.evaluate(f"{name}Reason")
        subcode = job.evaluate(f"{name}SubCode")
        return Verdict(
            action,
            reason if isinstance(reason, str) and reason else _own(name, job.text_of),
            int(job_code),
            _whole(subcode),
        )
    for _, text, reason_text, subcode_text in system:
        if truth(job.evaluate_text(text)):
            reason = job.evaluate_text(reason_text) if reason_text else None
            subcode = job.evaluate_text(subcode_text) if subcode_text else 0
            # Also where SYSTEM_PERIODIC_<kind>_NAMES names the expression, as HTCondor has it.
            written = ExprTree(text).print_old()
            default = f"The system macro SYSTEM_PERIODIC_{kind.upper()} expression '{written}' evaluated to TRUE"
            return Verdict(
                action,
                reason if isinstance(reason, str) and reason else default,
                int(system_code),
                _whole(subcode),
            )
    return None


def _own(name: str, text_of: Callable[[str], str], value: str = "TRUE") -> str:
    """The reason of a policy of the job itself that fired, as HTCondor words it."""
    return f"The job attribute {name} expression '{text_of(name)}' evaluated to {value}"


def after_run(job: JobState, system: SystemPolicy) -> Verdict:
    """What becomes of a job that ended by itself: the periodic policies decide before those for its exit."""
    return periodic(job, system, has_ended=True) or at_exit(job.evaluate, job.text_of)


def at_exit(evaluate: Evaluate, text_of: Callable[[str], str]) -> Verdict:
    """What becomes of a job that ended by itself: OnExitHold first, then OnExitRemove.

    Only a value of OnExitRemove that is false or zero keeps the job; missing, undefined and error remove it.
    """
    if truth(evaluate("ExitBySignal")) is None:
        return Verdict(
            PolicyAction.HOLD, "The job ended without saying how (ExitBySignal is undefined)", Hold.JOB_POLICY_UNDEFINED
        )
    if truth(evaluate("OnExitHold")):
        reason = evaluate("OnExitHoldReason")
        subcode = evaluate("OnExitHoldSubCode")
        return Verdict(
            PolicyAction.HOLD,
            reason if isinstance(reason, str) and reason else _own("OnExitHold", text_of),
            Hold.JOB_POLICY,
            _whole(subcode),
        )
    if truth(evaluate("OnExitRemove")) is False:
        return Verdict(PolicyAction.REQUEUE, _own("OnExitRemove", text_of, "FALSE"), Vacate.JOB_SHOULD_REQUEUE)
    return Verdict(PolicyAction.COMPLETE)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object) -> int:
    """The code that an expression evaluated to; 0 for anything that is not a number."""
    return int(finite(value)) if _is_number(value) else 0


def _span(seconds: int) -> str:
    """A duration as HTCondor writes it in reasons: ``[[days+]hh:]mm:ss``, without zeros in front but in ``00:ss``."""
    return days_and_time(seconds).lstrip("0+").removeprefix(":") or "00:00"
