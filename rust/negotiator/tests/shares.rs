//! Shares, limits, order of service and preemption: each rule of the negotiator as a small pool.

mod support;

use negotiator::outcome::PreemptionKind::{Priority, Rank};
use support::Case;

#[test]
fn half_the_factor_is_twice_the_slots() {
    let case = Case::new()
        .slots("a", 31, "")
        .jobs("u", 50, "")
        .jobs("v", 50, "")
        .priority("u", 5.0, 1000.0)
        .priority("v", 5.0, 2000.0);
    let seen = case.run();
    assert_got!(seen, "u": 20, "v": 10);
    assert_eq!(seen.reasons("u"), ["submitter limit exceeded"]);
}

#[test]
fn whole_limits_are_used_to_the_last_slot() {
    let case = Case::new()
        .slots("a", 40, "")
        .jobs("u", 50, "")
        .jobs("v", 50, "");
    assert_got!(case.priority("u", 0.5, 1000.0).priority("v", 0.5, 3000.0).run(), "u": 30, "v": 10);
}

#[test]
fn nothing_moves_when_preemption_requirements_are_false() {
    let case = Case::new()
        .claimed("a", 30, "v", "")
        .jobs("u", 50, "")
        .jobs("v", 50, "");
    let case = case.priority("u", 0.5, 1000.0).priority("v", 0.5, 2000.0);
    let seen = case.run();
    assert_eq!(seen.total(), 0);
    assert_eq!(seen.reasons("u"), ["PREEMPTION_REQUIREMENTS == False"]);
    assert_eq!(
        seen.reasons("v"),
        Vec::<String>::new(),
        "its limit is used up; nobody asked for it"
    );
}

#[test]
fn the_better_user_preempts_up_to_its_slice() {
    let case = Case::new()
        .claimed("a", 31, "v", "")
        .jobs("u", 50, "")
        .jobs("v", 50, "");
    let case = case.priority("u", 0.5, 1000.0).priority("v", 0.5, 2000.0);
    let seen = case
        .knob(
            "PREEMPTION_REQUIREMENTS",
            "RemoteUserPrio > SubmitterUserPrio",
        )
        .run();
    assert_got!(seen, "u": 20, "v": 0);
    assert_eq!(seen.preempted(Priority), 20);
}

#[test]
fn slices_under_a_slot_get_one_slot_a_spin() {
    let mut case = Case::new().slots("a", 3, "");
    for user in ["a", "b", "c", "d", "e", "f"] {
        case = case.jobs(user, 5, "");
    }
    let seen = case.run();
    assert_eq!(seen.total(), 3);
    assert_got!(seen, "a": 1, "b": 1, "c": 1, "d": 0);
}

#[test]
fn unused_slices_are_spun_again() {
    let seen = Case::new()
        .slots("a", 30, "")
        .jobs("u", 5, "")
        .jobs("v", 100, "")
        .run();
    assert_got!(seen, "u": 5, "v": 25);
}

#[test]
fn weights_are_what_is_shared() {
    let case = Case::new()
        .slots("big", 5, "Cpus = 4")
        .slots("small", 21, "");
    let seen = case.jobs("u", 100, "").jobs("v", 100, "").run();
    assert!((seen.cost("u") - 20.0).abs() <= 4.0, "{}", seen.cost("u"));
    let unweighted = Case::new()
        .slots("big", 5, "Cpus = 4")
        .slots("small", 21, "")
        .jobs("u", 100, "")
        .jobs("v", 100, "");
    let seen = unweighted
        .knob("NEGOTIATOR_USE_SLOT_WEIGHTS", "False")
        .run();
    assert_got!(seen, "u": 13, "v": 13);
}

#[test]
fn a_ceiling_may_be_passed_by_one_slot() {
    let case = Case::new()
        .slots("a", 10, "Cpus = 4")
        .jobs("u", 10, "")
        .account("u", |r| r.ceiling = Some(10));
    assert_eq!(case.run().cost("u"), 12.0);
    let seen = Case::new()
        .slots("a", 10, "")
        .jobs("u", 10, "")
        .account("u", |r| r.ceiling = Some(0))
        .run();
    assert_eq!(seen.total(), 0);
}

#[test]
fn those_below_their_floor_are_served_first() {
    let case = Case::new()
        .slots("a", 11, "")
        .jobs("good", 20, "")
        .jobs("poor", 20, "")
        .priority("good", 0.5, 1000.0);
    let case = case.priority("poor", 0.5, 10000.0);
    assert_got!(case.clone().run(), "good": 10, "poor": 1);
    let floor = case.account("poor", |r| r.floor = 5);
    assert_got!(floor.run(), "poor": 5, "good": 6);
}

#[test]
fn rank_preemption_ignores_the_limit() {
    let busy = "Rank = (TARGET.Vip =?= true) * 10.0";
    let case = Case::new()
        .claimed("a", 6, "v", busy)
        .jobs("u", 10, "Vip = true")
        .jobs("v", 1, "");
    // u holds nothing, but its slice is small.
    let case = case.priority("u", 0.5, 1e9).priority("v", 0.5, 1.0);
    let seen = case.run();
    assert_got!(seen, "u": 6);
    assert_eq!(seen.preempted(Rank), 6);
}

#[test]
fn equal_rank_of_the_same_user_is_never_preempted() {
    let case = Case::new()
        .claimed("a", 6, "u", "")
        .jobs("u", 10, "")
        .knob("PREEMPTION_REQUIREMENTS", "True");
    let seen = case.run();
    assert_eq!(seen.total(), 0);
}

#[test]
fn a_slot_that_prefers_its_job_is_not_preempted_for_priority() {
    let case = Case::new()
        .claimed("a", 6, "v", "CurrentRank = 5.0")
        .jobs("u", 10, "");
    let seen = case.knob("PREEMPTION_REQUIREMENTS", "True").run();
    assert_eq!(seen.total(), 0);
    assert_eq!(seen.reasons("u"), ["no match found"]);
    assert_eq!(seen.outcome.rejections[0].slots.prefer_running, 6);
}

#[test]
fn a_waiting_preempter_is_the_one_to_beat() {
    let waiting = "PreemptingUser = \"w@d\"; PreemptingRank = 9.0; Rank = 5.0";
    let seen = Case::new()
        .claimed("a", 2, "v", waiting)
        .jobs("u", 2, "")
        .run();
    assert_eq!(seen.total(), 0);
    let seen = Case::new()
        .claimed("a", 2, "v", "Rank = 5.0")
        .jobs("u", 2, "")
        .run();
    assert_eq!(seen.preempted(Rank), 2);
}
