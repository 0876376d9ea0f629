"""The manual's policies through days of owner activity, event by event."""

from __future__ import annotations

from pathlib import Path

from slotwise.startd.host.outbox import Granted, Refused
from slotwise.startd.slot.events import Released

from tests.support.owner_days import MONDAY, Days, Owner, days
from tests.support.startd_point import job


def keeps_a_job_waiting(d: Days, slot: str = "slot1", **attributes: object) -> None:
    """A schedd that always has one more job for the slot."""
    number = getattr(d, "jobs", 0)
    if d.place(slot) == "Unclaimed/Idle":
        wanted = job(**attributes)
        granted = d.request(slot, wanted)
        if isinstance(granted, Granted):
            d.jobs = number + 1  # type: ignore[attr-defined]
            d.activate(granted.slots[0][0], f"{number + 1}.0#1", wanted)


def test_the_default_policy_lets_jobs_run_whatever_the_owner_does(tmp_path: Path) -> None:
    d = days(tmp_path, "NUM_SLOTS = 1\n", Owner(typing=((9, 17),), computing=((10, 11),)))
    d.until(48, lambda: keeps_a_job_waiting(d))
    assert d.events == ["Mon 00:00 slot1 Unclaimed/Idle", "Mon 00:00 slot1 Claimed/Busy"]


def test_desktop(tmp_path: Path) -> None:
    """Types from 9:00 to 9:20; comes back at 13:00 for four minutes."""
    owner = Owner(typing=((9, 9 + 20 / 60), (13, 13 + 4 / 60)))
    d = days(tmp_path, "use POLICY : Desktop\nNUM_SLOTS = 1\n", owner)
    d.until(24, lambda: keeps_a_job_waiting(d, ImageSize=1000))
    assert d.events == [
        "Mon 00:00 slot1 Unclaimed/Idle",
        "Mon 00:00 slot1 Claimed/Busy",
        "Mon 09:00 slot1 Claimed/Suspended",  # a key
        "Mon 09:10 slot1 Preempting/Vacating",  # suspended for more than ten minutes
        "Mon 09:20 slot1 Owner/Idle",  # the vacate time is over; the owner has been typing
        "Mon 09:35 slot1 Unclaimed/Idle",  # idle for fifteen minutes
        "Mon 09:35 slot1 Claimed/Busy",
        "Mon 13:00 slot1 Claimed/Suspended",
        "Mon 13:09 slot1 Claimed/Busy",  # idle for five minutes
    ]


def test_desktop_minds_programs_of_the_owner(tmp_path: Path) -> None:
    owner = Owner(computing=((10, 11),))
    d = days(tmp_path, "use POLICY : Desktop\nNUM_SLOTS = 1\n", owner)
    d.until(12, lambda: keeps_a_job_waiting(d, ImageSize=1000))
    assert d.events[1:] == [
        "Mon 00:00 slot1 Claimed/Busy",
        "Mon 10:02 slot1 Claimed/Suspended",  # two minutes of load
        "Mon 10:13 slot1 Preempting/Vacating",
        "Mon 10:23 slot1 Owner/Idle",
        "Mon 11:00 slot1 Unclaimed/Idle",
        "Mon 11:00 slot1 Claimed/Busy",
    ]


def test_a_test_job_runs_on_a_desktop_in_use(tmp_path: Path) -> None:
    text = """use POLICY : Desktop
NUM_SLOTS = 1
IS_OWNER = False
START = ($(START)) || TARGET.Owner == "coltrane"
SUSPEND = ($(SUSPEND)) && TARGET.Owner != "coltrane"
PREEMPT = ($(PREEMPT)) && TARGET.Owner != "coltrane"
"""
    d = days(tmp_path, text, Owner(typing=((0, 24),)))
    d.until(1)
    assert isinstance(d.request(wanted=job(Owner="tyner")), Refused)
    d.until(20, lambda: keeps_a_job_waiting(d, Owner="coltrane", ImageSize=1000))
    assert [event.split(" ", 2)[2] for event in d.events] == ["slot1 Unclaimed/Idle", "slot1 Claimed/Busy"]


WORK_HOURS = """NUM_SLOTS = 1
WorkHours = ( (ClockMin >= 480 && ClockMin < 1020) && (ClockDay > 0 && ClockDay < 6) )
AfterHours = ( (ClockMin < 480 || ClockMin >= 1020) || (ClockDay == 0 || ClockDay == 6) )
START = $(AfterHours)
IS_OWNER = START =?= False
PREEMPT = $(WorkHours)
MachineMaxVacateTime = 60
"""


def test_time_of_day(tmp_path: Path) -> None:
    d = days(tmp_path, WORK_HOURS, Owner())
    d.poll_s = 60
    d.until(7 * 24, lambda: keeps_a_job_waiting(d))
    week = []
    for day in ("Mon", "Tue", "Wed", "Thu", "Fri"):
        week += [
            f"{day} 08:00 slot1 Preempting/Vacating",
            f"{day} 08:01 slot1 Owner/Idle",
            f"{day} 17:00 slot1 Unclaimed/Idle",
            f"{day} 17:00 slot1 Claimed/Busy",
        ]
    assert d.events[2:] == week


def test_one_slot_suspends_another(tmp_path: Path) -> None:
    """The manual's suspendable slots: slot 2 is frozen while slot 1 works."""
    text = """NUM_CPUS = 2
NUM_SLOTS = 2
IsSuspendableSlot = SlotID > 1
NonSuspendableSlotState = eval(strcat("slot", SlotID - 1, "_State"))
STARTD_SLOT_ATTRS = State
STARTD_ATTRS = IsSuspendableSlot NonSuspendableSlotState
MyNonSuspendableSlotIsIdle = (NonSuspendableSlotState =!= "Claimed" && NonSuspendableSlotState =!= "Preempting")
START = (IsSuspendableSlot != True && TARGET.IsSuspendableJob =!= True) || \\
        (IsSuspendableSlot && TARGET.IsSuspendableJob == True && $(MyNonSuspendableSlotIsIdle))
SUSPEND = IsSuspendableSlot && ($(MyNonSuspendableSlotIsIdle)) != True
WANT_SUSPEND = $(SUSPEND)
CONTINUE = ($(SUSPEND)) != True
"""
    d = days(tmp_path, text, Owner())
    d.until(1)
    d.run("slot2", "2.0#1", job(IsSuspendableJob=True))
    d.until(2)
    d.run("slot1", "1.0#1")
    d.until(3)
    d.gone("1.0#1")
    d.it.apply(d["slot1"], Released(), d.now)
    d.until(4)
    assert [event for event in d.events if "slot2" in event] == [
        "Mon 00:00 slot2 Unclaimed/Idle",
        "Mon 01:00 slot2 Claimed/Busy",
        "Mon 02:00 slot2 Claimed/Suspended",
        "Mon 03:00 slot2 Claimed/Busy",
    ]


def test_runtime_limits(tmp_path: Path) -> None:
    d = days(tmp_path, "use POLICY : Limit_Job_Runtimes(3600)\nNUM_SLOTS = 1\n", Owner())
    d.run("slot1")
    d.until(3)
    assert d.events == [
        "Mon 00:00 slot1 Unclaimed/Idle",
        "Mon 00:00 slot1 Claimed/Busy",
        "Mon 01:00 slot1 Preempting/Vacating",  # what is left of retirement is no longer than vacating takes
        "Mon 01:10 slot1 Unclaimed/Idle",
    ]


def test_desktop_idle_evicts_without_suspension(tmp_path: Path) -> None:
    d = days(tmp_path, "use POLICY : Desktop_Idle\nNUM_SLOTS = 1\n", Owner(typing=((9, 9.25),)))
    d.until(12, lambda: keeps_a_job_waiting(d))
    assert d.events[2:] == [
        "Mon 09:00 slot1 Preempting/Vacating",
        "Mon 09:10 slot1 Owner/Idle",
        "Mon 09:30 slot1 Unclaimed/Idle",  # fifteen minutes after the last key
        "Mon 09:30 slot1 Claimed/Busy",
    ]


def test_desktop_hours(tmp_path: Path) -> None:
    """No start in the last half hour before eight, eviction ten minutes before, jobs again after five."""
    d = days(tmp_path, "use POLICY : Desktop_Hours\nNUM_SLOTS = 1\n", Owner())
    d.until(24, lambda: keeps_a_job_waiting(d))
    assert d.events[2:] == [
        "Mon 07:51 slot1 Preempting/Vacating",
        "Mon 08:01 slot1 Owner/Idle",
        "Mon 17:01 slot1 Unclaimed/Idle",
        "Mon 17:01 slot1 Claimed/Busy",
    ]


def test_a_job_over_its_time_goes_even_with_retirement_left(tmp_path: Path) -> None:
    text = "use POLICY : Preempt_If_Runtime_Exceeds(7200)\nNUM_SLOTS = 1\nMachineMaxVacateTime = 60\n"
    d = days(tmp_path, text, Owner())
    wanted = job(JobState="Running", JobCurrentStartDate=int(MONDAY))
    d.run("slot1", "1.0#1", wanted)
    d.until(3)
    assert d.events[1:3] == ["Mon 00:00 slot1 Claimed/Busy", "Mon 02:00 slot1 Preempting/Vacating"]


def test_a_desktop_that_is_never_left_alone_runs_nothing(tmp_path: Path) -> None:
    d = days(tmp_path, "use POLICY : Desktop\nNUM_SLOTS = 1\n", Owner(typing=((0, 48),)))
    d.until(48, lambda: keeps_a_job_waiting(d))
    assert d.events[-1].endswith("Owner/Idle") and not any("Claimed" in event for event in d.events)


def test_static_slots_that_are_not_connected_never_see_the_keyboard(tmp_path: Path) -> None:
    text = "use POLICY : Desktop\nNUM_CPUS = 2\nNUM_SLOTS = 2\n"
    text += "SLOTS_CONNECTED_TO_KEYBOARD = 1\nSLOTS_CONNECTED_TO_CONSOLE = 1\n"
    d = days(tmp_path, text, Owner(typing=((1, 2),)))
    d.sample()
    sample = d.it.settings.sample
    d.it.settings.sample = type(sample)(sample.machine, sample.loads, (5, 5000), (5, 5000))
    assert (d.ad("slot1")["KeyboardIdle"], d.ad("slot2")["KeyboardIdle"]) == (5, 5000)


def test_a_latch_keeps_its_date_when_only_measurements_are_brought_up_to_date(tmp_path: Path) -> None:
    d = days(tmp_path, "use POLICY : Desktop\nNUM_SLOTS = 1\n", Owner(computing=((1, 2),)))
    d.until(1.01)
    since = d["slot1"].latches["CpuBusy"]
    d.now += 30
    d.sample()
    sample = d.it.settings.sample
    d.it.settings.sample = type(sample)({**sample.machine, "CpuBusyTime": 66}, sample.loads, sample.keyboard)
    d.it.ads.refresh(d["slot1"], d.now)
    assert since[0] == 1 and d["slot1"].ad["CpuBusyTime"] == since[1]
