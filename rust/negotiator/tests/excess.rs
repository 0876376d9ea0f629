//! Claims beyond a submitter's share, which it gives back between jobs while others wait.

mod support;

use negotiator::outcome::Excess;
use proptest::prelude::*;
use support::{Case, Seen};

const BUSY: &str = "RemoteScheddName = \"s\"; Cpus = 1; Requirements = \
     TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory";

/// A machine without free cores whose dynamic slots users hold, one core each.
fn full(holders: &[(&str, usize)]) -> Case {
    let mut case = Case::new().machine("m", 0, "Memory = 64000");
    let mut number = 0;
    for (user, count) in holders {
        for _ in 0..*count {
            number += 1;
            case = case.child("m", number, user, BUSY);
        }
    }
    case
}

/// How much a user is to give back in all.
fn back(seen: &Seen, user: &str) -> f64 {
    let user = format!("{user}@d");
    let own = seen.outcome.excess.iter().filter(|e| e.user == user);
    own.map(|e| e.weight).sum()
}

fn named(seen: &Seen, case: &Case, user: &str) -> Vec<String> {
    let user = format!("{user}@d");
    let own = seen.outcome.excess.iter().filter(|e| e.user == user);
    let rows = own.flat_map(|e: &Excess| e.claims.iter().map(|(row, _)| *row));
    rows.map(|row| String::from_utf8_lossy(case.slots.key(row)).into_owned())
        .collect()
}

#[test]
fn the_one_who_holds_all_gives_back_half_to_an_equal() {
    let case = full(&[("a", 8)]).jobs("a", 50, "").jobs("b", 50, "");
    let seen = case.run();
    assert_eq!(back(&seen, "a"), 4.0);
    assert_eq!(named(&seen, &case, "a").len(), 8);
    assert_eq!(seen.outcome.entitled["a@d"], 4.0);
    assert_eq!(seen.outcome.entitled["b@d"], 4.0);
}

#[test]
fn priorities_decide_how_much() {
    let case = full(&[("a", 8)]).jobs("a", 50, "").jobs("b", 50, "");
    let seen = case
        .clone()
        .priority("a", 0.5, 1000.0)
        .priority("b", 0.5, 3000.0)
        .run();
    assert_eq!(back(&seen, "a"), 2.0);
    let seen = case
        .priority("a", 0.5, 3000.0)
        .priority("b", 0.5, 1000.0)
        .run();
    assert_eq!(back(&seen, "a"), 6.0);
}

#[test]
fn no_more_than_others_can_use() {
    let seen = full(&[("a", 8)]).jobs("a", 50, "").jobs("b", 1, "").run();
    assert_eq!(back(&seen, "a"), 1.0);
}

#[test]
fn a_share_that_drifts_by_a_fraction_keeps_nobody_from_a_whole_claim() {
    let seen = full(&[("a", 3), ("b", 5)])
        .jobs("a", 9, "")
        .jobs("b", 9, "")
        .priority("a", 0.501, 1000.0)
        .priority("b", 0.5, 1000.0)
        .run();
    assert_eq!(back(&seen, "b"), 1.0);
    assert!(
        seen.outcome.entitled["a@d"] > 3.9,
        "and it is for the other"
    );
}

#[test]
fn a_request_that_no_claim_is_right_for_leaves_them_to_the_next_one() {
    let four = "RemoteScheddName = \"s\"; Cpus = 4; Requirements = \
         TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory";
    let seen = full(&[("a", 2), ("b", 2)])
        .child("m", 9, "b", four)
        .jobs("a", 9, "RequestCpus = 2")
        .jobs("a", 9, "")
        .jobs("b", 9, "")
        .run();
    assert_eq!(back(&seen, "b"), 2.0);
}

#[test]
fn a_claim_that_is_more_than_any_share_is_held_in_turns() {
    let whole = "RemoteScheddName = \"s\"; Cpus = 8; SlotWeight = 8; Requirements = \
         TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory";
    let case = |used: f64| {
        Case::new()
            .machine("m", 0, "Memory = 64000")
            .child("m", 1, "a", whole)
            .jobs("a", 9, "RequestCpus = 8")
            .jobs("b", 50, "")
            .priority("a", used, 1000.0)
            .priority("b", 0.5, 1000.0)
    };
    let seen = case(0.51).run();
    assert_eq!(back(&seen, "a"), 8.0);
    assert!(
        seen.outcome.entitled["a@d"] < 1e-9,
        "it is the other's turn"
    );
    assert!(case(0.49).run().outcome.excess.is_empty());
    // Who holds something has had its turn.
    let served = case(0.51).claimed("x", 1, "b", "");
    assert!(served.run().outcome.excess.is_empty());
}

#[test]
fn nobody_is_brought_below_its_share() {
    // Three equals on eight cores: 2.67 each.
    let seen = full(&[("a", 3), ("b", 3), ("c", 2)])
        .jobs("a", 9, "")
        .jobs("b", 9, "")
        .jobs("c", 9, "")
        .run();
    assert!(seen.outcome.excess.is_empty());
    let seen = full(&[("a", 4), ("b", 3), ("c", 1)])
        .jobs("a", 9, "")
        .jobs("b", 9, "")
        .jobs("c", 9, "")
        .run();
    assert_eq!((back(&seen, "a"), back(&seen, "b")), (1.0, 0.0));
}

#[test]
fn who_lacks_a_whole_claim_gets_one_that_is_partly_beyond_a_share() {
    // 3.2, 3.2 and 1.6 of eight cores.
    let case = |a, b, c| {
        full(&[("a", a), ("b", b), ("c", c)])
            .jobs("a", 9, "")
            .jobs("b", 9, "")
            .jobs("c", 9, "")
            .priority("a", 0.5, 1000.0)
            .priority("b", 0.5, 1000.0)
            .priority("c", 0.5, 2000.0)
    };
    let seen = case(4, 4, 0).run();
    assert_eq!((back(&seen, "a"), back(&seen, "b")), (1.0, 0.0));
    assert_eq!(seen.outcome.entitled["a@d"], 3.0);
    for (a, b, c) in [(3, 4, 1), (3, 3, 2), (4, 3, 1)] {
        assert!(case(a, b, c).run().outcome.excess.is_empty());
    }
    assert_eq!(back(&case(2, 2, 4).run(), "c"), 2.0);
}

#[test]
fn everybody_below_its_share_is_served_however_small_that_is() {
    let mut case = full(&[("a", 2), ("b", 1)])
        .jobs("a", 9, "")
        .jobs("b", 9, "");
    for user in ["c", "d", "e"] {
        case = case.jobs(user, 9, "");
    }
    // 0.6 each: one of a's two.
    assert_eq!(back(&case.run(), "a"), 1.0);
}

#[test]
fn without_others_who_wait_nothing_is_given_back() {
    assert!(
        full(&[("a", 8)])
            .jobs("a", 50, "")
            .run()
            .outcome
            .excess
            .is_empty()
    );
    let seen = full(&[("a", 6), ("b", 2)]).jobs("a", 50, "").run();
    assert!(seen.outcome.excess.is_empty());
}

#[test]
fn who_has_no_more_jobs_is_not_asked() {
    let seen = full(&[("a", 8)]).jobs("b", 50, "").run();
    assert!(seen.outcome.excess.is_empty());
}

#[test]
fn a_job_that_no_claim_can_serve_moves_nothing() {
    let seen = full(&[("a", 8)])
        .jobs("a", 50, "")
        .jobs("b", 50, "RequestCpus = 2")
        .jobs("c", 50, "Requirements = false")
        .run();
    assert!(seen.outcome.excess.is_empty());
    assert!(seen.outcome.entitled.is_empty());
}

#[test]
fn what_is_free_of_the_machine_counts_beside_the_claim() {
    // More memory than the dynamic slot has, but not than the machine has left.
    let case = full(&[("a", 8)])
        .jobs("a", 50, "")
        .jobs("b", 2, "RequestMemory = 30000");
    assert_eq!(back(&case.run(), "a"), 2.0);
    let case = full(&[("a", 8)])
        .jobs("a", 50, "")
        .jobs("b", 2, "RequestMemory = 90000");
    assert!(case.run().outcome.excess.is_empty());
}

#[test]
fn only_claims_that_others_can_use_are_named() {
    let case = Case::new()
        .claimed("red", 3, "a", "RemoteScheddName = \"s\"; Colour = \"red\"")
        .claimed(
            "blue",
            3,
            "a",
            "RemoteScheddName = \"s\"; Colour = \"blue\"",
        )
        .jobs("a", 50, "")
        .jobs("b", 50, "Requirements = TARGET.Colour == \"red\"");
    let seen = case.run();
    assert_eq!(back(&seen, "a"), 3.0);
    let mut names = named(&seen, &case, "a");
    names.sort();
    assert_eq!(names, ["slot1@red", "slot2@red", "slot3@red"]);
}

#[test]
fn a_slot_that_prefers_what_it_runs_is_kept() {
    let prefers = "RemoteScheddName = \"s\"; CurrentRank = 5.0; Rank = TARGET.AccountingGroup == \"a@d\" ? 5 : 0";
    let case = |more: &str| {
        Case::new()
            .claimed("h", 4, "a", more)
            .jobs("a", 50, "")
            .jobs("b", 50, "")
    };
    assert!(case(prefers).run().outcome.excess.is_empty());
    assert_eq!(back(&case("RemoteScheddName = \"s\"").run(), "a"), 2.0);
}

#[test]
fn heavy_slots_go_when_the_rest_is_still_the_share() {
    let slots = |count| {
        Case::new()
            .claimed("h", count, "a", "RemoteScheddName = \"s\"; Cpus = 4")
            .jobs("a", 50, "")
            .jobs("b", 50, "")
    };
    assert_eq!(back(&slots(2).run(), "a"), 4.0);
    // Half of three slots is less than two.
    assert_eq!(back(&slots(3).run(), "a"), 4.0);
    assert!(slots(1).run().outcome.excess.is_empty());
}

#[test]
fn each_access_point_is_told_its_part() {
    let case = Case::new()
        .claimed("x", 6, "a", "RemoteScheddName = \"s1\"")
        .claimed("y", 2, "a", "RemoteScheddName = \"s2\"")
        .jobs("a", 50, "")
        .jobs("b", 50, "");
    let seen = case.run();
    let told: Vec<(String, f64, usize)> = seen
        .outcome
        .excess
        .iter()
        .map(|e| (e.schedd.clone(), e.weight, e.claims.len()))
        .collect();
    assert_eq!(told, [("s1".to_owned(), 3.0, 6), ("s2".to_owned(), 1.0, 2)]);
}

#[test]
fn claims_that_are_on_their_way_out_count_as_given_back() {
    let mut case = full(&[("a", 5)]).jobs("a", 50, "").jobs("b", 50, "");
    for number in 6..=8 {
        case = case.child("m", number, "a", &format!("State = \"Preempting\"; {BUSY}"));
    }
    assert_eq!(back(&case.run(), "a"), 1.0);
}

#[test]
fn a_concurrency_limit_that_is_met_lets_nobody_wait() {
    let case = full(&[("a", 8)])
        .knob("DICE_LIMIT", "0")
        .jobs("a", 50, "")
        .jobs("b", 50, "ConcurrencyLimits = \"dice\"");
    assert!(case.run().outcome.excess.is_empty());
}

#[test]
fn ceilings_and_floors_hold() {
    let case = full(&[("a", 8)]).jobs("a", 50, "").jobs("b", 50, "");
    let seen = case.clone().account("b", |r| r.ceiling = Some(1)).run();
    assert_eq!(back(&seen, "a"), 1.0);
    let seen = case.account("a", |r| r.floor = 7).run();
    assert_eq!(back(&seen, "a"), 1.0);
}

#[test]
fn quotas_of_groups_hold() {
    let groups = |case: Case| {
        case.knob("GROUP_NAMES", "g, h")
            .knob("GROUP_QUOTA_g", "6")
            .knob("GROUP_QUOTA_h", "2")
            .knob("GROUP_ACCEPT_SURPLUS", "True")
    };
    let seen = groups(full(&[("g.a", 8)]).jobs("g.a", 50, "").jobs("h.b", 50, "")).run();
    assert_eq!(back(&seen, "g.a"), 2.0);
    // Within a group by priority, whatever another group holds.
    let case = full(&[("g.a", 6), ("h.b", 2)])
        .jobs("g.a", 50, "")
        .jobs("g.c", 50, "")
        .jobs("h.b", 50, "");
    let seen = groups(case).run();
    assert_eq!((back(&seen, "g.a"), back(&seen, "h.b")), (3.0, 0.0));
}

#[test]
fn the_knob_and_ignored_priorities_switch_it_off() {
    let case = full(&[("a", 8)]).jobs("a", 50, "").jobs("b", 50, "");
    for knob in [
        "SLOTWISE_CLAIM_FAIR_SHARE=False",
        "NEGOTIATOR_IGNORE_USER_PRIORITIES=True",
    ] {
        let (name, value) = knob.split_once('=').expect("a knob");
        let seen = case.clone().knob(name, value).run();
        assert!(seen.outcome.excess.is_empty(), "{knob}");
    }
}

#[test]
fn a_freed_core_goes_to_the_one_it_was_freed_for() {
    // Half of the pool is of no use to anybody: by their shares of all of it both may have eight cores.
    let mut case = full(&[("a", 7)])
        .slots("owned", 8, "Requirements = false")
        .jobs("a", 50, "")
        .jobs("b", 50, "")
        .priority("a", 0.5, 1.0)
        .priority("b", 0.6, 1.0);
    let machine = Case::new()
        .machine("m", 1, "Memory = 64000")
        .slots
        .get(b"slot1@m")
        .expect("it");
    case.slots
        .upsert(b"slot1@m", &machine, 0.0)
        .expect("a good slot");
    assert_got!(case.run(), "a": 1, "b": 0);
    case.accounts
        .entitled
        .extend([("a@d".to_owned(), 4.4), ("b@d".to_owned(), 3.6)]);
    assert_got!(case.run(), "a": 0, "b": 1);
    // Nobody else can use it: it is not left idle for that.
    let mut alone = full(&[("a", 7)]).jobs("a", 50, "");
    alone
        .slots
        .upsert(b"slot1@m", &machine, 0.0)
        .expect("a good slot");
    alone.accounts.entitled.insert("a@d".to_owned(), 4.0);
    assert_got!(alone.run(), "a": 1);
}

/// A pool in time: claims whose jobs end serve the next job of their user unless they are to be given back.
struct Live {
    case: Case,
    /// Weight and holder of each slot.
    slots: Vec<(u32, Option<usize>)>,
    users: usize,
    given_back: usize,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Live {
    fn new(weights: &[u32], priorities: &[f64]) -> Self {
        let mut case = Case::new();
        for (user, priority) in NAMES.iter().zip(priorities) {
            case = case.priority(user, *priority, 1.0).jobs(user, 40, "");
        }
        Self {
            case,
            slots: weights.iter().map(|weight| (*weight, None)).collect(),
            users: priorities.len(),
            given_back: 0,
        }
    }

    /// A cycle, and others as long as limits leave something for the next one.
    fn cycle(&mut self) -> Seen {
        loop {
            let seen = self.one_cycle();
            if seen.outcome.matches.is_empty() {
                return seen;
            }
        }
    }

    fn one_cycle(&mut self) -> Seen {
        let mut case = self.case.clone();
        for (at, (weight, holder)) in self.slots.iter().enumerate() {
            let own = format!("Cpus = {weight}; RemoteScheddName = \"s\"");
            let host = format!("h{at}");
            case = match holder {
                Some(user) => case.claimed(&host, 1, NAMES[*user], &own),
                None => case.slots(&host, 1, &format!("Cpus = {weight}")),
            };
        }
        let seen = case.run();
        for made in &seen.outcome.matches {
            let user =
                &seen.demand.submitters[seen.demand.requests[made.request as usize].submitter].name;
            let user = NAMES
                .iter()
                .position(|name| user.starts_with(name))
                .expect("a user");
            assert!(made.preempted.is_none());
            self.slots[made.row as usize].1 = Some(user);
        }
        self.case.accounts.entitled = seen.outcome.entitled.clone();
        seen
    }

    /// The jobs on some slots end, one after the other.
    fn ends(&mut self, seen: &Seen, slots: &[usize]) {
        let mut kept: Vec<(Vec<(u32, f64)>, f64)> = Vec::new();
        for excess in &seen.outcome.excess {
            let all: f64 = excess.claims.iter().map(|(_, weight)| weight).sum();
            kept.push((excess.claims.clone(), all - excess.weight));
        }
        let count = self.slots.len();
        for slot in slots.iter().map(|slot| slot % count) {
            for (claims, keep) in &mut kept {
                let Some(at) = claims.iter().position(|(row, _)| *row as usize == slot) else {
                    continue;
                };
                let left: f64 = claims.iter().map(|(_, weight)| weight).sum();
                if left - claims[at].1 >= *keep - 1e-6 {
                    claims.remove(at);
                    self.slots[slot].1 = None;
                    self.given_back += 1;
                }
            }
        }
    }

    fn held(&self, user: usize) -> f64 {
        let own = self
            .slots
            .iter()
            .filter(|(_, holder)| *holder == Some(user));
        own.map(|(weight, _)| f64::from(*weight)).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn claims_come_to_rest_at_the_shares(
        weights in prop::collection::vec(1_u32..4, 1..16),
        priorities in prop::collection::vec(0.5_f64..8.0, 2..5),
        ends in prop::collection::vec(prop::collection::vec(0_usize..16, 0..16), 20),
    ) {
        let mut pool = Live::new(&weights, &priorities);
        // The first user has the pool before the others come.
        pool.slots.iter_mut().for_each(|(_, holder)| *holder = Some(0));
        let mut last = 0;
        for (turn, ends) in ends.iter().enumerate() {
            let seen = pool.cycle();
            prop_assert!(pool.slots.iter().all(|(_, holder)| holder.is_some()), "idle though all wait");
            let before: Vec<f64> = (0..pool.users).map(|user| pool.held(user)).collect();
            let entitled = seen.outcome.entitled.clone();
            let given = pool.given_back;
            pool.ends(&seen, ends);
            for (user, before) in before.iter().enumerate() {
                let held = pool.held(user);
                let own = entitled.get(&format!("{}@d", NAMES[user])).copied().unwrap_or(0.0);
                prop_assert!(held >= *before - 1e-9 || held >= own - 1e-6, "brought below its share");
            }
            if pool.given_back > given {
                last = turn;
            }
        }
        // All that can move has moved: who waits below its share would need more than anybody has beyond its own.
        let all: Vec<usize> = (0..16).collect();
        for _ in 0..20 {
            let seen = pool.cycle();
            pool.ends(&seen, &all);
        }
        let at_rest = pool.given_back;
        let seen = pool.cycle();
        pool.ends(&seen, &all);
        prop_assert_eq!(pool.given_back, at_rest, "claims go to and fro (last change in turn {})", last);
        prop_assert!(pool.given_back <= 2 * weights.len());
    }
}
