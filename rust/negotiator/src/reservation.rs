//! A machine kept for a large request: what is known of it between cycles, and which other jobs it may serve.

use crate::own_values::own_number;
use classad::Ad;

/// A slot kept for a request, as it is known between cycles.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Key of the slot.
    pub slot: String,
    /// Submitter of the request.
    pub submitter: String,
    /// First job of its autocluster.
    pub job: String,
    /// When the slot is expected to be ready, epoch seconds.
    pub starts_at: f64,
    /// When it is given up, epoch seconds.
    pub gives_up_at: f64,
    /// It was given up: until then it is not kept for this request again.
    pub given_up: bool,
}

/// What makes a class reserved.
#[derive(Debug, Clone, PartialEq)]
pub struct ReservedFor {
    /// Submitter of the request.
    pub submitter: String,
    /// First job of its autocluster.
    pub job: String,
    /// Others must have ended by then, epoch seconds.
    pub until: f64,
}

/// What a job says of how long it runs, seconds.
pub const DURATIONS: [&str; 3] = [
    "AllowedJobDuration",
    "AllowedExecuteDuration",
    "ExpectedRuntime",
];

/// How long a job says it runs, seconds.
#[must_use]
pub fn duration_s(ad: &Ad, now: i64) -> Option<f64> {
    DURATIONS.iter().find_map(|name| own_number(ad, name, now))
}

/// Whether a job may use a reserved slot: it is the one it is kept for, or ends in time.
#[must_use]
pub fn may_use(
    reserved: &ReservedFor,
    submitter: &str,
    first_job: &str,
    job: &Ad,
    now: i64,
) -> bool {
    reserved.submitter == submitter && reserved.job == first_job
        || duration_s(job, now).is_some_and(|seconds| now as f64 + seconds <= reserved.until)
}
