//! Machines kept for large requests, and backfill.

mod support;

use negotiator::reserve::Kept;
use support::{Case, NOW};

/// Two of eight cores free; three more in 100 s, the last three in 1000 s.
fn pool() -> Case {
    let running = |seconds: i64| {
        format!(
            "Cpus = 3; EnteredCurrentActivity = {}; ExpectedRuntime = {}",
            NOW - 50,
            seconds + 50
        )
    };
    Case::new()
        .machine("m", 2, "")
        .child("m", 1, "w", &running(100))
        .child("m", 2, "w", &running(1000))
        .jobs("big", 1, "RequestCpus = 5")
        .priority("big", 0.5, 1.0)
}

fn reserving(case: Case) -> Case {
    case.knob("NEGOTIATOR_RESERVE_FOR_LARGE_JOBS", "True")
}

#[test]
fn nothing_is_kept_unless_asked_for() {
    let seen = pool().jobs("small", 4, "").run();
    assert_got!(seen, "big": 0, "small": 2);
    assert!(seen.outcome.reservations.is_empty());
}

#[test]
fn the_machine_that_is_ready_first_is_kept() {
    let seen = reserving(pool()).jobs("small", 4, "").run();
    assert_got!(seen, "big": 0, "small": 0);
    assert_eq!(seen.reasons("big"), ["a machine is reserved"]);
    assert_eq!(seen.outcome.reservations[0].starts_at, (NOW + 100) as f64);
}

#[test]
fn jobs_that_end_in_time_run_there() {
    let seen = reserving(pool())
        .jobs("small", 4, "AllowedJobDuration = 60")
        .run();
    assert_got!(seen, "small": 2);
    let seen = reserving(pool())
        .jobs("small", 4, "AllowedJobDuration = 600")
        .run();
    assert_got!(seen, "small": 0);
}

#[test]
fn a_reservation_outlives_the_cycle() {
    let kept = Kept {
        slot: "slot1@m".to_owned(),
        submitter: "big@d".to_owned(),
        job: "1.0".to_owned(),
        starts_at: (NOW + 100) as f64,
    };
    // A user who is served before the large job.
    let mut case = reserving(pool())
        .jobs("first", 4, "")
        .priority("first", 0.5, 1.0)
        .priority("big", 9.0, 1.0);
    assert_got!(case.run(), "first": 2);
    case.accounts.reservations.push(kept);
    assert_got!(case.run(), "first": 0);
}

#[test]
fn the_large_job_takes_its_machine_when_it_is_ready() {
    let kept = Kept {
        slot: "slot1@m".to_owned(),
        submitter: "big@d".to_owned(),
        job: "1.0".to_owned(),
        starts_at: NOW as f64,
    };
    let mut case = Case::new()
        .machine("m", 5, "")
        .jobs("big", 1, "RequestCpus = 5")
        .jobs("first", 9, "");
    case = reserving(case)
        .priority("first", 0.5, 1.0)
        .priority("big", 9.0, 1.0);
    case.accounts.reservations.push(kept);
    let seen = case.run();
    assert_got!(seen, "big": 1, "first": 0);
    assert!(seen.outcome.reservations.is_empty());
}

#[test]
fn a_job_that_fits_nowhere_ever_keeps_nothing() {
    let seen = reserving(pool())
        .jobs("huge", 1, "RequestCpus = 50")
        .priority("huge", 0.5, 0.5)
        .run();
    assert_eq!(seen.reasons("huge"), ["no match found"]);
}

#[test]
fn a_kept_slot_is_judged_by_what_it_says_itself() {
    // Both slots are of one class: nothing but a look at the match tells them apart.
    let kept = Kept {
        slot: "slot1@b".to_owned(),
        submitter: "big@d".to_owned(),
        job: "1.0".to_owned(),
        starts_at: NOW as f64,
    };
    let mut case = reserving(
        Case::new()
            .slots("a", 1, "Colour = \"blue\"")
            .slots("b", 1, "Colour = \"red\"")
            .jobs("big", 1, "Requirements = TARGET.Colour == \"red\""),
    );
    case.accounts.reservations.push(kept);
    assert_eq!(case.run().slots, ["slot1@b"]);
}
