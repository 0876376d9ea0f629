"""What the startd's log says of its slots."""

from __future__ import annotations

from slotwise.startd.slot import events as ev

from tests.support.startd_point import Point, job, point


def said(p: Point, *, ordinary: bool = False) -> list[str]:
    lines = [str(entry) for entry in p.it.outbox.transitions if entry.routine is ordinary]
    p.forget()
    return lines


def test_a_claim_and_its_jobs_are_told_with_their_user_and_runs() -> None:
    p = point(NUM_SLOTS="1")
    p.poll()
    assert said(p) == ["slot1@host: Owner/Idle -> Unclaimed/Idle: IS_OWNER is no longer true"]
    claim_id = p.claim()
    assert said(p) == ["slot1@host: Unclaimed/Idle -> Claimed/Idle: claimed by ann@test from schedd"]
    p.activate(claim_id)
    p.gone()
    assert said(p) == [
        "slot1@host (job 1.0): Claimed/Idle -> Claimed/Busy: activated for ann@test (run 1.0#1)",
        "slot1@host (job 1.0): Claimed/Busy -> Claimed/Idle: the job ended (run 1.0#1)",
    ]
    p.it.claims.apply(claim_id, 0, ev.Released(reason="no more jobs", code=1009), p.now)
    assert said(p) == ["slot1@host: Claimed/Idle -> Unclaimed/Idle: no more jobs (code 1009)"]


def test_what_happens_to_a_job_is_told_with_the_cause() -> None:
    p = point(
        NUM_SLOTS="1", WANT_SUSPEND="Activity == \"Busy\"", SUSPEND="TimeIsUp =?= true", CONTINUE="false",
        PREEMPT='Activity == "Suspended" && TimeIsUp =?= 2', MAXJOBRETIREMENTTIME="1000", MACHINEMAXVACATETIME="10",
    )  # fmt: skip
    p.poll()
    p.run()
    p.forget()
    p.it.ads.added["TimeIsUp"] = True
    p.poll(5)
    assert said(p) == ["slot1@host (job 1.0): Claimed/Busy -> Claimed/Suspended: WANT_SUSPEND and SUSPEND are true"]
    p.it.ads.added["TimeIsUp"] = 2
    p.poll(5)
    assert said(p) == [
        "slot1@host (job 1.0): Claimed/Suspended -> Claimed/Retiring: PREEMPT expression evaluated to True (code 1011)"
    ]
    p.apply("slot1", ev.VacateCommanded(fast=True))
    assert said(p) == [
        "slot1@host (job 1.0): Claimed/Retiring -> Preempting/Killing: "
        "An administrator asked the job to leave (code 1010)"
    ]


def test_a_suspension_by_command_is_told_apart() -> None:
    p = point(NUM_SLOTS="1")
    p.poll()
    p.run()
    p.forget()
    p.apply("slot1", ev.SuspendCommanded())
    assert said(p) == ["slot1@host (job 1.0): Claimed/Busy -> Claimed/Suspended: suspended by command"]


def test_a_later_job_of_a_claim_is_named_by_its_own_id() -> None:
    p = point(NUM_SLOTS="1")
    p.poll()
    claim_id = p.run()
    p.gone()
    p.forget()
    p.activate(claim_id, "2.3#1", job(ClusterId=2, ProcId=3))
    assert said(p) == ["slot1@host (job 2.3): Claimed/Idle -> Claimed/Busy: activated for ann@test (run 2.3#1)"]
