//! One negotiation cycle: a pure function of snapshot, configuration, accounts and time.
//!
//! Slots that no expression of the cycle can tell apart form a class
//! ([`index`]); a request is evaluated once per class ([`evaluate`]), its
//! candidates are taken best first ([`candidates`]), and submitters take turns
//! by fair share ([`spin`], [`rounds`]).

mod accounting;
mod amounts;
mod budgets;
pub mod candidate;
mod candidates;
pub mod config;
mod cross_slots;
mod cycle;
pub mod cycle_attributes;
pub mod dependencies;
mod effort;
pub mod error;
pub mod evaluate;
mod evaluations;
mod excess;
pub mod explain;
mod hash;
pub mod index;
pub mod inputs;
pub mod ledger;
mod negotiate;
pub mod outcome;
pub mod own_values;
pub mod pool;
mod pool_size;
mod prefetch;
mod progress;
mod remote_users;
mod report;
pub mod request;
pub mod reservation;
mod reserve;
mod rounds;
mod run;
pub mod slot;
pub mod slot_overlay;
mod spin;
mod standing;

pub use budgets::{Stopped, Stopwatch};
pub use config::{CycleConfig, Knobs};
pub use dependencies::Dependencies;
pub use error::CycleError;
pub use inputs::Traversal;
pub use ledger::Accounts;
pub use outcome::{Match, Outcome, Reason};
pub use request::{Demand, JobId, Request, Submitter};
pub use run::{Memory, Snapshot, run_cycle};
