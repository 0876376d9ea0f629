"""The exit policy: what becomes of a job that has exited or died on a signal."""

from __future__ import annotations

from functools import partial

from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import PolicyAction, Verdict
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.policy import expressions
from slotwise.schedd.policy.expressions import JobState, SystemPolicy

_RUNNING = (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT)


def exit_verdict(job: Job, signaled: bool, code: int, attributes: Changes, ads: JobAds, now: float) -> Verdict | None:
    """The verdict on a job that exited with ``code`` or died on that signal; None when it was held or removed before.

    The job's periodic policies are asked first: without them, OnExitRemove = false with a PeriodicRemove would run the
    job again and again until the next pass over the queue. The administrator's are left to that pass.

    :param attributes: the attributes that the end of the run changes.
    """
    if job.status not in _RUNNING:
        return None
    if ads.plain_exit_policy(job):
        return Verdict(PolicyAction.COMPLETE)
    overlay = dict(attributes)
    overlay["NumJobCompletions"] = int(job.number("NumJobCompletions")) + 1
    overlay["ExitBySignal"] = signaled
    overlay["ExitSignal" if signaled else "ExitCode"] = code
    overlay["ExitCode" if signaled else "ExitSignal"] = None
    born_at, executing_at = job.number("ShadowBday"), job.number("JobCurrentStartExecutingDate")
    state = JobState(
        status=job.status,
        now=now,
        shadow_started=born_at,
        execution_started=executing_at if executing_at >= born_at else 0.0,  # else it is of an earlier run
        last_checkpoint=job.number("LastCkptTime"),
        evaluate=ads.evaluator(job, overlay, now),
        text_of=partial(ads.expression, job),
    )
    return expressions.after_run(state, SystemPolicy())
