"""START_VANILLA_UNIVERSE over jobs, slots, users and the schedd."""

from __future__ import annotations

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.policy.start import StartPolicy, owner_ad

JOB = ClassAd('[RequestMemory = 200; Owner = "ann"; ClusterId = 1; Requirements = TARGET.Cpus > 1]')
SMALL, LARGE = ClassAd("[Memory = 50; Cpus = 2]"), ClassAd("[Memory = 500; Cpus = 2]")


def schedd() -> ClassAd:
    return ClassAd("[TotalIdleJobs = 9]")


def owner() -> ClassAd:
    """One idle, four running (one of them suspended, one transferring its output), two held."""
    return owner_ad("ann@dom", [0, 1, 2, 0, 0, 2, 1, 1])


def may(text: str, slot: ClassAd | None = None) -> bool:
    return StartPolicy(ExprTree(text)).may_start(JOB, schedd, owner, slot)


@pytest.mark.parametrize(
    "text",
    [
        "JOB.RequestMemory == 200",
        "TARGET.RequestMemory == 200",
        "SCHEDD.TotalIdleJobs == 9",
        "MY.TotalIdleJobs == 9",
        'OWNER.name == "ann@dom" && OWNER.JobsRunning == 4 && OWNER.JobsIdle == 1 && OWNER.JobsHeld == 2',
        'TARGET.Owner == "ann"',
        "1",
    ],
)
def test_each_ad_has_its_scope(text: str) -> None:
    assert may(text) and may(text, SMALL)


@pytest.mark.parametrize("text", ["JOB.NoSuchThing", "Unheard", "undefined", "error", '"yes"', "0"])
def test_only_what_is_true_lets_a_job_start(text: str) -> None:
    assert not may(text) and not may(text, LARGE)


def test_what_depends_on_the_slot_is_judged_by_slot() -> None:
    text = "SLOT.Memory > JOB.RequestMemory"
    assert may(text), "some slot may do"
    assert may(text, LARGE) and not may(text, SMALL)
    assert not may("JOB.RequestMemory < 100 && SLOT.Memory > 5"), "no slot would do"


def test_the_request_asks_for_slots_that_will_do() -> None:
    text = 'SLOT.Memory > 100 * OWNER.JobsHeld && MY.TotalIdleJobs > 3 && "SLOT.x" != JOB.Owner'
    request = JOB.copy()
    StartPolicy(ExprTree(text)).constrain(request, schedd, owner)
    assert request["Owner"] == "ann"
    found = [request.lookup("Requirements").eval(request, slot) for slot in (SMALL, LARGE)]
    assert found == [False, True]
    untouched = JOB.copy()
    StartPolicy(ExprTree("OWNER.JobsRunning < 9")).constrain(untouched, schedd, owner)
    assert untouched == JOB


def test_without_an_expression_all_jobs_start() -> None:
    assert StartPolicy(None).may_start(JOB, schedd, owner, SMALL)
