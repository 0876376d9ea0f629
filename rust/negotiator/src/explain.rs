//! Why a job does not run: which slots match, and what keeps them from it.

use crate::config::CycleConfig;
use crate::cycle::Memory;
use crate::plan::Plan;
use crate::request::submitter_of;
use crate::slot::Trimmed;
use classad::Ad;
use columns::{AdTable, EvalSettings, Explanation, Owner};
use std::collections::BTreeMap;

/// What is known of a job and the slots of a pool.
#[derive(Debug, Clone, Default)]
pub struct JobView {
    /// Accounting name of the job; empty when it has no owner.
    pub submitter: String,
    /// Clause by clause: who accepts whom.
    pub explanation: Explanation,
    /// Slots that are not this negotiator's.
    pub excluded: usize,
    /// Of the slots that match: free ones that would be given.
    pub free: usize,
    /// Held by the submitter itself.
    pub held_by_submitter: usize,
    /// Held by others, and PREEMPTION_REQUIREMENTS is true.
    pub preemptable: usize,
    /// Held by others and protected.
    pub protected: usize,
    /// Asleep: a match wakes them.
    pub offline: usize,
    /// No candidates in this cycle, by cause.
    pub trimmed: BTreeMap<&'static str, usize>,
}

/// The cause in words.
#[must_use]
pub fn trimmed_text(cause: Trimmed) -> &'static str {
    match cause {
        Trimmed::Retiring => "the running job still has retirement time",
        Trimmed::Claimed => "claimed, and preemption is not considered",
        Trimmed::ShuttingDown => "the machine is about to shut down",
        Trimmed::UnwillingPartitionable => {
            "a claimed partitionable slot that does not want matches"
        }
    }
}

/// Looks at every slot on behalf of one job.
pub fn explain(
    slots: &AdTable,
    jobs: &AdTable,
    job: &Ad,
    config: &CycleConfig,
    memory: &mut Memory,
    now: i64,
) -> JobView {
    let plan = Plan::make(slots, jobs, config);
    let settings = EvalSettings {
        now,
        ..EvalSettings::default()
    };
    memory.matcher.refresh(slots, settings);
    memory
        .index
        .refresh(slots, &plan, config, &memory.matcher, now);
    let matcher = &memory.matcher;
    let rows = matcher.matches(slots, job);
    let preemptable = matcher.rows_where(
        slots,
        &config.preemption.requirements,
        Owner::Slot,
        Some(job),
    );
    let mut view = JobView {
        submitter: submitter_of(job, now).unwrap_or_default(),
        explanation: matcher.explain(slots, job),
        ..JobView::default()
    };
    for row in slots.rows() {
        let Some(class) = memory.index.class_of(row) else {
            continue;
        };
        let facts = &memory.index.classes()[class];
        if facts.excluded {
            view.excluded += 1;
            continue;
        }
        if !rows.get(row as usize) {
            continue;
        }
        let user = facts.user.as_deref().filter(|_| config.preemption.consider);
        let place = match (facts.trimmed, user) {
            (Some(cause), _) => view.trimmed.entry(trimmed_text(cause)).or_default(),
            (None, None) if facts.offline => &mut view.offline,
            (None, None) => &mut view.free,
            (None, Some(user)) if user == view.submitter => &mut view.held_by_submitter,
            (None, Some(_)) if preemptable.get(row as usize) => &mut view.preemptable,
            (None, Some(_)) => &mut view.protected,
        };
        *place += 1;
    }
    view
}
