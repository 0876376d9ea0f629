"""Sentences of the manual's policy chapters that no other test follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ExprTree
from slotwise.startd.fingerprint import load
from slotwise.startd.fingerprint.x_input import XProbe
from slotwise.startd.host.outbox import Kill, Refused
from slotwise.startd.monitor import sampler
from slotwise.startd.settings import filler_wanted
from slotwise.startd.slot import events as ev

from tests.support.configured import configured
from tests.support.startd_point import job, point


def test_retirement_drops_when_an_important_job_waits() -> None:
    """The example with PreemptingRank: 3600 s, but nothing once a job of rank 600 or more waits."""
    text = "3600 * (MY.PreemptingRank =?= UNDEFINED || PreemptingRank < 600)"
    host = point(NUM_SLOTS="1", RANK="JobPrio", MAXJOBRETIREMENTTIME=text)
    host.run("slot1", wanted=job(JobPrio=0))
    host.request("slot1", job(JobPrio=500))
    assert host.place("slot1") == "Claimed/Retiring"
    host.request("slot1", job(JobPrio=600), schedd="other")
    assert host.place("slot1") == "Preempting/Vacating"


@pytest.mark.parametrize("state, after", [("short", "Preempting/Vacating"), ("long", "Claimed/Retiring")])
def test_a_job_may_give_up_retirement_by_an_expression(state: str, after: str) -> None:
    """It is evaluated in the context of both ads, again and again while the job runs."""
    asked = job(Stage=state, MaxJobRetirementTime=ExprTree('ifThenElse(Stage == "short", TARGET.Cpus - 1, 2000)'))
    host = point(NUM_SLOTS="4", MAXJOBRETIREMENTTIME="1000", MACHINEMAXVACATETIME="10", PREEMPT="time() > 1000060")
    host.run("slot1", wanted=asked)
    host.poll(after=61)
    assert host.place("slot1") == after


def test_a_job_that_changes_its_mind_is_heard() -> None:
    asked = job(MaxJobRetirementTime=ExprTree("ifThenElse(MemoryUsage > 100, 0, 900)"), MemoryUsage=10)
    host = point(NUM_SLOTS="1", MAXJOBRETIREMENTTIME="1000", PREEMPT="time() > 1000010")
    host.run("slot1", wanted=asked)
    host.poll(after=11)
    assert host.place("slot1") == "Claimed/Retiring"
    asked.ad["MemoryUsage"] = 200
    host.poll(after=1)
    assert host.place("slot1") == "Preempting/Vacating"


def test_nice_users_have_no_retirement_unless_they_say_so() -> None:
    for said, after in ((None, "Preempting/Vacating"), (5000, "Claimed/Retiring")):
        host = point(NUM_SLOTS="1", MAXJOBRETIREMENTTIME="3600", PREEMPT="time() > 1000010")
        host.run("slot1", wanted=job(NiceUser=True, MaxJobRetirementTime=said))
        host.poll(after=11)
        assert host.place("slot1") == after


def test_a_starter_that_does_not_end_its_job_is_told_to_kill_all_when_the_time_is_over() -> None:
    """KILLING_TIMEOUT: SIGKILL for everything that is left of the job, again and again until it has gone."""
    host = point(NUM_SLOTS="1", KILLING_TIMEOUT="7", WANT_VACATE="False", PREEMPT="time() > 1000010")
    host.run("slot1")
    host.poll(after=11)
    assert host.place("slot1") == "Preempting/Killing"
    (first,) = host.told(Kill)
    assert first.fast
    host.forget()
    host.poll(after=6)
    assert not host.told(Kill)
    host.poll(after=1)
    (second,) = host.told(Kill)
    assert "everything that is left" in second.cause.reason
    host.gone()
    assert host.place("slot1") == "Unclaimed/Idle"


def test_is_owner_by_its_former_name() -> None:
    """The chapter of 6.8: IsOwner, optimized for a shared resource."""
    text = 'KeyboardIdle > 900 {} Owner == "coltrane"'
    for operator, state in (("&&", "Owner/Idle"), ("||", "Unclaimed/Idle")):
        host = point(NUM_SLOTS="1", START=text.format(operator), IsOwner="START =?= False", IS_OWNER="False")
        host.it.settings.sample.keyboard = (34, 34)
        host.poll()
        assert host.place("slot1") == state


def test_a_match_that_comes_to_nothing_gives_the_slot_back() -> None:
    """The schedd tries to claim, and there is some error: Owner, and from there Unclaimed at once."""
    host = point(NUM_SLOTS="1")
    old = host["slot1"].ids.current
    host.apply("slot1", ev.MatchNoticed())
    assert host.place("slot1") == "Matched/Idle"
    assert isinstance(host.request("slot1", job(RequestMemory=999_999)), Refused)
    assert host.place("slot1") == "Unclaimed/Idle"
    assert host.request_id(old).code == 1034


@pytest.mark.parametrize(
    "knobs, wanted",
    [
        ({"ENABLE_BACKFILL": "TRUE", "BACKFILL_SYSTEM": "BOINC", "BOINC_Executable": "/bin/x"}, True),
        ({"ENABLE_BACKFILL": "TRUE", "BACKFILL_SYSTEM": "boinc", "BOINC_Executable": "/bin/x"}, True),
        ({"ENABLE_BACKFILL": "TRUE", "BACKFILL_SYSTEM": "SETI", "BOINC_Executable": "/bin/x"}, False),
        ({"ENABLE_BACKFILL": "TRUE", "BOINC_Executable": "/bin/x"}, False),
        ({"ENABLE_BACKFILL": "TRUE", "BACKFILL_SYSTEM": "BOINC"}, False),
        ({"BACKFILL_SYSTEM": "BOINC", "BOINC_Executable": "/bin/x"}, False),
    ],
)
def test_filler_work_needs_a_system_and_a_program(knobs: dict[str, Any], wanted: bool) -> None:
    assert filler_wanted(configured(**knobs)) is wanted


def test_running_benchmarks_are_our_own_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CondorLoadAvg: the portion of the load from jobs or from running benchmarks."""
    monkeypatch.setattr(load, "read", lambda: {"TotalLoadAvg": 1.25})
    host = point(NUM_SLOTS="2", RunBenchmarks="Cpus > 0")
    assert host.place("slot1") == host.place("slot2") == "Unclaimed/Benchmarking"
    sampler.HostSampler(tmp_path, XProbe({}), host.now).sample(host.it.host, host.knobs, host.now)
    loads = host.it.settings.sample.loads
    assert loads["slot1@host"] == (1.25, 1.0)
    assert loads["slot2@host"] == (0.0, 0.0)
