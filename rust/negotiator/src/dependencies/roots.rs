//! Where the search for dependencies begins: the attributes and expressions that a cycle reads by itself.

use super::{CONDITIONS, FACTS, PARTITION_FACTS};
use crate::config::CycleConfig;
use crate::reservation::DURATIONS;
use classad::analysis::Reads;
use classad::{Expr, Name};
use columns::AdTable;
use rustc_hash::FxHashSet;

/// What a cycle reads by itself.
#[derive(Default)]
pub(super) struct Roots(Reads);

impl Roots {
    /// An attribute, of slots or of jobs.
    pub(super) fn name(&mut self, name: Name) {
        self.0.either.push(name);
    }

    /// An expression of the configuration.
    pub(super) fn add(&mut self, expr: &Expr) {
        self.0.add(&Reads::of(expr));
    }

    /// All of it, definitions not followed.
    pub(super) fn reads(&self) -> &Reads {
        &self.0
    }
}

/// What is read of a slot once, when its class is met first.
pub(super) fn fact_roots(config: &CycleConfig, resources: &FxHashSet<Name>) -> Roots {
    let mut roots = Roots::default();
    let own = FACTS.iter().chain(&PARTITION_FACTS);
    for name in own.chain(&["NumClaims", "DaemonShutdown", "DaemonShutdownFast"]) {
        roots.name(Name::from(*name));
    }
    resources.iter().for_each(|name| roots.name(name.clone()));
    roots.add(&config.share.slot_weight);
    let selection = &config.selection;
    let optional = [&selection.slot_constraint, &selection.pool_constraint];
    optional.into_iter().flatten().for_each(|e| roots.add(e));
    roots
}

/// What decides whether a slot takes a job, and what a divided slot gives.
pub(super) fn condition_roots(
    config: &CycleConfig,
    resources: &FxHashSet<Name>,
    jobs: &AdTable,
    roots: &mut Roots,
) {
    for name in CONDITIONS
        .iter()
        .chain(&PARTITION_FACTS)
        .chain(&["NumClaims"])
    {
        roots.name(Name::from(*name));
    }
    for resource in resources {
        roots.name(resource.clone());
        let text = resource.to_text();
        roots.name(Name::from(format!("Consumption{text}").as_str()));
        roots.name(Name::from(format!("Request{text}").as_str()));
    }
    for column in jobs.column_ids() {
        let name = jobs.column_name(column);
        if name.as_bytes().len() > 7 && name.as_bytes()[..7].eq_ignore_ascii_case(b"request") {
            roots.name(name.clone());
        }
    }
    if config.partition.reserve {
        for name in DURATIONS {
            roots.name(Name::from(name));
        }
    }
    config.partition.carve.values().for_each(|e| roots.add(e));
    config
        .selection
        .match_exprs
        .iter()
        .for_each(|(_, e)| roots.add(e));
}

/// What orders slots or decides how one is treated.
pub(super) fn ordering_roots(
    config: &CycleConfig,
    post_static: bool,
    preempt_static: bool,
) -> Roots {
    let mut roots = Roots::default();
    for name in FACTS.iter().chain(&["ConcurrencyLimits"]) {
        roots.name(Name::from(*name));
    }
    let selection = &config.selection;
    roots.add(&selection.pre_job_rank);
    roots.add(&config.preemption.requirements);
    roots.add(&config.share.slot_weight);
    let optional = [
        &selection.slot_constraint,
        &selection.pool_constraint,
        &selection.job_constraint,
    ];
    optional.into_iter().flatten().for_each(|e| roots.add(e));
    if !post_static {
        roots.add(&selection.post_job_rank);
    }
    if !preempt_static {
        roots.add(&config.preemption.rank);
    }
    if selection.shutdown_threshold_s > 0 {
        for name in ["DaemonShutdown", "DaemonShutdownFast", "MyCurrentTime"] {
            roots.name(name.into());
        }
    }
    if config.preemption.partitionable && config.preemption.consider {
        for name in ["NumDynamicSlots", "ChildName", "Name"] {
            roots.name(name.into());
        }
    }
    roots
}
