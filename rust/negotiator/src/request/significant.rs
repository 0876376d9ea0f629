//! Which attributes tell jobs apart.

use crate::config::CycleConfig;
use crate::dependencies::{Dependencies, JOB_FACTS, expressions};
use classad::analysis::Reads;
use classad::{Context, Expr, Name, Value, evaluate};
use columns::AdTable;
use rustc_hash::FxHashSet;

/// Attributes that never make jobs different (they change all the time or mean nothing to a match).
const NEVER_SIGNIFICANT: [&str; 16] = [
    "CurrentTime",
    "LastHeardFrom",
    "TotalJobRunTime",
    "MachineLastMatchTime",
    "JobCurrentStartDate",
    "JobState",
    "Mips",
    "KFlops",
    "SlotID",
    "DSlotId",
    "PartitionableSlot",
    "DynamicSlot",
    "Offline",
    "PelicanPluginVersion",
    "SubmittorPrio",
    "SubmitterUserPrio",
];

/// Names that decide whether jobs are alike.
pub(super) fn significant(
    dependencies: &Dependencies,
    jobs: &AdTable,
    config: &CycleConfig,
) -> Vec<Name> {
    let removed = |name: &Name| is_removed(&name.to_text(), config);
    let mut names: Vec<Name> = dependencies
        .job_names
        .iter()
        .filter(|n| !removed(n))
        .cloned()
        .collect();
    for fact in JOB_FACTS {
        let name = Name::from(fact);
        if !dependencies.names.contains(&name) {
            names.push(name);
        }
    }
    names.retain(|name| jobs.column_id(name).is_some());
    add_own_reads(&mut names, jobs);
    names.sort_by(Name::print_cmp);
    names
}

/// Adds what the jobs' own expressions in these attributes read of their ads, to any depth: whatever is taken out by its
/// name, a request that grows with MemoryUsage differs from job to job with it.
fn add_own_reads(names: &mut Vec<Name>, jobs: &AdTable) {
    let mut known: FxHashSet<Name> = names.iter().cloned().collect();
    let mut next = 0;
    while let Some(column) = names.get(next).and_then(|name| jobs.column_id(name)) {
        next += 1;
        for id in expressions(jobs, column) {
            let reads = Reads::of(jobs.exprs().get(id));
            for name in reads.of_my().filter(|name| jobs.column_id(name).is_some()) {
                if known.insert(name.clone()) {
                    names.push(name.clone());
                }
            }
        }
    }
}

/// Whether an attribute is taken out of the significant ones: always, by name, or by pattern.
fn is_removed(name: &str, config: &CycleConfig) -> bool {
    let lower = name.to_ascii_lowercase();
    let selection = &config.selection;
    let by_pattern = || match selection.removed_pattern.as_deref() {
        None | Some("^Slot[0-9]*_") => is_slot_prefixed(&lower),
        Some(pattern) => {
            let text = |s: &str| Expr::Lit(Value::str(s));
            let call = Expr::call("regexp", vec![text(pattern), text(name), text("i")]);
            // A pattern that is none takes nothing out.
            evaluate(&call, &Context::default()).is_true()
        }
    };
    NEVER_SIGNIFICANT
        .iter()
        .any(|n| n.eq_ignore_ascii_case(name))
        || selection.removed_significant.contains(&lower)
        || by_pattern()
}

fn is_slot_prefixed(lower: &str) -> bool {
    lower.strip_prefix("slot").is_some_and(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[digits..].starts_with('_')
    })
}

/// Job attributes the cycle looks at, to be sent to access points.
#[must_use]
pub fn significant_attributes(dependencies: &Dependencies, config: &CycleConfig) -> Vec<String> {
    let mut names: Vec<String> = dependencies
        .job_names
        .iter()
        .map(|n| n.to_text().into_owned())
        .filter(|n| !is_removed(n, config) && !n.to_ascii_lowercase().starts_with("remote"))
        .collect();
    names.sort_unstable_by_key(|n| n.to_ascii_lowercase());
    names
}
