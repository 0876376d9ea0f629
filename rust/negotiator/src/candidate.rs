//! A slot that a request could get, and how it compares with others.

use crate::outcome::PreemptionKind;
use crate::pool::Head;
use fairshare::LimitRequest;
use std::cmp::Ordering;

/// What a match with a slot would do to its present user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotState {
    /// Preempt for priority.
    Priority,
    /// Preempt because the slot prefers the job.
    Rank,
    /// Nothing: it is free.
    Free,
}

impl SlotState {
    /// The kind of preemption, if any.
    #[must_use]
    pub fn preemption(self) -> Option<PreemptionKind> {
        match self {
            Self::Free => None,
            Self::Rank => Some(PreemptionKind::Rank),
            Self::Priority => Some(PreemptionKind::Priority),
        }
    }
}

/// Dynamic slots whose eviction makes room in a partitionable slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Names, in the order they are evicted.
    pub names: Vec<String>,
    /// Their users, without repetition.
    pub users: Vec<String>,
    /// Concurrency limits of the job on the slot as large as it will be, and the text they came from.
    pub limits: (Vec<LimitRequest>, Option<String>),
}

/// A class that suits the request, with its keys; the greater comes first.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// NEGOTIATOR_PRE_JOB_RANK.
    pub pre_rank: f64,
    /// The job's Rank of the slot.
    pub job_rank: f64,
    /// NEGOTIATOR_POST_JOB_RANK where it is not that of the slot's place: it depends on the job, or the slot is enlarged.
    pub post_rank: Option<f64>,
    /// PREEMPTION_RANK where it is not that of the slot's place: it depends on the job, changes, or the slot is enlarged.
    pub preemption_rank: Option<f64>,
    /// What the match does to the slot's user.
    pub state: SlotState,
    /// Best slot of the class.
    pub head: Head,
    /// The class.
    pub class: u32,
    /// State of the class it was evaluated in.
    pub generation: u32,
    /// What a match costs.
    pub cost: f64,
    /// What a match evicts from a partitionable slot.
    pub eviction: Option<Box<Eviction>>,
}

impl Candidate {
    fn post_rank_of_slot(&self) -> f64 {
        self.post_rank.unwrap_or(self.head.place.post_rank)
    }

    fn preemption_rank_of_slot(&self) -> f64 {
        self.preemption_rank
            .unwrap_or(self.head.place.preemption_rank)
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        number(self.pre_rank, other.pre_rank)
            .then_with(|| number(self.job_rank, other.job_rank))
            .then_with(|| number(self.post_rank_of_slot(), other.post_rank_of_slot()))
            .then_with(|| self.state.cmp(&other.state))
            .then_with(|| {
                let rank = Self::preemption_rank_of_slot;
                number(rank(self), rank(other))
            })
            .then_with(|| other.head.place.turns.cmp(&self.head.place.turns))
            .then_with(|| other.head.place.number.cmp(&self.head.place.number))
    }
}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
