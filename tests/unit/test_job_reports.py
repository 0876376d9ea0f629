"""What `slotwise report` makes of past jobs: use over time, fair shares, waste, waits; as tables and pictures."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pl = pytest.importorskip("polars", reason="polars is not installed")

import numpy as np  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from slotwise.analysis import history_database, spans  # noqa: E402
from slotwise.analysis.fairness import divided, fairness  # noqa: E402
from slotwise.analysis.past_jobs import jobs_of, jobs_of_ads  # noqa: E402
from slotwise.analysis.periods import Periods, moment, periods  # noqa: E402
from slotwise.analysis.usage import usage  # noqa: E402
from slotwise.analysis.waits import waits  # noqa: E402
from slotwise.analysis.waste import waste  # noqa: E402
from slotwise.classad import ClassAd, ExprTree  # noqa: E402
from slotwise.cli.pool import report_pictures, report_tables  # noqa: E402
from slotwise.cli.render import picture  # noqa: E402
from slotwise.errors import UsageError  # noqa: E402
from slotwise.schedd.jobs.values import Expr, encode  # noqa: E402
from slotwise.schedd.storage.store import Store  # noqa: E402
from slotwise.table import pack_ads  # noqa: E402

HOUR = 3600.0
T0 = 1_790_000_000.0 // HOUR * HOUR
DAY = Periods("hour", tuple(T0 + hour * HOUR for hour in range(5)))


def ad(begin: float, end: float, **more: Any) -> ClassAd:
    """A completed job that ran from ``begin`` to ``end`` hours after T0."""
    wall = (end - begin) * HOUR
    return ClassAd({
        "User": "alice@here", "JobStatus": 4, "QDate": int(T0 + (begin - 1) * HOUR),
        "JobStartDate": int(T0 + begin * HOUR),
        "JobCurrentStartDate": int(T0 + begin * HOUR), "CompletionDate": int(T0 + end * HOUR),
        "EnteredCurrentStatus": int(T0 + end * HOUR), "RemoteWallClockTime": wall, "LastRemoteWallClockTime": wall,
        "CommittedTime": int(wall), "RequestCpus": 1, "RequestMemory": 1024, **more,
    })  # fmt: skip


def test_use_is_divided_between_the_hours_and_compared_with_the_quota_of_the_group_and_those_above() -> None:
    group = {"AccountingGroup": "physics.cms.bob", "AcctGroup": "physics.cms", "User": "bob@here"}
    jobs = jobs_of_ads([ad(0.5, 2, RequestCpus=4, **group), ad(-3, 9), ad(7, 8)])
    found = {row.name: row for row in usage(jobs, DAY, "group", {"physics": 8.0, "physics.cms": 2.0}).rows}
    assert found["physics.cms"].cores == pytest.approx((2, 4, 0, 0))
    assert found["physics.cms"].quota == 2.0 and found["physics.cms"].peak == pytest.approx(4.0)
    assert found["physics"].cores == (0, 0, 0, 0) and found["physics"].with_below == pytest.approx((2, 4, 0, 0))
    assert found["(no group)"].cores == pytest.approx((1, 1, 1, 1)) and found["(no group)"].jobs == 1
    users = usage(jobs, DAY, "user", {"bob": 5.0}).rows
    assert [row.name for row in users] == ["physics.cms.bob@here", "alice@here"]
    assert all(row.quota is None for row in users)


def test_runs_before_the_last_count_between_the_first_start_and_the_last() -> None:
    evicted = ad(3, 4, JobStartDate=int(T0), RemoteWallClockTime=2.5 * HOUR, CommittedTime=3600)
    (row,) = usage(jobs_of_ads([evicted]), DAY, "user", {}).rows
    assert row.cores == pytest.approx((0.5, 0.5, 0.5, 1)) and row.core_hours == pytest.approx(2.5)


def test_a_job_that_runs_counts_until_now() -> None:
    now = ad(1, 1, JobStatus=2, RemoteWallClockTime=0.0, LastRemoteWallClockTime=0.0, CompletionDate=0)
    (row,) = usage(jobs_of_ads([now]), DAY, "user", {}).rows
    assert row.cores == pytest.approx((0, 1, 1, 1))


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(-3, 7), st.floats(0, 5), st.floats(0.1, 100)),
        min_size=1,
        max_size=30,
    )
)
def test_sums_over_time_are_those_of_every_span_by_itself(given_spans: list[tuple[str, float, float, float]]) -> None:
    rows = [
        (name, T0 + begin * HOUR, T0 + (begin + length) * HOUR, weight) for name, begin, length, weight in given_spans
    ]
    frame = pl.DataFrame(
        rows, schema=["label", "begin", "end", "weight"], orient="row",
    )  # fmt: skip
    found = spans.totals(frame, DAY)
    for label in "ab":
        expected = [
            sum(
                weight * max(0.0, min(end, right) - max(begin, left))
                for name, begin, end, weight in frame.iter_rows()
                if name == label
            )
            for left, right in zip(DAY.edges, DAY.edges[1:], strict=False)
        ]
        assert found.get(label, np.zeros(4)) == pytest.approx(np.array(expected), abs=1.0)


@given(st.floats(0, 1000), st.lists(st.tuples(st.floats(0, 100), st.floats(0.001, 10)), min_size=1, max_size=8))
def test_what_is_divided_is_all_given_and_nobody_gets_more_than_it_wants(
    whole: float, users: list[tuple[float, float]]
) -> None:
    wanted, weights = np.array([want for want, _ in users]), [weight for _, weight in users]
    got = divided(whole, wanted, weights)
    assert got.sum() == pytest.approx(min(whole, wanted.sum()), abs=1e-6)
    assert (got <= wanted + 1e-6).all()
    level = max((share / weight for share, want, weight in zip(got, wanted, weights, strict=True)), default=0)
    for share, want, weight in zip(got, wanted, weights, strict=True):
        assert share >= min(want, weight * level) - 1e-6


def test_users_are_due_what_their_factors_say_of_the_time_in_which_they_had_jobs() -> None:
    greedy = [ad(0, 4, RequestCpus=3)]
    # Bob waits from the start and runs in the last hour; with half the factor twice as much is due to him.
    waiting = [ad(3, 4, RequestCpus=1, User="bob@here", QDate=int(T0))]
    found = fairness(jobs_of_ads(greedy + waiting), DAY, {"alice@here": 2.0, "bob@here": 1.0})
    parts = {part.user: part for part in found.parts}
    assert parts["alice@here"].got_hours == pytest.approx(12) and parts["bob@here"].got_hours == pytest.approx(1)
    assert parts["bob@here"].wanted_hours == pytest.approx(4)
    # One core of bob's jobs in each hour is less than two thirds of three.
    assert parts["bob@here"].due_hours == pytest.approx(4) and parts["alice@here"].due_hours == pytest.approx(9)
    assert parts["bob@here"].ratio == pytest.approx(0.25) and 0 < found.index < 1
    assert fairness(jobs_of_ads([]), DAY, {}).index == 1.0


def test_waste_tells_what_was_asked_for_and_not_used_and_what_evictions_cost() -> None:
    evicted = ad(
        2, 3, JobStartDate=int(T0), RemoteWallClockTime=3 * HOUR, CommittedTime=3600, RequestCpus=2, NumVacates=3,
        NumVacatesByReason=ExprTree("[ Preempted = 1; Drained = 2 ]"), CumulativeRemoteUserCpu=1.5 * HOUR,
        RequestMemory=2048, ResidentSetSize=512 * 1024,
    )  # fmt: skip
    removed = ad(1, 2, JobStatus=3, CompletionDate=0, CommittedTime=0)
    long_ago = ad(-9, -8)
    found = waste(jobs_of_ads([evicted, removed, long_ago]), DAY)
    (alice,) = found.users
    assert (alice.jobs, alice.evictions) == (2, 3)
    assert (alice.core_hours, alice.cpu_hours, alice.idle_core_hours) == pytest.approx((7, 1.5, 5.5))
    assert (alice.gb_hours, alice.used_gb_hours, alice.badput_hours) == pytest.approx((7, 1.5, 5))
    assert [(row.reason, row.evictions) for row in found.reasons] == [("Drained", 2), ("Preempted", 1), ("Removed", 0)]
    assert [row.badput_hours for row in found.reasons] == pytest.approx([8 / 3, 4 / 3, 1])


def test_waits_are_told_by_what_jobs_ask_for() -> None:
    jobs = [ad(hour / 100, 3, QDate=int(T0 - 60)) for hour in range(100)]
    jobs += [ad(1, 2, RequestCpus=8, RequestMemory=16384, RequestGPUs=1)]
    never = ad(1, 1, JobStatus=1, RequestCpus=8, RequestMemory=16384, RequestGPUs=1)
    for name in ("JobStartDate", "JobCurrentStartDate"):
        del never[name]
    found = waits(jobs_of_ads([*jobs, never]), DAY, "request")
    small, large = found.rows
    assert (small.name, small.jobs, large.name, large.jobs) == ("1 core, 1 GB", 100, "8 cores, 16 GB, 1 GPU", 1)
    assert (large.waiting, large.mean_s) == (1, HOUR)
    assert small.quantiles[2] == pytest.approx(60 + 0.495 * HOUR, abs=1) and small.most_s == 60 + 0.99 * HOUR
    assert found.all is not None and (found.all.jobs, found.all.waiting) == (101, 1)
    assert [row.name for row in waits(jobs_of_ads(jobs), DAY, "user").rows] == ["alice@here"]


def test_what_users_write_into_their_ads_is_taken_for_missing_where_it_is_no_number() -> None:
    odd = [
        ad(0, 1, RequestCpus="many", MachineAttrCpus0=3),
        ad(0, 1, RequestCpus=-5, RequestMemory=ExprTree('real("NaN")')),
        ad(0, 1, RequestCpus=ExprTree('real("INF")'), NumVacates=-1),
        ad(0, 1, RemoteWallClockTime=-100.0, QDate=True),
    ]
    jobs = jobs_of_ads(odd)
    assert sorted(jobs["cores"].to_list()) == [1.0, 1.0, 1.0, 3.0]
    assert min(jobs["wall_s"].to_list()) >= 0 and min(jobs["vacates"].to_list()) >= 0
    for found in (usage(jobs, DAY, "group", {}), fairness(jobs, DAY, {}), waste(jobs, DAY), waits(jobs, DAY, "group")):
        assert "nan" not in repr(found).lower() and "inf)" not in repr(found)


def filled(path: Path, rows: Iterable[tuple[ClassAd, dict[str, Any], ClassAd | None]]) -> None:
    """A schedd's database with a cluster of one job for each row: the cluster's ad, the job's changes, its delta."""
    store = Store(path)
    store.open()
    store.close()
    with sqlite3.connect(path) as database:
        for number, (cluster, changes, delta) in enumerate(rows, 1):
            common = encode({"User": "alice@here", "QDate": int(T0), "NumVacates": 0, "RemoteWallClockTime": 0.0})
            row = (number, "alice", int(T0), 1, pack_ads([cluster]), common)
            database.execute("INSERT INTO clusters VALUES (?,?,?,?,?,?)", row)
            ended = int(changes.get("CompletionDate", T0 + HOUR))
            pack = pack_ads([delta]) if delta is not None else None
            database.execute(
                "INSERT INTO history (cluster, proc, owner, status, completed, delta, changes) VALUES (?,0,?,4,?,?,?)",
                (number, "alice", ended, pack, encode(changes)),
            )
    database.close()


def test_the_database_gives_the_same_as_the_ads_that_the_schedd_sends(tmp_path: Path) -> None:
    path = tmp_path / "schedd.sqlite"
    ran = {"JobStartDate": int(T0 + 60), "JobCurrentStartDate": int(T0 + 60), "RemoteWallClockTime": 100.5,
           "CompletionDate": int(T0 + 200), "LastRemoteWallClockTime": 100.5, "CommittedTime": 100}  # fmt: skip
    hostile = r'x\","RequestCpus":99,"QDate":1,\"Request' + '"RequestCpus":77'
    filled(path, [
        (ClassAd({"RequestCpus": 2, "RequestMemory": 512}), ran, None),
        (ClassAd({"RequestCpus": 2, "RequestMemory": ExprTree("1024 * 2")}), ran, ClassAd({"RequestCpus": 4})),
        (ClassAd({"RequestCpus": 2, "AccountingGroup": "g.alice", "AcctGroup": "g"}), {**ran, "Args": hostile,
         "NumVacates": 1, "NumVacatesByReason": Expr('[ Preempted = 1 ]')}, None),
        (ClassAd({"RequestCpus": 1}), {**ran, "RequestCpus": 16, "User": 'al"ice\\@here', "QDate": Expr("1 +")}, None),
        (ClassAd({"RequestCpus": 1}), {**ran, "CompletionDate": int(T0 - 9 * HOUR)}, None),
    ])  # fmt: skip
    found = history_database.read(path, T0 - HOUR, T0 + HOUR).sort("cores")
    assert found["cores"].to_list() == [2.0, 2.0, 4.0, 16.0]
    assert set(found["user"]) == {"alice@here", "g.alice@here", 'al"ice\\@here'}
    assert found.filter(pl.col("group") == "g")["vacated_by"].to_list() == ["[ Preempted = 1 ]"]
    assert found["asked_mb"].drop_nulls().to_list() == [512.0, 2048.0]
    assert set(found["queued"]) == {T0} and set(found["ended"]) == {T0 + 200} and set(found["wall_s"]) == {100.5}
    assert history_database.read(path, T0 + HOUR, T0 + 2 * HOUR).is_empty()


def test_times_are_written_as_dates_or_as_how_long_ago() -> None:
    now = T0
    assert moment("12h", now) == now - 12 * HOUR and moment("2w", now) == now - 14 * 86400
    assert moment("1790000000", now) == 1_790_000_000
    assert periods(moment("2026-03-01", now), moment("2026-03-03 12:00", now)).labels == (
        "2026-03-01", "2026-03-02", "2026-03-03",
    )  # fmt: skip
    for wrong in ("yesterday", "", "12x", "9999999h"):
        with pytest.raises(UsageError, match="not a time"):
            moment(wrong, now)
    with pytest.raises(UsageError, match="ends before"):
        periods(now, now)
    with pytest.raises(UsageError, match="parts"):
        periods(0, now, "hour")


@pytest.mark.parametrize("kind", ["usage", "fairness", "waste", "waits"])
@pytest.mark.parametrize("count", [0, 1, 60])
def test_each_report_has_a_table_a_record_and_a_picture(tmp_path: Path, kind: str, count: int) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    jobs = jobs_of_ads(
        ad(at / 60, at / 30 + 1, User=f"user{at:02}$x_1$@here", RequestCpus=1 + at % 3, NumVacates=at % 2)
        for at in range(count)
    )
    jobs = jobs if count else jobs_of(pl.DataFrame())
    make: dict[str, tuple[Callable[[], Any], Any]] = {
        "usage": (lambda: usage(jobs, DAY, "user", {}), report_pictures.usage),
        "fairness": (lambda: fairness(jobs, DAY, {}), report_pictures.fairness),
        "waste": (lambda: waste(jobs, DAY), report_pictures.waste),
        "waits": (lambda: waits(jobs, DAY, "user"), report_pictures.waits),
    }
    made, draw = make[kind]
    found = made()
    text, record = getattr(report_tables, f"{kind}_text"), getattr(report_tables, f"{kind}_record")
    assert ("$x_1$@here" in text(found)) is bool(count)
    assert json.loads(json.dumps(record(found), allow_nan=False))
    path = tmp_path / "report.svg"
    with picture.theme(dark=count == 1):
        figure = draw(found)
        picture.save(figure, path)
    for axes in figure.axes:
        if {text.get_text() for text in axes.texts} & {"no jobs in this time", "nothing was lost"}:
            assert not len(axes.get_xticks()), "what has no bars has no scale, of which half would be below zero"
    drawn = "".join(ElementTree.parse(path).getroot().itertext()) + path.read_text()
    assert ("$x_1$@here" in drawn) is bool(count)
    assert ("no jobs in this time" in drawn) is not bool(count)
    if kind == "usage" and count == 1:
        assert ": 1.0 core-hours" in drawn, "as in the table"
    assert "matplotlib.pyplot" not in sys.modules


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0.0, "0"), (0.0004, "0.0004"), (0.04, "0.04"), (0.43, "0.4"), (99.94, "99.9"), (1234.5, "1,234")],
)
def test_a_quantity_is_shown_to_the_digits_that_count(value: float | None, shown: str) -> None:
    assert report_tables.number(value) == shown
