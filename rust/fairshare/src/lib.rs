//! Numbers of fair share: usage, decay, priority, group quotas, limits.
//!
//! This crate knows names and amounts, not ads: the negotiator gives it
//! numbers and asks who may have how much.

pub mod concurrency;
pub mod entitlement;
pub mod groups;
pub mod names;
pub mod priority;
mod quota;
pub mod share;
mod surplus;
pub mod tolerance;

pub use concurrency::{LimitCounts, LimitPolicy, LimitRequest, parse_limits};
pub use entitlement::{GroupTargets, Want, entitlements};
pub use groups::{Group, GroupSetting, GroupTree, IgnoredGroup, QuotaSetting, ROOT};
pub use priority::{AccountRecord, FactorPolicy, MIN_FACTOR, MIN_PRIORITY};
pub use share::{Claimant, Limits, Pie, exhausted, permits, shares, starvation};
