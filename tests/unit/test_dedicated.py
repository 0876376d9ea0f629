"""Parallel jobs as what is asked for them, and what `analyze` says of them."""

from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.matchmaking.dedicated import as_request, is_parallel, words

JOB = ClassAd(
    {
        "JobUniverse": 11,
        "JobStatus": 1,
        "MaxHosts": 4,
        "Scheduler": "DedicatedScheduler@here",
        "Requirements": ExprTree("TARGET.Memory > 10 || TARGET.Free"),
    }
)


def accepts(job: ClassAd, **slot: object) -> bool:
    return job.lookup("Requirements").eval(job, ClassAd(slot)) is True


def test_a_parallel_job_takes_slots_of_its_dedicated_scheduler_alone() -> None:
    request = as_request(JOB)
    assert accepts(request, Memory=20, DedicatedScheduler="DedicatedScheduler@here")
    assert not accepts(request, Memory=20)
    assert not accepts(request, Memory=20, DedicatedScheduler="dedicatedscheduler@HERE.elsewhere")
    assert not accepts(request, Memory=5, DedicatedScheduler="DedicatedScheduler@here")


def test_other_jobs_stay_as_they_are() -> None:
    for job in (ClassAd({"JobUniverse": 5}), ClassAd({"JobUniverse": 11, "Scheduler": ExprTree("Owner")})):
        assert not is_parallel(job) and as_request(job) is job


def test_what_is_said_of_a_job_that_waits() -> None:
    assert "4 nodes" in words(JOB, 2) and "Last said" not in words(JOB, 2)
    assert 'No slot has DedicatedScheduler = "DedicatedScheduler@here"' in words(JOB, 0)
    rejected = JOB.copy()
    rejected["LastRejMatchReason"] = "no match found"
    assert words(rejected, 2).endswith("Last said of it: no match found.")
