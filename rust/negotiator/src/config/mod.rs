//! The knobs of a cycle, read once from name and value.

mod knobs;

pub use knobs::Knobs;

use classad::{Expr, Value};
use fairshare::{FactorPolicy, GroupSetting, LimitPolicy};
use rustc_hash::FxHashMap;

/// Bounds on the time of a cycle, seconds, and on the work of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeLimits {
    /// `NEGOTIATOR_MAX_TIME_PER_CYCLE`.
    pub cycle_s: f64,
    /// `NEGOTIATOR_MAX_TIME_PER_SUBMITTER`.
    pub submitter_s: f64,
    /// `NEGOTIATOR_MAX_TIME_PER_SCHEDD`.
    pub schedd_s: f64,
    /// `NEGOTIATOR_MAX_TIME_PER_PIESPIN`.
    pub spin_s: f64,
    /// `SLOTWISE_NEGOTIATOR_STEPS_PER_SLOT`: see [`crate::effort`].
    pub steps_per_slot: i64,
}

/// Whether the value of PREEMPTION_REQUIREMENTS permits preemption: true itself, not a number.
#[must_use]
pub fn permits_preemption(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

/// Knobs about who preempts whom.
#[derive(Debug, Clone)]
pub struct PreemptionPolicy {
    /// `NEGOTIATOR_CONSIDER_PREEMPTION`.
    pub consider: bool,
    /// `NEGOTIATOR_CONSIDER_EARLY_PREEMPTION`.
    pub consider_early: bool,
    /// `PREEMPTION_REQUIREMENTS`.
    pub requirements: Expr,
    /// `PREEMPTION_REQUIREMENTS_STABLE`.
    pub requirements_stable: bool,
    /// `PREEMPTION_RANK`.
    pub rank: Expr,
    /// `PREEMPTION_RANK_STABLE`.
    pub rank_stable: bool,
    /// `ALLOW_PSLOT_PREEMPTION`.
    pub partitionable: bool,
}

/// Knobs about which ads take part and how they are ordered.
#[derive(Debug, Clone)]
pub struct SelectionPolicy {
    /// `NEGOTIATOR_PRE_JOB_RANK`.
    pub pre_job_rank: Expr,
    /// `NEGOTIATOR_POST_JOB_RANK`.
    pub post_job_rank: Expr,
    /// `NEGOTIATOR_IGNORE_JOB_RANKS`.
    pub ignore_job_ranks: bool,
    /// `NEGOTIATOR_SLOT_CONSTRAINT`.
    pub slot_constraint: Option<Expr>,
    /// `NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT`.
    pub pool_constraint: Option<Expr>,
    /// `NEGOTIATOR_JOB_CONSTRAINT`.
    pub job_constraint: Option<Expr>,
    /// `NEGOTIATOR_SUBMITTER_CONSTRAINT`.
    pub submitter_constraint: Option<Expr>,
    /// `NEGOTIATOR_MATCH_EXPRS`: attribute name (with prefix) and expression.
    pub match_exprs: Vec<(String, Expr)>,
    /// What every slot is given for the cycle, whatever its ad says: `match_exprs`, and counts that begin anew.
    pub given_to_slots: Vec<(String, Expr)>,
    /// The user map GROUP_PREFIX is configured (`NEGOTIATOR_CLASSAD_USER_MAP_NAMES`): it gives domains of submitters a group.
    pub group_prefix: bool,
    /// `MATCH_WORKING_CM_SLOTS`.
    pub match_working_cm: bool,
    /// `NEGOTIATOR_TRIM_SHUTDOWN_THRESHOLD`, seconds; 0 = off.
    pub shutdown_threshold_s: i64,
    /// `NEGOTIATOR_CROSS_SLOT_PRIOS`.
    pub cross_slot_prios: bool,
    /// `USE_GLOBAL_JOB_PRIOS`.
    pub global_job_prios: bool,
    /// `MAX_GLOBAL_JOB_PRIOS`: of so many job priorities of a submitter, the highest, jobs are matched in a cycle.
    pub global_job_prios_max: usize,
    /// `REMOVE_SIGNIFICANT_ATTRIBUTES`, lower case.
    pub removed_significant: Vec<String>,
    /// `REMOVE_SIGNIFICANT_ATTRIBUTES_REGEX`; none: names that begin `Slot<number>_`.
    pub removed_pattern: Option<String>,
}

/// Knobs about partitionable slots.
#[derive(Debug, Clone)]
pub struct PartitionPolicy {
    /// `NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT`: the cycle carves, instead of one match a cycle.
    pub many_matches: bool,
    /// `NEGOTIATOR_DEPTH_FIRST`.
    pub depth_first: bool,
    /// `MODIFY_REQUEST_EXPR_REQUEST<R>`: what a request takes of a resource, by lower-case resource.
    pub carve: FxHashMap<String, Expr>,
    /// `NEGOTIATOR_RESERVE_FOR_LARGE_JOBS`: reserve a machine for the first request that would fit after waiting.
    pub reserve: bool,
    /// `NEGOTIATOR_RESERVATION_MAX_WAIT`: seconds that a machine may be kept, and is waited for.
    pub reserve_wait_s: f64,
    /// `NEGOTIATOR_RESERVATION_MAX`: how many machines are kept at once.
    pub reserve_max: Option<usize>,
}

/// Knobs about weights and groups.
#[derive(Debug, Clone)]
pub struct SharePolicy {
    /// `PRIORITY_HALFLIFE`, seconds.
    pub half_life_s: f64,
    /// Default factors.
    pub factors: FactorPolicy,
    /// `NEGOTIATOR_USE_SLOT_WEIGHTS`.
    pub weighted: bool,
    /// `SLOT_WEIGHT`, for slots that say none.
    pub slot_weight: Expr,
    /// `FORCE_NEGOTIATOR_SLOT_WEIGHT`.
    pub force_slot_weight: bool,
    /// `NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES`.
    pub discount_suspended: bool,
    /// `NEGOTIATOR_IGNORE_USER_PRIORITIES`.
    pub ignore_priorities: bool,
    /// Configured groups.
    pub groups: Vec<GroupSetting>,
    /// `GROUP_ACCEPT_SURPLUS`: turns are measured by allocations then, whatever the groups say.
    pub surplus_by_default: bool,
    /// `GROUP_AUTOREGROUP`: the root has the whole pool then, whatever the groups say.
    pub regroup_by_default: bool,
    /// `GROUP_SORT_EXPR`.
    pub group_sort: Expr,
    /// `GROUP_QUOTA_MAX_ALLOCATION_ROUNDS`.
    pub allocation_rounds: u32,
    /// `GROUP_QUOTA_ROUND_ROBIN_RATE`.
    pub round_robin_rate: f64,
    /// `NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION`.
    pub oversubscribe: bool,
    /// `NEGOTIATOR_STRICT_ENFORCE_QUOTA`.
    pub strict_quota: bool,
    /// `SLOTWISE_CLAIM_FAIR_SHARE`: claims beyond a submitter's share are given back between jobs while others wait.
    pub between_jobs: bool,
    /// `NEGOTIATOR_USE_WEIGHTED_DEMAND`.
    pub weighted_demand: bool,
}

/// Everything a cycle is told by configuration.
#[derive(Debug, Clone)]
pub struct CycleConfig {
    /// `NEGOTIATOR_NAME`.
    pub negotiator_name: String,
    /// Time bounds.
    pub time: TimeLimits,
    /// Preemption.
    pub preemption: PreemptionPolicy,
    /// Candidates and their order.
    pub selection: SelectionPolicy,
    /// Partitionable slots.
    pub partition: PartitionPolicy,
    /// Shares.
    pub share: SharePolicy,
    /// Concurrency limits.
    pub limits: LimitPolicy,
    /// `NEGOTIATOR_INTERVAL`, seconds: the step between cycles of a simulation.
    pub interval_s: i64,
}
