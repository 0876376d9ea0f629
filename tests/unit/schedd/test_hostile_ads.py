"""What users write into their jobs' ads stops no commit, forges no record and counts once."""

from __future__ import annotations

import math

import pytest
from slotwise.classad import ClassAd
from slotwise.schedd.history.history_files import long_forms
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.end_attrs import counted
from slotwise.schedd.jobs.from_ad import describe
from slotwise.schedd.jobs.job import Cluster, Job, finite
from slotwise.schedd.policy import expressions
from slotwise.schedd.storage.batch import Batch
from slotwise.schedd.users.records import UserRecords

USER = "eve@example.org"


def _job(**changes: float | str) -> Job:
    job = Job(Cluster(1, "eve", USER, USER, 0, {}), 0, Status.COMPLETED)
    job.changes = dict(changes)
    return job


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinity_is_no_number(value: float) -> None:
    assert _job(NumJobCoolDowns=value).number("NumJobCoolDowns") == 0


@pytest.mark.parametrize("value", [1e30, -1e30, 2**63 - 1])
def test_numbers_fit_into_64_bits(value: float) -> None:
    assert abs(int(finite(value)) + 1) < 2**63


def test_totals_stay_numbers_when_cpu_times_are_infinite() -> None:
    records = UserRecords()
    records.left([_job(CumulativeRemoteUserCpu=math.inf, CumulativeRemoteSysCpu=-math.inf)], Batch())
    assert records.submits(USER).totals.completed == (1, 0.0, 0.0)


def test_a_job_that_leaves_twice_counts_once() -> None:
    records, job, second = UserRecords(), _job(RemoteWallClockTime=5.0), Batch()
    records.left([job], Batch())
    records.left([job], second)
    assert records.submits(USER).totals.completed == (1, 0.0, 5.0)
    assert not second.statements


def test_a_name_is_no_line_of_a_history_record() -> None:
    ad = ClassAd()
    ad[' Owner = "root" //'] = 1
    for line in "".join(long_forms([ad])).splitlines():
        assert not line.lstrip().startswith("Owner")


@pytest.mark.parametrize("mask", ["²", "9" * 5000])
def test_masks_with_what_is_no_event_are_read(mask: str) -> None:
    cluster = Cluster(1, "eve", USER, USER, 0, {})
    describe(cluster, ClassAd({"DAGManNodesMask": f"5 {mask}"}))
    assert cluster.nodes_events == {5}


def test_infinite_priorities_are_none() -> None:
    cluster = Cluster(1, "eve", USER, USER, 0, {})
    describe(cluster, ClassAd({"JobPrio": math.inf}))
    assert cluster.priority == (0, 0, 0, 0, 0)


def test_counts_that_are_none_are_left_out() -> None:
    assert str(counted(_job(NumHoldsByReason="[ A = ²; B = 2 ]"), "NumHoldsByReason", "B")) == "[ B = 3 ]"


@pytest.mark.parametrize(("written", "code"), [(math.inf, 0), (math.nan, 0), (1e30, 2**62), (7.9, 7), (None, 0)])
def test_a_subcode_that_is_no_number_does_not_keep_the_job_from_its_end(written: object, code: int) -> None:
    values = {"ExitBySignal": False, "ExitCode": 1, "OnExitHold": True, "OnExitHoldSubCode": written}
    verdict = expressions.at_exit(values.get, lambda name: name)
    assert (verdict.act, verdict.subcode) == ("hold", code)
