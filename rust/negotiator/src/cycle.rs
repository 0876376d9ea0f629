//! A cycle in progress: its parts, each with its own data.
//!
//! Only the three loops of a cycle hold all of them: rounds over groups ([`crate::rounds`]), spins over submitters
//! ([`crate::spin`]), and a submitter's turn over its requests ([`crate::negotiate`]). Everything else takes the parts
//! that it touches.

use crate::accounting::Accounting;
use crate::budgets::Budgets;
use crate::evaluations::Evaluations;
use crate::inputs::Inputs;
use crate::pool::Pool;
use crate::pool_size::PoolSize;
use crate::progress::Progress;
use crate::report::Report;
use crate::reserve::Reservations;

/// See the module text.
pub(crate) struct Cycle<'a> {
    /// What the cycle is given.
    pub inputs: Inputs<'a>,
    /// Groups and accounts.
    pub accounting: Accounting,
    /// What is divided among them.
    pub size: PoolSize,
    /// Slots that are left.
    pub pool: Pool<'a>,
    /// Jobs that are left.
    pub progress: Progress,
    /// Time and work that are left.
    pub budgets: Budgets<'a>,
    /// What is known of requests.
    pub evaluations: Evaluations<'a>,
    /// Machines kept for large requests.
    pub reservations: Reservations,
    /// What was decided.
    pub report: Report,
}
