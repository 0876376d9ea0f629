//! How much work the conditions of requests may make in a cycle.
//!
//! Users write Requirements and Rank, and definitions that use each other twice over make one evaluation cost what
//! they like. Work is counted in steps (see [`classad::allowance`]): a request that needs more than its part is
//! rejected, and its submitter is not negotiated with any more in this cycle. What the owners' and the
//! administrator's expressions cost counts for the request that they are asked about, so the part grows with the pool.

use crate::inputs::Inputs;
use classad::allowance::{self, Account};

/// Steps that a request may need however small the pool is.
const LEAST: i64 = 2_000_000;
/// Times what one request may need, all requests of a submitter may.
const REQUESTS: i64 = 10;

/// What one request may need.
#[must_use]
pub(crate) fn of_request(inputs: &Inputs<'_>) -> i64 {
    let slots = inputs.table.row_end() as i64;
    let steps = inputs.config.time.steps_per_slot.max(0);
    LEAST.saturating_add(steps.saturating_mul(slots))
}

/// What all requests of a submitter may need.
#[must_use]
pub(crate) fn of_submitter(inputs: &Inputs<'_>) -> i64 {
    of_request(inputs).saturating_mul(REQUESTS)
}

/// Steps that something took, and whether it was cut short for want of more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub steps: i64,
    pub cut: bool,
}

/// Does something that may take so many steps.
pub(crate) fn within<T>(steps: i64, work: impl FnOnce() -> T) -> (T, Spent) {
    let former = allowance::begin(steps);
    let done = work();
    let Account { used, left, .. } = allowance::end(former);
    let cut = left <= 0;
    (done, Spent { steps: used, cut })
}
