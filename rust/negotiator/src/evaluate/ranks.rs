//! How a request and a class of slots rank each other.

use super::Evaluation;
use crate::pool::Pool;
use crate::slot::SlotClass;
use classad::{Ad, Expr};

impl<'a> Evaluation<'a> {
    pub(super) fn job_rank(&mut self, pool: &Pool<'a>, facts: &SlotClass, class: usize) -> f64 {
        if let Some(rank) = self.constant_rank {
            return rank;
        }
        if let (Some(numbers), Some(row)) = (&self.answers.job_rank, pool.representative(class)) {
            return numbers.get(row).unwrap_or(0.0);
        }
        self.answers.ready(class, pool.generation(class));
        if self.answers.ranks[class].is_nan() {
            let rank = self.job.get_str("Rank").map_or(0.0, |expr| {
                self.inputs
                    .eval(expr, &self.job, &facts.ad)
                    .as_number()
                    .unwrap_or(0.0)
            });
            self.answers.ranks[class] = if rank.is_nan() { 0.0 } else { rank };
        }
        self.answers.ranks[class]
    }

    pub(super) fn pre_rank(&self, pool: &mut Pool<'a>, facts: &SlotClass, class: usize) -> f64 {
        if let (Some(numbers), Some(row)) = (&self.answers.pre_rank, pool.representative(class)) {
            return numbers.get(row).unwrap_or(f64::NEG_INFINITY);
        }
        if let Some(known) = pool.pre_rank(class) {
            return known;
        }
        let selection = &self.inputs.config.selection;
        let rank = self.negotiator_rank(&selection.pre_job_rank, facts);
        if self.inputs.dependencies.pre_rank_static {
            pool.note_pre_rank(class, rank);
        }
        rank
    }

    /// Rank the slot gives the job.
    #[must_use]
    pub fn slot_rank(&self, facts: &SlotClass) -> Option<f64> {
        if self.inputs.dependencies.slot_rank_static {
            return facts.static_rank;
        }
        let expr = facts.ad.get_str("Rank")?;
        self.inputs.eval(expr, &facts.ad, &self.job).as_number()
    }

    pub(super) fn negotiator_rank(&self, expr: &Expr, facts: &SlotClass) -> f64 {
        let value = if self.inputs.config.selection.ignore_job_ranks {
            // Slots are in order before any job is known.
            self.inputs.eval(expr, &facts.ad, &Ad::new())
        } else {
            self.inputs.eval(expr, &facts.ad, &self.job)
        };
        let number = value.as_number().filter(|n| !n.is_nan());
        number.unwrap_or(f64::NEG_INFINITY)
    }
}
