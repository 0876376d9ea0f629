"""The report on jobs of a day, by user."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.cli.render.job_report import Report


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
