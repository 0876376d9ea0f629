"""Cron jobs with METRICS: what slots and jobs are told of their devices. HTCondor 25.14 was given the same samples."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.cron import jobs
from slotwise.cron.jobs import AutoPublish, CronJob
from slotwise.cron.metrics import Metric, parse_metrics
from slotwise.cron.output import Reader
from slotwise.startd.slot import events as ev
from slotwise.startd.slot_ad.device_monitors import Monitor, of_job
from slotwise.startd.slot_types.custom import CustomResource

from tests.support.configured import configured
from tests.support.startd_point import Point, job, point

SUM, PEAK = Metric("Dev", False), Metric("DevMemory", True)
MONITOR = CronJob("mon", "/bin/mon", metrics=(SUM, PEAK))
DEVICES = CustomResource("Dev", 2, ("d1", "d2"))


def sample(p: Point, number: int) -> None:
    """One run of the monitor: d1 was used 1 s, d2 3 s; peaks go up and down."""
    reader = Reader(MONITOR)
    for device, used, peak in (("d1", 1.0, number % 7), ("d2", 3.0, number % 5)):
        for line in (
            f'SlotMergeConstraint = stringListMember("{device}", AssignedDev)', f"UptimeDevSeconds = {used}",
            f"UptimeDevMemoryPeakUsage = {peak}", f"Plain_{device} = {number}",
        ):  # fmt: skip
            assert reader.line(line) is None
        said = reader.line(f"- {device}")
        assert said is not None
        p.it.ads.cron.put(MONITOR, said, AutoPublish.NEVER, p.now)


def of(p: Point, slot: str) -> dict[str, Any]:
    names = (
        "DeviceDevAverageUsage", "DeviceDevMemoryPeakUsage", "DevAverageUsage", "DevMemoryUsage", "UptimeDevSeconds",
        "UptimeDevMemoryPeakUsage", "Plain_d1", "Plain_d2",
    )  # fmt: skip
    ad = p.ad(slot)
    return {name: ad[name] for name in names if name in ad}


def test_a_slot_has_the_sum_and_the_peak_of_its_devices_and_a_job_what_it_used() -> None:
    p = point([DEVICES])
    for number in range(1, 9):
        p.now += 2
        sample(p, number)
    # HTCondor shows of DevMemoryUsage the value of one device only: its accumulator is overwritten
    assert of(p, "slot1") == {
        "DeviceDevAverageUsage": 32 / 16, "DeviceDevMemoryPeakUsage": 6.0, "DevMemoryUsage": 6.0, "Plain_d1": 8,
        "Plain_d2": 8,
    }  # fmt: skip
    p.now += 1
    claim_id = p.run(wanted=job(RequestDev=1))
    assert "DevAverageUsage" not in of(p, "slot1_1") and "DevMemoryUsage" not in of(p, "slot1_1")
    p.now += 1
    sample(p, 9)  # as in HTCondor, averages go over whole samples, from the last one before the job
    assert of(p, "slot1_1")["DevAverageUsage"] == 0.5 and of(p, "slot1_1")["DevMemoryUsage"] == 2.0
    for number in (10, 11, 12):
        p.now += 2
        sample(p, number)
    p.now += 1
    found = of(p, "slot1_1")
    assert found == {
        "DeviceDevAverageUsage": 0.48, "DeviceDevMemoryPeakUsage": 6.0, "DevAverageUsage": 0.5, "DevMemoryUsage": 5.0,
        "Plain_d1": 12,
    }  # fmt: skip
    assert of(p, "slot1")["DeviceDevAverageUsage"] == 1.92
    assert p.it.ads.cron.job_usage(1, p["slot1_1"].ad, p.now) == {"DevAverageUsage": 0.5, "DevMemoryUsage": 5.0}
    # The next job on the device begins anew, and so does the device once its claim has ended.
    p.gone()
    assert p.activate(claim_id, "2.0#1", job(RequestDev=1)) is None
    assert "DevAverageUsage" not in of(p, "slot1_1")
    p.gone("2.0#1")
    p.it.claims.apply(claim_id, 0, ev.Released(), p.now)
    p.now += 2
    sample(p, 13)
    assert "DevAverageUsage" not in of(p, "slot1") and of(p, "slot1")["DevMemoryUsage"] == 6.0


def test_what_the_job_has_not_said_stays_as_it_was_measured() -> None:
    """GPUsMonitor names the attribute in STARTD_JOB_ATTRS, too; the starter reports it later than it is measured."""
    p = point([DEVICES], STARTD_JOB_ATTRS="DevUsage DevMemoryUsage")
    p.run(wanted=job(RequestDev=1))
    p.now += 1
    sample(p, 3)
    sample(p, 4)
    assert of(p, "slot1_1")["DevMemoryUsage"] == 4.0
    p["slot1_1"].usage.attributes["DevMemoryUsage"] = 9.0
    assert of(p, "slot1_1")["DevMemoryUsage"] == 9.0


def test_sums_are_shown_where_they_are_wanted() -> None:
    p = point([DEVICES])
    p.it.ads.cron.totals = True
    for number in (1, 2):
        p.now += 2
        sample(p, number)
    assert of(p, "slot1")["UptimeDevSeconds"] == 8.0


def test_what_is_no_number_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    p = point()
    reader = Reader(MONITOR)
    for line in ('UptimeDevSeconds = "x"', 'UptimeDevMemoryPeakUsage = real("NaN")', "Fine = 1"):
        reader.line(line)
    p.now += 1
    said = reader.end()
    assert said is not None
    p.it.ads.cron.put(MONITOR, said, AutoPublish.NEVER, p.now)
    assert p.ad("slot1")["Fine"] == 1
    assert not [name for name in p.ad("slot1") if "Dev" in name]
    assert "ignoring UptimeDevSeconds, which is not a number" in caplog.text


def test_metrics_of_the_configuration(caplog: pytest.LogCaptureFixture) -> None:
    assert parse_metrics("SUM:Dev, peak:DevMemory AVG:x SUM: :y") == ([SUM, PEAK], ["AVG:x", "SUM:", ":y"])
    knobs = configured(
        STARTD_CRON_JOBLIST="mon", STARTD_CRON_mon_EXECUTABLE="/bin/mon", STARTD_CRON_mon_PERIOD="2s",
        STARTD_CRON_mon_METRICS="SUM:Dev, PEAK:DevMemory, AVG:Dev",
    )  # fmt: skip
    assert jobs.read(knobs).jobs[0].metrics == (SUM, PEAK)
    assert "ignoring AVG:Dev in STARTD_CRON_mon_METRICS" in caplog.text


def test_several_devices_of_a_job_are_one() -> None:
    one, other = Monitor(), Monitor()
    for monitor, used in ((one, 1.0), (other, 3.0)):
        monitor.take({SUM: used, PEAK: used}, 10)
        monitor.job_begins()
        for at in (12, 14, 16):
            monitor.take({SUM: used, PEAK: used}, at)
    assert of_job([one, other]) == {"DevMemoryUsage": 3.0, "DevAverageUsage": 12 / 6}
