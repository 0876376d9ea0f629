//! Machines kept for large requests, and backfill.

mod support;

use negotiator::reservation::Kept;
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

/// With a machine kept for large jobs, which is the default.
fn reserving(case: Case) -> Case {
    case
}

#[test]
fn nothing_is_kept_when_that_is_off() {
    let case = pool().knob("NEGOTIATOR_RESERVE_FOR_LARGE_JOBS", "False");
    let seen = case.jobs("small", 4, "").run();
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

/// One machine of four one-core jobs which end one after the other, all of one user.
fn of_one_user(host: &str, from: i64) -> Case {
    let jobs: Vec<String> = (0..4).map(|at| estimated(10, from + 10 * at)).collect();
    let more: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let mut case = Case::new().machine(host, 0, "Memory = 4000");
    for (at, more) in more.iter().enumerate() {
        let more = format!("RemoteScheddName = \"s\"; {more}");
        case = case.child(host, at + 1, "ann", &more);
    }
    case
}

#[test]
fn a_lone_user_has_a_machine_kept_for_the_large_job_whose_turn_it_is() {
    // All that the user may have is in use: there is no slice left to negotiate for.
    let case =
        of_one_user("m", 40)
            .jobs("ann", 1, "RequestCpus = 4")
            .jobs("ann", 50, "RequestCpus = 1");
    let seen = reserving(case).run();
    assert_eq!(seen.outcome.reservations.len(), 1);
    assert_eq!(seen.outcome.reservations[0].claims.len(), 4);
    assert!(
        seen.reasons("ann")
            .contains(&"a machine is reserved".to_owned())
    );
}

#[test]
fn jobs_before_the_large_one_come_first() {
    let case = of_one_user("m", 40)
        .jobs("ann", 50, "RequestCpus = 1")
        .jobs("ann", 1, "RequestCpus = 4");
    assert!(reserving(case).run().outcome.reservations.is_empty());
    // One that could never run keeps nobody waiting.
    let case = of_one_user("m", 40)
        .jobs("ann", 50, "RequestCpus = 64")
        .jobs("ann", 1, "RequestCpus = 4");
    assert_eq!(reserving(case).run().outcome.reservations.len(), 1);
}

fn machines(case: &Case) -> Vec<(String, String)> {
    let kept = case.run().outcome.reservations;
    let of = |kept: &negotiator::outcome::Reservation| {
        let slot = String::from_utf8_lossy(case.slots.key(kept.row)).into_owned();
        let asked = kept.request as usize;
        (slot, asked.to_string())
    };
    kept.iter().map(of).collect()
}

/// Three machines whose jobs end at different times.
fn three() -> Case {
    let mut case = Case::new();
    for (host, seconds) in [("m", 100), ("n", 200), ("o", 300)] {
        case = case.machine(host, 0, "Memory = 4000");
        for at in 1..=4 {
            let more = format!("RemoteScheddName = \"s\"; {}", estimated(10, seconds));
            case = case.child(host, at, "w", &more);
        }
    }
    case.priority("w", 0.5, 1.0)
}

#[test]
fn each_large_job_keeps_a_machine_of_its_own() {
    let two = || {
        three()
            .jobs("big", 1, "RequestCpus = 4")
            .jobs("tall", 1, "RequestCpus = 3")
            .priority("big", 0.5, 1.0)
            .priority("tall", 0.6, 1.0)
            .knob("NEGOTIATOR_RESERVATION_MAX", "9")
    };
    assert_eq!(
        machines(&reserving(two())),
        [
            ("slot1@m".to_owned(), "0".to_owned()),
            ("slot1@n".to_owned(), "1".to_owned())
        ]
    );
    // As many as one request has jobs, but never for more than the share of its user.
    let many = |jobs| {
        three()
            .jobs("big", jobs, "RequestCpus = 4")
            .priority("big", 0.5, 1.0)
            .knob("NEGOTIATOR_RESERVATION_MAX", "9")
            .jobs("w", 9, "RequestCpus = 1")
    };
    assert_eq!(machines(&reserving(many(1))).len(), 1);
    assert_eq!(
        machines(&reserving(many(5))).len(),
        2,
        "six cores of twelve"
    );
    // Of twenty machines one is kept, and at least one.
    let case = two().knob("NEGOTIATOR_RESERVATION_MAX", "-1");
    assert_eq!(machines(&reserving(case)).len(), 1);
    let none = two().knob("NEGOTIATOR_RESERVATION_MAX", "0");
    assert!(machines(&reserving(none)).is_empty());
}

#[test]
fn a_machine_stays_kept_for_the_jobs_that_follow_in_their_cluster() {
    let mut case = three()
        .jobs("big", 2, "RequestCpus = 4")
        .priority("big", 0.5, 1.0);
    case.accounts.reservations.push(Kept {
        slot: "slot1@o".to_owned(),
        submitter: "big@d".to_owned(),
        // Its first job runs by now, on another machine.
        job: "1.-1".to_owned(),
        starts_at: (NOW + 100) as f64,
        gives_up_at: (NOW + 1000) as f64,
        given_up: false,
    });
    assert_eq!(machines(&reserving(case))[0].0, "slot1@o");
}

#[test]
fn who_is_over_its_share_keeps_a_machine_when_nobody_below_waits() {
    let job = estimated(10, 40);
    let case = four("m", &[&job, &job, &job, &job])
        .claimed("x", 12, "big", "RemoteScheddName = \"s\"")
        .priority("w", 0.5, 1.0);
    assert_eq!(reserving(case).run().outcome.reservations.len(), 1);
}

#[test]
fn who_has_its_share_keeps_no_machine_that_others_then_lack() {
    let job = estimated(10, 40);
    let case = |waiting: usize| {
        let case = four("m", &[&job, &job, &job, &job])
            .claimed("x", 4, "big", "RemoteScheddName = \"s\"")
            // Who ran first is below its share by a fraction of a core.
            .priority("big", 0.5, 1.0)
            .priority("w", 0.501, 1.0);
        if waiting == 0 {
            return case;
        }
        case.jobs("w", waiting, "RequestCpus = 1")
    };
    assert!(reserving(case(9)).run().outcome.reservations.is_empty());
    assert_eq!(reserving(case(0)).run().outcome.reservations.len(), 1);
}

#[test]
fn a_large_job_before_the_small_ones_of_its_user_gets_their_part_of_the_machine() {
    let mut case = Case::new().machine("m", 0, "Memory = 4000");
    for at in 0..8 {
        let user = if at % 2 == 0 { "ann" } else { "ben" };
        let more = format!(
            "RemoteScheddName = \"s\"; {}",
            estimated(10, 40 + at as i64)
        );
        case = case.child("m", at + 1, user, &more);
    }
    // The other is below its share by a fraction of a core, and always waits.
    let case = case
        .jobs("ann", 1, "RequestCpus = 8")
        .jobs("ann", 9, "RequestCpus = 1")
        .jobs("ben", 9, "RequestCpus = 1")
        .priority("ann", 0.501, 1.0)
        .priority("ben", 0.5, 1.0);
    assert_eq!(reserving(case).run().outcome.reservations.len(), 1);
}

#[test]
fn a_machine_is_kept_no_longer_once_the_room_of_one_claim_would_do() {
    let kept = Kept {
        slot: "slot1@m".to_owned(),
        submitter: "big@d".to_owned(),
        job: "1.0".to_owned(),
        starts_at: (NOW + 100) as f64,
        gives_up_at: (NOW + 1000) as f64,
        given_up: false,
    };
    let with = |cores: u32| {
        let mut case = Case::new()
            .machine("m", 0, "Memory = 4000")
            .child(
                "m",
                1,
                "w",
                &format!("Cpus = {cores}; {}", estimated(10, 40)),
            )
            .child("m", 2, "w", &format!("Cpus = 3; {}", estimated(10, 50)))
            .jobs("big", 1, "RequestCpus = 4")
            .priority("big", 0.5, 1.0);
        case.accounts.reservations.push(kept.clone());
        reserving(case).run().outcome.reservations.len()
    };
    assert_eq!(with(1), 1);
    assert_eq!(with(4), 0);
}
