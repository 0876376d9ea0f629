"""What the end of a run counts: times by the slot's weight, bytes, and how long each part lasted."""

from __future__ import annotations

from slotwise.model.job_events import Usage
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import RunEnd, RunOutcome
from slotwise.schedd.jobs.end_attrs import activation_attributes, closing_attributes
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.values import Changes


def job(**changes: object) -> Job:
    made = Job(Cluster(1, "ann", "ann@here", "ann@here", 0, {}), 0, Status.RUNNING)
    made.changes = {**changes}  # type: ignore[dict-item]
    return made


def closed(end: RunEnd, **changes: object) -> Changes:
    return closing_attributes(job(**changes), end, 1000.0)


def test_times_count_by_the_weight_of_the_slot() -> None:
    """As HTCondor's: 13 s on a slot of weight 1 are 13.0, and committed only by jobs that came to their end."""
    ended = closed(RunEnd(RunOutcome.EXITED, wall_s=13.0), MachineAttrSlotWeight0=4, CumulativeSlotTime=10.0)
    assert (ended["CumulativeSlotTime"], ended["CommittedSlotTime"]) == (62.0, 52.0)
    evicted = closed(RunEnd(RunOutcome.EVICTED, wall_s=13.0), CommittedSlotTime=5.0)
    assert evicted["CumulativeSlotTime"] == 13.0 and "CommittedSlotTime" not in evicted
    assert ended["RemoteWallClockTime"] == 13.0


def test_bytes_that_the_ad_has_already_are_not_counted_twice() -> None:
    end = RunEnd(RunOutcome.EXITED, usage=Usage(sent=100.0, received=70.0), counted=(60.0, 70.0))
    counted = closed(end, BytesSent=1060.0, BytesRecvd=70.0)
    assert (counted["BytesSent"], counted["BytesRecvd"]) == (1100.0, 70.0)


def test_where_the_job_ran_is_over() -> None:
    gone = closed(RunEnd(RunOutcome.EXITED), RemoteHost="slot1@a", StartdIpAddr="<a>", RemoteSlotID=1)
    assert gone["LastRemoteHost"] == "slot1@a"
    assert [gone[name] for name in ("RemoteHost", "StartdIpAddr", "RemoteSlotID")] == [None, None, None]


def test_the_parts_of_a_run_add_up() -> None:
    """HTCondor's of a job with 5 s of transfers before and 8 s of work: 5, 8, 0, and 13 in all."""
    assert activation_attributes(891.2, 896.9, 904.1, 904.9) == {
        "ActivationDuration": 13,
        "ActivationSetupDuration": 5,
        "ActivationExecutionDuration": 8,
        "ActivationTeardownDuration": 0,
    }
