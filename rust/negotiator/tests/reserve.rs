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
        gives_up_at: (NOW + 1000) as f64,
        given_up: false,
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
        gives_up_at: (NOW + 1000) as f64,
        given_up: false,
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
        gives_up_at: (NOW + 1000) as f64,
        given_up: false,
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

/// A machine of four cores whose dynamic slots run jobs of one core, with what is known of each.
fn four(host: &str, jobs: &[&str]) -> Case {
    let mut case = Case::new().machine(host, 0, "Memory = 4000");
    for (at, more) in jobs.iter().enumerate() {
        case = case.child(
            host,
            at + 1,
            "w",
            &format!("RemoteScheddName = \"s\"; {more}"),
        );
    }
    case.jobs("big", 1, "RequestCpus = 4")
        .priority("big", 0.5, 1.0)
}

/// Begun a while ago, and expected to run so long by its access point.
fn estimated(ago: i64, seconds: i64) -> String {
    format!("JobStart = {}; EstimatedRuntime = {seconds}", NOW - ago)
}

#[test]
fn what_access_points_saw_of_like_jobs_tells_when_a_machine_is_ready() {
    let job = estimated(10, 40);
    let seen = reserving(four("m", &[&job, &job, &job, &job])).run();
    let kept = &seen.outcome.reservations[0];
    assert_eq!(kept.starts_at, (NOW + 30) as f64);
    assert_eq!(kept.gives_up_at, (NOW + 120) as f64);
    assert_eq!(kept.claims.len(), 4);
}

#[test]
fn of_what_nothing_is_known_is_expected_to_run_on_as_long_as_it_has_run() {
    let of = |ago: i64| {
        let job = format!("JobStart = {}", NOW - ago);
        let seen = reserving(four("m", &[&job, &job, &job, &job])).run();
        seen.outcome
            .reservations
            .first()
            .map(|kept| kept.starts_at - NOW as f64)
    };
    assert_eq!(of(10), Some(300.0));
    assert_eq!(of(1000), Some(1000.0));
    assert_eq!(of(5000), None, "longer than a machine may be kept");
}

#[test]
fn a_request_that_fits_into_the_room_of_one_claim_keeps_no_machine() {
    let job = estimated(10, 40);
    let mut case = four("m", &[&job, &job, &job, &job]);
    case = case
        .jobs("small", 9, "")
        .priority("small", 0.4, 1.0)
        .knob("NEGOTIATOR_RESERVATION_MAX", "9");
    let seen = reserving(case).run();
    assert_eq!(seen.outcome.reservations.len(), 1);
    assert_ne!(seen.reasons("small"), ["a machine is reserved"]);
}

#[test]
fn a_machine_that_is_not_ready_in_time_is_given_up_and_another_one_chosen() {
    let endless = format!("JobStart = {}", NOW - 100);
    let quick = estimated(10, 900);
    let mut case = reserving(four("m", &[&endless, &endless, &endless, &endless]));
    for number in 1..=4 {
        case = case.child(
            "n",
            number,
            "w",
            &format!("RemoteScheddName = \"s\"; {quick}"),
        );
    }
    case = case.machine("n", 0, "Memory = 4000");
    let slot = |case: &Case| {
        let seen = case.run();
        let kept = &seen.outcome.reservations;
        kept.first()
            .map(|kept| String::from_utf8_lossy(case.slots.key(kept.row)).into_owned())
    };
    assert_eq!(slot(&case).as_deref(), Some("slot1@m"));
    case.accounts.reservations.push(Kept {
        slot: "slot1@m".to_owned(),
        submitter: "big@d".to_owned(),
        job: "1.0".to_owned(),
        starts_at: (NOW - 400) as f64,
        gives_up_at: NOW as f64,
        given_up: false,
    });
    assert_eq!(slot(&case).as_deref(), Some("slot1@n"));
    let given_up = case.run().outcome.given_up;
    assert_eq!(given_up.len(), 1);
    assert!(given_up[0].given_up && given_up[0].gives_up_at >= (NOW + 800) as f64);
    // It is remembered until that is over.
    case.accounts.reservations = given_up;
    assert_eq!(slot(&case).as_deref(), Some("slot1@n"));
    case.accounts.reservations[0].gives_up_at = NOW as f64;
    assert_eq!(slot(&case).as_deref(), Some("slot1@m"));
}

#[test]
fn who_has_its_share_keeps_no_machine_while_others_wait_for_theirs() {
    let job = estimated(10, 40);
    let case = || {
        four("m", &[&job, &job, &job, &job])
            .claimed("x", 12, "big", "RemoteScheddName = \"s\"")
            .jobs("small", 9, "RequestCpus = 1")
            .priority("small", 0.5, 1.0)
            .priority("w", 0.5, 1.0)
    };
    assert!(reserving(case()).run().outcome.reservations.is_empty());
}
