"""What the client asks about jobs that it waits for, and what the package shows of itself."""

from __future__ import annotations

import pytest
import slotwise.client
from slotwise.classad import ClassAd, ExprTree
from slotwise.client import JobStatus, SubmitResult
from slotwise.client.waiting import Progress, constraint_of, each_once, held_error
from slotwise.errors import UsageError
from slotwise.schedd.jobs.codes import Status


def test_the_names_of_the_package_are_there_for_completion() -> None:
    shown = dir(slotwise.client)
    assert set(slotwise.client.__all__) <= set(shown)
    assert not {"import_module", "TYPE_CHECKING", "annotations"} & set(shown)
    assert all(getattr(slotwise.client, name) is not None for name in slotwise.client.__all__)


def test_states_have_the_numbers_of_the_queue() -> None:
    assert {each.name: each.value for each in JobStatus} == {each.name: each.value for each in Status}


def test_jobs_are_named_by_a_submission_ids_or_a_constraint() -> None:
    assert constraint_of(SubmitResult((7, 8), (1, 2))) == "(ClusterId == 7) || (ClusterId == 8)"
    assert constraint_of("12") == "(ClusterId == 12)"
    assert constraint_of(["12.3", "4"]) == "(ClusterId == 12 && ProcId == 3) || (ClusterId == 4)"
    assert constraint_of('Owner == "alice"') == 'Owner == "alice"'
    assert constraint_of(ExprTree("ProcId < 4")) == "ProcId < 4"
    with pytest.raises(UsageError, match="no jobs"):
        constraint_of([])
    with pytest.raises(UsageError, match="'a' is not a job id"):
        constraint_of(["a"])


def counts(**by_status: int) -> list[ClassAd]:
    return [ClassAd({"JobStatus": int(JobStatus[name]), "Count": count}) for name, count in by_status.items()]


@pytest.mark.parametrize(
    ("seen", "is_over", "is_stuck"),
    [
        (counts(), True, False),
        (counts(COMPLETED=3, REMOVED=1), True, False),
        (counts(IDLE=1, HELD=2), False, False),
        (counts(HELD=2, COMPLETED=1), False, True),
        (counts(TRANSFERRING_OUTPUT=1), False, False),
    ],
)
def test_a_wait_is_over_when_no_job_is_left_and_stuck_when_only_held_ones_are(
    seen: list[ClassAd], is_over: bool, is_stuck: bool
) -> None:
    progress = Progress.of_counts(seen)
    assert (progress.is_over, progress.is_stuck) == (is_over, is_stuck)


def test_pauses_grow_and_end_with_the_time_that_there_is() -> None:
    progress = Progress(waiting=1)
    assert progress.pause_s(1, None) < progress.pause_s(2, None) <= progress.pause_s(99, None) == 2.0
    assert progress.pause_s(99, 0.5) == 0.5
    with pytest.raises(TimeoutError, match="1 jobs have not ended"):
        progress.pause_s(1, 0.0)


def test_what_is_held_is_named_with_its_reason() -> None:
    error = held_error([ClassAd({"ClusterId": 4, "ProcId": 2, "HoldReason": "no disk"})], 3)
    assert str(error).startswith("3 of the jobs are held (job 4.2: no disk)")


def test_a_job_that_leaves_the_queue_between_two_questions_is_there_once() -> None:
    first, second = ClassAd({"ClusterId": 1, "ProcId": 0}), ClassAd({"ClusterId": 1, "ProcId": 1})
    assert each_once([first, second], [second]) == [first, second]
