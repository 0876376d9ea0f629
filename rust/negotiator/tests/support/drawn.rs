//! Pools drawn at random, and what was decided on them.

use super::{Case, Seen};
use proptest::prelude::*;

/// A pool drawn at random: static slots, machines, claimed slots; users with jobs of several kinds.
#[derive(Debug, Clone)]
pub struct Drawn {
    pub slots: Vec<(u8, u8, u8)>,
    pub jobs: Vec<(u8, u8, u8, u8)>,
    pub priorities: Vec<u16>,
    pub flags: u8,
    pub policy: u8,
}

pub fn drawn() -> impl Strategy<Value = Drawn> {
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

pub const USERS: [&str; 4] = ["ann", "g.bob", "g.cid", "h.dot"];
const REQUIREMENTS: [&str; 4] = [
    "TARGET.Memory >= RequestMemory && TARGET.Cpus >= RequestCpus",
    "TARGET.Site == \"north\" && TARGET.Memory >= RequestMemory",
    "TARGET.Memory >= RequestMemory && TARGET.Disk > 5000",
    "true",
];

impl Drawn {
    pub fn case(&self) -> Case {
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
pub fn digest(seen: &Seen) -> Vec<String> {
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
