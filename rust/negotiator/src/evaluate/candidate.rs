//! A class of slots as a candidate for a request, looked at by itself.

use super::{Evaluation, evict, exceeds};
use crate::candidate::{Candidate, Eviction, SlotState};
use crate::config::permits_preemption;
use crate::ledger::Ledger;
use crate::outcome::SlotCounts;
use crate::pool::Pool;
use crate::slot::{Division, SlotClass};
use classad::{Expr, Name, Value};
use columns::Row;
use std::sync::Arc;

impl<'a> Evaluation<'a> {
    /// The class as a candidate, or nothing; `refused` counts slots by cause.
    pub fn candidate(
        &mut self,
        pool: &mut Pool<'a>,
        ledger: &Ledger,
        class: usize,
        rank_only: bool,
        refused: &mut SlotCounts,
    ) -> Option<Candidate> {
        let facts = Arc::clone(&pool.classes()[class]);
        let policy = &self.inputs.config.preemption;
        let busy = policy.consider && facts.user.is_some();
        let evicts = policy.consider && policy.partitionable && facts.partitionable;
        if rank_only && !busy && !evicts || !self.may_meet(&facts) {
            return None;
        }
        if busy && self.can_only_be_protected(&facts) {
            if !rank_only && facts.user.as_deref() != Some(self.submitter()) {
                self.deferred.push(class as u32);
            }
            return None;
        }
        if !self.matches(pool, &facts, class) {
            return if evicts {
                evict::candidate(self, pool, ledger, class, rank_only)
            } else {
                None
            };
        }
        if !evicts && self.head(pool, class, 0).is_none() {
            return None;
        }
        let state = if busy {
            self.state_of_busy(pool, &facts, rank_only, class, refused)?
        } else if rank_only {
            return None;
        } else {
            SlotState::Free
        };
        self.with_keys(pool, ledger, &facts, class, state)
    }

    /// Nobody's claim on it can be preempted, whatever the job: a static test.
    fn can_only_be_protected(&self, facts: &SlotClass) -> bool {
        let dependencies = self.inputs.dependencies;
        let requirements = &self.inputs.config.preemption.requirements;
        let never = matches!(requirements, Expr::Lit(v) if !permits_preemption(v));
        never && dependencies.slot_rank_static && !exceeds(facts.static_rank, facts.current_rank)
    }

    fn state_of_busy(
        &self,
        pool: &Pool<'a>,
        facts: &SlotClass,
        rank_only: bool,
        class: usize,
        refused: &mut SlotCounts,
    ) -> Option<SlotState> {
        let rank = self.slot_rank(facts);
        if exceeds(rank, facts.current_rank) {
            return Some(SlotState::Rank);
        }
        if rank_only || facts.user.as_deref() == Some(self.submitter()) {
            return None;
        }
        let requirements = &self.inputs.config.preemption.requirements;
        if !permits_preemption(&self.inputs.eval(requirements, &facts.ad, &self.job)) {
            refused.protected += self.count(pool, class);
            return None;
        }
        match (rank, facts.current_rank) {
            (Some(rank), Some(current)) if rank >= current => Some(SlotState::Priority),
            _ => {
                refused.prefer_running += self.count(pool, class);
                None
            }
        }
    }

    fn with_keys(
        &mut self,
        pool: &mut Pool<'a>,
        ledger: &Ledger,
        facts: &Arc<SlotClass>,
        class: usize,
        state: SlotState,
    ) -> Option<Candidate> {
        let (dependencies, config) = (self.inputs.dependencies, self.inputs.config);
        let mut preemption_rank = None;
        if state != SlotState::Free {
            if dependencies.preemption_rank_static {
                self.order_members(pool, ledger, facts, class);
            } else {
                preemption_rank = Some(self.negotiator_rank(&config.preemption.rank, facts));
            }
        }
        let cost = match facts.division {
            Division::Whole => facts.weight,
            _ => {
                let amounts = self.amounts(facts)?;
                pool.cut(class, amounts).cost
            }
        };
        let pre_rank = self.pre_rank(pool, facts, class);
        let post_rank = (!dependencies.post_rank_static)
            .then(|| self.negotiator_rank(&config.selection.post_job_rank, facts));
        Some(Candidate {
            pre_rank,
            job_rank: self.job_rank(pool, facts, class),
            post_rank,
            preemption_rank,
            state,
            head: self.head(pool, class, 0)?,
            class: class as u32,
            generation: pool.generation(class),
            cost,
            eviction: None,
        })
    }

    /// A partitionable slot that fits after eviction, with the keys of its enlarged ad.
    pub(crate) fn evicting_candidate(
        &mut self,
        pool: &Pool<'a>,
        facts: &SlotClass,
        class: usize,
        state: SlotState,
        eviction: Eviction,
    ) -> Option<Candidate> {
        let config = self.inputs.config;
        let rank = self.job.get_str("Rank").map_or(0.0, |expr| {
            self.inputs
                .eval(expr, &self.job, &facts.ad)
                .as_number()
                .unwrap_or(0.0)
        });
        Some(Candidate {
            pre_rank: self.negotiator_rank(&config.selection.pre_job_rank, facts),
            job_rank: self.constant_rank.unwrap_or(rank),
            post_rank: Some(self.negotiator_rank(&config.selection.post_job_rank, facts)),
            preemption_rank: Some(self.negotiator_rank(&config.preemption.rank, facts)),
            state,
            head: pool.head(class, 0, None)?,
            class: class as u32,
            generation: pool.generation(class),
            cost: facts.weight,
            eviction: Some(Box::new(eviction)),
        })
    }

    fn order_members(&self, pool: &mut Pool<'a>, ledger: &Ledger, facts: &SlotClass, class: usize) {
        let inputs = self.inputs;
        let user = facts.user.as_deref().unwrap_or("");
        let priority = ledger.priority_of(user);
        let names: Vec<(Name, u32)> = inputs
            .dependencies
            .row_names
            .iter()
            .filter_map(|name| Some((name.clone(), inputs.table.column_id(name)?)))
            .collect();
        let mut rank_of = |row: Row| {
            let mut ad = facts.ad.clone();
            for (name, column) in &names {
                if let Some(expr) = inputs.table.expr_at(row, *column) {
                    ad.insert(name.clone(), expr);
                }
            }
            ad.set("RemoteUserPrio", Expr::Lit(Value::Real(priority)));
            let value = inputs.eval(&inputs.config.preemption.rank, &ad, &self.job);
            value
                .as_number()
                .filter(|n| !n.is_nan())
                .unwrap_or(f64::NEG_INFINITY)
        };
        pool.order_by_preemption_rank(class, &mut rank_of);
    }

    /// Looks at the classes that were put off: how many slots would match but are protected.
    pub fn count_protected(&mut self, pool: &Pool<'a>) -> u64 {
        let mut slots = 0;
        for class in std::mem::take(&mut self.deferred) {
            let class = class as usize;
            let facts = Arc::clone(&pool.classes()[class]);
            if pool.left(class) > 0 && self.matches(pool, &facts, class) {
                slots += self.count(pool, class);
            }
        }
        slots
    }
}
