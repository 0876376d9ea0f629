//! Figures of the cycle on a synthetic pool:
//! `cargo run --profile quick -p negotiator --example cycle -- 100000 10 10 100`
//! (slots, submitters, autoclusters of each, jobs of each autocluster, 1 for partitionable slots).

#![allow(clippy::print_stdout)]

use std::time::Instant;

use classad::{Ad, Expr, Value};
use columns::{AdTable, PackHeader, PackWriter};
use negotiator::{
    Accounts, CycleConfig, Demand, Dependencies, Knobs, Memory, Snapshot, Stopwatch, run_cycle,
};
use rustc_hash::FxHashMap;
use testkit::{JobSpec, MachineSpec, job_ad, slot_ad, slot_name};

struct Clock(Instant);
impl Stopwatch for Clock {
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .unwrap_or("");
    let kb: f64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0.0);
    kb / 1024.0
}

/// CPU time of all threads so far, milliseconds (in steps of ten).
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) * 10.0
}

fn requests(submitters: u64, autoclusters: u64, jobs: u64, now: i64) -> (AdTable, AdTable) {
    let (mut requests, mut entries) = (AdTable::new(), AdTable::new());
    for submitter in 0..submitters {
        let mut entry = Ad::new();
        let name = format!("user{submitter}@example.org");
        entry.set("Name", Expr::Lit(Value::str(name.as_str())));
        entry.set("ScheddName", Expr::Lit(Value::str("ap1")));
        entry.set(
            "IdleJobs",
            Expr::Lit(Value::Int((autoclusters * jobs) as i64)),
        );
        entry.set("RunningJobs", Expr::Lit(Value::Int(0)));
        entries
            .upsert(name.as_bytes(), &entry, 0.0)
            .expect("a good ad");
        for autocluster in 0..autoclusters {
            let spec = JobSpec {
                seed: 1,
                submitter,
                autocluster,
                proc: 0,
                now,
            };
            let mut ad = job_ad(&spec);
            ad.set("ResourceRequestCount", Expr::Lit(Value::Int(jobs as i64)));
            ad.set("Submitter", Expr::Lit(Value::str(name.as_str())));
            ad.set("ScheddName", Expr::Lit(Value::str("ap1")));
            let key = format!("{submitter}.{autocluster}");
            requests
                .upsert(key.as_bytes(), &ad, 0.0)
                .expect("a good ad");
        }
    }
    (requests, entries)
}

fn main() {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let get = |at: usize, default: u64| args.get(at).copied().unwrap_or(default);
    let (slots, submitters, autoclusters, jobs) =
        (get(0, 20_000), get(1, 10), get(2, 10), get(3, 100));
    let spec = MachineSpec {
        partitionable: get(4, 0) != 0,
        ..MachineSpec::default()
    };
    let mut table = AdTable::new();
    for start in (0..slots).step_by(1000) {
        let mut pack = PackWriter::new(PackHeader::default());
        for index in start..slots.min(start + 1000) {
            pack.upsert(slot_name(&spec, index).as_bytes(), &slot_ad(&spec, index));
        }
        table.apply(&pack.finish(), 0.0, None).expect("a good pack");
    }
    let (requests, entries) = requests(submitters, autoclusters, jobs, spec.now);
    println!("loaded; {} MB", peak_mb());
    let knobs = FxHashMap::default();
    let config = CycleConfig::from_knobs(&Knobs::new(&knobs)).expect("defaults");
    let mut memory = Memory::default();
    for round in 0..get(5, 4) as i64 {
        if round >= 2 && get(6, 1) != 0 {
            // One slot in a hundred reports anew.
            for index in (0..slots).step_by(100) {
                let mut change = Ad::new();
                change.set("KeyboardIdle", Expr::Lit(Value::Int(7 + round)));
                change.set("LoadAvg", Expr::Lit(Value::Real(0.01 * round as f64)));
                change.set("LastHeardFrom", Expr::Lit(Value::Int(spec.now + round)));
                let name = slot_name(&spec, index + round as u64);
                table
                    .update(name.as_bytes(), &change, &[], 1.0)
                    .expect("a good change");
            }
        }
        let cpu = cpu_ms();
        let began = Instant::now();
        let clock = Clock(began);
        let dependencies = Dependencies::of(&table, &requests, &config);
        let planned = clock.seconds();
        let demand = Demand::from_requests(&requests, &entries, &dependencies, &config, spec.now)
            .expect("good requests");
        let asked = clock.seconds();
        let accounts = Accounts::default();
        let snapshot = Snapshot {
            slots: &table,
            demand: &demand,
            accounts: &accounts,
            dependencies: &dependencies,
        };
        let outcome = run_cycle(&snapshot, &config, &mut memory, spec.now, &clock);
        let total = clock.seconds();
        let t = outcome.timings;
        println!(
            "cycle {round}: CPU {:.0} ms, total {:.1} ms (plan {:.1}, demand {:.1}, prepare {:.1}, match {:.1}); {} matches, {} spins, {} classes, {:.0} MB",
            cpu_ms() - cpu,
            total * 1e3,
            planned * 1e3,
            (asked - planned) * 1e3,
            t.prepare_s * 1e3,
            t.match_s * 1e3,
            outcome.matches.len(),
            outcome.statistics.spins,
            outcome.statistics.slot_classes,
            peak_mb()
        );
    }
}
