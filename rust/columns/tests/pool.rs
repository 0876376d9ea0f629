//! A realistic pool: programs, remembered results and several threads give the plain evaluator's matches.

use classad::{Ad, Context, Expr, Name, Value, matching};
use columns::{AdTable, Bitmap, EvalSettings, ExternalsRef, Matcher};
use testkit::{JobSpec, MachineSpec, job_ad, mix, slot_ad, slot_name};

const SETTINGS: EvalSettings = EvalSettings {
    now: 1_800_000_000,
    utc_offset_s: 0,
    seed: 1,
    strict: false,
    externals: ExternalsRef(None),
};

fn pool(spec: &MachineSpec, slots: u64) -> AdTable {
    let mut table = AdTable::new();
    for index in 0..slots {
        table
            .upsert(
                slot_name(spec, index).as_bytes(),
                &slot_ad(spec, index),
                0.0,
            )
            .unwrap();
    }
    table
}

fn jobs() -> Vec<Ad> {
    let spec = |at: u64| JobSpec {
        seed: 5,
        submitter: at % 6,
        autocluster: at / 6,
        proc: 0,
        now: SETTINGS.now,
    };
    (0..24).map(|at| job_ad(&spec(at))).collect()
}

fn plain(table: &AdTable, job: &Ad) -> Bitmap {
    let mut out = Bitmap::empty(table.row_end());
    for row in table.rows() {
        let slot = table.ad(row);
        let context = Context {
            my: Some(job),
            target: Some(&slot),
            now: SETTINGS.now,
            seed: SETTINGS.seed,
            ..Context::default()
        };
        out.set(row as usize, matching::symmetric(&context));
    }
    out
}

#[test]
fn matches_are_those_of_the_plain_evaluator_cycle_after_cycle() {
    for partitionable in [false, true] {
        let spec = MachineSpec {
            partitionable,
            slots_per_machine: 3,
            claimed_every: 4,
            ..MachineSpec::default()
        };
        let mut table = pool(&spec, 400);
        let jobs = jobs();
        let mut matcher = Matcher::new(SETTINGS);
        let mut matched = 0;
        for cycle in 0..5u64 {
            matcher.refresh(&table, SETTINGS);
            for job in &jobs {
                let found = matcher.matches(&table, job);
                assert_eq!(found, plain(&table, job), "cycle {cycle}");
                matched += found.count();
            }
            for change in 0..20 {
                let index = mix(cycle, change) % 420;
                let key = slot_name(&spec, index);
                let delta: Ad = [
                    (
                        "Memory",
                        Value::Int((mix(cycle, change + 50) % 9000) as i64),
                    ),
                    ("LoadAvg", Value::Real(change as f64 / 10.0)),
                ]
                .map(|(name, value)| (Name::from(name), Expr::Lit(value)))
                .into_iter()
                .collect();
                match change % 4 {
                    0 => drop(table.remove(key.as_bytes())),
                    1 => drop(
                        table
                            .upsert(key.as_bytes(), &slot_ad(&spec, index + 7), 0.0)
                            .unwrap(),
                    ),
                    _ => drop(table.update(key.as_bytes(), &delta, &[], 0.0).unwrap()),
                }
            }
        }
        assert!(matched > 1000, "{matched} matches in all");
    }
}

#[test]
fn threads_share_a_matcher() {
    let spec = MachineSpec::default();
    let table = pool(&spec, 600);
    let jobs = jobs();
    let mut matcher = Matcher::new(SETTINGS);
    matcher.refresh(&table, SETTINGS);
    let expected: Vec<Bitmap> = jobs.iter().map(|job| plain(&table, job)).collect();
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (table, jobs, expected, matcher) = (&table, &jobs, &expected, &matcher);
            scope.spawn(move || {
                for at in 0..jobs.len() {
                    let at = (at + start * 5) % jobs.len();
                    assert_eq!(matcher.matches(table, &jobs[at]), expected[at]);
                }
            });
        }
    });
}

#[test]
fn an_explanation_names_the_clause_that_stands_in_the_way() {
    let spec = MachineSpec::default();
    let table = pool(&spec, 200);
    let mut job = jobs().swap_remove(0);
    let asked = classad::parse_expr(
        b"TARGET.Arch == \"X86_64\" && TARGET.Memory >= 99999999 && TARGET.HasFileTransfer",
        classad::Syntax::NORMAL,
    );
    job.set("Requirements", asked.unwrap());
    let mut matcher = Matcher::new(SETTINGS);
    matcher.refresh(&table, SETTINGS);
    let found = matcher.explain(&table, &job);
    assert_eq!((found.rows, found.job_accepts, found.matches), (200, 0, 0));
    let passes: Vec<(usize, usize)> = found
        .job_clauses
        .iter()
        .map(|clause| (clause.passes, clause.without))
        .collect();
    assert_eq!(passes, [(200, 0), (0, 200), (200, 0)]);
    job.set("RequestCpus", Expr::Lit(Value::Int(500)));
    job.set("Requirements", Expr::Lit(Value::Bool(true)));
    let found = matcher.explain(&table, &job);
    assert_eq!((found.job_accepts, found.slot_accepts), (200, 0));
    let (clause, refused) = &found.refused_by[0];
    assert_eq!(
        (clause.as_str(), *refused),
        ("TARGET.RequestCpus <= MY.Cpus", 200)
    );
}

#[test]
fn a_policy_of_its_own_on_every_machine_is_no_different() {
    let spec = MachineSpec {
        slots_per_machine: 1,
        ..MachineSpec::default()
    };
    let mut table = pool(&spec, 300);
    for index in 0..300u64 {
        let start = format!(
            "TARGET.RequestMemory <= {} && MY.Memory > {}",
            index * 10,
            index
        );
        let start = classad::parse_expr(start.as_bytes(), classad::Syntax::NORMAL).unwrap();
        let delta: Ad = [(Name::from("START"), start)].into_iter().collect();
        table
            .update(slot_name(&spec, index).as_bytes(), &delta, &[], 0.0)
            .unwrap();
    }
    let mut matcher = Matcher::new(SETTINGS);
    matcher.refresh(&table, SETTINGS);
    let mut matched = 0;
    for job in &jobs() {
        let found = matcher.matches(&table, job);
        assert_eq!(found, plain(&table, job));
        matched += found.count();
    }
    assert!(matched > 0);
}
