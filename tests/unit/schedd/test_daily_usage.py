"""What jobs of users and projects did by span and day, and the table of it, without a schedd."""

from __future__ import annotations

from slotwise.classad import ClassAd
from slotwise.cli.render.daily_usage import table
from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.jobs.job import Cluster
from slotwise.schedd.storage.batch import RecordKind
from slotwise.schedd.users.daily_usage import SPAN_S, DailyUsage

USER, DAY, HOUR = "ann@here", 86400, 3600


def cluster(universe: int = Universe.VANILLA) -> Cluster:
    made = Cluster(1, "ann", USER, USER, 0, {})
    made.project, made.universe = "astro", universe
    return made


def test_spans_and_days_begin_at_local_midnight_and_pass() -> None:
    began = 100.0 * DAY - HOUR  # an hour before midnight in UTC, midnight where the offset is one hour
    usage = DailyUsage(began, HOUR)
    usage.launched(cluster(), began)
    usage.launched(cluster(), began + SPAN_S - 1)
    usage.launched(cluster(), began + SPAN_S)
    at = usage.attributes(RecordKind.USER, USER, began + SPAN_S)
    assert (at["HourlyJobsLaunched"], at["DailyJobsLaunched"], at["HourlyStatsUnitPhase"]) == ([1, 2], [], 0)
    next_day = usage.attributes(RecordKind.USER, USER, began + DAY)
    assert (next_day["HourlyJobsLaunched"], next_day["DailyJobsLaunched"]) == ([0, 0, 0, 0, 0, 1], [3])
    assert usage.attributes(RecordKind.USER, USER, began + 12 * DAY)["DailyJobsLaunched"] == [0] * 10


def test_ends_count_as_what_they_were_and_projects_count_them_too() -> None:
    usage = DailyUsage(0, 0)
    usage.ended(cluster(), {"JobsExited": 1, "JobsShouldHold": 1}, 5)
    usage.ended(cluster(), {"JobsExited": 1, "JobsShouldRequeue": 1}, 5)
    usage.ended(cluster(), {"JobsNotStarted": 1}, 5)
    usage.ended(cluster(Universe.SCHEDULER), {"JobsShouldHold": 1}, 5)
    for kind, name in ((RecordKind.USER, USER), (RecordKind.PROJECT, "astro")):
        found = usage.attributes(kind, name, 5)
        counted = [found[f"HourlyJobs{what}"] for what in ("Held", "Requeued", "FailedToStart")]
        assert counted == [[1], [1], [1]] and "HourlyJobsLaunched" not in found
    assert "HourlyJobsHeld" not in usage.attributes(RecordKind.USER, "bob@here", 5)


def test_the_table_is_that_of_htcondor_for_the_same_ad() -> None:
    """The ad and the lines are of an HTCondor 25.14 that had run for 57 seconds."""
    recorded = ClassAd(
        {
            "User": "peer@peer.local",
            "HourlyJobsLaunched": [3],
            "HourlyJobsSlotTime": [33],
            "HourlyJobsWeightedIdle": [4.756667],
            "HourlyStatsStartTime": 1795745346,
            "HourlyStatsUnitPhase": 7803,
            "HourlyStatsUnitSize": 14400,
        }
    )
    assert table([recorded], 1795745403).splitlines() == [
        "Name             Launched NoExec Requeued Held SlotHours IdleWeight",
        "peer@peer.local                                                    ",
        "    last 0.0 hrs        3                           0.01       4.76",
    ]


def test_the_meter_adds_slot_time_and_the_weight_of_idle_jobs() -> None:
    usage = DailyUsage(0, 0)
    usage.passed(USER, "", 3, None, 11, 60)
    usage.passed(USER, "", 3, 400, 57, 60)
    found = usage.attributes(RecordKind.USER, USER, 60)
    assert found["HourlyJobsSlotTime"] == [33]
    assert found["HourlyJobsWeightedIdle"] == [3 * 400 * 57 / SPAN_S]


def test_older_spans_have_lines_of_their_own() -> None:
    usage = DailyUsage(0, 0)
    for hour in range(0, 50, 2):
        usage.launched(cluster(), hour * HOUR)
    now = 50.0 * HOUR
    ad = ClassAd({"User": USER, **usage.attributes(RecordKind.USER, USER, now)})
    lines = [line.split() for line in table([ad], now).splitlines()[2:]]
    assert lines == [
        ["last", "2.0", "hrs", "1"],
        ["Last", "6.0", "hrs", "3"],
        ["Last", "24", "hrs", "11"],
        ["Yesterday", "12"],
        ["Day", "Before", "12"],
    ]
