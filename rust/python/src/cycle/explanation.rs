//! Why a job does not run, as Python sees it.

use std::collections::BTreeMap;

use ::negotiator::explain::JobView;
use pyo3::prelude::*;

use crate::table::explained::ClauseCount;

/// What is known of a job and the slots of a pool.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub(crate) struct JobExplanation {
    /// Accounting name of the job; empty when it has no owner.
    submitter: String,
    /// Slots that were asked about.
    slots: usize,
    /// Slots that the job accepts.
    job_accepts: usize,
    /// Slots that accept the job.
    slot_accepts: usize,
    /// Slots that match both ways.
    matches: usize,
    /// Clauses of the job's Requirements.
    clauses: Vec<ClauseCount>,
    /// Clauses of slots that refuse the job, with the number of slots, most first.
    refused_by: Vec<(String, usize)>,
    /// Slots that are not this negotiator's.
    excluded: usize,
    /// Of the slots that match: free ones.
    free: usize,
    /// Held by the submitter itself.
    held_by_submitter: usize,
    /// Held by others, and may be preempted.
    preemptable: usize,
    /// Held by others and protected by PREEMPTION_REQUIREMENTS.
    protected: usize,
    /// Held by others, whose jobs the slot ranks higher.
    prefer_running: usize,
    /// Asleep: a match wakes them.
    offline: usize,
    /// Not considered in this cycle, by cause.
    trimmed: BTreeMap<&'static str, usize>,
}

impl JobExplanation {
    pub(super) fn of(view: JobView) -> Self {
        let found = view.explanation;
        Self {
            submitter: view.submitter,
            slots: found.rows,
            job_accepts: found.job_accepts,
            slot_accepts: found.slot_accepts,
            matches: found.matches,
            clauses: found.job_clauses.iter().map(ClauseCount::of).collect(),
            refused_by: found.refused_by,
            excluded: view.excluded,
            free: view.free,
            held_by_submitter: view.held_by_submitter,
            preemptable: view.preemptable,
            protected: view.protected,
            prefer_running: view.prefer_running,
            offline: view.offline,
            trimmed: view.trimmed,
        }
    }
}
