"""How jobs are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import UsageError
from slotwise.model.job_id import JobId, NodeId, last_of_history

_NUMBERS = st.integers(0, 2**63 - 2)


@given(_NUMBERS, st.none() | _NUMBERS)
def test_an_id_is_read_as_it_is_written(cluster: int, proc: int | None) -> None:
    job = JobId(cluster, proc)
    assert JobId.parse(str(job)) == job
    ad = ClassAd({"ClusterId": cluster, "ProcId": proc or 0})
    assert ExprTree(job.constraint).eval(ad) is True
    assert ExprTree(JobId(cluster, (proc or 0) + 1).constraint).eval(ad) is False


def test_a_number_that_no_job_has_is_one_all_the_same() -> None:
    assert JobId.parse("9" * 30 + ".0").constraint == "ClusterId == 9223372036854775807 && ProcId == 0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "1.",
        ".1",
        "1.2.3",
        "-1",
        "1.-2",
        "+1",
        " 1",
        "1\n",
        "1_0",
        "²",
        "١",
        "1.²",
        "0x1",
        "1e3",
        "9" * 5000,
    ],
)
def test_other_texts_name_no_job(text: str) -> None:
    assert JobId.match(text) is None
    with pytest.raises(UsageError, match="is not a job id"):
        JobId.parse(text)


def test_a_cluster_stands_for_its_first_job_where_one_is_wanted() -> None:
    assert JobId.parse("12").first == JobId.parse("12.0") == JobId.parse("12.0").first


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("12", NodeId(JobId(12))),
        ("12.3", NodeId(JobId(12, 3))),
        ("12.3.4", NodeId(JobId(12, 3), 4)),
        ("1.2.3.4", None),
        ("1..2", None),
        ("²", None),
    ],
)
def test_nodes_of_parallel_jobs(text: str, named: NodeId | None) -> None:
    assert NodeId.match(text) == named


def test_directories_of_jobs() -> None:
    assert JobId.of_directory("12", "3") == JobId.of_directory("12", "3.new") == JobId(12, 3)
    assert JobId.of_directory("12", "") is JobId.of_directory("ticket", "3") is None


@pytest.mark.parametrize(
    ("since", "condition"),
    [
        ("12", "ClusterId == 12"),
        ("12.3", "ClusterId == 12 && ProcId == 3"),
        ("1700000000", "CompletionDate > 0 && CompletionDate < 1700000000"),
        ("ExitCode == 1", "ExitCode == 1"),
    ],
)
def test_where_the_reading_of_a_history_ends(since: str, condition: str) -> None:
    assert last_of_history(since) == condition
