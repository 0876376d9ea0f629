//! What jobs are told that wait without having been considered to their end.

mod support;

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
