//! Slots that a request takes one by one in sorted order, in one state each: free, or to be preempted.

use crate::candidate::{Candidate, SlotState};
use crate::evaluate::Evaluation;
use crate::pool::preemptable::PreemptionSets;
use crate::pool::sorted_slots::{Cursor, Ranking};
use crate::pool::{Pool, SlotKind};
use columns::Bitmap;
use std::sync::Arc;

/// Slots of one state, best first.
pub(crate) struct Stream {
    pub kind: SlotKind,
    pub state: SlotState,
    rows: Arc<Bitmap>,
    cursor: Cursor,
    pub next: Option<Candidate>,
    /// Slots that were passed by because they are too heavy.
    passed: u64,
}

impl Stream {
    /// The slots among `rows`; none where class by class is better.
    pub fn open(
        evaluation: &Evaluation<'_>,
        pool: &mut Pool<'_>,
        (kind, state): (SlotKind, SlotState),
        rows: Arc<Bitmap>,
        ranking: &Ranking,
    ) -> Option<Self> {
        let cursor = pool.cursor(&evaluation.inputs(), kind, &rows, ranking)?;
        Some(Self {
            kind,
            state,
            rows,
            cursor,
            next: None,
            passed: 0,
        })
    }

    /// Finds the next slot.
    pub fn look_further(&mut self, evaluation: &Evaluation<'_>, pool: &mut Pool<'_>) {
        while self.next.is_none()
            && let Some(head) = pool.next_at(&mut self.cursor, &self.rows)
        {
            self.next = evaluation.sorted_candidate(pool, head, self.state);
        }
    }

    /// Notes a slot that the limits do not permit; gives how many are too heavy like it.
    pub fn pass_by(&mut self, cost: f64, pool: &Pool<'_>) -> u64 {
        self.passed += 1;
        let sorted = pool.sorted(self.kind);
        if self.kind == SlotKind::WholePslot || cost > sorted.least_weight() {
            return 1;
        }
        // No other slot is lighter, and what was too heavy stays so.
        self.cursor = Cursor::Nothing;
        sorted.left_among(&self.rows) as u64 - self.passed + 1
    }
}

/// What a request may do to busy slots.
pub(crate) enum Claims {
    /// There are none, or they are looked at class by class.
    Apart,
    /// Not looked at before they can come up: none has a greater pre-job rank.
    Pending(f64),
    /// What the policy says, and the slots of the submitter itself.
    Judged(Arc<PreemptionSets>, Arc<Bitmap>),
}

/// Rows of both sets, without those of `not`.
pub(crate) fn among(rows: &Bitmap, set: &Bitmap, not: Option<&Bitmap>) -> Bitmap {
    let mut out = rows.clone();
    out.and(set);
    if let Some(not) = not {
        out.and_not(not);
    }
    out
}
