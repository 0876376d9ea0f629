"""Startd cron: knobs of the jobs, what they print, which slots it goes to."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.cron import jobs
from slotwise.cron.jobs import AutoPublish, CronJob, Mode
from slotwise.cron.output import Output, Reader
from slotwise.errors import ConfigError
from slotwise.startd.publish.daemon_ad import daemon_attributes
from slotwise.startd.slot_ad.cron_ads import Published

from tests.support.configured import configured
from tests.support.startd_point import Point, point

ONE = CronJob("probe", "/bin/probe")


def read(**knobs: str) -> list[CronJob]:
    return list(jobs.read(configured(STARTD_CRON_JOBLIST="probe", **knobs)).jobs)


def outputs(*lines: str, job: CronJob = ONE) -> list[Output]:
    reader = Reader(job)
    found = [reader.line(line) for line in lines] + [reader.end()]
    return [output for output in found if output is not None]


def test_a_job_has_its_knobs() -> None:
    (job,) = read(
        STARTD_CRON_probe_EXECUTABLE="/bin/probe", STARTD_CRON_PROBE_ARGS="-a  b", STARTD_CRON_probe_ENV="A=1;B=2 3",
        STARTD_CRON_probe_MODE="WaitForExit", STARTD_CRON_probe_PERIOD="5m", STARTD_CRON_probe_PREFIX="x_",
        STARTD_CRON_probe_SLOTS="1, 3", STARTD_CRON_probe_KILL="true", STARTD_CRON_probe_JOB_LOAD="0.05",
        LOG="/var/log/condor",
    )  # fmt: skip
    assert job == CronJob(
        "probe", "/bin/probe", ("-a", "b"), {"A": "1", "B": "2 3"}, "/var/log/condor", Mode.WAIT_FOR_EXIT, 300, "x_",
        frozenset({1, 3}), kill=True, load=0.05,
    )  # fmt: skip


def test_quoted_arguments_and_environments() -> None:
    (job,) = read(
        STARTD_CRON_probe_EXECUTABLE="/bin/probe", STARTD_CRON_probe_PERIOD="1",
        STARTD_CRON_probe_ARGS="\"one 'two words'\"", STARTD_CRON_probe_ENV="\"A=1 B='2 3'\"",
    )  # fmt: skip
    assert (job.arguments, job.environment) == (("one", "two words"), {"A": "1", "B": "2 3"})


def test_quoted_arguments_are_read_as_those_of_jobs() -> None:
    (job,) = read(
        STARTD_CRON_probe_EXECUTABLE="/bin/probe", STARTD_CRON_probe_PERIOD="1",
        STARTD_CRON_probe_ARGS="\"a\\b 'it''s' \"\"c\"\"\"",
    )  # fmt: skip
    assert job.arguments == ("a\\b", "it's", '"c"')


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("2H", 7200), ("1 m", 60)])
def test_periods(text: str, seconds: float) -> None:
    assert jobs.period(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "m", "1.5", "-3", "2d"])
def test_periods_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError):
        jobs.period(text)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"STARTD_CRON_probe_EXECUTABLE": "/x"},
        {"STARTD_CRON_probe_EXECUTABLE": "/x", "STARTD_CRON_probe_PERIOD": "1", "STARTD_CRON_probe_MODE": "often"},
        {"STARTD_CRON_probe_EXECUTABLE": "/x", "STARTD_CRON_probe_PERIOD": "1", "STARTD_CRON_probe_PREFIX": "a-b"},
        {"STARTD_CRON_probe_EXECUTABLE": "/x", "STARTD_CRON_probe_PERIOD": "1", "STARTD_CRON_probe_CONDITION": "1 +"},
        {"STARTD_CRON_probe_EXECUTABLE": "/x", "STARTD_CRON_probe_PERIOD": "1", "STARTD_CRON_probe_SLOTS": "all"},
    ],
)
def test_a_job_that_cannot_be_is_left_out_and_logged(knobs: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert read(**knobs) == []
    assert "probe" in caplog.text


def test_a_job_that_runs_for_ever_may_begin_again_at_once() -> None:
    (probe,) = read(
        STARTD_CRON_probe_EXECUTABLE="/x", STARTD_CRON_probe_MODE="WaitForExit", STARTD_CRON_probe_PERIOD="0"
    )
    assert probe.period_s == 1
    assert read(STARTD_CRON_probe_EXECUTABLE="/x", STARTD_CRON_probe_PERIOD="0") == []


def test_once_needs_no_period() -> None:
    (job,) = read(STARTD_CRON_probe_EXECUTABLE="/x", STARTD_CRON_probe_MODE="OneShot")
    assert job.mode is Mode.ONE_SHOT


def test_lines_make_ads_and_dashes_end_them() -> None:
    found = outputs("A = 1", "B = A + 1", "nonsense", "# no", "- second update:true", "A = 2", "-", "A = = 3")
    assert [(o.tag, o.update, sorted(o.attributes)) for o in found] == [("second", True, ["A", "B"]), ("", None, ["A"])]
    assert found[1].attributes["A"] == 2


def test_a_lone_argument_is_no_name() -> None:
    assert [(o.tag, o.update) for o in outputs("A=1", "- update:false", "A=1", "-update")] == [
        ("", False),
        ("update", None),
    ]


def test_prefixes() -> None:
    (said,) = outputs("Speed = 3", job=CronJob("probe", "/x", prefix="Net_"))
    assert said.attributes == {"Net_Speed": 3}


def three(**knobs: Any) -> Point:
    return point(
        NUM_SLOTS_TYPE_1="2", SLOT_TYPE_1="cpus=1", NUM_SLOTS_TYPE_2="1", SLOT_TYPE_2="cpus=1",
        SLOT_TYPE_2_NAME_PREFIX="big", **knobs,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "slots"),
    [
        (["Hot = true"], ["slot1", "slot2", "big3"]),
        (["Hot = true", "SlotId = 2"], ["slot2"]),
        (["Hot = true", "SlotTypeId = 1"], ["slot1", "slot2"]),
        (["Hot = true", 'Name = "big"'], ["big3"]),
        (["Hot = true", 'SlotName = "slot1"', "SlotId = 2"], ["slot1"]),
        (["Hot = true", "SlotMergeConstraint = TARGET.SlotID > 1", "SlotId = 1"], ["slot2", "big3"]),
        (["Hot = true", "SlotMergeConstraint = Nothing"], []),
    ],
)
def test_slots_are_chosen(lines: list[str], slots: list[str]) -> None:
    host = three()
    host.it.ads.cron.put(ONE, outputs(*lines)[0], AutoPublish.NEVER, host.now)
    assert [name for name in ("slot1", "slot2", "big3") if host.ad(name).get("Hot") is True] == slots
    for name in ("slot1", "slot2", "big3"):
        assert host.ad(name)["Name"] == f"{name}@host"
        assert "SlotMergeConstraint" not in host.ad(name)
    assert ("Hot" in daemon_attributes(host.it, host.now)) == (len(lines) == 1)


def test_a_job_may_be_for_some_slots_only() -> None:
    host = three()
    host.it.ads.cron.put(
        CronJob("probe", "/x", slots=frozenset({2})), outputs("Hot = true")[0], AutoPublish.NEVER, host.now
    )
    assert "Hot" not in host.ad("slot1")
    assert host.ad("slot2")["LastUpdate"] == int(host.now)


def test_dynamic_slots_have_what_their_partitionable_one_has() -> None:
    host = point()
    host.it.ads.cron.put(ONE, outputs("Hot = Cpus < 2", "SlotId = 1")[0], AutoPublish.NEVER, host.now)
    host.claim()
    assert host.ad("slot1_1").eval("Hot") is True
    assert host.ad("slot1").eval("Hot") is False


def test_new_output_takes_the_place_of_the_former_and_policies_see_it() -> None:
    host = point(NUM_SLOTS="1", IS_OWNER="Hot =?= true")
    for text, place in (("true", "Owner/Idle"), ("false", "Unclaimed/Idle")):
        host.it.ads.cron.put(ONE, outputs(f"Hot = {text}")[0], AutoPublish.NEVER, host.now)
        host.poll()
        assert host.place("slot1") == place
    host.it.ads.cron.put(ONE, outputs("Cold = 1")[0], AutoPublish.NEVER, host.now)
    assert "Hot" not in host.ad("slot1")
    host.it.ads.cron.keep_only([])
    assert "Cold" not in host.ad("slot1")


@pytest.mark.parametrize(
    ("rule", "lines", "sent"),
    [
        (AutoPublish.NEVER, [["A=1"], ["A=2"]], [False, False]),
        (AutoPublish.ALWAYS, [["A=1"], ["A=1"]], [True, True]),
        (AutoPublish.IF_CHANGED, [["A=1"], ["A=1"], ["A=2"]], [True, False, True]),
        (AutoPublish.NEVER, [["A=1", "- update:true"]], [True]),
        (AutoPublish.ALWAYS, [["A=1", "- update:false"]], [False]),
    ],
)
def test_what_is_sent_at_once(rule: AutoPublish, lines: list[list[str]], sent: list[bool]) -> None:
    published = Published()
    found: list[Any] = [published.put(ONE, outputs(*one)[0], rule, 0) for one in lines]
    assert found == sent


def test_modes_belong_to_families() -> None:
    knobs = {"STARTD_CRON_JOBLIST": "a", "STARTD_CRON_a_EXECUTABLE": "/a", "STARTD_CRON_a_MODE": "OnDemand"}
    knobs |= {"BENCHMARKS_JOBLIST": "b c", "BENCHMARKS_b_EXECUTABLE": "/b", "BENCHMARKS_b_MODE": "OneShot"}
    config = configured(**knobs, BENCHMARKS_c_EXECUTABLE="/c")
    assert jobs.read(config).jobs == ()
    assert "it runs Periodic, WaitForExit or OneShot" in jobs.read(config).faults[0]
    benchmarks = jobs.read(config, jobs.BENCHMARKS)
    assert [(job.name, job.mode, job.load) for job in benchmarks.jobs] == [("c", Mode.ON_DEMAND, 1.0)]
    assert "BENCHMARKS_b_MODE is oneshot: it runs OnDemand" in benchmarks.faults[0] and benchmarks.max_load == 1.0
