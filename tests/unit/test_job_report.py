"""The report on jobs of a day, by user."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.common.written_file import write
from slotwise.cli.pool.pool_job_report import history
from slotwise.cli.render.job_report import Report
from slotwise.errors import SlotwiseError


def _job(proc: int, wall: float, user: str = "ann@x.org", **more: object) -> ClassAd:
    job = {
        "ClusterId": 1, "ProcId": proc, "User": user, "Owner": user.partition("@")[0], "JobStatus": 4,
        "ExitBySignal": False, "CompletionDate": 150, "RemoteWallClockTime": wall, "JobUniverse": 5,
    }  # fmt: skip
    return ClassAd(job | more)


def _report(*ads: ClassAd) -> Report:
    report = Report()
    report.take(ads, 100, 200)
    return report


def test_runs_are_counted_as_in_htcondors_report() -> None:
    # Its script, on these numbers: awk '{s+=$2; q+=$2*$2} END {print int(s/NR), int(sqrt(q/NR - (s/NR)**2))}'
    runs = [10, 20, 3600, 7200, 7300, 9000, 10000, 20000]
    report = _report(*(_job(n, run) for n, run in enumerate(runs)), _job(0, 30), _job(9, 7200, JobStatus=3))
    (row,) = report.rows()
    assert row == {
        "User": "ann@x.org", "Starts": 9, "Restarted": 1, "Total": 15, "Short": 3, "OSGable": 0, "Removed": 2,
        "1st": 20, "Median": 3600, "3rd": 7300, "Max": 20000, "Mean": 6351, "SD": 6110,
    }  # fmt: skip


def test_what_is_of_another_day_or_not_completed_is_left_out() -> None:
    report = _report(
        _job(0, 50, CompletionDate=99), _job(1, 50, CompletionDate=200), _job(2, 50, ExitBySignal=True),
        _job(3, 300_000), ClassAd({"User": "x"}),
    )  # fmt: skip
    assert report.rows() == [] and report.too_long == {"ann@x.org": 1}
    assert "Total completed jobs yesterday: 0\n" in report.text("now", 3)


def test_the_table_and_the_list_for_spreadsheets() -> None:
    report = _report(_job(0, 7200), _job(1, 60, "bob@y.org", WantGlidein=True), _job(2, 9999, "bob@y.org"))
    text = report.text("Mon", 2).splitlines()
    assert text[:2] == ["HTCondor Job Durations report running at Mon", "Got data from 2 hosts"]
    assert [line.split() for line in text[7:9]] == [
        ["ann", "x.org", "1", "0", "2", "0", "0", "0", *["02:00"] * 5, "00:00"],
        ["bob", "y.org", "2", "0", "2", "0", "0", "0", "00:01", "00:01", "00:01", "02:46", "01:23", "01:22"],
    ]
    assert report.csv().splitlines()[1] == "ann,x.org,1,0,2,0,0,0,7200,7200,7200,7200,7200,0"


@pytest.mark.parametrize("wall", [-1e308, -1, float("inf"), float("nan"), True])
def test_times_that_no_run_can_have_taken_are_left_out(wall: float) -> None:
    report = _report(_job(0, wall), _job(1, 60))
    assert [row["Starts"] for row in report.rows()] == [1] and report.too_long == {}


def test_an_ad_without_an_id_is_left_out() -> None:
    report = _report(_job(0, 60, ClusterId=ExprTree("{1}")), _job(1, 60, ProcId="x"), _job(2, 60))
    assert [row["Starts"] for row in report.rows()] == [1]


def test_a_user_is_text_of_one_line_and_no_formula() -> None:
    hostile = ["=cmd|' /C calc'!A0@=x", "+1,2@-y", '@"q"', "a\udcff\n\u202eb@x.org"]
    report = _report(*(_job(n, 60, user) for n, user in enumerate(hostile)))
    text, table = report.text("Mon", 1), report.csv()
    assert (text + table).encode().isascii() and "a\\udcff\\n\\u202eb" in text
    rows = list(csv.reader(table.splitlines()))
    assert {len(row) for row in rows} == {14}
    assert [row[:2] for row in rows[1:]] == [
        ["'+1,2", "'-y"], ["'=cmd|' /C calc'!A0", "'=x"], ["", '"q"'], ["a\\udcff\\n\\u202eb", "x.org"],
    ]  # fmt: skip


def test_what_is_no_history_is_said_to_be_none() -> None:
    assert [ad["ClusterId"] for ad in history([b"Cluster", b"Id = 7\n***\n"])] == [7]
    with pytest.raises(SlotwiseError, match="STARTD_HISTORY is not a history, and is not counted"):
        history([b"garbage ((\n"])
    with pytest.raises(SlotwiseError, match="more than 100 bytes"):
        history((b"A = 1\n" for _ in range(1000)), most=100)


def test_a_report_is_not_written_through_a_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "JobReport").symlink_to(other)
    write(tmp_path / "JobReport", "report")
    assert other.read_text() == "kept" and (tmp_path / "JobReport").read_text() == "report"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["JobReport", "other"]


def test_a_private_file_takes_over_neither_rights_nor_readers(tmp_path: Path) -> None:
    path = tmp_path / "condor-profile.txt"
    path.write_text("another's")
    path.chmod(0o666)
    with path.open() as opened_before:
        write(path, "mine", 0o600)
        assert opened_before.read() == "another's"
    assert path.read_text() == "mine" and path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "JobReport" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="JobReport'"):
        write(tmp_path / "JobReport", "report")
    assert [path.name for path in tmp_path.iterdir()] == ["JobReport"]
