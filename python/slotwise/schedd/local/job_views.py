"""What jobs on the access point run: program, environment and signals, from their ads."""

from __future__ import annotations

import logging
from functools import partial

from slotwise.errors import UsageError
from slotwise.execution.job_view import NULL_FILE, JobView, read_job
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.job import Job
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
#: Evaluation steps for the expressions of one job.
JOB_STEPS = 200_000


def read_view(ads: JobAds, job: Job) -> JobView:
    """The job's program, environment and signals.

    :raises UsageError: when arguments, environment or a signal are not valid, or take too long to evaluate.
    """
    ad = ads.ad(job)
    try:
        with Allowance(JOB_STEPS):
            return read_job(partial(ads.value_of, ad), job.cluster.user)
    except ValueError as error:
        raise UsageError(f"an attribute of the job cannot be evaluated: {error}") from None


def view_at_end(ads: JobAds, job: Job) -> JobView:
    """The same for a job that has ended; an empty view when its ad has become unreadable meanwhile."""
    try:
        return read_view(ads, job)
    except UsageError as error:
        _log.warning(
            "%s: classifying the end of its run without its ad, which is not valid: %s", job.key, error.message
        )
        return JobView(job.key, "", (), {}, "/", NULL_FILE, NULL_FILE, NULL_FILE, job.owner)
