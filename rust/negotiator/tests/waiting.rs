//! What jobs are told that wait without having been considered to their end.

mod support;

use negotiator::{Memory, Stopped, Traversal};
use support::Case;

#[test]
fn a_ceiling_is_named() {
    let case = Case::new()
        .slots("s", 9, "")
        .jobs("u", 4, "")
        .jobs("v", 2, "");
    let seen = case.account("u", |r| r.ceiling = Some(3)).run();
    assert_got!(seen, "u": 3, "v": 2);
    assert_eq!(seen.waits("u"), ["submitter ceiling reached"]);
    assert_eq!(seen.waits("v"), Vec::<&str>::new());
    let case = Case::new().slots("s", 9, "").jobs("u", 4, "");
    let seen = case.account("u", |r| r.ceiling = Some(0)).run();
    assert_eq!(seen.waits("u"), ["submitter ceiling reached"]);
}

#[test]
fn a_group_quota_is_named() {
    let case = Case::new()
        .slots("s", 9, "")
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_QUOTA_a", "3")
        .knob("GROUP_QUOTA_b", "0")
        .jobs("a.u", 5, "")
        .jobs("b.v", 5, "");
    let seen = case.run();
    assert_eq!(seen.total(), 3);
    for user in ["a.u", "b.v"] {
        assert_eq!(seen.waits(user), ["group quota exceeded"], "{user}");
    }
}

#[test]
fn a_time_limit_is_named() {
    let case = Case::new().slots("s", 20, "").jobs("u", 20, "");
    let seen = case.knob("NEGOTIATOR_MAX_TIME_PER_CYCLE", "0").run();
    assert_eq!(seen.total(), 0);
    assert_eq!(seen.waits("u"), ["negotiation out of time"]);
}

#[test]
fn a_full_pool_is_no_limit() {
    let case = Case::new().claimed("s", 8, "u", "").jobs("u", 20, "");
    let seen = case.run();
    assert_eq!(seen.total(), 0);
    assert_eq!(seen.waits("u"), ["no match found"]);
}

#[test]
fn everybody_who_waits_is_told_something() {
    let case = Case::new()
        .slots("s", 10, "")
        .claimed("t", 10, "v", "")
        .jobs("u", 50, "")
        .jobs("v", 50, "")
        .jobs("w", 50, "Requirements = false");
    let seen = case.run();
    for user in ["u", "v", "w"] {
        let told = seen.reasons(user).len() + seen.waits(user).len();
        assert_eq!(told, 1, "{user}");
    }
}

/// `D1 = TARGET.Memory; D2 = D1 + D1; ...`: an evaluation of the last takes two to the power of `levels` steps.
fn doubling(levels: usize) -> String {
    let steps = (2..=levels).map(|at| format!("D{at} = D{} + D{}; ", at - 1, at - 1));
    format!(
        "D1 = TARGET.Memory; {}Requirements = D{levels} > 0",
        steps.collect::<String>()
    )
}

#[test]
fn who_asks_too_much_of_the_evaluator_is_told_and_skipped() {
    let mut case = Case::new();
    for at in 0..40 {
        case = case.slots(&format!("s{at}"), 1, &format!("Memory = {}", 2000 + at));
    }
    let case = case
        .jobs("eve", 5, &doubling(17))
        .jobs("eve", 5, "")
        .jobs("ann", 10, "");
    for traversal in [Traversal::ByClass, Traversal::Sorted] {
        let mut memory = Memory {
            traversal,
            ..Memory::default()
        };
        let seen = case.run_with(&mut memory, &Stopped);
        assert_got!(seen, "ann": 10);
        assert_eq!(
            seen.reasons("eve"),
            ["its expressions take too long to evaluate"]
        );
        assert_eq!(
            seen.waits("eve"),
            ["its submitter's expressions take too long to evaluate"]
        );
    }
    // What has the room for it is served.
    let seen = case
        .knob("SLOTWISE_NEGOTIATOR_STEPS_PER_SLOT", "1000000")
        .run();
    assert_eq!(seen.total(), 20);
}
