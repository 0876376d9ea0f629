//! Group quotas over a whole cycle.

mod support;

use negotiator::outcome::GroupReport;
use support::{Case, Seen};

fn group<'s>(seen: &'s Seen, name: &str) -> &'s GroupReport {
    seen.outcome
        .groups
        .iter()
        .find(|g| g.name == name)
        .expect("a group")
}

fn two(quota_a: &str, quota_b: &str) -> Case {
    Case::new()
        .slots("s", 100, "")
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_QUOTA_a", quota_a)
        .knob("GROUP_QUOTA_b", quota_b)
}

#[test]
fn a_quota_caps_its_group() {
    let seen = two("20", "30").jobs("a.u", 50, "").run();
    assert_got!(seen, "a.u": 20);
    assert_eq!(
        (group(&seen, "a").quota, group(&seen, "<none>").quota),
        (20.0, 50.0)
    );
}

#[test]
fn what_a_group_leaves_goes_to_who_accepts_it() {
    let case = two("20", "30").jobs("a.u", 90, "");
    assert_got!(case.clone().knob("GROUP_ACCEPT_SURPLUS_a", "True").run(), "a.u": 90);
    assert_got!(case.jobs("z", 60, "").run(), "a.u": 20, "z": 60);
}

#[test]
fn dynamic_quotas_are_parts_of_the_pool() {
    let case = Case::new()
        .slots("s", 100, "")
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_ACCEPT_SURPLUS", "True");
    let case = case
        .knob("GROUP_QUOTA_DYNAMIC_a", "0.5")
        .knob("GROUP_QUOTA_DYNAMIC_b", "0.5");
    assert_got!(case.jobs("a.u", 90, "").jobs("b.v", 20, "").run(), "a.u": 80, "b.v": 20);
}

#[test]
fn oversubscribed_quotas_are_served_in_order() {
    let case = two("80", "80").jobs("a.u", 90, "").jobs("b.v", 90, "");
    let seen = case.clone().run();
    assert_eq!(seen.total(), 100);
    assert_eq!(
        (group(&seen, "a").quota, group(&seen, "<none>").quota),
        (80.0, 0.0)
    );
    assert_got!(case.knob("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", "False").run(), "a.u": 50, "b.v": 50);
}

#[test]
fn the_most_starved_group_is_served_first() {
    let case = two("50", "50")
        .jobs("a.u", 90, "")
        .jobs("b.v", 90, "")
        .claimed("h", 40, "a.u", "");
    let seen = case.knob("NEGOTIATOR_CONSIDER_PREEMPTION", "False").run();
    assert_got!(seen, "a.u": 10, "b.v": 50);
    assert_eq!(
        seen.demand.submitters
            [seen.demand.requests[seen.outcome.matches[0].request as usize].submitter]
            .name,
        "b.v@d"
    );
}

#[test]
fn an_order_of_groups_can_be_set() {
    let case = two("60", "60").jobs("a.u", 90, "").jobs("b.v", 90, "");
    let seen = case
        .knob(
            "GROUP_SORT_EXPR",
            "ifThenElse(AccountingGroup == \"b\", 1, 2)",
        )
        .run();
    assert_got!(seen, "b.v": 60, "a.u": 40);
}

#[test]
fn children_live_within_their_parent() {
    let case = Case::new()
        .slots("s", 100, "")
        .knob("GROUP_NAMES", "a, a.x, a.y")
        .knob("GROUP_QUOTA_a", "60");
    let case = case
        .knob("GROUP_QUOTA_DYNAMIC_a.x", "0.5")
        .knob("GROUP_QUOTA_DYNAMIC_a.y", "0.25");
    let case = case
        .jobs("a.x.u", 90, "")
        .jobs("a.y.v", 90, "")
        .jobs("a.w", 90, "");
    let seen = case
        .clone()
        .knob("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", "False")
        .run();
    assert_got!(seen, "a.x.u": 30, "a.y.v": 15, "a.w": 15);
    // Oversubscribed, the parent is served first and leaves its children nothing.
    assert_got!(case.run(), "a.w": 60, "a.x.u": 0, "a.y.v": 0);
}

#[test]
fn autoregroup_lets_a_group_eat_with_the_root() {
    let case = two("20", "30").jobs("a.u", 50, "");
    assert_got!(case.knob("GROUP_AUTOREGROUP_a", "True").run(), "a.u": 50);
}

#[test]
fn unknown_groups_fall_to_their_nearest_ancestor() {
    let seen = two("20", "30")
        .jobs("a.deep.u", 50, "")
        .jobs("zzz.v", 10, "")
        .run();
    assert_got!(seen, "a.deep.u": 20, "zzz.v": 10);
}

#[test]
fn usage_counts_against_the_quota() {
    let case = two("20", "30")
        .claimed("h", 15, "a.u", "")
        .jobs("a.u", 50, "");
    let seen = case.run();
    assert_got!(seen, "a.u": 5);
    assert_eq!(group(&seen, "a").usage, 20.0);
}

#[test]
fn taking_turns_gives_every_group_its_quota() {
    let case = Case::new()
        .slots("s", 20, "")
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_QUOTA_a", "10")
        .knob("GROUP_QUOTA_b", "10");
    let seen = case
        .jobs("a.u", 50, "")
        .jobs("b.v", 50, "")
        .knob("GROUP_QUOTA_ROUND_ROBIN_RATE", "2")
        .run();
    assert_got!(seen, "a.u": 10, "b.v": 10);
}

#[test]
fn what_one_group_cannot_match_is_offered_again() {
    let case = Case::new()
        .slots("s", 40, "")
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_QUOTA_a", "20")
        .knob("GROUP_QUOTA_b", "20");
    let case = case
        .jobs("a.u", 50, "Requirements = TARGET.Memory > 5000")
        .jobs("b.v", 50, "");
    let seen = case.knob("GROUP_ACCEPT_SURPLUS_b", "True").run();
    assert_got!(seen, "a.u": 0, "b.v": 40);
    assert_eq!(seen.outcome.statistics.rounds, 2);
}

#[test]
fn factors_of_groups_apply_to_their_submitters() {
    let case = two("50", "50")
        .knob("GROUP_PRIO_FACTOR_a", "10")
        .jobs("a.u", 1, "")
        .jobs("b.v", 1, "");
    let seen = case.run();
    let factor = |name: &str| {
        seen.outcome
            .submitters
            .iter()
            .find(|s| s.name == name)
            .map(|s| s.factor)
    };
    assert_eq!(
        (factor("a.u@d"), factor("b.v@d")),
        (Some(10.0), Some(1000.0))
    );
}

#[test]
fn groups_are_seen_by_policy() {
    let case = two("20", "30").jobs("a.u", 5, "").jobs("b.v", 5, "");
    let mut picky = Case::new().slots(
        "s",
        100,
        "Requirements = TARGET.SubmitterGroup == \"a\" && TARGET.SubmitterGroupQuota == 20",
    );
    std::mem::swap(&mut picky.jobs, &mut case.clone().jobs);
    let seen = picky
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_QUOTA_a", "20")
        .knob("GROUP_QUOTA_b", "30")
        .run();
    assert_got!(seen, "a.u": 5, "b.v": 0);
}

#[test]
fn orphans_are_reported() {
    let seen = Case::new()
        .slots("s", 4, "")
        .knob("GROUP_NAMES", "x.y")
        .jobs("u", 1, "")
        .run();
    assert_eq!(seen.outcome.warnings.len(), 1);
}
