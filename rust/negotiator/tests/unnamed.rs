//! Expressions that read attributes they do not name: computed text, constant subscripts, ads as values.

mod support;

use negotiator::Traversal;
use negotiator::outcome::PreemptionKind::{Priority, Rank};
use negotiator::{Memory, Stopped};
use proptest::prelude::*;
use support::Case;
use support::disguise::Where;
use support::drawn::{digest, drawn};

/// Six slots, three of them red.
fn colors() -> Case {
    Case::new()
        .slots("a", 3, "Color = \"red\"")
        .slots("b", 3, "Color = \"blue\"")
}

/// Text that nothing is known of before it is evaluated.
fn computed(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    format!("eval(strcat(\"{first}\", NoSuchAttribute ?: \"{rest}\"))")
}

#[test]
fn jobs_find_slots_by_attributes_they_do_not_name() {
    for color in [
        "eval(\"TARGET.Color\")",
        "eval(strcat(\"TARGET.\", \"Color\"))",
        "TARGET[\"Color\"]",
        "TARGET[strcat(\"Col\", NoSuchAttribute ?: \"or\")]",
        "ifThenElse(true, TARGET, MY).Color",
        "{ TARGET }[0].Color",
        &computed("TARGET.Color"),
    ] {
        let own = format!("Requirements = {color} == \"red\"");
        assert_eq!(colors().jobs("u", 9, &own).run().total(), 3, "{color}");
        let own = format!("Rank = {color} == \"red\"");
        let seen = colors().jobs("u", 3, &own).run();
        assert!(
            seen.slots_of("u").iter().all(|s| s.ends_with("@a")),
            "{color}"
        );
    }
}

#[test]
fn what_is_left_after_a_carve_still_has_all_attributes() {
    for color in [
        "TARGET[\"Color\"]",
        "eval(\"TARGET.Color\")",
        &computed("TARGET.Color"),
    ] {
        let own = format!("Requirements = {color} == \"red\" && TARGET.Cpus >= RequestCpus");
        let pool = (0..3).fold(Case::new(), |case, at| {
            case.machine(&format!("m{at}"), 8, "Color = \"red\"")
        });
        assert_eq!(pool.jobs("u", 20, &own).run().total(), 20, "{color}");
        let same = (0..20).fold(Case::new(), |case, at| {
            case.machine(&format!("m{at}"), 2, "Color = \"red\"")
        });
        assert_eq!(same.jobs("u", 50, &own).run().total(), 40, "{color}");
    }
}

#[test]
fn start_of_a_divided_slot_sees_what_is_left() {
    for cpus in ["MY[\"Cpus\"]", "eval(\"Cpus\")", &computed("MY.Cpus")] {
        let start =
            format!("Requirements = TARGET.RequestCpus <= MY.Cpus && {cpus} > 5; Power = 3");
        assert_eq!(
            Case::new()
                .machine("a", 8, &start)
                .jobs("u", 20, "")
                .run()
                .total(),
            3,
            "{cpus}"
        );
    }
    let start = format!("Requirements = {} <= MY.Cpus", computed("TARGET.Shares"));
    let jobs = Case::new()
        .machine("a", 8, &start)
        .jobs("u", 20, "Shares = 3");
    assert_eq!(jobs.jobs("v", 20, "Shares = 20").run().got("v"), 0);
}

#[test]
fn slots_find_jobs_by_attributes_they_do_not_name() {
    for own in [
        "Requirements = eval(strcat(\"slot\", SlotID, \"_Ok\")) =?= TARGET.Foo; slot1_Ok = 1; slot2_Ok = 1; slot3_Ok = 2",
        "Requirements = TARGET[\"Foo\"] == 1 && SlotID < 3",
        "Requirements = eval(strcat(\"TARGET.\", Asked)) == 1 && SlotID < 3; Asked = \"Foo\"",
    ] {
        let case = Case::new().slots("a", 3, own);
        assert_got!(case.jobs("v", 9, "").jobs("u", 9, "Foo = 1").run(), "u": 2);
    }
}

#[test]
fn a_slot_may_look_at_the_state_of_its_neighbour() {
    let policy = "NonSuspendableSlotState = eval(strcat(\"slot\", SlotID - 1, \"_State\")); \
                  Requirements = NonSuspendableSlotState =!= \"Claimed\"";
    let claimed = Case::new().slots("a", 2, &format!("{policy}; slot1_State = \"Claimed\""));
    let seen = claimed.jobs("u", 3, "").run();
    assert_eq!(seen.slots_of("u"), ["slot1@a"]);
    let free = Case::new().slots("a", 2, &format!("{policy}; slot1_State = \"Unclaimed\""));
    assert_eq!(free.jobs("u", 3, "").run().total(), 2);
}

#[test]
fn jobs_that_differ_only_in_what_is_computed_are_told_apart() {
    let start = format!("Requirements = {} == \"gold\"", computed("TARGET.Badge"));
    let case = Case::new().slots("a", 4, &start);
    let jobs = case
        .jobs("u", 2, "Badge = \"lead\"")
        .jobs("u", 2, "Badge = \"gold\"");
    let seen = jobs.run();
    let clusters: Vec<i32> = seen
        .outcome
        .matches
        .iter()
        .map(|m| m.job.unwrap().cluster)
        .collect();
    assert_eq!(clusters, [2, 2]);
}

#[test]
fn ranks_of_slots_and_of_the_negotiator_may_be_computed() {
    for speed in ["MY[\"Speed\"]", "eval(\"Speed\")", &computed("MY.Speed")] {
        let case = Case::new()
            .slots("a", 1, "Speed = 1")
            .slots("b", 1, "Speed = 3")
            .slots("c", 1, "Speed = 2");
        for knob in ["NEGOTIATOR_PRE_JOB_RANK", "NEGOTIATOR_POST_JOB_RANK"] {
            let seen = case.clone().knob(knob, speed).jobs("u", 2, "").run();
            assert_eq!(
                seen.slots_of("u"),
                ["slot1@b", "slot1@c"],
                "{knob} = {speed}"
            );
        }
        let busy = Case::new().claimed("a", 2, "old", "Rank = TARGET[\"Badge\"] =?= \"gold\"");
        let seen = busy.jobs("u", 1, "Badge = \"gold\"").jobs("v", 1, "").run();
        assert_eq!(
            (seen.got("u"), seen.got("v"), seen.preempted(Rank)),
            (1, 0, 1)
        );
    }
}

#[test]
fn preemption_may_be_decided_by_what_is_computed() {
    for age in ["MY[\"JobAge\"]", "eval(\"JobAge\")", &computed("MY.JobAge")] {
        let case = Case::new()
            .claimed("a", 1, "old", "JobAge = 10")
            .claimed("b", 1, "old", "JobAge = 99")
            .priority("old", 500.0, 1000.0)
            .priority("u", 1.0, 1000.0)
            .jobs("u", 2, "")
            .knob(
                "PREEMPTION_REQUIREMENTS",
                &format!("RemoteUserPrio > SubmitterUserPrio && {age} > 50"),
            );
        let seen = case.run();
        assert_eq!(seen.slots_of("u"), ["slot1@b"], "{age}");
        assert_eq!(seen.preempted(Priority), 1);
    }
    let live = Case::new()
        .claimed("a", 2, "old", "")
        .priority("old", 500.0, 1000.0)
        .priority("u", 1.0, 1000.0)
        .jobs("u", 2, "");
    let worse = format!(
        "{} > {}",
        computed("MY.RemoteUserPrio"),
        computed("TARGET.SubmitterUserPrio")
    );
    assert_eq!(
        live.clone()
            .knob("PREEMPTION_REQUIREMENTS", &worse)
            .run()
            .preempted(Priority),
        2
    );
    let better = format!(
        "{} < {}",
        computed("MY.RemoteUserPrio"),
        computed("TARGET.SubmitterUserPrio")
    );
    assert_eq!(
        live.knob("PREEMPTION_REQUIREMENTS", &better)
            .run()
            .preempted(Priority),
        0
    );
}

#[test]
fn groups_may_be_sorted_by_what_is_computed() {
    let groups = |order: &str| {
        Case::new()
            .knob("GROUP_NAMES", "a, b")
            .knob("GROUP_QUOTA_a", "1")
            .knob("GROUP_QUOTA_b", "1")
            .knob("GROUP_ACCEPT_SURPLUS", "True")
            .knob("GROUP_SORT_EXPR", order)
            .slots("h", 2, "")
            .jobs("a.u", 2, "")
            .jobs("b.u", 2, "")
            .run()
    };
    let first = |order: &str| {
        let seen = groups(order);
        let request = seen.outcome.matches[0].request;
        let entry = seen.demand.requests[request as usize].submitter;
        seen.demand.submitters[entry].name.clone()
    };
    for name in [
        "MY[\"AccountingGroup\"]",
        "eval(\"AccountingGroup\")",
        &computed("MY.AccountingGroup"),
    ] {
        assert!(
            first(&format!("ifThenElse({name} == \"b\", 1, 2)")).starts_with("b."),
            "{name}"
        );
        assert!(
            first(&format!("ifThenElse({name} == \"a\", 1, 2)")).starts_with("a."),
            "{name}"
        );
    }
}

#[test]
fn matches_of_devices_stay_bounded() {
    let gpus = "GPUs_A = [ Capability = 7.0 ]; AvailableGPUs = { GPUs_A }; GPUs = 1";
    let case = Case::new()
        .slots("a", 2, gpus)
        .slots("b", 2, &gpus.replace("7.0", "9.0"))
        .jobs("u", 4, "RequireGPUs = Capability >= 8.0; Requirements = countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1");
    let dependencies = negotiator::Dependencies::of(&case.slots, &case.jobs, &case.config());
    assert!(!dependencies.unbounded && dependencies.row_matching);
    assert_eq!(case.run().slots_of("u"), ["slot1@b", "slot2@b"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn how_an_attribute_is_read_changes_nothing(pool in drawn(), seed in any::<u32>()) {
        let case = pool.case();
        let undisguised = digest(&case.run());
        for places in [&[Where::Jobs][..], &[Where::Slots], &[Where::Knobs], &[Where::Jobs, Where::Slots, Where::Knobs]] {
            let disguised = case.disguised(u64::from(seed), places);
            prop_assert_eq!(&undisguised, &digest(&disguised.run()), "{:?}", places);
            let mut memory = Memory::default();
            disguised.run_with(&mut memory, &Stopped);
            prop_assert_eq!(&undisguised, &digest(&disguised.run_with(&mut memory, &Stopped)), "{:?} again", places);
            for way in [Traversal::ByClass, Traversal::Sorted] {
                let mut memory = Memory { traversal: way, ..Memory::default() };
                prop_assert_eq!(&undisguised, &digest(&disguised.run_with(&mut memory, &Stopped)), "{:?} {:?}", places, way);
            }
        }
    }
}
