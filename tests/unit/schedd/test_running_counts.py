"""Which running jobs count against MaxJobsRunning of their user."""

from __future__ import annotations

from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.job_index import JobIndex


def test_jobs_of_the_scheduler_universe_count_by_themselves() -> None:
    index = JobIndex()
    for number, universe in enumerate((Universe.VANILLA, Universe.LOCAL, Universe.SCHEDULER), 1):
        cluster = Cluster(number, "a", "a@x", "a@x", 0, {}, universe=universe)
        running = (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT)
        index.admit(cluster, [Job(cluster, proc, status) for proc, status in enumerate((*running, Status.HELD))])
    for _ in range(2):
        assert index.running_of("a@x", Universe.VANILLA) == index.running_of("a@x", Universe.LOCAL) == 6
        assert index.running_of("a@x", Universe.SCHEDULER) == 3
        assert index.running_of("b@x", Universe.LOCAL) == 0
        index.validate()
        index.recount()
