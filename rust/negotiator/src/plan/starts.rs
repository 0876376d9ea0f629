//! Where a plan begins to look: the attributes and expressions that a cycle asks for by itself.

use super::{CONDITIONS, FACTS, PARTITION_FACTS};
use crate::config::CycleConfig;
use crate::mentions::Mentions;
use crate::reserve::DURATIONS;
use classad::Name;
use columns::{AdTable, ColumnId};
use rustc_hash::FxHashSet;

/// What is read of a slot once, when its class is met first.
pub(super) fn facts(config: &CycleConfig, resources: &FxHashSet<Name>) -> Mentions {
    let mut start = Mentions::default();
    let own = FACTS.iter().chain(&PARTITION_FACTS);
    for name in own.chain(&["NumClaims", "DaemonShutdown", "DaemonShutdownFast"]) {
        start.bare.insert(Name::from(*name));
    }
    start.bare.extend(resources.iter().cloned());
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
    start: &mut Mentions,
) {
    for name in CONDITIONS
        .iter()
        .chain(&PARTITION_FACTS)
        .chain(&["NumClaims"])
    {
        start.bare.insert(Name::from(*name));
    }
    for resource in resources {
        start.bare.insert(resource.clone());
        let text = resource.to_text();
        start
            .bare
            .insert(Name::from(format!("Consumption{text}").as_str()));
        start
            .bare
            .insert(Name::from(format!("Request{text}").as_str()));
    }
    for column in 0..jobs.column_count() {
        let name = jobs.column_name(column as ColumnId);
        if name.as_bytes().len() > 7 && name.as_bytes()[..7].eq_ignore_ascii_case(b"request") {
            start.bare.insert(name.clone());
        }
    }
    if config.partition.reserve {
        for name in DURATIONS {
            start.bare.insert(Name::from(name));
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
) -> Mentions {
    let mut start = Mentions::default();
    for name in FACTS.iter().chain(&["ConcurrencyLimits"]) {
        start.bare.insert(Name::from(*name));
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
            start.bare.insert(name.into());
        }
    }
    if config.preemption.partitionable && config.preemption.consider {
        for name in ["NumDynamicSlots", "ChildName", "Name"] {
            start.bare.insert(name.into());
        }
    }
    start
}
