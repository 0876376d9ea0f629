//! One negotiation cycle: a pure function of snapshot, configuration, accounts and time.
//!
//! Slots that no expression of the cycle can tell apart form a class
//! ([`index`]); a request is evaluated once per class ([`evaluate`]), its
//! candidates are taken best first ([`candidates`]), and submitters take turns
//! by fair share ([`spin`], [`rounds`]).

mod amounts;
pub mod candidate;
pub mod candidates;
pub mod config;
mod cross_slots;
pub mod cycle;
pub mod dependencies;
mod effort;
pub mod error;
pub mod evaluate;
mod excess;
pub mod explain;
pub mod index;
pub mod ledger;
mod negotiate;
pub mod outcome;
pub mod pool;
mod prefetch;
mod report;
pub mod request;
pub mod reserve;
mod rounds;
pub mod slot;
pub mod slot_overlay;
mod spin;

pub use config::{CycleConfig, Knobs};
pub use cycle::{Memory, Snapshot, Stopped, Stopwatch, run_cycle};
pub use dependencies::Dependencies;
pub use error::CycleError;
pub use ledger::Accounts;
pub use outcome::{Match, Outcome, Reason};
pub use pool::Traversal;
pub use request::{Demand, JobId, Request, Submitter};
