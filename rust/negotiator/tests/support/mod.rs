//! Pools in a few words: a scenario reads as three lines.

#![allow(dead_code)]

pub mod disguise;
pub mod drawn;

use classad::{Ad, Expr, Name, Syntax, Value, parse_expr};
use columns::AdTable;
use fairshare::AccountRecord;
use negotiator::outcome::{Outcome, PreemptionKind};
use negotiator::{
    Accounts, CycleConfig, Demand, Dependencies, Knobs, Memory, Snapshot, Stopped, Stopwatch,
    run_cycle,
};
use rustc_hash::FxHashMap;

pub const NOW: i64 = 1_800_000_000;

/// A pool, its queue and its knobs.
#[derive(Default, Clone)]
pub struct Case {
    pub slots: AdTable,
    pub jobs: AdTable,
    pub knobs: FxHashMap<String, String>,
    pub accounts: Accounts,
    cluster: i64,
}

fn add(ad: &mut Ad, text: &str) {
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let (name, value) = part
            .split_once('=')
            .unwrap_or_else(|| panic!("{part}: no ="));
        let expr = parse_expr(value.trim().as_bytes(), Syntax::default())
            .unwrap_or_else(|e| panic!("{part}: {e}"));
        ad.insert(Name::from(name.trim()), expr);
    }
}

impl Case {
    pub fn new() -> Self {
        Self {
            slots: AdTable::new(),
            jobs: AdTable::new(),
            ..Self::default()
        }
    }

    /// Slots `slot1@HOST` ... with more attributes, `Name = value; ...`.
    pub fn slots(mut self, host: &str, count: usize, more: &str) -> Self {
        for at in 1..=count {
            let name = format!("slot{at}@{host}");
            let mut ad = Ad::new();
            add(
                &mut ad,
                "Cpus = 1; Memory = 1000; Disk = 100000; SlotWeight = Cpus; State = \"Unclaimed\"; Rank = 0.0; \
                 CurrentRank = 0.0; MachineResources = \"Cpus Memory Disk\"; Requirements = true; \
                 MyAddress = \"<127.0.0.1:1?addrs=127.0.0.1-1>\"",
            );
            ad.set("Name", Expr::Lit(Value::str(name.as_str())));
            ad.set("SlotID", Expr::Lit(Value::Int(at as i64)));
            add(&mut ad, more);
            self.slots
                .upsert(name.as_bytes(), &ad, 0.0)
                .expect("a good slot");
        }
        self
    }

    /// A partitionable slot `slot1@HOST`.
    pub fn machine(self, host: &str, cpus: u32, more: &str) -> Self {
        let own = format!(
            "PartitionableSlot = true; Cpus = {cpus}; Memory = {}; Disk = 1000000; Requirements = \
             TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory; {more}",
            cpus * 1000
        );
        self.slots(host, 1, &own)
    }

    /// Slots that a user holds.
    pub fn claimed(self, host: &str, count: usize, user: &str, more: &str) -> Self {
        let held = format!(
            "State = \"Claimed\"; Activity = \"Busy\"; RemoteUser = \"{user}@d\"; RemoteOwner = \"{user}@d\"; \
             AccountingGroup = \"{user}@d\"; {more}"
        );
        self.slots(host, count, &held)
    }

    /// A dynamic slot `slot1_N@HOST` that runs a job of a user.
    pub fn child(mut self, host: &str, number: usize, user: &str, more: &str) -> Self {
        let name = format!("slot1_{number}@{host}");
        let own =
            format!("DynamicSlot = true; Requirements = TARGET.RequestCpus <= MY.Cpus; {more}");
        let made = Self::new().claimed("x", 1, user, &own);
        let mut ad = made.slots.get(b"slot1@x").expect("the slot just made");
        ad.set("Name", Expr::Lit(Value::str(name.as_str())));
        self.slots
            .upsert(name.as_bytes(), &ad, 0.0)
            .expect("a good slot");
        self
    }

    /// A cluster of jobs.
    pub fn jobs(mut self, user: &str, count: usize, more: &str) -> Self {
        self.cluster += 1;
        for proc in 0..count {
            let mut ad = Ad::new();
            add(
                &mut ad,
                "RequestCpus = 1; RequestMemory = 100; RequestDisk = 1; JobStatus = 1; JobUniverse = 5; JobPrio = 0; \
                 QDate = 1; Requirements = true; Rank = 0.0",
            );
            ad.set("AccountingGroup", Expr::Lit(Value::str(user)));
            ad.set("User", Expr::Lit(Value::str("peer@d")));
            ad.set("ClusterId", Expr::Lit(Value::Int(self.cluster)));
            ad.set("ProcId", Expr::Lit(Value::Int(proc as i64)));
            add(&mut ad, more);
            let key = format!("{}.{proc}", self.cluster);
            self.jobs
                .upsert(key.as_bytes(), &ad, 0.0)
                .expect("a good job");
        }
        self
    }

    pub fn knob(mut self, name: &str, value: &str) -> Self {
        self.knobs
            .insert(name.to_ascii_uppercase(), value.to_owned());
        self
    }

    /// What is stored of a submitter.
    pub fn account(mut self, user: &str, change: impl FnOnce(&mut AccountRecord)) -> Self {
        let name = if user.contains('@') || user == "<none>" {
            user.to_owned()
        } else {
            format!("{user}@d")
        };
        change(
            self.accounts
                .records
                .entry(name)
                .or_insert_with(|| AccountRecord::new(NOW)),
        );
        self
    }

    /// A submitter's real priority and factor.
    pub fn priority(self, user: &str, priority: f64, factor: f64) -> Self {
        self.account(user, |record| {
            record.priority = priority;
            record.factor = Some(factor);
        })
    }

    pub fn config(&self) -> CycleConfig {
        CycleConfig::from_knobs(&Knobs::new(&self.knobs)).expect("good knobs")
    }

    pub fn run(&self) -> Seen {
        self.run_with(&mut Memory::default(), &Stopped)
    }

    pub fn run_with(&self, memory: &mut Memory, clock: &dyn Stopwatch) -> Seen {
        let config = self.config();
        let dependencies = Dependencies::of(&self.slots, &self.jobs, &config);
        let mut demand =
            Demand::from_jobs(&self.jobs, &dependencies, &config, NOW).expect("good jobs");
        if config.selection.global_job_prios {
            demand = demand.split_by_priority(config.selection.global_job_prios_max);
        }
        let snapshot = Snapshot {
            slots: &self.slots,
            demand: &demand,
            accounts: &self.accounts,
            dependencies: &dependencies,
        };
        let outcome = run_cycle(&snapshot, &config, memory, NOW, clock);
        let slots = outcome
            .matches
            .iter()
            .map(|m| String::from_utf8_lossy(self.slots.key(m.row)).into_owned());
        let slots = slots.collect();
        Seen {
            outcome,
            demand,
            slots,
        }
    }
}

/// What came out.
pub struct Seen {
    pub outcome: Outcome,
    pub demand: Demand,
    pub slots: Vec<String>,
}

impl Seen {
    fn user(&self, request: u32) -> &str {
        let name = &self.demand.submitters[self.demand.requests[request as usize].submitter].name;
        name.split('@').next().unwrap_or("")
    }

    /// Matches of a user.
    pub fn got(&self, user: &str) -> usize {
        self.outcome
            .matches
            .iter()
            .filter(|m| self.user(m.request) == user)
            .count()
    }

    pub fn total(&self) -> usize {
        self.outcome.matches.len()
    }

    /// Slots of a user, in the order they were given.
    pub fn slots_of(&self, user: &str) -> Vec<&str> {
        let matches = self.outcome.matches.iter().zip(&self.slots);
        matches
            .filter(|(m, _)| self.user(m.request) == user)
            .map(|(_, slot)| slot.as_str())
            .collect()
    }

    /// Cost of all matches of a user.
    pub fn cost(&self, user: &str) -> f64 {
        self.outcome
            .matches
            .iter()
            .filter(|m| self.user(m.request) == user)
            .map(|m| m.cost)
            .sum()
    }

    pub fn preempted(&self, kind: PreemptionKind) -> usize {
        let kinds = self
            .outcome
            .matches
            .iter()
            .filter_map(|m| m.preempted.as_ref().map(|p| p.kind));
        kinds.filter(|k| *k == kind).count()
    }

    /// Reasons by which jobs of a user were rejected.
    pub fn reasons(&self, user: &str) -> Vec<String> {
        let all = self
            .outcome
            .rejections
            .iter()
            .filter(|r| self.user(r.request) == user);
        all.map(|r| r.reason.to_string()).collect()
    }

    /// Reasons that requests of a user are told which were not considered to their end.
    pub fn waits(&self, user: &str) -> Vec<&'static str> {
        let all = self.outcome.waiting.iter();
        all.filter(|w| self.user(w.request) == user)
            .map(|w| w.reason)
            .collect()
    }
}

/// Users and matches, for comparing at a glance.
#[macro_export]
macro_rules! assert_got {
    ($seen:expr, $($user:literal : $count:expr),+ $(,)?) => {{
        let seen = &$seen;
        $(assert_eq!(seen.got($user), $count, "matches of {}", $user);)+
    }};
}
