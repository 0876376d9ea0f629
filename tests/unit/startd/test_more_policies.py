"""More of the manual's policies, event by event: mixed pools, limits on usage, interactive jobs, work hours."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.startd.host.outbox import Granted, Refused
from slotwise.startd.slot.events import Released

from tests.support.owner_days import MONDAY, Days, Owner, days
from tests.support.startd_point import job
from tests.unit.startd.test_policies import keeps_a_job_waiting


def test_uwcs_desktop(tmp_path: Path) -> None:
    """Two days: a morning at the keyboard, a short return, a program of the owner, an hour of typing on Tuesday."""
    owner = Owner(typing=((9, 9 + 20 / 60), (13, 13 + 4 / 60), (33, 34)), computing=((15, 15.5),))
    d = days(tmp_path, "use POLICY : UWCS_Desktop\nNUM_SLOTS = 1\n", owner)
    d.until(48, lambda: keeps_a_job_waiting(d, ImageSize=1000))
    assert d.events == [
        "Mon 00:00 slot1 Unclaimed/Idle",
        "Mon 00:00 slot1 Claimed/Busy",
        "Mon 09:00 slot1 Claimed/Suspended",
        "Mon 09:10 slot1 Preempting/Vacating",
        "Mon 09:20 slot1 Owner/Idle",
        "Mon 09:35 slot1 Unclaimed/Idle",
        "Mon 09:35 slot1 Claimed/Busy",
        "Mon 13:00 slot1 Claimed/Suspended",
        "Mon 13:09 slot1 Claimed/Busy",
        "Mon 15:02 slot1 Claimed/Suspended",  # two minutes of load
        "Mon 15:13 slot1 Preempting/Vacating",
        "Mon 15:23 slot1 Owner/Idle",
        "Mon 15:30 slot1 Unclaimed/Idle",
        "Mon 15:30 slot1 Claimed/Busy",
        "Tue 09:00 slot1 Claimed/Suspended",
        "Tue 09:10 slot1 Preempting/Vacating",
        "Tue 09:20 slot1 Owner/Idle",  # the owner is still typing
        "Tue 10:15 slot1 Unclaimed/Idle",
        "Tue 10:15 slot1 Claimed/Busy",
    ]


MIXED = r"""NUM_SLOTS = 1
STARTD_ATTRS = IsDesktop
MINUTE = 60
ActivityTimer = (time() - EnteredCurrentActivity)
ActivationTimer = (time() - JobStart)
NonCondorLoadAvg = (LoadAvg - CondorLoadAvg)
StartIdleTime = 15 * $(MINUTE)
ContinueIdleTime = 5 * $(MINUTE)
MaxSuspendTime = 10 * $(MINUTE)
KeyboardBusy = (KeyboardIdle < $(MINUTE))
CPUIdle = ($(NonCondorLoadAvg) <= 0.3)
SmallJob = (TARGET.ImageSize < (15 * 1024))
JustCpu = (($(KeyboardBusy)) == False)
IsVanilla = (TARGET.JobUniverse == 5)
START = ( ($(CPUIdle) || (State != "Unclaimed" && State != "Owner")) \
  && (IsDesktop =!= True || (KeyboardIdle > $(StartIdleTime))) )
WANT_SUSPEND = ( $(SmallJob) || $(JustCpu) || $(IsVanilla) )
WANT_VACATE = ( $(ActivationTimer) > 10 * $(MINUTE) || $(IsVanilla) )
SUSPEND = ( ((CpuBusyTime > 2 * $(MINUTE)) && ($(ActivationTimer) > 90)) \
  || ( IsDesktop =?= True && $(KeyboardBusy) ) )
CONTINUE = ( $(CPUIdle) && ($(ActivityTimer) > 300) \
  && (IsDesktop =!= True || (KeyboardIdle > $(ContinueIdleTime))) )
PREEMPT = ( ((Activity == "Suspended") && ($(ActivityTimer) > $(MaxSuspendTime))) \
  || (SUSPEND && (WANT_SUSPEND == False)) )
MAXJOBRETIREMENTTIME = (IsDesktop =!= True) * 0
MachineMaxVacateTime = 10 * $(MINUTE)
KILL = False
"""
#: Types in the morning and briefly at one; computes half an hour at three and six minutes at five.
OFFICE_DAY = Owner(typing=((9, 9 + 20 / 60), (13, 13 + 4 / 60)), computing=((15, 15.5), (17, 17.1)))
AFTER_COMPUTING = [
    "Mon 15:02 slot1 Claimed/Suspended",
    "Mon 15:13 slot1 Preempting/Vacating",
    "Mon 15:23 slot1 Unclaimed/Idle",  # not willing (START), but this policy keeps no machine in Owner
    "Mon 15:30 slot1 Claimed/Busy",
    "Mon 17:02 slot1 Claimed/Suspended",
    "Mon 17:08 slot1 Claimed/Busy",  # suspended for more than five minutes, and the load has gone
]


def test_one_policy_for_a_mixed_pool_on_a_desktop(tmp_path: Path) -> None:
    d = days(tmp_path, MIXED + "IsDesktop = True\n", OFFICE_DAY)
    d.until(24, lambda: keeps_a_job_waiting(d, ImageSize=1000))
    assert d.events[1:] == [
        "Mon 00:00 slot1 Claimed/Busy",
        "Mon 09:00 slot1 Claimed/Suspended",
        "Mon 09:10 slot1 Preempting/Vacating",
        "Mon 09:20 slot1 Unclaimed/Idle",
        "Mon 09:35 slot1 Claimed/Busy",
        "Mon 13:00 slot1 Claimed/Suspended",
        "Mon 13:09 slot1 Claimed/Busy",
        *AFTER_COMPUTING,
    ]


def test_one_policy_for_a_mixed_pool_on_a_dedicated_machine(tmp_path: Path) -> None:
    """The keyboard does not matter; load does."""
    d = days(tmp_path, MIXED, OFFICE_DAY)
    d.until(24, lambda: keeps_a_job_waiting(d, ImageSize=1000))
    assert d.events[1:] == ["Mon 00:00 slot1 Claimed/Busy", *AFTER_COMPUTING]


WORK_HOURS = """NUM_SLOTS = 1
WorkHours = ( (ClockMin >= 480 && ClockMin < 1020) && (ClockDay > 0 && ClockDay < 6) )
AfterHours = ( (ClockMin < 480 || ClockMin >= 1020) || (ClockDay == 0 || ClockDay == 6) )
MachineBusy = ( $(WorkHours) || ((LoadAvg - CondorLoadAvg) >= 0.5) || (KeyboardIdle < 60) )
START = $(AfterHours)
WANT_SUSPEND = True
SUSPEND = $(MachineBusy)
CONTINUE = ($(MachineBusy)) == False
"""


def test_work_hours_with_suspension(tmp_path: Path) -> None:
    """One job lives through the week: frozen in work hours, and whenever the owner comes in after them."""
    d = days(tmp_path, WORK_HOURS, Owner(typing=((19, 19.5), (5 * 24 + 10, 5 * 24 + 11)), computing=((20, 20.5),)))
    d.until(7 * 24, lambda: keeps_a_job_waiting(d))
    frozen = {day: [f"{day} 08:00 slot1 Claimed/Suspended", f"{day} 17:00 slot1 Claimed/Busy"] for day in WEEK}
    assert d.events[2:] == [
        *frozen["Mon"],
        "Mon 19:00 slot1 Claimed/Suspended",
        "Mon 19:31 slot1 Claimed/Busy",
        "Mon 20:00 slot1 Claimed/Suspended",
        "Mon 20:30 slot1 Claimed/Busy",
        *(event for day in WEEK[1:] for event in frozen[day]),
        "Sat 10:00 slot1 Claimed/Suspended",
        "Sat 11:01 slot1 Claimed/Busy",
    ]
    assert not d.kills


WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri")

#: The four kinds: what a job must use to exceed its slot (1 core, 128 MiB, 1,000,000 KiB), subcode of the hold.
EXCESS: dict[str, tuple[dict[str, float], int]] = {
    "Cpus_Exceeded": ({"CpusUsage": 1.9}, 101),
    "Memory_Exceeded": ({"MemoryUsage": 129}, 102),
    "Runtime_Exceeds(3600)": ({}, 103),
    "Disk_Exceeded": ({"DiskUsage": 1_000_001}, 104),
}
WITHIN = {"CpusUsage": 1.7, "MemoryUsage": 128, "DiskUsage": 1_000_000}


def limited(tmp_path: Path, policy: str, usage: dict[str, float]) -> Days:
    """A machine that promises days of retirement, and a job that exceeds after an hour, for ten minutes."""
    text = f"NUM_CPUS = 1\nNUM_SLOTS = 1\nMEMORY = 128\nMaxJobRetirementTime = 360000\nuse POLICY : {policy}\n"
    d = days(tmp_path, text, Owner())
    d.run("slot1", "1.0#1", job(JobStatus=2, JobState="Running", JobCurrentStartDate=int(MONDAY)))
    d.use("slot1", **WITHIN)
    d.until(1)
    d.use("slot1", **usage)
    d.until(2)
    return d


@pytest.mark.parametrize("kind", EXCESS)
def test_a_job_over_its_limit_is_held_whatever_retirement_was_promised(tmp_path: Path, kind: str) -> None:
    usage, subcode = EXCESS[kind]
    d = limited(tmp_path, f"Hold_If_{kind}", usage)
    assert [event[4:] for event in d.events[1:]] == [
        "00:00 slot1 Claimed/Busy",
        "01:00 slot1 Preempting/Vacating",
        "01:10 slot1 Unclaimed/Idle",
    ]
    assert [(kill.fast, kill.cause.hold, kill.cause.subcode) for kill in d.kills] == [
        (False, True, subcode),
        (True, True, subcode),
    ]
    assert "exceeded" in d.kills[0].cause.reason


@pytest.mark.parametrize("kind", EXCESS)
def test_a_job_over_its_limit_is_preempted_and_not_held(tmp_path: Path, kind: str) -> None:
    d = limited(tmp_path, f"Preempt_If_{kind}", EXCESS[kind][0])
    assert [event[4:] for event in d.events[1:]] == [
        "00:00 slot1 Claimed/Busy",
        "01:00 slot1 Preempting/Vacating",
        "01:10 slot1 Unclaimed/Idle",
    ]
    assert [(kill.cause.hold, kill.cause.code) for kill in d.kills] == [(False, 1011)] * 2


@pytest.mark.parametrize("policy", ["Hold_If_Cpus_Exceeded", "Hold_If_Memory_Exceeded", "Hold_If_Disk_Exceeded"])
def test_a_job_at_its_limit_stays(tmp_path: Path, policy: str) -> None:
    d = limited(tmp_path, policy, WITHIN)
    assert d.events[-1] == "Mon 00:00 slot1 Claimed/Busy" and not d.kills


def test_a_slot_that_prefers_interactive_jobs(tmp_path: Path) -> None:
    """The interactive job takes slot 1 from a batch job, never the other way round; slot 2 prefers nobody."""
    text = "NUM_CPUS = 2\nNUM_SLOTS = 2\nRANK = ( (MY.SlotID == 1) && (TARGET.InteractiveJob =?= True) )\n"
    text += "MachineMaxVacateTime = 300\n"
    d = days(tmp_path, text, Owner())
    d.run("slot1", "1.0#1")
    d.run("slot2", "2.0#1")
    d.until(1)
    interactive = job(InteractiveJob=True)
    assert d.request("slot1", interactive) is None  # accepted, and waits
    d.until(1.5)
    claim = d["slot1"].slot.claim
    assert claim is not None and claim.rank == 1.0
    d.activate(claim.claim_id, "3.0#1", interactive)
    d.until(2)
    assert isinstance(d.request("slot1", job()), Refused)
    d.until(3)
    assert [event for event in d.events if "slot1" in event] == [
        "Mon 00:00 slot1 Unclaimed/Idle",
        "Mon 00:00 slot1 Claimed/Busy",
        "Mon 01:00 slot1 Preempting/Vacating",
        "Mon 01:05 slot1 Claimed/Idle",
        "Mon 01:30 slot1 Claimed/Busy",
    ]
    assert d.place("slot2") == "Claimed/Busy"


def test_a_slot_reserved_for_interactive_jobs(tmp_path: Path) -> None:
    text = "NUM_CPUS = 2\nNUM_SLOTS = 2\nSTART = ( (MY.SlotID == 1) && (TARGET.InteractiveJob =?= True) )\n"
    d = days(tmp_path, text, Owner())
    d.until(1)
    assert isinstance(d.request("slot1", job()), Refused)
    assert isinstance(d.request("slot2", job(InteractiveJob=True)), Refused)  # as the manual writes it
    granted = d.request("slot1", job(InteractiveJob=True))
    assert isinstance(granted, Granted)
    d.activate(granted.slots[0][0], "1.0#1", job(InteractiveJob=True))
    d.until(2)
    d.gone("1.0#1")
    d.it.apply(d["slot1"], Released(), d.now)
    d.until(3)
    assert [event for event in d.events if "slot1" in event] == [
        "Mon 00:00 slot1 Unclaimed/Idle",
        "Mon 01:00 slot1 Claimed/Busy",
        "Mon 02:00 slot1 Unclaimed/Idle",
    ]
