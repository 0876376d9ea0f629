"""The exit policy: what becomes of a job that has exited or died on a signal."""

from __future__ import annotations

from functools import partial

from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import PolicyAction, Verdict
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.policy import expressions

_RUNNING = (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT)


def exit_verdict(job: Job, signaled: bool, code: int, attributes: Changes, ads: JobAds, now: float) -> Verdict | None:
    """The verdict on a job that exited with ``code`` or died on that signal; None when it was held or removed before.

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
    return expressions.at_exit(ads.evaluator(job, overlay, now), partial(ads.expression, job))
