//! Candidates, conditions, constraints, time: each rule of the negotiator as a small pool.

mod support;

use negotiator::{Memory, Stopwatch};
use std::sync::atomic::{AtomicU64, Ordering};
use support::Case;

#[test]
fn keys_decide_in_their_order() {
    // 1. pre-job rank: slots that prefer the job, then free, then small.
    let case = Case::new()
        .slots("big", 1, "Cpus = 2")
        .slots("small", 1, "")
        .slots("likes", 1, "Cpus = 8; Rank = 1.0");
    assert_eq!(
        case.jobs("u", 3, "").run().slots,
        ["slot1@likes", "slot1@small", "slot1@big"]
    );
    // 2. job rank.
    let case = Case::new()
        .slots("a", 3, "")
        .jobs("u", 3, "Rank = TARGET.SlotID");
    assert_eq!(case.run().slots, ["slot3@a", "slot2@a", "slot1@a"]);
    // 3. post-job rank: speed, then low slot number; sleeping slots last.
    let case = Case::new()
        .slots("s", 1, "KFlops = 5")
        .slots("z", 1, "KFlops = 9")
        .slots("off", 1, "Offline = true; KFlops = 99");
    assert_eq!(
        case.jobs("u", 3, "").run().slots,
        ["slot1@z", "slot1@s", "slot1@off"]
    );
    // 4. state: free before preempting for rank.
    let flat = |case: Case| {
        case.knob("NEGOTIATOR_PRE_JOB_RANK", "0")
            .knob("NEGOTIATOR_POST_JOB_RANK", "0")
    };
    let case = Case::new()
        .claimed("busy", 1, "v", "Rank = 1.0")
        .slots("free", 1, "Rank = 1.0")
        .jobs("u", 2, "");
    assert_eq!(flat(case).run().slots, ["slot1@free", "slot1@busy"]);
    // 5. preemption rank: worst priority, then the job that ran least.
    let case = Case::new()
        .claimed("old", 1, "v", "TotalJobRunTime = 900")
        .claimed("new", 1, "v", "TotalJobRunTime = 100")
        .claimed("bad", 1, "w", "TotalJobRunTime = 5000");
    let case = case
        .priority("w", 50.0, 1000.0)
        .priority("v", 10.0, 1000.0)
        .jobs("u", 3, "");
    let seen = case.knob("PREEMPTION_REQUIREMENTS", "True").run();
    assert_eq!(seen.slots, ["slot1@bad", "slot1@new", "slot1@old"]);
}

#[test]
fn job_ranks_can_be_ignored() {
    let case = Case::new()
        .slots("a", 3, "")
        .jobs("u", 1, "Rank = TARGET.SlotID");
    assert_eq!(
        case.knob("NEGOTIATOR_IGNORE_JOB_RANKS", "True").run().slots,
        ["slot1@a"]
    );
}

#[test]
fn without_preemption_claimed_slots_still_count_in_the_pie() {
    let case = Case::new()
        .slots("free", 10, "")
        .claimed("held", 21, "u", "");
    let case = case
        .jobs("u", 20, "")
        .jobs("v", 20, "")
        .knob("NEGOTIATOR_CONSIDER_PREEMPTION", "False");
    let seen = case.run();
    assert_got!(seen, "u": 0, "v": 10);
}

#[test]
fn retiring_slots_are_no_candidates_unless_early_preemption_is_on() {
    let case = Case::new()
        .claimed("a", 2, "v", "Rank = 5.0; RetirementTimeRemaining = 10")
        .jobs("u", 2, "");
    assert_eq!(case.run().total(), 0);
    assert_eq!(
        case.knob("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION", "True")
            .run()
            .total(),
        2
    );
}

#[test]
fn constraints_choose_slots_jobs_and_pool() {
    let case = Case::new()
        .slots("a", 4, "")
        .slots("b", 4, "Site = \"x\"")
        .jobs("u", 9, "")
        .jobs("v", 9, "Test = true");
    assert_eq!(
        case.clone()
            .knob("NEGOTIATOR_SLOT_CONSTRAINT", "Site =?= \"x\"")
            .run()
            .total(),
        4
    );
    assert_got!(case.clone().knob("NEGOTIATOR_JOB_CONSTRAINT", "Test =!= true").run(), "u": 8, "v": 0);
    let seen = case
        .knob("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", "Site =?= \"x\"")
        .run();
    assert_eq!(seen.outcome.statistics.pool_weight, 4.0);
}

#[test]
fn equal_jobs_go_by_their_ids_whenever_they_came() {
    let case = Case::new()
        .slots("a", 3, "")
        .jobs("u", 2, "QDate = 50")
        .jobs("u", 2, "QDate = 10")
        .jobs("u", 1, "JobPrio = 3");
    let seen = case.run();
    let jobs: Vec<String> = seen
        .outcome
        .matches
        .iter()
        .map(|m| m.job.unwrap().to_string())
        .collect();
    assert_eq!(jobs, ["3.0", "1.0", "1.1"]);
}

#[test]
fn a_rejected_autocluster_is_skipped_though_it_comes_again() {
    let never = "RequestMemory = 99999; Requirements = TARGET.Memory > 5000";
    let case = Case::new()
        .slots("a", 3, "")
        .jobs("u", 1, &format!("{never}; JobPrio = 5"))
        .jobs("u", 1, "JobPrio = 4");
    let seen = case.jobs("u", 1, &format!("{never}; JobPrio = 3")).run();
    assert_got!(seen, "u": 1);
    assert_eq!(seen.reasons("u"), ["no match found"]);
    assert_eq!(seen.outcome.rejections[0].count, 2);
}

#[test]
fn undefined_is_no() {
    let case = Case::new()
        .slots("a", 3, "")
        .jobs("u", 1, "Requirements = TARGET.HasJava")
        .jobs("u", 1, "Requirements = undefined");
    assert_eq!(case.run().total(), 0);
    let seen = Case::new()
        .slots("a", 2, "Requirements = TARGET.Nice")
        .jobs("u", 3, "")
        .run();
    assert_eq!(seen.total(), 0);
}

#[test]
fn families_have_to_overlap_only_when_known() {
    let case = Case::new()
        .slots("six", 1, "MyAddress = \"<[::1]:1?addrs=[--1]-1>\"")
        .slots("four", 1, "")
        .jobs("u", 2, "");
    assert_eq!(case.run().total(), 2);
}

#[test]
fn match_expressions_are_attributes_of_slots() {
    let case = Case::new().slots("a", 2, "").jobs(
        "u",
        2,
        "Requirements = TARGET.NegotiatorMatchExprNegotiatorName == \"north\"",
    );
    assert_eq!(case.run().total(), 0);
    let case = case
        .knob("NEGOTIATOR_MATCH_EXPRS", "NegotiatorName")
        .knob("NegotiatorName", "\"north\"");
    assert_eq!(case.run().total(), 2);
}

#[test]
fn negotiator_requirements_replace_those_of_the_slot() {
    let case = Case::new()
        .slots(
            "a",
            2,
            "Requirements = false; NegotiatorRequirements = true",
        )
        .jobs("u", 3, "");
    assert_eq!(case.run().total(), 2);
}

#[test]
fn the_submitter_is_seen_by_slots() {
    let case = Case::new()
        .slots("a", 4, "Requirements = TARGET.SubmitterUserPrio < 5000")
        .jobs("u", 4, "")
        .jobs("v", 4, "");
    let seen = case
        .priority("u", 4.0, 1000.0)
        .priority("v", 9.0, 1000.0)
        .run();
    assert_got!(seen, "u": 4, "v": 0);
}

#[test]
fn the_slot_user_is_seen_by_conditions() {
    let case = Case::new().claimed("a", 2, "v", "Rank = 1.0").jobs(
        "u",
        4,
        "Requirements = TARGET.RemoteUserPrio > 20000",
    );
    assert_eq!(case.clone().priority("v", 30.0, 1000.0).run().total(), 2);
    assert_eq!(case.priority("v", 3.0, 1000.0).run().total(), 0);
}

#[test]
fn sleeping_slots_leave_the_job_idle() {
    let case = Case::new().slots("a", 3, "Offline = true").jobs("u", 1, "");
    let seen = case.run();
    assert!(
        seen.outcome
            .matches
            .iter()
            .all(|m| m.offline && m.unclaimable)
    );
    assert!(seen.total() >= 1);
}

/// A clock that moves by a second every time somebody looks.
struct Slow(AtomicU64);
impl Stopwatch for Slow {
    fn seconds(&self) -> f64 {
        self.0.fetch_add(1, Ordering::Relaxed) as f64
    }
}

#[test]
fn a_slow_submitter_is_cut_and_others_are_served() {
    let case = Case::new()
        .slots("a", 400, "")
        .jobs("slow", 300, "")
        .jobs("other", 5, "")
        .priority("slow", 0.5, 1.0);
    let case = case
        .knob("NEGOTIATOR_MAX_TIME_PER_SUBMITTER", "40")
        .knob("NEGOTIATOR_MAX_TIME_PER_SCHEDD", "100000");
    let seen = case.run_with(&mut Memory::default(), &Slow(AtomicU64::new(0)));
    assert!(seen.got("slow") < 60, "{}", seen.got("slow"));
    assert_got!(seen, "other": 5);
    assert_eq!(seen.outcome.statistics.submitters_out_of_time, ["slow@d"]);
}

#[test]
fn the_cycle_ends_on_time() {
    let case = Case::new()
        .slots("a", 400, "")
        .jobs("u", 300, "")
        .jobs("v", 300, "");
    let case = case.knob("NEGOTIATOR_MAX_TIME_PER_CYCLE", "50");
    let seen = case.run_with(&mut Memory::default(), &Slow(AtomicU64::new(0)));
    assert!(seen.total() < 60, "{}", seen.total());
}

#[test]
fn priorities_of_jobs_can_be_global() {
    let case = Case::new()
        .slots("a", 4, "")
        .jobs("u", 3, "JobPrio = 1")
        .jobs("v", 3, "JobPrio = 9");
    assert_eq!(case.run().slots_of("u")[0], "slot1@a");
    let seen = case.knob("USE_GLOBAL_JOB_PRIOS", "True").run();
    assert_got!(seen, "u": 2, "v": 2);
    assert_eq!(
        seen.slots_of("v")[0],
        "slot1@a",
        "the higher job priority goes first"
    );
}

#[test]
fn usage_of_the_cycle_is_charged_from_its_time() {
    let case = Case::new()
        .slots("a", 4, "")
        .jobs("u", 2, "")
        .account("u", |r| r.last_update = support::NOW - 100);
    let seen = case.run();
    let record = &seen.outcome.records["u@d"];
    assert_eq!(
        (record.resources_used, record.weighted_resources_used),
        (2.0, 2.0)
    );
    assert_eq!(record.last_update, support::NOW);
    assert_eq!(record.factor, Some(1000.0));
}
