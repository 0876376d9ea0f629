//! Laws that hold for every pool: nothing is given twice, bounds are kept, order does not matter.

mod support;

use classad::{Context, evaluate};
use negotiator::{Memory, PlainWay, Stopped};
use proptest::prelude::*;
use rustc_hash::FxHashMap;
use support::{Case, Seen};

/// A pool drawn at random: static slots, machines, claimed slots; users with jobs of several kinds.
#[derive(Debug, Clone)]
struct Drawn {
    slots: Vec<(u8, u8, u8)>,
    jobs: Vec<(u8, u8, u8, u8)>,
    priorities: Vec<u16>,
    flags: u8,
    policy: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let slots = prop::collection::vec((0_u8..4, 1_u8..6, 0_u8..4), 1..10);
    let jobs = prop::collection::vec((0_u8..4, 1_u8..12, 0_u8..5, 0_u8..4), 1..8);
    let priorities = prop::collection::vec(1_u16..5000, 4);
    (slots, jobs, priorities, any::<u8>(), any::<u8>()).prop_map(
        |(slots, jobs, priorities, flags, policy)| Drawn {
            slots,
            jobs,
            priorities,
            flags,
            policy,
        },
    )
}

const USERS: [&str; 4] = ["ann", "g.bob", "g.cid", "h.dot"];
const REQUIREMENTS: [&str; 4] = [
    "TARGET.Memory >= RequestMemory && TARGET.Cpus >= RequestCpus",
    "TARGET.Site == \"north\" && TARGET.Memory >= RequestMemory",
    "TARGET.Memory >= RequestMemory && TARGET.Disk > 5000",
    "true",
];

impl Drawn {
    fn case(&self) -> Case {
        let mut case = Case::new();
        for (at, (kind, size, site)) in self.slots.iter().enumerate() {
            let host = format!("h{at}");
            let mut site = format!(
                "Site = \"{}\"; KFlops = {}",
                ["north", "south", "east", "x"][usize::from(*site)],
                100 + at % 3
            );
            if self.policy & 1 != 0 {
                site.push_str(
                    "; Rank = (TARGET.RequestMemory > 1000) * 5 + (TARGET.RequestCpus == 2)",
                );
            }
            if self.policy & 2 != 0 {
                site.push_str(&format!("; CurrentRank = {}.0", at % 3));
            }
            if self.policy & 4 != 0 && at % 4 == 1 {
                site.push_str(&format!("; PreemptingRank = {}", at % 5));
            }
            case = match kind {
                0 => case.slots(&host, usize::from(*size), &site),
                1 => case.machine(&host, u32::from(*size) * 2, &site),
                2 => case.claimed(
                    &host,
                    usize::from(*size),
                    USERS[at % 4],
                    &format!("{site}; TotalJobRunTime = {at}"),
                ),
                _ => case.slots(
                    &host,
                    2,
                    &format!(
                        "{site}; Cpus = {size}; Memory = {size}000; Disk = {}",
                        3000 + at * 700
                    ),
                ),
            };
        }
        for (user, count, kind, memory) in &self.jobs {
            let own = format!(
                "RequestMemory = {}; RequestCpus = {}; Requirements = {}; Rank = {}",
                u32::from(*memory) * 700 + 100,
                1 + kind % 2,
                REQUIREMENTS[usize::from(*kind) % 4],
                if *kind == 4 { "TARGET.Memory" } else { "0.0" },
            );
            case = case.jobs(USERS[usize::from(*user)], usize::from(*count), &own);
        }
        for (user, priority) in USERS.iter().zip(&self.priorities) {
            case = case.priority(user, f64::from(*priority) / 10.0, 1000.0);
        }
        if self.flags & 1 != 0 {
            case = case.knob(
                "PREEMPTION_REQUIREMENTS",
                "RemoteUserPrio > SubmitterUserPrio",
            );
        }
        if self.policy & 8 != 0 {
            case = case.knob(
                "PREEMPTION_REQUIREMENTS",
                "RemoteUserPrio > SubmitterUserPrio * 1.2 && TotalJobRunTime > 1 && MY.Memory <= TARGET.RequestMemory * 3",
            );
        }
        if self.policy & 16 != 0 {
            case = case.knob(
                "PREEMPTION_RANK",
                "KFlops - TotalJobRunTime - RemoteUserFloor",
            );
        }
        if self.policy & 32 != 0 {
            case = case.knob(
                "NEGOTIATOR_PRE_JOB_RANK",
                "(RemoteOwner =?= undefined) + (KFlops > 100)",
            );
        }
        if self.policy & 64 != 0 {
            case = case.knob("NEGOTIATOR_POST_JOB_RANK", "KFlops");
        }
        if self.flags & 2 != 0 {
            case = case
                .knob("GROUP_NAMES", "g, h")
                .knob("GROUP_QUOTA_g", "5")
                .knob("GROUP_QUOTA_DYNAMIC_h", "0.5");
        }
        if self.flags & 4 != 0 {
            case = case.knob("NEGOTIATOR_CONSIDER_PREEMPTION", "False");
        }
        if self.flags & 8 != 0 {
            case = case.knob("NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT", "False");
        }
        if self.flags & 16 != 0 {
            // Something only the plain evaluator knows: every question goes there.
            case = case.knob("NEGOTIATOR_MATCH_EXPRS", "Unused").knob("Unused", "1").knob("NEGOTIATOR_PRE_JOB_RANK", "ifThenElse(isUndefined(NegotiatorMatchExprUnused), 0, (10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) - (100000 * Cpus) - Memory)");
        }
        case
    }
}

/// What was decided, in a form to compare.
fn digest(seen: &Seen) -> Vec<String> {
    let matches = seen.outcome.matches.iter().zip(&seen.slots);
    let mut out: Vec<String> = matches
        .map(|(m, slot)| {
            format!(
                "{} {slot} {:?} {} {:?}",
                m.job.unwrap(),
                m.preempted,
                m.cost,
                m.carve
            )
        })
        .collect();
    out.extend(seen.outcome.rejections.iter().map(|r| format!("{r:?}")));
    out
}

fn counts(seen: &Seen) -> Vec<usize> {
    USERS.iter().map(|user| seen.got(user)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_twice(pool in drawn()) {
        let case = pool.case();
        let seen = case.run();
        let mut taken: FxHashMap<&str, (usize, FxHashMap<String, f64>)> = FxHashMap::default();
        for (made, slot) in seen.outcome.matches.iter().zip(&seen.slots) {
            let entry = taken.entry(slot.as_str()).or_default();
            entry.0 += 1;
            for (name, amount) in &made.carve {
                *entry.1.entry(name.to_text().into_owned()).or_default() += amount;
            }
        }
        for (slot, (count, amounts)) in taken {
            let ad = case.slots.get(slot.as_bytes()).unwrap();
            if amounts.is_empty() {
                prop_assert_eq!(count, 1, "{} was given more than once", slot);
            }
            for (name, amount) in amounts {
                let context = Context { my: Some(&ad), ..Context::default() };
                let free = evaluate(ad.get_str(&name).unwrap(), &context).as_number().unwrap();
                prop_assert!(amount <= free, "{}: {} of {} {}", slot, amount, free, name);
            }
        }
        let mut jobs: Vec<_> = seen.outcome.matches.iter().map(|m| m.job.unwrap()).collect();
        let before = jobs.len();
        jobs.sort_unstable();
        jobs.dedup();
        prop_assert_eq!(jobs.len(), before);
    }

    #[test]
    fn matched_pairs_match(pool in drawn()) {
        let case = pool.case();
        let seen = case.run();
        for (made, slot) in seen.outcome.matches.iter().zip(&seen.slots) {
            if !made.carve.is_empty() {
                continue;
            }
            let slot = case.slots.get(slot.as_bytes()).unwrap();
            let job = &seen.demand.requests[made.request as usize].ad;
            for (my, target) in [(job, &slot), (&slot, job)] {
                let context = Context { my: Some(my), target: Some(target), now: support::NOW, ..Context::default() };
                prop_assert!(evaluate(my.get_str("Requirements").unwrap(), &context).is_true());
            }
        }
    }

    #[test]
    fn the_same_input_gives_the_same_outcome_on_any_number_of_threads(pool in drawn()) {
        let case = pool.case();
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let many = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap();
        let first = digest(&one.install(|| case.run()));
        prop_assert_eq!(&first, &digest(&many.install(|| case.run())));
        prop_assert_eq!(&first, &digest(&case.run()));
    }

    #[test]
    fn what_is_remembered_changes_nothing(pool in drawn(), changes in prop::collection::vec((0_usize..40, 0_u8..5), 0..12)) {
        let mut case = pool.case();
        let mut memory = Memory::default();
        case.run_with(&mut memory, &Stopped);
        for (at, what) in changes {
            let keys: Vec<Vec<u8>> = case.slots.rows().map(|row| case.slots.key(row).to_vec()).collect();
            let Some(key) = keys.get(at % keys.len().max(1)) else { continue };
            let mut change = classad::Ad::new();
            match what {
                0 => { case.slots.remove(key); continue; }
                3 => {
                    // Amounts that nobody asked for before.
                    let own = format!("RequestDisk = {}; Requirements = TARGET.Disk >= RequestDisk", at * 1300 + 1);
                    case = case.jobs(USERS[at % 4], 1 + at % 3, &own);
                    continue;
                }
                4 => {
                    prop_assert_eq!(digest(&case.run_with(&mut memory, &Stopped)), digest(&case.run()));
                    continue;
                }
                1 => change.set("Memory", classad::Expr::Lit(classad::Value::Int(50 * at as i64))),
                _ => change.set("Site", classad::Expr::Lit(classad::Value::str("south"))),
            }
            case.slots.update(key, &change, &[], 0.0).unwrap();
        }
        let warm = digest(&case.run_with(&mut memory, &Stopped));
        prop_assert_eq!(warm, digest(&case.run()));
    }

    #[test]
    fn it_does_not_matter_how_plain_slots_are_gone_through(pool in drawn()) {
        let case = pool.case();
        let by = |plain| digest(&case.run_with(&mut Memory { plain, ..Memory::default() }, &Stopped));
        let classes = by(PlainWay::Classes);
        prop_assert_eq!(&classes, &by(PlainWay::Lanes), "{:?}", pool);
        prop_assert_eq!(&classes, &by(PlainWay::Cheapest));
    }

    #[test]
    fn one_more_slot_never_costs_a_lone_submitter(slots in 1_usize..8, jobs in 1_usize..12, memory in 100_u32..3000) {
        let more = format!("RequestMemory = {memory}; Requirements = TARGET.Memory >= RequestMemory");
        let small = Case::new().slots("a", slots, "").jobs("u", jobs, &more);
        let large = small.clone().slots("b", 1, "Memory = 4000");
        prop_assert!(large.run().total() >= small.run().total());
    }

    #[test]
    fn the_order_of_input_does_not_change_who_gets_how_much(pool in drawn()) {
        let mut turned = pool.clone();
        turned.slots.reverse();
        let (there, back) = (pool.case(), pool.case());
        let mut case = there;
        // The same ads, entered in the opposite order.
        let mut slots = columns::AdTable::new();
        let rows: Vec<u32> = back.slots.rows().collect();
        for row in rows.iter().rev() {
            slots.upsert(back.slots.key(*row), &back.slots.ad(*row), 0.0).unwrap();
        }
        let mut jobs = columns::AdTable::new();
        let rows: Vec<u32> = back.jobs.rows().collect();
        for row in rows.iter().rev() {
            jobs.upsert(back.jobs.key(*row), &back.jobs.ad(*row), 0.0).unwrap();
        }
        let before = counts(&case.run());
        case.slots = slots;
        case.jobs = jobs;
        prop_assert_eq!(before, counts(&case.run()));
    }

    #[test]
    fn bounds_are_kept(pool in drawn(), ceiling in 0_i64..6) {
        let case = pool.case().account("ann", |r| r.ceiling = Some(ceiling));
        let seen = case.run();
        let heaviest = seen.outcome.matches.iter().map(|m| m.cost).fold(0.0, f64::max);
        let before: f64 = case.slots.rows().filter(|row| {
            let ad = case.slots.ad(*row);
            ad.get_str("AccountingGroup").is_some_and(|e| *e == classad::Expr::Lit(classad::Value::str("ann@d")))
        }).count() as f64;
        let taken = seen.cost("ann");
        prop_assert!(taken == 0.0 || before + taken < ceiling as f64 + heaviest + 1e-9, "{taken} of {ceiling}");
        // Where no slot is left to give, no pie is cut and nobody has a share.
        let shares: Vec<f64> = seen.outcome.submitters.iter().filter_map(|s| s.share).collect();
        if pool.flags & 2 == 0 && !shares.is_empty() {
            let sum: f64 = shares.iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-9, "shares sum to {sum}");
        }
        prop_assert!(!shares.is_empty() || seen.outcome.matches.is_empty());
        // Slots that prefer a job to what they run are had past the quota.
        let by_quota = (pool.flags & 1) | (pool.policy & (1 | 8)) == 0;
        if pool.flags & 2 != 0 && by_quota {
            let group = seen.outcome.groups.iter().find(|g| g.name == "g").unwrap();
            let own: f64 = case.slots.rows().filter(|row| {
                let text = format!("{:?}", case.slots.ad(*row).get_str("AccountingGroup"));
                text.contains("g.bob") || text.contains("g.cid")
            }).count() as f64;
            prop_assert!(group.usage <= group.quota.max(own) + heaviest, "{} of {}", group.usage, group.quota);
        }
    }
}
