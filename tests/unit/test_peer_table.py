"""The table of HTCondor's tests, what a run says of it, and the page that is made of it."""

from __future__ import annotations

import pytest
from slotwise.errors import UsageError

from tests.peer.__main__ import asked
from tests.peer.document import PAGE, page
from tests.peer.expected import Expectation, Row, expected, files, read, table
from tests.peer.outcomes import Outcome, Record, is_as_expected, outcomes, summary

_TABLE = """# a comment
test_a.py	*	pass
test_a.py	T::test_x*	intended	is better here
test_a.py	T::test_xy	internal	reads a log
test_b*.py	*	not run	wants a cloud
"""


def test_the_last_matching_row_counts() -> None:
    rows = read(_TABLE)
    assert files(rows) == ["test_a.py"]
    said = [expected(rows, "test_a.py", name).expectation for name in ("T::test_z", "T::test_x", "T::test_xy")]
    assert said == [Expectation.PASS, Expectation.INTENDED, Expectation.INTERNAL]
    assert expected(rows, "test_bc.py", "T::test_x").reason == "wants a cloud"
    assert expected(rows, "test_other.py", "T::test_x").expectation is Expectation.PASS


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("test_a.py\t*", "line 1"),
        ("test_a.py\t*\tperhaps", "expectations are pass"),
        ("test_a.py\t*\tintended", "has a reason"),
        ("test_a.py\t*\tpass\tbecause", "has a reason"),
    ],
)
def test_lines_that_are_none_are_named(line: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(line)
    assert why in f"{caught.value} {caught.value.hint}"


def test_a_function_is_as_good_as_its_worst_case() -> None:
    def case(name: str, phase: str = "call", outcome: str = "passed", *, xfail: bool = False) -> Record:
        return Record(f"test_a.py::T::{name}", phase, outcome, xfail)

    records = [
        *(case(name, "found", "") for name in ("a[1]", "a[2]", "b", "c", "d[x[y]]", "e")),
        *(case("a[1]"), case("a[2]", outcome="failed"), case("b"), case("b", "teardown", "failed")),
        *(case("c", "setup", "skipped"), case("d[x[y]]", outcome="failed", xfail=True)),
    ]
    said = {outcome.function: outcome.said for outcome in outcomes("test_a.py", records)}
    assert said == {"T::a": "fail", "T::b": "pass", "T::c": "skip", "T::d": "skip", "T::e": "fail"}
    (broken,) = outcomes("test_a.py", [Record("test_a.py", "collect", "failed")])
    assert broken == Outcome("test_a.py", "(the file)", "fail")


def test_the_summary_names_what_differs_from_the_table() -> None:
    rows = read(_TABLE)
    found = {
        "test_a.py": [
            Outcome("test_a.py", "T::test_x1", "fail"),
            Outcome("test_a.py", "T::test_xy", "pass"),
            Outcome("test_a.py", "T::test_z", "pass"),
            Outcome("test_a.py", "T::test_s", "skip"),
        ]
    }
    assert summary(rows, found, ["test_a.py"]) == [
        "test_a.py: ended at the limit",
        "test_a.py T::test_xy: passes, and is internal in the table: reads a log",
        "Did not pass, as the table says:",
        "  1 intended: is better here",
        "2 of 3 test functions of HTCondor's pass (1 files)",
    ]
    assert is_as_expected(rows, found)
    found["test_a.py"].append(Outcome("test_a.py", "T::test_new", "fail"))
    assert not is_as_expected(rows, found) and "test_a.py T::test_new: failed" in summary(rows, found)
    assert not is_as_expected(rows, {"test_a.py": []})


def test_the_knobs_that_a_test_asks_for_are_those_in_its_text() -> None:
    text = '"""<<CONDOR_TESTREQ_CONFIG\n  A = 1\n\tB = $(A)\n"""\nC = 2\n'
    assert asked(text) == "A = 1\nB = $(A)" and asked("C = 2") == ""


def test_the_page_is_up_to_date_and_each_row_has_its_file_once() -> None:
    rows: list[Row] = table()
    names = files(rows)
    assert len(names) == len(set(names))
    assert {row.file for row in rows if row.expectation.is_red} <= set(names)
    assert PAGE.read_text(encoding="utf-8") == page(rows), "run make generate"
