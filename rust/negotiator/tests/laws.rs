//! Laws that hold for every pool: nothing is given twice, bounds are kept, order does not matter.

mod support;

use classad::{Context, evaluate};
use negotiator::{Memory, Stopped, Traversal};
use proptest::prelude::*;
use rustc_hash::FxHashMap;
use support::drawn::{USERS, digest, drawn};
use support::{Case, Seen};

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
    fn it_does_not_matter_how_free_slots_are_gone_through(pool in drawn()) {
        let case = pool.case();
        let by = |traversal| digest(&case.run_with(&mut Memory { traversal, ..Memory::default() }, &Stopped));
        let classes = by(Traversal::ByClass);
        prop_assert_eq!(&classes, &by(Traversal::Sorted), "{:?}", pool);
        prop_assert_eq!(&classes, &by(Traversal::Cheapest));
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
