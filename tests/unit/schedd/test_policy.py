"""Periodic and exit policies: order, undefined values, codes."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.model.reason_codes import ends_in_hold
from slotwise.schedd.jobs.ads import plain
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.policy import expressions
from slotwise.schedd.policy.expressions import JobState, SystemPolicy


def facts(status: int = Status.IDLE, now: float = 1000.0, **attributes: Any) -> JobState:
    extra = {name: attributes.pop(name) for name in list(attributes) if name[0].islower()}
    ad = ClassAd(attributes)
    return JobState(
        status=status,
        now=now,
        evaluate=lambda name: plain(ad.eval(name)),
        evaluate_text=lambda text: plain(ExprTree(text).eval(ad)),
        **extra,
    )


NONE = SystemPolicy()


def decide(given: JobState, system: SystemPolicy = NONE) -> tuple[str, int] | None:
    verdict = expressions.periodic(given, system)
    return (verdict.act, verdict.code) if verdict else None


def test_nothing_fires_without_policies_or_when_undefined() -> None:
    assert decide(facts()) is None
    assert decide(facts(PeriodicHold=ExprTree("Nothing > 3"), PeriodicRemove=ExprTree("1/0"))) is None


def test_hold_comes_before_remove_and_has_the_jobs_reason() -> None:
    verdict = expressions.periodic(
        facts(PeriodicHold=True, PeriodicRemove=True, PeriodicHoldReason="mine", PeriodicHoldSubCode=9), NONE
    )
    assert verdict is not None
    assert (verdict.act, verdict.reason, verdict.code, verdict.subcode) == ("hold", "mine", 3, 9)


@pytest.mark.parametrize(("code", "fires"), [(1, False), (3, True), (21, True), (34, True)])
def test_release_never_fires_for_a_users_hold(code: int, fires: bool) -> None:
    decided = decide(facts(Status.HELD, PeriodicRelease=True, hold_code=code))
    assert decided == (("release", 0) if fires else None)


def test_release_stops_at_the_systems_bound() -> None:
    system = SystemPolicy(max_releases=2)
    assert decide(facts(Status.HELD, PeriodicRelease=True, hold_code=3, NumHolds=1), system) == ("release", 0)
    assert decide(facts(Status.HELD, PeriodicRelease=True, hold_code=3, NumHolds=2), system) is None


def test_durations_hold_running_jobs_only() -> None:
    late = {"AllowedJobDuration": 10, "shadow_started": 985.0}
    assert decide(facts(Status.RUNNING, **late)) == ("hold", 46)
    assert decide(facts(Status.IDLE, **late)) is None
    executing = {"AllowedExecuteDuration": 10, "execution_started": 985.0}
    assert decide(facts(Status.RUNNING, **executing)) == ("hold", 47)
    assert decide(facts(Status.RUNNING, **executing, last_checkpoint=995.0)) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "00:01"), (75, "01:15"), (600, "10:00"), (3600, "1:00:00"), (90061, "1+01:01:01")]
)
def test_durations_in_reasons_are_worded_as_in_htcondor(seconds: int, text: str) -> None:
    executing = facts(Status.RUNNING, now=1e6, AllowedExecuteDuration=seconds, execution_started=1.0)
    verdict = expressions.periodic(executing, NONE)
    assert verdict is not None and verdict.reason == f"The job exceeded allowed execute duration of {text}"


def test_vacate_and_timer_remove() -> None:
    assert decide(facts(Status.RUNNING, PeriodicVacate=True)) == ("vacate", 1000)
    assert decide(facts(Status.IDLE, PeriodicVacate=True)) is None
    assert decide(facts(TimerRemove=999)) == ("remove", 0)
    assert decide(facts(TimerRemove=1001)) is None


def test_the_jobs_expression_is_tested_before_the_systems() -> None:
    system = SystemPolicy(hold=(("SYSTEM_PERIODIC_HOLD", "Big > 5", '"too big"', "4"),))
    assert decide(facts(Big=6), system) == ("hold", 26)
    assert decide(facts(Big=6, PeriodicHold=True), system) == ("hold", 3)
    verdict = expressions.periodic(facts(Big=6), system)
    assert verdict is not None and (verdict.reason, verdict.subcode) == ("too big", 4)


@pytest.mark.parametrize(
    ("attributes", "act"),
    [
        ({}, "complete"),
        ({"OnExitRemove": True}, "complete"),
        ({"OnExitRemove": False}, "requeue"),
        ({"OnExitRemove": 0}, "requeue"),
        ({"OnExitRemove": ExprTree("Nothing")}, "complete"),
        ({"OnExitRemove": ExprTree("1/0")}, "complete"),
        ({"OnExitHold": True, "OnExitRemove": False}, "hold"),
        ({"OnExitHold": ExprTree("ExitCode == 3"), "ExitCode": 3}, "hold"),
    ],
)
def test_at_exit(attributes: dict[str, Any], act: str) -> None:
    ad = ClassAd({"ExitBySignal": False, **attributes})
    assert expressions.at_exit(lambda name: plain(ad.eval(name)), lambda name: "").act == act


@pytest.mark.parametrize(
    ("attributes", "act"),
    [
        ({}, "complete"),
        ({"OnExitRemove": False}, "requeue"),
        # What would otherwise run again at once, until the next pass over the queue:
        ({"OnExitRemove": False, "PeriodicRemove": True}, "remove"),
        ({"OnExitRemove": False, "TimerRemove": 999}, "remove"),
        ({"OnExitRemove": True, "PeriodicRemove": True}, "remove"),
        ({"OnExitRemove": False, "PeriodicHold": ExprTree("NumShadowStarts >= 2"), "NumShadowStarts": 2}, "hold"),
        ({"OnExitRemove": False, "PeriodicHold": ExprTree("NumShadowStarts >= 2"), "NumShadowStarts": 1}, "requeue"),
        ({"OnExitRemove": True, "PeriodicHold": True}, "hold"),
        ({"OnExitRemove": False, "PeriodicVacate": True}, "requeue"),
        ({"OnExitRemove": True, "AllowedJobDuration": 10, "shadow_started": 985.0}, "hold"),
        ({"OnExitRemove": True, "AllowedJobDuration": 10, "shadow_started": 995.0}, "complete"),
    ],
)
def test_periodic_policies_decide_before_those_for_the_exit(attributes: dict[str, Any], act: str) -> None:
    assert expressions.after_run(facts(Status.RUNNING, ExitBySignal=False, **attributes), NONE).act == act


def test_at_exit_without_a_word_how_it_ended_holds() -> None:
    verdict = expressions.at_exit(lambda name: None, lambda name: "")
    assert (verdict.act, verdict.code) == ("hold", 5)


@pytest.mark.parametrize(
    ("code", "subcode", "holds"),
    [
        (0, 0, False),
        (-1, 0, False),
        (1, 0, True),
        (999, 0, True),
        (1000, 0, False),
        (12, -999, True),
        (12, -1000, False),
    ],
)
def test_codes_tell_holds_from_vacates(code: int, subcode: int, holds: bool) -> None:
    assert ends_in_hold(code, subcode) is holds
