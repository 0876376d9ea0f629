"""WANT_HOLD is judged when PREEMPT fires, and the verdict lasts until the job has gone.

Each policy was given to HTCondor 25.14, too; what it did with the job stands beside the expectation.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.daemon.step_file import StepFile
from slotwise.startd.host.outbox import Kill
from slotwise.startd.journal import Journal
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.replay import Recorder, replayed
from slotwise.startd.slot.states import Cause
from slotwise.table import unpack_ads

from tests.support.owner_days import Days, Owner, days

COMMON = "NUM_SLOTS = 1\nPOLLING_INTERVAL = 1\nMACHINEMAXVACATETIME = 1\n"
#: The manual's own form: suspend first, preempt what has been suspended for too long.
AFTER_SUSPENSION = (
    "WANT_SUSPEND = true\nSUSPEND = true\nCONTINUE = false\n"
    'PREEMPT = (Activity == "Suspended") && (time() - EnteredCurrentActivity) > 3\n'
    'WANT_HOLD = true\nWANT_HOLD_REASON = "the owner wants it"\nWANT_HOLD_SUBCODE = 77\n'
)
#: True for an instant, with time left to retire.
TRANSIENT = (
    "MAXJOBRETIREMENTTIME = 60\n"
    'PREEMPT = Activity == "Busy" && (time() - EnteredCurrentActivity) > 3\n'
    'WANT_HOLD = true\nWANT_HOLD_REASON = strcat("seen while ", Activity)\nWANT_HOLD_SUBCODE = 77\n'
)


def run_until_asked_to_go(tmp_path: Path, text: str) -> Days:
    it = days(tmp_path, COMMON + text, Owner())
    it.poll_s = 1
    it.run("slot1")
    deadline = it.hours + 0.1
    while not it.kills and it.hours < deadline:
        it.until(it.hours + 1e-6)
    return it


def cause_of_end(tmp_path: Path, text: str) -> Cause:
    return run_until_asked_to_go(tmp_path, text).kills[0].cause


def verdict(cause: Cause) -> tuple[bool, int, str]:
    return cause.hold, cause.subcode, cause.reason


def test_a_preempt_that_is_true_of_suspended_jobs_only_holds(tmp_path: Path) -> None:
    # HTCondor: JobStatus 5, HoldReasonCode 21, HoldReasonSubCode 77
    assert verdict(cause_of_end(tmp_path, AFTER_SUSPENSION)) == (True, 77, "the owner wants it")


def test_a_preempt_that_was_true_before_retirement_holds_after_it(tmp_path: Path) -> None:
    # HTCondor: JobStatus 5, 21, 77; the reason is that of the moment at which PREEMPT fired
    assert verdict(cause_of_end(tmp_path, TRANSIENT)) == (True, 77, "seen while Busy")


def test_a_want_hold_that_was_true_when_preempt_fired_stays_true(tmp_path: Path) -> None:
    # HTCondor looks at WANT_HOLD after retirement only, and starts this job again, for ever
    text = TRANSIENT.replace("WANT_HOLD = true", 'WANT_HOLD = Activity == "Busy"')
    assert verdict(cause_of_end(tmp_path, text)) == (True, 77, "seen while Busy")


def test_a_want_hold_that_turns_true_in_retirement_holds(tmp_path: Path) -> None:
    # HTCondor: held, as it looks at WANT_HOLD when retirement is over
    text = TRANSIENT.replace("WANT_HOLD = true", 'WANT_HOLD = Activity == "Retiring"')
    assert verdict(cause_of_end(tmp_path, text)) == (True, 77, "seen while Retiring")


def test_the_reason_when_none_is_given_is_the_expression(tmp_path: Path) -> None:
    text = AFTER_SUSPENSION.replace("WANT_HOLD = true", "WANT_HOLD = (MY.SlotID=?=1) && TIME()>0")
    text = text.replace('"the owner wants it"', "undefined").replace("77", "undefined")
    assert verdict(cause_of_end(tmp_path, text)) == (
        True,
        0,
        "The startd put this job on hold.  (At preemption time, WANT_HOLD evaluated to true: "
        "WANT_HOLD = (MY.SlotID =?= 1) && TIME() > 0)",
    )


def test_without_want_hold_the_job_is_evicted(tmp_path: Path) -> None:
    cause = cause_of_end(tmp_path, TRANSIENT.replace("WANT_HOLD = true", "WANT_HOLD = false"))
    assert (cause.hold, cause.code, cause.subcode) == (False, 1011, 0)


@pytest.mark.parametrize("command", ["vacate", "vacate -fast", "off"])
def test_a_command_during_retirement_does_not_take_the_hold_back(tmp_path: Path, command: str) -> None:
    it = days(tmp_path, COMMON + TRANSIENT, Owner())
    it.poll_s = 1
    it.run("slot1")
    it.until(0.003)
    assert it.place("slot1") == "Claimed/Retiring"
    events: dict[str, ev.SlotEvent] = {
        "vacate": ev.VacateCommanded(),
        "vacate -fast": ev.VacateCommanded(fast=True),
        "off": ev.ShutdownBegun("graceful"),
    }
    stimulus = events[command]
    it.it.apply(it["slot1"], stimulus, it.now)
    it.kills += it.told(Kill)
    it.until(0.03)
    assert verdict(it.kills[0].cause) == (True, 77, "seen while Busy")


def test_the_schedd_that_takes_its_job_back_is_not_told_to_hold_it(tmp_path: Path) -> None:
    it = days(tmp_path, COMMON + TRANSIENT, Owner())
    it.poll_s = 1
    it.run("slot1")
    it.until(0.003)
    it.it.apply(it["slot1"], ev.Released(), it.now)
    assert [kill.cause.hold for kill in it.told(Kill)] == [False]


def test_a_want_hold_that_turns_true_while_vacating_holds_the_job_that_must_be_killed(tmp_path: Path) -> None:
    # HTCondor looks again when it goes from Vacating to Killing
    text = (
        "MACHINEMAXVACATETIME = 20\n"
        'PREEMPT = Activity == "Busy" && (time() - EnteredCurrentActivity) > 3\n'
        'WANT_HOLD = Activity == "Vacating"\nWANT_HOLD_SUBCODE = 5\n'
    )
    it = run_until_asked_to_go(tmp_path, text)
    it.until(it.hours + 0.02)
    assert [(kill.fast, kill.cause.hold, kill.cause.subcode) for kill in it.kills] == [
        (False, False, 0),
        (True, True, 5),
    ]


def test_the_verdict_outlives_the_startd(tmp_path: Path) -> None:
    it = days(tmp_path, COMMON + TRANSIENT, Owner())
    it.poll_s = 1
    it.run("slot1")
    it.until(0.003)
    assert it.place("slot1") == "Claimed/Retiring"
    journal = Journal(tmp_path / "j")
    journal.save(it.it.slots, [])
    later = days(tmp_path, COMMON + TRANSIENT, Owner())
    later.poll_s, later.now = 1, it.now
    assert later.it.restore(journal.load(), unpack_ads, later.now) == []
    later.until(0.03)
    assert verdict(later.kills[0].cause) == (True, 77, "seen while Busy")


def test_the_steps_can_be_replayed(tmp_path: Path) -> None:
    it = days(tmp_path, COMMON + TRANSIENT, Owner())
    it.poll_s = 1
    it.it.transitions.step = Recorder(StepFile(tmp_path / "steps", 1_000_000).append).step
    it.run("slot1")
    it.until(0.03)
    steps = [replayed(line) for line in (tmp_path / "steps").read_text().splitlines()]
    assert it.kills[0].cause.hold and steps and all(taken.same for taken in steps)


def test_the_log_says_that_want_hold_was_true(tmp_path: Path) -> None:
    it = days(tmp_path, COMMON + AFTER_SUSPENSION, Owner())
    it.poll_s = 1
    it.run("slot1")
    for _ in range(8):
        it.poll(1)
    lines = [str(entry) for entry in it.it.outbox.transitions]
    assert any(line.endswith("WANT_HOLD: the owner wants it (code 21, subcode 77)") for line in lines), lines
