//! Corners of the rules that are easily got wrong.

mod support;

use negotiator::Dependencies;
use negotiator::outcome::PreemptionKind::{Priority, Rank};
use negotiator::request::significant_attributes;
use support::{Case, Seen};

fn share(seen: &Seen, user: &str) -> Option<f64> {
    let of = |name: &str| name == format!("{user}@d");
    let found = seen.outcome.submitters.iter().find(|s| of(&s.name));
    found.and_then(|s| s.share)
}

#[test]
fn jobs_kept_back_by_a_constraint_still_count_in_the_shares() {
    let case = Case::new().slots("a", 10, "").jobs("u", 10, "");
    let seen = case
        .jobs("v", 10, "Test = true")
        .knob("NEGOTIATOR_JOB_CONSTRAINT", "Test =!= true")
        .run();
    assert_got!(seen, "u": 10, "v": 0);
    assert_eq!(share(&seen, "v"), Some(0.5));
}

#[test]
fn a_group_that_is_ignored_regroups_nobody() {
    let case = Case::new()
        .slots("s", 10, "")
        .knob("GROUP_NAMES", "a, b.x")
        .knob("GROUP_QUOTA_a", "4")
        .knob("GROUP_AUTOREGROUP_b.x", "True");
    let seen = case.jobs("a.u", 10, "").run();
    assert_got!(seen, "a.u": 4);
    assert_eq!(seen.outcome.groups[0].quota, 6.0);
}

#[test]
fn siblings_stand_level_by_level_under_their_parents() {
    let names = "a-b, a, a.y, a-b.x";
    let seen = Case::new()
        .slots("s", 1, "")
        .knob("GROUP_NAMES", names)
        .jobs("u", 1, "")
        .run();
    let order: Vec<&str> = seen
        .outcome
        .groups
        .iter()
        .map(|g| g.name.as_str())
        .collect();
    assert_eq!(order, ["<none>", "a", "a-b", "a.y", "a-b.x"]);
}

#[test]
fn a_weight_that_is_no_number_is_the_negotiators_own() {
    let case = Case::new()
        .slots("a", 3, "Cpus = 4; SlotWeight = NoSuch")
        .jobs("u", 3, "");
    assert_eq!(case.clone().run().cost("u"), 12.0);
    assert_eq!(case.knob("SLOT_WEIGHT", "Cpus * 2").run().cost("u"), 24.0);
}

#[test]
fn suspended_claims_hold_their_licences_though_nobody_is_charged() {
    let held = "Activity = \"Suspended\"; ConcurrencyLimits = \"lic\"";
    let case = Case::new()
        .claimed("h", 1, "v", held)
        .slots("a", 3, "")
        .knob("LIC_LIMIT", "2");
    let case = case.knob("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES", "True");
    assert_got!(case.jobs("u", 3, "ConcurrencyLimits = \"lic\"").run(), "u": 1);
}

#[test]
fn limits_worked_out_without_a_slot_are_as_good_as_written() {
    let case = Case::new().slots("a", 3, "").knob("LIC_LIMIT", "1");
    let seen = case
        .jobs("u", 3, "ConcurrencyLimits = strcat(\"L\", \"ic\")")
        .run();
    assert_eq!(
        (seen.got("u"), seen.reasons("u")),
        (1, vec!["concurrency limit: lic".to_owned()])
    );
}

#[test]
fn a_slot_that_takes_several_matches_goes_once_to_like_jobs() {
    let case = Case::new()
        .slots(
            "ghost",
            1,
            "WantAdRevaluate = true; WantClaiming = false; GhostMultiplier = 10",
        )
        .jobs("u", 5, "")
        .jobs("u", 5, "Requirements = TARGET.Memory > 1000000")
        .jobs("u", 5, "Requirements = TARGET.NoSuch")
        .jobs(
            "u",
            5,
            "RequestMemory = 101; Requirements = TARGET.Memory > RequestMemory",
        );
    let seen = case.run();
    assert_got!(seen, "u": 2);
}

#[test]
fn a_slot_that_is_claimed_goes_once() {
    let case = Case::new()
        .slots("counted", 1, "WantAdRevaluate = true; GhostMultiplier = 10")
        .jobs("u", 5, "")
        .jobs("v", 5, "");
    assert_eq!(case.run().total(), 1);
}

#[test]
fn a_slot_can_count_its_matches() {
    let counting = "WantAdRevaluate = true; WantClaiming = false; GhostMultiplier = 10; Requirements = (CurMatches ?: 0) < 2";
    let mut case = Case::new().slots("ghost", 1, counting);
    for memory in 1..5 {
        let more =
            format!("RequestMemory = {memory}; Requirements = TARGET.Memory > RequestMemory");
        case = case.jobs("u", 1, &more);
    }
    assert_got!(case.run(), "u": 2);
}

#[test]
fn only_true_itself_permits_preemption_and_no_condition_forbids_none() {
    let case = Case::new().claimed("a", 4, "v", "").jobs("u", 4, "");
    assert_eq!(
        case.clone()
            .knob("PREEMPTION_REQUIREMENTS", "1")
            .run()
            .total(),
        0
    );
    let seen = case.knob("PREEMPTION_REQUIREMENTS", "").run();
    assert_eq!(seen.preempted(Priority), 4);
}

#[test]
fn a_rank_set_to_nothing_orders_nothing() {
    let case = Case::new()
        .slots("big", 1, "Cpus = 2")
        .slots("small", 1, "");
    let case = case.jobs("u", 2, "").knob("NEGOTIATOR_PRE_JOB_RANK", "");
    assert_eq!(case.run().slots, ["slot1@big", "slot1@small"]);
}

#[test]
fn a_consumption_policy_is_charged_by_weight_even_where_slots_are_not() {
    let policy = "SlotWeight = Memory / 1000; ConsumptionCpus = TARGET.RequestCpus; \
                  ConsumptionMemory = TARGET.RequestMemory; ConsumptionDisk = TARGET.RequestDisk";
    let case = Case::new()
        .machine("m", 4, policy)
        .jobs("u", 1, "RequestMemory = 3000");
    let seen = case.knob("NEGOTIATOR_USE_SLOT_WEIGHTS", "False").run();
    assert_eq!(seen.cost("u"), 3.0);
}

#[test]
fn preemption_that_is_not_stable_sees_what_was_matched_so_far() {
    let unstable = |case: Case| {
        case.knob("PREEMPTION_REQUIREMENTS_STABLE", "False").knob(
            "PREEMPTION_REQUIREMENTS",
            "SubmitterUserResourcesInUse < RemoteUserResourcesInUse",
        )
    };
    let case = Case::new().claimed("a", 6, "v", "").jobs("u", 6, "");
    let seen = unstable(case.priority("u", 0.5, 1.0)).run();
    assert_eq!(seen.preempted(Priority), 6);
    let case = Case::new()
        .claimed("a", 3, "v", "")
        .slots("f", 2, "")
        .jobs("u", 6, "");
    assert_eq!(
        unstable(case.priority("u", 0.5, 1.0))
            .run()
            .preempted(Priority),
        1
    );
}

/// A machine that is full; its dynamic slots are known by the lists of their parent, and some by their ads.
fn full(more: &str) -> Case {
    let lists = "Cpus = 0; NumDynamicSlots = 2; ChildName = {\"slot1_10@m\", \"slot1_9@m\"}; \
                 ChildCpus = {2, 2}; ChildMemory = {1000, 1000}; ChildCurrentRank = {0.0, 0.0}";
    Case::new()
        .machine("m", 4, &format!("{lists}; {more}"))
        .knob("ALLOW_PSLOT_PREEMPTION", "True")
        .jobs("a.u", 1, "RequestCpus = 2")
}

#[test]
fn lists_of_the_parent_are_enough_to_evict_for_rank() {
    let seen = full("Rank = 5.0").run();
    assert_eq!(seen.preempted(Rank), 1);
    let evicted = &seen.outcome.matches[0]
        .preempted
        .as_ref()
        .expect("an eviction")
        .dynamic_slots;
    assert_eq!(
        *evicted,
        ["slot1_10@m"],
        "equals go in the order of the list"
    );
    assert_eq!(
        full("Rank = 5.0; ChildRetirementTimeRemaining = {9, 9}")
            .run()
            .total(),
        0
    );
}

#[test]
fn evictions_for_priority_see_the_groups_of_both() {
    let case = full("")
        .child("m", 10, "a.v", "Cpus = 2")
        .child("m", 9, "b.w", "Cpus = 2")
        .knob("GROUP_NAMES", "a, b")
        .knob("GROUP_QUOTA_a", "4");
    let case = case.knob("PREEMPTION_REQUIREMENTS", "SubmitterGroup =!= RemoteGroup");
    let seen = case.run();
    let preempted = seen.outcome.matches[0]
        .preempted
        .as_ref()
        .expect("an eviction");
    assert_eq!(
        (preempted.user.as_str(), preempted.kind),
        ("b.w@d", Priority)
    );
}

#[test]
fn slots_can_see_the_users_of_their_neighbours() {
    let sees =
        "TotalSlots = 2; slot2_RemoteUser = \"v@d\"; Requirements = slot2_RemoteUserPrio > 9000";
    let case = Case::new()
        .slots("a", 1, sees)
        .jobs("u", 1, "")
        .priority("v", 10.0, 1000.0);
    assert_eq!(case.clone().run().total(), 0);
    assert_eq!(
        case.knob("NEGOTIATOR_CROSS_SLOT_PRIOS", "True")
            .run()
            .total(),
        1
    );
}

#[test]
fn the_highest_job_priorities_are_matched_and_neighbours_share_a_slice() {
    let case = Case::new()
        .slots("a", 6, "")
        .jobs("u", 2, "JobPrio = 3")
        .jobs("u", 2, "JobPrio = 2")
        .jobs("u", 2, "JobPrio = 1")
        .knob("USE_GLOBAL_JOB_PRIOS", "True");
    assert_eq!(case.clone().run().total(), 6);
    assert_eq!(
        case.clone().knob("MAX_GLOBAL_JOB_PRIOS", "2").run().total(),
        4
    );
    // Of one submitter alone there is one entry, so nobody meets a limit before the pool is used up.
    assert_eq!(case.run().outcome.statistics.spins, 1);
}

#[test]
fn attributes_can_be_taken_out_of_the_significant_ones_by_a_pattern() {
    let case = Case::new()
        .slots(
            "a",
            1,
            "Start = TARGET.Fancy > 1 && TARGET.Plain > 1 && TARGET.slot1_X",
        )
        .jobs("u", 1, "");
    let names = |case: &Case| {
        let config = case.config();
        let dependencies = Dependencies::of(&case.slots, &case.jobs, &config);
        significant_attributes(&dependencies, &config)
    };
    let has = |names: &[String], name: &str| names.iter().any(|n| n == name);
    let usual = names(&case);
    assert!(has(&usual, "Fancy") && !has(&usual, "slot1_X"));
    let own = names(&case.knob("REMOVE_SIGNIFICANT_ATTRIBUTES_REGEX", "^fan"));
    assert!(!has(&own, "Fancy") && has(&own, "Plain") && has(&own, "slot1_X"));
}

#[test]
fn a_slot_may_rank_jobs_by_who_has_it() {
    // v has the whole pool, so u may take nothing but what prefers its jobs.
    let case = Case::new()
        .claimed("a", 2, "v", "Rank = RemoteUserPrio")
        .jobs("v", 1, "")
        .jobs("u", 3, "");
    assert_eq!(case.run().preempted(Rank), 2);
}

#[test]
fn a_slot_may_rank_jobs_by_a_match_expression() {
    let case = Case::new()
        .claimed("a", 2, "v", "Rank = NegotiatorMatchExprSize")
        .jobs("v", 1, "")
        .jobs("u", 3, "");
    let case = case.knob("NEGOTIATOR_MATCH_EXPRS", "Size");
    let seen = case.knob("Size", "TARGET.RequestCpus").run();
    assert_eq!(seen.preempted(Rank), 2);
}
