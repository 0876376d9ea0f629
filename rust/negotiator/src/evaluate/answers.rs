//! What is known of a request before it is served, and what was found out since.

use crate::effort;
use crate::inputs::Inputs;
use classad::{Ad, Expr};
use columns::{Bitmap, Numbers, Owner};
use std::sync::Arc;

/// What is known of a request before it is served.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Slots that match, as the column engine sees them.
    pub rows: Option<Arc<Bitmap>>,
    /// The job's Rank of each slot, when it depends on the slot.
    pub job_rank: Option<Arc<Numbers>>,
    /// NEGOTIATOR_PRE_JOB_RANK of each slot.
    pub pre_rank: Option<Arc<Numbers>>,
    /// Class by class: what the plain evaluator said so far.
    pub(super) known: Vec<u8>,
    pub(super) ranks: Vec<f64>,
    generations: Vec<u32>,
    /// Steps that it took to ask ahead, for which nobody is charged yet.
    pub(crate) uncharged: i64,
}

const UNKNOWN: u8 = 0;
pub(super) const NO: u8 = 1;
pub(super) const YES: u8 = 2;

impl Answers {
    /// Asks the column engine; without row matching nothing is known beforehand.
    #[must_use]
    pub fn ask(inputs: &Inputs<'_>, job: &Ad) -> Self {
        if !inputs.dependencies.row_matching {
            return Self::default();
        }
        let (table, matcher) = (inputs.table, inputs.matcher);
        let selection = &inputs.config.selection;
        let rank_varies = !selection.ignore_job_ranks
            && job
                .get_str("Rank")
                .is_some_and(|rank| !matches!(rank, Expr::Lit(_)));
        Self {
            rows: Some(Arc::new(matcher.matches(table, job))),
            job_rank: rank_varies.then(|| matcher.job_rank(table, job)),
            pre_rank: Some(
                matcher.numbers(
                    table,
                    &selection.pre_job_rank,
                    Owner::Slot,
                    (!inputs.dependencies.pre_rank_static && !selection.ignore_job_ranks)
                        .then_some(job),
                ),
            ),
            ..Self::default()
        }
    }

    /// Asks before the request is served: whoever serves it is charged for that.
    #[must_use]
    pub(crate) fn prefetch(inputs: &Inputs<'_>, job: &Ad) -> Self {
        let bound = effort::of_request(inputs);
        let (mut made, spent) = effort::within(bound, || Self::ask(inputs, job));
        made.uncharged = spent.steps;
        made
    }

    /// Makes room for a class, and forgets what was known of it before it changed.
    pub(super) fn ready(&mut self, class: usize, generation: u32) {
        if self.known.len() <= class {
            self.known.resize(class + 1, UNKNOWN);
            self.ranks.resize(class + 1, f64::NAN);
            self.generations.resize(class + 1, 0);
        }
        if self.generations[class] != generation {
            self.generations[class] = generation;
            self.known[class] = UNKNOWN;
            self.ranks[class] = f64::NAN;
        }
    }

    /// Bytes held of what the column engine said.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, |rows| rows.heap_bytes())
    }

    /// Bytes held of what the plain evaluator said.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        self.known.capacity() * 13
    }
}
