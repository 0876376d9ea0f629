//! Time and work of a cycle: what has been spent, and what is left of the limits.

use crate::config::TimeLimits;
use crate::effort::{self, Spent};
use crate::inputs::Inputs;
use rustc_hash::FxHashMap;

/// Seconds since some moment before the cycle; the caller's clock.
pub trait Stopwatch: Sync {
    /// Seconds, never less than before.
    fn seconds(&self) -> f64;
}

/// A stopwatch that stands still: a cycle without time limits.
pub struct Stopped;
impl Stopwatch for Stopped {
    fn seconds(&self) -> f64 {
        0.0
    }
}

/// Seconds left of each limit that bounds a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLeft {
    pub cycle: f64,
    pub submitter: f64,
    pub schedd: f64,
}

impl TimeLeft {
    /// Whether one of the limits is reached.
    pub fn is_over(self) -> bool {
        self.submitter <= 0.0 || self.schedd <= 0.0 || self.cycle <= 0.0
    }
}

/// See the module text.
pub(crate) struct Budgets<'a> {
    clock: &'a dyn Stopwatch,
    started: f64,
    /// Seconds used by each submitter entry.
    by_entry: Vec<f64>,
    /// Seconds used by each access point.
    by_schedd: FxHashMap<&'a str, f64>,
    /// Steps that the conditions of each account's requests have taken; see [`crate::effort`].
    steps: FxHashMap<usize, i64>,
}

impl<'a> Budgets<'a> {
    /// Nothing spent but what the submitters have used of their time before.
    pub fn begin(inputs: &Inputs<'a>, clock: &'a dyn Stopwatch, started: f64) -> Self {
        let submitters = inputs.demand.submitters.iter();
        Self {
            clock,
            started,
            by_entry: submitters.map(|s| s.time_used_s).collect(),
            by_schedd: FxHashMap::default(),
            steps: FxHashMap::default(),
        }
    }

    /// Seconds on the caller's clock.
    pub fn seconds(&self) -> f64 {
        self.clock.seconds()
    }

    /// Time left for an entry of an access point.
    pub fn time_left(&self, limits: &TimeLimits, entry: usize, schedd: &str) -> TimeLeft {
        let used = self.by_schedd.get(schedd).copied().unwrap_or(0.0);
        TimeLeft {
            cycle: limits.cycle_s - (self.clock.seconds() - self.started),
            submitter: limits.submitter_s - self.by_entry[entry],
            schedd: limits.schedd_s - used,
        }
    }

    /// Counts the time of a turn.
    pub fn spend_time(&mut self, entry: usize, schedd: &'a str, seconds: f64) {
        self.by_entry[entry] += seconds;
        *self.by_schedd.entry(schedd).or_default() += seconds;
    }

    /// Steps that the requests of an account may still take.
    pub fn steps_left(&self, inputs: &Inputs<'_>, account: usize) -> i64 {
        let spent = self.steps.get(&account).copied().unwrap_or(0);
        effort::of_submitter(inputs) - spent
    }

    /// Counts what a request took; whether that was more than it, or its submitter, may.
    pub fn charge(&mut self, account: usize, spent: Spent) -> bool {
        *self.steps.entry(account).or_default() += spent.steps;
        spent.cut
    }

    /// Leaves an account no steps: its conditions take too much work.
    pub fn exhaust(&mut self, account: usize) {
        self.steps.insert(account, i64::MAX);
    }
}
