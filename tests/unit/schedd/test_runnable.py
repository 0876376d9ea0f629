"""The order of runnable jobs, and the requests made of them."""

from __future__ import annotations

from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.runnable import Runnable


def cluster(number: int, submitter: str = "a@x") -> Cluster:
    return Cluster(number, "a", "a@x", submitter, 100 - number, {})


def job(of: Cluster, proc: int, prio: int = 0, autocluster: int | None = 1) -> Job:
    made = Job(of, proc, 1)
    made.priority = (0, 0, -prio, 0, 0)
    made.autocluster = autocluster
    return made


def test_requests_are_by_priority_then_first_job() -> None:
    one, two = cluster(1), cluster(2)
    runnable = Runnable()
    for made in (job(two, 1), job(two, 0), job(one, 5, autocluster=2), job(one, 4), job(two, 9, prio=7)):
        runnable.add(made)
    found = [(r.first.key, r.count, r.autocluster) for r in runnable.requests("a@x")]
    assert found == [("2.9", 1, 1), ("1.4", 3, 1), ("1.5", 1, 2)]


def test_the_number_of_jobs_asked_for_is_bounded() -> None:
    one, runnable = cluster(1), Runnable()
    for proc in range(10):
        runnable.add(job(one, proc, autocluster=proc % 2))
    assert sum(r.count for r in runnable.requests("a@x", 7)) == 7


def test_taken_jobs_are_reserved_and_come_in_order() -> None:
    one, runnable = cluster(1), Runnable()
    for proc in (3, 1, 2, 0):
        runnable.add(job(one, proc))
    assert [j.proc for j in runnable.take("a@x", 1, 3)] == [0, 1, 2]
    assert [r.count for r in runnable.requests("a@x")] == [1]
    assert runnable.take("b@x", 1, 3) == []


def test_discarded_jobs_are_skipped_and_may_come_back() -> None:
    one, runnable = cluster(1), Runnable()
    jobs = [job(one, proc) for proc in range(3)]
    for made in jobs:
        runnable.add(made)
    runnable.discard(jobs[0])
    assert [r.first.proc for r in runnable.requests("a@x")] == [1]
    runnable.add(jobs[0])
    assert [(r.first.proc, r.count) for r in runnable.requests("a@x")] == [(0, 3)]


def test_jobs_without_autocluster_wait_for_one() -> None:
    one, runnable = cluster(1), Runnable()
    made = job(one, 0, autocluster=None)
    runnable.add(made)
    assert (runnable.count("a@x"), runnable.requests("a@x"), runnable.submitters()) == (1, [], ["a@x"])
    runnable.clustered(made, 4)
    assert [r.autocluster for r in runnable.requests("a@x")] == [4]
    runnable.forget_autoclusters()
    assert list(runnable.unclustered) == [made]
