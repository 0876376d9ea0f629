"""What becomes of a job that has ended by itself: its exit policy, asked with the facts of that end."""

from __future__ import annotations

from functools import partial

from slotwise.schedd import policy
from slotwise.schedd.ads import JobAds
from slotwise.schedd.codes import Status
from slotwise.schedd.decision import Verdict
from slotwise.schedd.job import Job
from slotwise.schedd.values import Changes

_RUNNING = (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT)


def exit_verdict(job: Job, signaled: bool, code: int, attributes: Changes, ads: JobAds, now: float) -> Verdict | None:
    """The verdict on a job that exited with ``code``, or died on that signal; None when it was not to run any more.

    :param attributes: what the end of the run changes of the job.
    """
    if job.status not in _RUNNING:
        return None
    if ads.plain_exit_policy(job):
        return Verdict("complete")
    facts = dict(attributes)
    facts["NumJobCompletions"] = int(job.number("NumJobCompletions")) + 1
    facts["ExitBySignal"] = signaled
    facts["ExitSignal" if signaled else "ExitCode"] = code
    facts["ExitCode" if signaled else "ExitSignal"] = None
    return policy.at_exit(ads.evaluator(job, facts, now), partial(ads.expression, job))
