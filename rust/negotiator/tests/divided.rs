//! Partitionable slots, consumption policies and concurrency limits.

mod support;

use negotiator::outcome::PreemptionKind::{Priority, Rank};
use support::Case;

const OLD: (&str, &str) = ("NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT", "False");
const POLICY: &str = "ConsumptionCpus = quantize(TARGET.RequestCpus, {1}); ConsumptionMemory = \
                      quantize(TARGET.RequestMemory, {128}); ConsumptionDisk = quantize(TARGET.RequestDisk, {1024})";

#[test]
fn one_match_a_machine_in_the_old_way_many_in_ours() {
    let case = Case::new().machine("a", 16, "").jobs("u", 20, "");
    assert_eq!(case.clone().knob(OLD.0, OLD.1).run().total(), 1);
    let seen = case.run();
    assert_eq!((seen.total(), seen.cost("u")), (16, 16.0));
    assert!(
        seen.outcome
            .matches
            .iter()
            .all(|m| m.carve[0] == ("Cpus".into(), 1.0))
    );
}

#[test]
fn a_machine_is_filled_in_shares() {
    let case = Case::new()
        .machine("a", 30, "")
        .jobs("u", 40, "")
        .jobs("v", 40, "")
        .priority("u", 0.5, 1000.0);
    assert_got!(case.priority("v", 0.5, 2000.0).run(), "u": 20, "v": 10);
}

#[test]
fn machines_are_packed() {
    let case = Case::new()
        .machine("a", 4, "")
        .machine("b", 4, "")
        .machine("c", 8, "")
        .jobs("u", 6, "");
    let seen = case.run();
    let on = |host: &str| seen.slots.iter().filter(|s| s.ends_with(host)).count();
    assert_eq!((on("@a"), on("@b"), on("@c")), (4, 2, 0));
}

#[test]
fn amounts_are_rounded_as_the_machine_does() {
    let case =
        Case::new()
            .machine("a", 4, "")
            .jobs("u", 1, "RequestMemory = 1001; RequestDisk = 1500");
    let seen = case.run();
    let carve = &seen.outcome.matches[0].carve;
    let carve: Vec<(String, f64)> = carve
        .iter()
        .map(|(n, a)| (n.to_text().into_owned(), *a))
        .collect();
    let wanted = [("Cpus", 1.0), ("Memory", 1024.0), ("Disk", 2048.0)];
    assert_eq!(
        carve,
        wanted.map(|(name, amount)| (name.to_owned(), amount))
    );
}

#[test]
fn memory_runs_out_before_cores() {
    let seen = Case::new()
        .machine("a", 8, "")
        .jobs("u", 20, "RequestMemory = 3072")
        .run();
    assert_eq!(seen.total(), 2);
    assert_eq!(seen.reasons("u"), ["no match found"]);
}

#[test]
fn custom_resources_are_carved_too() {
    let gpus = "GPUs = 2; MachineResources = \"Cpus Memory Disk GPUs\"; Requirements = TARGET.RequestCpus <= MY.Cpus \
                && (TARGET.RequestGPUs is undefined || TARGET.RequestGPUs <= MY.GPUs)";
    let case = Case::new()
        .machine("a", 8, gpus)
        .jobs("u", 5, "RequestGPUs = 1")
        .jobs("v", 9, "");
    let seen = case.run();
    assert_got!(seen, "u": 2, "v": 6);
}

#[test]
fn disk_of_every_machine_is_its_own() {
    let full =
        "Requirements = TARGET.RequestDisk <= MY.Disk && TARGET.RequestCpus <= MY.Cpus; Disk";
    let case = Case::new()
        .machine("a", 8, &format!("{full} = 4096"))
        .machine("b", 8, &format!("{full} = 900000"))
        .jobs("u", 20, "RequestDisk = 2048");
    let seen = case.run();
    let on = |host: &str| seen.slots.iter().filter(|s| s.ends_with(host)).count();
    assert_eq!((on("@a"), on("@b")), (2, 8));
}

#[test]
fn a_consumption_policy_gives_many_matches() {
    let case = Case::new()
        .machine("a", 6, POLICY)
        .machine("b", 6, POLICY)
        .jobs("u", 9, "")
        .jobs("v", 9, "");
    let case = case
        .knob(OLD.0, OLD.1)
        .priority("u", 1.0, 1000.0)
        .priority("v", 2.0, 1000.0);
    assert_got!(case.run(), "u": 8, "v": 4);
}

#[test]
fn claims_of_a_consumption_policy_run_out() {
    let case = Case::new()
        .machine("a", 6, &format!("{POLICY}; NumClaims = 4"))
        .jobs("u", 9, "");
    assert_eq!(case.run().total(), 4);
}

#[test]
fn a_policy_refuses_what_takes_nothing_or_less() {
    let zero = "ConsumptionCpus = 0; ConsumptionMemory = 0; ConsumptionDisk = 0";
    let less = "ConsumptionCpus = 1; ConsumptionMemory = -5; ConsumptionDisk = 0";
    for policy in [zero, less] {
        assert_eq!(
            Case::new()
                .machine("a", 6, policy)
                .jobs("u", 9, "")
                .run()
                .total(),
            0
        );
    }
}

#[test]
fn requirements_see_what_the_policy_takes() {
    let policy = format!("{POLICY}; Requirements = TARGET.RequestMemory == 128");
    assert_eq!(
        Case::new()
            .machine("a", 3, &policy)
            .jobs("u", 9, "RequestMemory = 100")
            .run()
            .total(),
        3
    );
}

#[test]
fn a_claimed_machine_serves_the_access_point_that_holds_it() {
    let held = "State = \"Claimed\"; RemoteScheddName = \"ap1\"";
    let case = Case::new()
        .machine("a", 4, held)
        .jobs("u", 2, "GlobalJobId = \"ap1#1\"")
        .jobs("v", 2, "GlobalJobId = \"ap2#1\"");
    assert_got!(case.clone().run(), "u": 2, "v": 0);
    let unwilling = Case::new()
        .machine("a", 4, &format!("{held}; WantMatching = false"))
        .jobs("u", 2, "GlobalJobId = \"ap1#1\"");
    assert_eq!(unwilling.run().total(), 0);
    let elsewhere = Case::new()
        .machine("a", 4, &format!("{held}; WorkingCM = \"x\""))
        .jobs("u", 2, "GlobalJobId = \"ap1#1\"");
    assert_eq!(elsewhere.clone().run().total(), 0);
    assert_eq!(
        elsewhere
            .knob("MATCH_WORKING_CM_SLOTS", "True")
            .run()
            .total(),
        2
    );
}

#[test]
fn large_jobs_and_small_ones_share_a_machine() {
    let case = Case::new()
        .machine("a", 10, "")
        .jobs("u", 2, "RequestCpus = 4")
        .jobs("v", 9, "");
    let seen = case.run();
    assert_got!(seen, "u": 1, "v": 6);
    assert_eq!(seen.cost("u") + seen.cost("v"), 10.0);
}

/// A full machine whose dynamic slots a user holds.
fn full(user: &str, children: usize, rank: &str) -> Case {
    let names: Vec<String> = (1..=children)
        .map(|at| format!("\"slot{at}@kids\""))
        .collect();
    let parent = format!(
        "{rank}; Cpus = 0; Memory = 0; NumDynamicSlots = {children}; ChildName = {{ {} }}; PslotRollupInformation = true",
        names.join(", ")
    );
    Case::new()
        .machine("full", 4, &parent)
        .claimed(
            "kids",
            children,
            user,
            "DynamicSlot = true; PslotRollupInformation = true; Memory = 1000",
        )
        .knob("ALLOW_PSLOT_PREEMPTION", "True")
        .knob(OLD.0, OLD.1)
}

#[test]
fn dynamic_slots_are_evicted_until_the_job_fits() {
    let seen = full("v", 4, "Rank = 5.0")
        .jobs("u", 1, "RequestCpus = 3")
        .run();
    assert_eq!(seen.slots, ["slot1@full"]);
    assert_eq!(seen.preempted(Rank), 1);
    assert_eq!(
        seen.outcome.matches[0]
            .preempted
            .as_ref()
            .unwrap()
            .dynamic_slots
            .len(),
        3
    );
}

#[test]
fn equal_rank_needs_the_preemption_requirements() {
    let case = full("v", 4, "Rank = 0.0").jobs("u", 1, "RequestCpus = 2");
    assert_eq!(case.clone().run().total(), 0);
    let seen = case.knob("PREEMPTION_REQUIREMENTS", "True").run();
    assert_eq!(seen.preempted(Priority), 1);
    let own = full("u", 4, "Rank = 0.0")
        .jobs("u", 1, "RequestCpus = 2")
        .knob("PREEMPTION_REQUIREMENTS", "True");
    assert_eq!(own.run().total(), 0);
}

#[test]
fn licences_are_counted_with_their_weights() {
    let case = Case::new()
        .slots("a", 12, "")
        .jobs("u", 6, "ConcurrencyLimits = \"Lic:2\"")
        .jobs("v", 6, "ConcurrencyLimits = \"lic\"");
    let case = case
        .knob("LIC_LIMIT", "5")
        .priority("u", 1.0, 1000.0)
        .priority("v", 2.0, 1000.0);
    let seen = case.run();
    assert_got!(seen, "u": 2, "v": 1);
    assert_eq!(seen.reasons("u"), ["concurrency limit: lic"]);
    assert_eq!(seen.outcome.matches[0].limits.as_deref(), Some("lic:2"));
}

#[test]
fn running_claims_hold_licences() {
    let held = "ConcurrencyLimits = \"lic:3\"";
    let case = Case::new()
        .claimed("b", 1, "w", held)
        .slots("a", 9, "")
        .jobs("u", 9, "ConcurrencyLimits = \"lic\"");
    assert_eq!(case.knob("LIC_LIMIT", "5").run().total(), 2);
}

#[test]
fn dotted_names_have_a_default_of_their_own() {
    let case = Case::new()
        .slots("a", 9, "")
        .jobs("u", 9, "ConcurrencyLimits = \"db.north\"");
    assert_eq!(
        case.clone()
            .knob("CONCURRENCY_LIMIT_DEFAULT_DB", "3")
            .run()
            .total(),
        3
    );
    assert_eq!(
        case.clone()
            .knob("CONCURRENCY_LIMIT_DEFAULT", "2")
            .run()
            .total(),
        2
    );
    assert_eq!(case.run().total(), 9);
}

#[test]
fn limits_can_depend_on_the_slot() {
    let by_site = "ConcurrencyLimits = strcat(\"store_\", TARGET.Site)";
    let case = Case::new()
        .slots("n", 5, "Site = \"north\"")
        .slots("s", 5, "Site = \"south\"")
        .jobs("u", 10, by_site);
    let seen = case.knob("STORE_NORTH_LIMIT", "2").run();
    let on = |host: &str| seen.slots.iter().filter(|s| s.ends_with(host)).count();
    assert_eq!((on("@n"), on("@s")), (2, 5));
    assert_eq!(seen.reasons("u"), ["concurrency limit: store_north"]);
}

#[test]
fn depth_first_skips_what_the_access_point_will_start_itself() {
    let case =
        Case::new()
            .machine("a", 4, "")
            .machine("b", 4, "")
            .slots("no", 1, "Requirements = false");
    let case = case.jobs("u", 6, "").knob(OLD.0, OLD.1);
    assert_eq!(case.run().reasons("u"), ["no match found"]);
    let seen = case.knob("NEGOTIATOR_DEPTH_FIRST", "True").run();
    assert_eq!(seen.total(), 2);
    assert_eq!(
        seen.reasons("u"),
        Vec::<String>::new(),
        "its access point fills the machines"
    );
}

#[test]
fn depth_first_fills_a_machine_before_the_next() {
    let spread = ("NEGOTIATOR_PRE_JOB_RANK", "Cpus");
    let case = Case::new()
        .machine("a", 4, "")
        .machine("b", 4, "")
        .jobs("u", 4, "")
        .knob(spread.0, spread.1);
    let on = |case: Case, host: &str| {
        case.run()
            .slots
            .iter()
            .filter(|s| s.ends_with(host))
            .count()
    };
    assert_eq!(on(case.clone(), "@a"), 2);
    assert_eq!(on(case.knob("NEGOTIATOR_DEPTH_FIRST", "True"), "@a"), 4);
}

#[test]
fn a_policy_may_take_what_jobs_do_not_ask_for() {
    let limits = "Requirements = MY.Cpus >= MY.ConsumptionCpus && MY.GPUs >= MY.ConsumptionGPUs";
    let unasked =
        "ifThenElse(TARGET.RequestGPUs is undefined, 1, quantize(TARGET.RequestGPUs, {1}))";
    for gpus in ["1", unasked] {
        for weight in ["Cpus", "GPUs", "Cpus + GPUs"] {
            let own = format!(
                "{POLICY}; ConsumptionGPUs = {gpus}; GPUs = 4; SlotWeight = {weight}; {limits}; \
                 MachineResources = \"Cpus Memory Disk GPUs\""
            );
            for cpus in [4, 8] {
                let case = Case::new().machine("a", cpus, &own);
                assert_eq!(case.clone().jobs("u", 9, "").run().total(), 4, "{own}");
                assert_eq!(
                    case.jobs("u", 9, "RequestGPUs = 1").run().total(),
                    4,
                    "{own}"
                );
            }
        }
    }
}
