from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.jobs.analyze_local import render, runs_here

SCHEDD = ClassAd(
    {
        "StartSchedulerUniverse": ExprTree("TotalSchedulerJobsRunning < 2 && TARGET.Wanted =!= false"),
        "TotalSchedulerJobsRunning": 2,
        "MaxRunningSchedulerJobsPerOwner": 5,
    }
)


def test_each_condition_of_the_start_is_told() -> None:
    job = ClassAd({"JobUniverse": 7, "JobStatus": 1, "Requirements": ExprTree("TARGET.Nothing")})
    assert runs_here(job)
    assert render(job, "4.0", SCHEDD, 100.0).splitlines() == [
        "Job 4.0 is idle.",
        "It runs on the access point: slots do not matter.",
        "This schedd's StartSchedulerUniverse evaluates to false for this job: "
        "TotalSchedulerJobsRunning < 2 && TARGET.Wanted =!= false",
        "START_SCHEDULER_UNIVERSE keeps it from starting.",
        "The job's Requirements evaluate to undefined over the schedd's ad: TARGET.Nothing",
        "At most 5 of its owner's run at once (MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER).",
    ]


def test_held_running_and_cooling_jobs() -> None:
    held = ClassAd({"JobUniverse": 12, "JobStatus": 5, "HoldReason": "because"})
    assert render(held, "4.0", SCHEDD, 100.0).splitlines()[:2] == ["Job 4.0 is held.", "Hold reason: because"]
    assert render(ClassAd({"JobUniverse": 12, "JobStatus": 2}), "4.0", None, 0).startswith("Job 4.0 is running.")
    cooling = ClassAd({"JobUniverse": 7, "JobStatus": 1, "JobCoolDownExpiration": 200})
    assert "It failed, and is started again at " in render(cooling, "4.0", None, 100.0)
    assert not runs_here(ClassAd({"JobUniverse": 5}))
