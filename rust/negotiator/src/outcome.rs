//! What a cycle decided: matches, rejections, shares, times.

use crate::request::JobId;
use classad::Name;
use columns::Row;
use fairshare::AccountRecord;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Why a claim is preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PreemptionKind {
    /// The slot prefers the new job.
    Rank,
    /// The new job's user has the better claim and PREEMPTION_REQUIREMENTS allows it.
    Priority,
}

impl PreemptionKind {
    /// `rank` or `priority`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Priority => "priority",
        }
    }
}

/// A claim that a match ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Preempted {
    /// Who loses it.
    pub user: String,
    /// Why.
    pub kind: PreemptionKind,
    /// Dynamic slots to be evicted; empty when the matched slot itself is.
    pub dynamic_slots: Vec<String>,
}

/// One job and the slot it got.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Index of the request.
    pub request: u32,
    /// Which of its jobs.
    pub nth: u32,
    /// The job, where it is named.
    pub job: Option<JobId>,
    /// Row of the slot.
    pub row: Row,
    /// Rank the job gives the slot.
    pub rank: f64,
    /// What the match was charged.
    pub cost: f64,
    /// Amounts to carve from a partitionable slot, by resource, in the order of MachineResources.
    pub carve: Vec<(Name, f64)>,
    /// Claim that ends.
    pub preempted: Option<Box<Preempted>>,
    /// The slot sleeps: it is woken, the job stays idle.
    pub offline: bool,
    /// No claim is made (offline, or WantClaiming false).
    pub unclaimable: bool,
    /// Limits the match holds, as a string for MatchedConcurrencyLimits.
    pub limits: Option<String>,
    /// Group it was negotiated under.
    pub group: u32,
}

/// Why a request got nothing (more).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// No slot matches that is not excluded for one of the other reasons.
    NoMatch,
    /// A concurrency limit would be passed: its name, or all that were met on different slots.
    ConcurrencyLimit(String),
    /// Only busy slots match, and PREEMPTION_REQUIREMENTS protects them.
    PreemptionRequirements,
    /// Every slot that matches is heavier than what is left of the submitter's limit.
    SubmitterLimit,
    /// A machine is kept for it until it can be used.
    Reserved,
    /// What it asks of slots takes too much work to evaluate.
    TooMuchWork,
}

impl Reason {
    /// The words of a rejection that nothing special is known of.
    pub const NO_MATCH: &str = "no match found";

    /// The concurrency limits that were met.
    #[must_use]
    pub fn limits(names: &BTreeSet<String>) -> Self {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self::ConcurrencyLimit(names.join(", "))
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoMatch => f.write_str(Self::NO_MATCH),
            Self::ConcurrencyLimit(name) => write!(f, "concurrency limit: {name}"),
            Self::PreemptionRequirements => f.write_str("PREEMPTION_REQUIREMENTS == False"),
            Self::SubmitterLimit => f.write_str("submitter limit exceeded"),
            Self::Reserved => f.write_str("a machine is reserved"),
            Self::TooMuchWork => f.write_str("its expressions take too long to evaluate"),
        }
    }
}

/// Slots that a request could not take, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Protected by PREEMPTION_REQUIREMENTS.
    pub protected: u64,
    /// Prefer the job they run.
    pub prefer_running: u64,
    /// Heavier than what was left of the limit.
    pub too_heavy: u64,
    /// Would pass a concurrency limit.
    pub limited: u64,
}

/// Jobs of an autocluster that were considered and got nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// Index of the request.
    pub request: u32,
    /// Why.
    pub reason: Reason,
    /// Jobs concerned.
    pub count: u32,
    /// Slots by cause.
    pub slots: SlotCounts,
}

/// Jobs that were not considered, because what their submitter or group may have was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldBack {
    /// The submitter's limit or the pie was used up.
    ShareUsed,
    /// What its group may use was used up.
    GroupQuota,
    /// The submitter's ceiling was reached.
    Ceiling,
    /// A time limit of the cycle.
    OutOfTime,
    /// The submitter's expressions took too much work.
    TooMuchWork,
}

impl HeldBack {
    /// The reason in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::ShareUsed => "share used up",
            Self::GroupQuota => "group quota used up",
            Self::Ceiling => "ceiling reached",
            Self::OutOfTime => "time limit of the cycle",
            Self::TooMuchWork => "expressions take too long",
        }
    }

    /// The reason as jobs are told it, in the words of rejections.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::ShareUsed => "submitter limit exceeded",
            Self::GroupQuota => "group quota exceeded",
            Self::Ceiling => "submitter ceiling reached",
            Self::OutOfTime => "negotiation out of time",
            Self::TooMuchWork => "its submitter's expressions take too long to evaluate",
        }
    }
}

/// A request with jobs that nobody asked about: what its access point is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Index of the request.
    pub request: u32,
    /// Why, in the words of rejections.
    pub reason: &'static str,
    /// Jobs concerned.
    pub count: u32,
}

/// One submitter after the cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitterReport {
    /// Its name.
    pub name: String,
    /// Group it belongs to.
    pub group: String,
    /// Real user priority.
    pub priority: f64,
    /// Factor.
    pub factor: f64,
    /// Share of the pie in spin 1; none when it was not negotiated with.
    pub share: Option<f64>,
    /// Share x weight of the pie.
    pub limit: Option<f64>,
    /// Matches.
    pub matched: u32,
    /// Weighted usage after the cycle.
    pub usage: f64,
    /// Jobs that nobody asked about, and why.
    pub held_back: Option<(HeldBack, u32)>,
}

/// One group after the cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// What it keeps for its own submitters.
    pub quota: f64,
    /// As configured.
    pub config_quota: f64,
    /// Whether the configured quota is an absolute number.
    pub is_static: bool,
    /// Handed to it and everything below.
    pub subtree_quota: f64,
    /// Demand when the cycle began.
    pub requested: f64,
    /// Granted in the last allocation round.
    pub allocated: f64,
    /// Weighted usage after the cycle.
    pub usage: f64,
    /// Matches.
    pub matched: u32,
    /// Accepts surplus.
    pub accept_surplus: bool,
    /// Competes in the root too.
    pub autoregroup: bool,
    /// Value of GROUP_SORT_EXPR.
    pub sort_key: f64,
}

/// Seconds by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timings {
    /// Plan, classes, usage.
    pub prepare_s: f64,
    /// Sorting submitters.
    pub sort_s: f64,
    /// Negotiating.
    pub match_s: f64,
    /// Everything.
    pub total_s: f64,
}

/// Counts for the negotiator ad.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// Slot ads.
    pub total_slots: u64,
    /// Left after trimming.
    pub trimmed_slots: u64,
    /// Considered.
    pub candidate_slots: u64,
    /// Kinds of slots the cycle told apart.
    pub slot_classes: u64,
    /// Allocation rounds, pies and spins.
    pub rounds: u32,
    /// Pies.
    pub pies: u32,
    /// Spins of all pies.
    pub spins: u32,
    /// Requests looked at (again in each spin).
    pub jobs_considered: u64,
    /// Idle jobs of the submitters negotiated with.
    pub idle_jobs: u64,
    /// Rejections (again in each spin).
    pub rejections: u64,
    /// Submitters negotiated with.
    pub active_submitters: u64,
    /// Access points negotiated with.
    pub active_schedds: u64,
    /// Weight of the pool.
    pub pool_weight: f64,
    /// Names that met a time limit.
    pub submitters_out_of_time: Vec<String>,
    /// Access points that met a time limit.
    pub schedds_out_of_time: Vec<String>,
    /// Submitters that met their limit.
    pub submitters_share_limit: Vec<String>,
    /// Groups that were ignored, with the reason.
    pub warnings: Vec<String>,
}

/// A machine kept for a request that fits after waiting.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    /// Index of the request.
    pub request: u32,
    /// Row of the slot kept.
    pub row: Row,
    /// When it is expected to start, epoch seconds.
    pub starts_at: f64,
    /// When the machine is given up, epoch seconds.
    pub gives_up_at: f64,
    /// Claims that have to end before it can start.
    pub claims: Vec<Row>,
}

/// What a submitter is to give back of the claims that an access point holds for it, as their jobs end.
#[derive(Debug, Clone, PartialEq)]
pub struct Excess {
    /// Name of the submitter.
    pub user: String,
    /// Name of the access point.
    pub schedd: String,
    /// Claims that others can use, by row and weight: the first whose jobs end are given back.
    pub claims: Vec<(Row, f64)>,
    /// How much of them is to be given back, by weight.
    pub weight: f64,
}

/// Everything a cycle decided.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// In the order they were made.
    pub matches: Vec<Match>,
    /// By autocluster.
    pub rejections: Vec<Rejection>,
    /// Requests that were not considered to their end, and were not rejected.
    pub waiting: Vec<Waiting>,
    /// All submitters with requests.
    pub submitters: Vec<SubmitterReport>,
    /// All groups; the root alone when none is configured.
    pub groups: Vec<GroupReport>,
    /// Machines kept.
    pub reservations: Vec<Reservation>,
    /// Machines that were not ready in time, to be remembered.
    pub given_up: Vec<crate::reservation::Kept>,
    /// Claims to be given back between jobs.
    pub excess: Vec<Excess>,
    /// What submitters are entitled to hold of what all of them hold, by name; empty while nobody waits for others.
    pub entitled: FxHashMap<String, f64>,
    /// Records to be stored.
    pub records: FxHashMap<String, AccountRecord>,
    /// Remainder times to be stored.
    pub remainder_times: FxHashMap<String, f64>,
    /// Configured groups that were ignored, with the reason.
    pub warnings: Vec<String>,
    /// Seconds by phase.
    pub timings: Timings,
    /// Counts.
    pub statistics: Statistics,
}
