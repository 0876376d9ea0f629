//! Where a plan begins to look: the attributes and expressions that a cycle asks for by itself.

use super::{CONDITIONS, FACTS, PARTITION_FACTS};
use crate::config::CycleConfig;
use crate::reserve::DURATIONS;
use classad::analysis::Reads;
use classad::{Expr, Name};
use columns::AdTable;
use rustc_hash::FxHashSet;

/// What a cycle asks for by itself.
#[derive(Default)]
pub(super) struct Start(Reads);

impl Start {
    /// An attribute, of slots or of jobs.
    pub(super) fn name(&mut self, name: Name) {
        self.0.either.push(name);
    }

    /// An expression of the configuration.
    pub(super) fn add(&mut self, expr: &Expr) {
        self.0.add(&Reads::of(expr));
    }

    /// What that reads, definitions not followed.
    pub(super) fn reads(&self) -> &Reads {
        &self.0
    }
}

/// What is read of a slot once, when its class is met first.
pub(super) fn facts(config: &CycleConfig, resources: &FxHashSet<Name>) -> Start {
    let mut start = Start::default();
    let own = FACTS.iter().chain(&PARTITION_FACTS);
    for name in own.chain(&["NumClaims", "DaemonShutdown", "DaemonShutdownFast"]) {
        start.name(Name::from(*name));
    }
    resources.iter().for_each(|name| start.name(name.clone()));
    start.add(&config.share.slot_weight);
    let selection = &config.selection;
    let optional = [&selection.slot_constraint, &selection.pool_constraint];
    optional.into_iter().flatten().for_each(|e| start.add(e));
    start
}

/// What decides whether a slot takes a job, and what a divided slot gives.
pub(super) fn conditions(
    config: &CycleConfig,
    resources: &FxHashSet<Name>,
    jobs: &AdTable,
    start: &mut Start,
) {
    for name in CONDITIONS
        .iter()
        .chain(&PARTITION_FACTS)
        .chain(&["NumClaims"])
    {
        start.name(Name::from(*name));
    }
    for resource in resources {
        start.name(resource.clone());
        let text = resource.to_text();
        start.name(Name::from(format!("Consumption{text}").as_str()));
        start.name(Name::from(format!("Request{text}").as_str()));
    }
    for column in jobs.column_ids() {
        let name = jobs.column_name(column);
        if name.as_bytes().len() > 7 && name.as_bytes()[..7].eq_ignore_ascii_case(b"request") {
            start.name(name.clone());
        }
    }
    if config.partition.reserve {
        for name in DURATIONS {
            start.name(Name::from(name));
        }
    }
    config.partition.carve.values().for_each(|e| start.add(e));
    config
        .selection
        .match_exprs
        .iter()
        .for_each(|(_, e)| start.add(e));
}

/// What orders slots or decides how one is treated.
pub(super) fn starting_points(
    config: &CycleConfig,
    post_static: bool,
    preempt_static: bool,
) -> Start {
    let mut start = Start::default();
    for name in FACTS.iter().chain(&["ConcurrencyLimits"]) {
        start.name(Name::from(*name));
    }
    let selection = &config.selection;
    start.add(&selection.pre_job_rank);
    start.add(&config.preemption.requirements);
    start.add(&config.share.slot_weight);
    let optional = [
        &selection.slot_constraint,
        &selection.pool_constraint,
        &selection.job_constraint,
    ];
    optional.into_iter().flatten().for_each(|e| start.add(e));
    if !post_static {
        start.add(&selection.post_job_rank);
    }
    if !preempt_static {
        start.add(&config.preemption.rank);
    }
    if selection.shutdown_threshold_s > 0 {
        for name in ["DaemonShutdown", "DaemonShutdownFast", "MyCurrentTime"] {
            start.name(name.into());
        }
    }
    if config.preemption.partitionable && config.preemption.consider {
        for name in ["NumDynamicSlots", "ChildName", "Name"] {
            start.name(name.into());
        }
    }
    start
}
