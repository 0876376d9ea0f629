//! Requests and the slots that are gone through one by one: nothing but ranks, weights and what is left tells those apart.

use super::Evaluation;
use crate::candidate::{Candidate, SlotState};
use crate::inputs::Traversal;
use crate::pool::sorted_slots::Ranking;
use crate::pool::{Head, Pool, SlotKind};
use crate::request::LimitSpec;
use columns::{Bitmap, Numbers};
use std::sync::Arc;

impl<'a> Evaluation<'a> {
    /// A class of free slots as a candidate, if one of its slots matches: the common case of [`Evaluation::candidate`].
    pub fn plain_candidate(&self, pool: &Pool<'a>, class: usize) -> Option<Candidate> {
        let summary = pool.summaries()[class];
        if self.families != 0 && summary.families != 0 && self.families & summary.families == 0 {
            return None;
        }
        let head = pool.head(class, 0, self.answers.rows.as_deref())?;
        self.plain_at(pool, class, head)
    }

    /// A slot that a cursor found as a candidate, unless there is less than is asked for.
    pub fn sorted_candidate(
        &self,
        pool: &Pool<'_>,
        head: Head,
        state: SlotState,
    ) -> Option<Candidate> {
        let class = self.inputs.index.class_of(head.place.row)?;
        let mut found = self.plain_at(pool, class, head)?;
        if pool.summaries()[class].kind == SlotKind::WholePslot {
            let amounts = self.amounts(&pool.classes()[class])?;
            found.cost = pool.cut(class, amounts).cost;
        }
        found.state = state;
        Some(found)
    }

    fn plain_at(&self, pool: &Pool<'_>, class: usize, head: Head) -> Option<Candidate> {
        let row = head.place.row;
        let pre_rank = self
            .answers
            .pre_rank
            .as_ref()?
            .get(row)
            .unwrap_or(f64::NEG_INFINITY);
        let job_rank = match (&self.answers.job_rank, self.constant_rank) {
            (_, Some(rank)) => rank,
            (Some(numbers), None) => numbers.get(row).unwrap_or(0.0),
            (None, None) => return None,
        };
        Some(Candidate {
            pre_rank,
            job_rank,
            post_rank: None,
            preemption_rank: None,
            state: SlotState::Free,
            head,
            class: class as u32,
            generation: pool.generation(class),
            cost: pool.summaries()[class].weight,
            eviction: None,
        })
    }

    /// Whether the slots that match are known as rows, so that free ones need no look at their classes.
    #[must_use]
    pub fn knows_rows(&self) -> bool {
        self.answers.rows.is_some() && self.inputs.dependencies.post_rank_static
    }

    /// The slots that match, where free ones of a kind can be gone through one by one: nothing but ranks, weights and
    /// what there is to cut tells them apart.
    #[must_use]
    pub fn sorted_rows(&self, pool: &Pool<'_>, kind: SlotKind) -> Option<&Arc<Bitmap>> {
        self.rows_by_rank()
            .filter(|_| pool.sorted(kind).all_reachable(self.families))
    }

    /// The slots that match, where busy ones can be gone through one by one.
    #[must_use]
    pub fn preemptable_rows(&self, pool: &Pool<'_>) -> Option<&Arc<Bitmap>> {
        let known = self.inputs.dependencies.policy.is_some();
        let asked = known && self.inputs.traversal != Traversal::ByClass;
        self.rows_by_rank().filter(|_| {
            asked
                && pool
                    .sorted(SlotKind::Preemptable)
                    .all_reachable(self.families)
        })
    }

    /// The slots that match, when ranks are known of all and limits are the same on all.
    fn rows_by_rank(&self) -> Option<&Arc<Bitmap>> {
        let ranked = self.constant_rank.is_some() || self.answers.job_rank.is_some();
        let by_slot = matches!(self.request.limits, LimitSpec::BySlot(_));
        let rows = self.answers.rows.as_ref();
        rows.filter(|_| ranked && !by_slot)
    }

    /// How the request ranks slots.
    #[must_use]
    pub fn ranking(&self, pre_rank: &Arc<Numbers>) -> Ranking {
        Ranking {
            pre_rank: Arc::clone(pre_rank),
            job_rank: self.varying_rank(),
        }
    }

    /// The job's Rank of each slot, unless it is the same for all.
    #[must_use]
    pub fn varying_rank(&self) -> Option<Arc<Numbers>> {
        match self.constant_rank {
            Some(_) => None,
            None => self.answers.job_rank.clone(),
        }
    }
}
