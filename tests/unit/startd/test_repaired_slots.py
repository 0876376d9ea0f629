"""Slots whose leavings could be removed after all."""

from __future__ import annotations

import pytest
from slotwise.startd.publish.daemon_ad import daemon_attributes

from tests.support.startd_point import Point, job, point


def broken_by(host: Point, code: int = 4, local: str = "slot1") -> None:
    host.run(local, "1.0#1", job(RequestCpus=2))
    host.gone("1.0#1", broken="it stays", code=code)


@pytest.mark.parametrize("code", [4, 5])
def test_amounts_that_were_lost_come_back(code: int) -> None:
    host = point()
    broken_by(host, code)
    assert (host.ad("slot1")["BrokenSlotCpus"], host.ad("slot1")["Cpus"]) == (2, 2)
    host.forget()
    host.it.broken_slots.repaired("1.0#1", host.now)
    host.it.validate()
    assert "BrokenSlotCpus" not in host.ad("slot1")
    assert (host.ad("slot1")["Cpus"], host.ad("slot1")["TotalSlotCpus"]) == (4, 4)
    assert "BrokenReasons" not in daemon_attributes(host.it, host.now)
    assert "slot1@host" in host.it.outbox.dirty
    host.claim(wanted=job(RequestCpus=4))


def test_processes_that_cannot_be_killed_are_not_repaired_by_that() -> None:
    host = point()
    broken_by(host, code=6)
    host.it.broken_slots.repaired("1.0#1", host.now)
    assert host.ad("slot1")["BrokenSlotCpus"] == 2


def test_another_runs_leavings_stay() -> None:
    host = point()
    broken_by(host)
    host.it.broken_slots.repaired("2.0#1", host.now)
    assert host.ad("slot1")["BrokenSlotCpus"] == 2


def test_a_static_slot_takes_jobs_again() -> None:
    host = point(NUM_SLOTS="2")
    host.run("slot1", "1.0#1")
    host.gone("1.0#1", broken="it stays", code=4)
    assert host.ad("slot1")["SlotBrokenCode"] == 4
    host.it.broken_slots.repaired("1.0#1", host.now)
    assert "SlotBrokenCode" not in host.ad("slot1")
    assert host.place("slot1") == "Unclaimed/Idle"
    host.claim("slot1")


def test_a_broken_dynamic_slot_that_stayed_goes_at_last() -> None:
    host = point(CONTINUE_TO_ADVERTISE_BROKEN_DYNAMIC_SLOTS="true")
    broken_by(host)
    assert host.has("slot1_1")
    host.it.broken_slots.repaired("1.0#1", host.now)
    host.it.validate()
    assert not host.has("slot1_1")
    assert host.ad("slot1")["Cpus"] == 4
