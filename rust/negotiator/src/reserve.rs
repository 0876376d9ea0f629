//! Machines kept for large requests, and who may run there meanwhile.
//!
//! With `NEGOTIATOR_RESERVE_FOR_LARGE_JOBS` a request that fits into the room
//! of no single claim, but onto a machine on which several have ended, keeps
//! the machine that is expected to be ready first. Its claims serve no further
//! jobs but such as end in time. How long a job runs is what it says
//! (AllowedJobDuration, AllowedExecuteDuration, ExpectedRuntime), else what
//! its access point has seen of jobs like it (EstimatedRuntime), all in
//! seconds; one of which nothing is known is expected to run on as long as it
//! has run. A machine that is not ready in time is given up for a while, so a
//! claim that never ends keeps the others idle for a bounded time only.

use crate::amounts::amount_expr;
use crate::cycle::Cycle;
use crate::evaluate::{Evaluation, Shared, requirements_hold};
use crate::outcome::Reservation;
use crate::slot::{SlotClass, own_number, own_text};
use classad::Ad;
use columns::Row;
use rustc_hash::FxHashMap;

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

/// Reservations of a cycle.
#[derive(Debug, Default)]
pub struct Reservations {
    kept: Vec<Reservation>,
    /// Slots that were given up, and until when they are not kept again for the same request.
    pub(crate) given_up: Vec<Kept>,
    children: Option<FxHashMap<String, Vec<Row>>>,
}

impl Reservations {
    /// All that stand at the end of the cycle.
    #[must_use]
    pub fn kept(&self) -> Vec<Reservation> {
        self.kept.clone()
    }

    /// Whether no slot is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether a slot is kept.
    #[must_use]
    pub fn keeps(&self, row: Row) -> bool {
        self.kept.iter().any(|kept| kept.row == row)
    }

    /// Ends those of a request that got the slot, or needs it no more.
    pub fn served(&mut self, request: u32, row: Row, done: bool) {
        self.kept
            .retain(|kept| kept.request != request || !done && kept.row != row);
    }
}

/// What a job says of how long it runs, seconds.
pub const DURATIONS: [&str; 3] = [
    "AllowedJobDuration",
    "AllowedExecuteDuration",
    "ExpectedRuntime",
];

/// What its access point expects of a job that does not say it.
const ESTIMATE: &str = "EstimatedRuntime";
/// How long a job of which nothing is known is expected to run on at the least, seconds.
const UNKNOWN_S: f64 = 300.0;
/// A machine is given up when it is not ready after twice the time that was expected, and so much more, seconds.
const PATIENCE_S: f64 = 60.0;

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

/// When the job on a slot is expected to have ended.
fn ends_at(ad: &Ad, now: i64) -> f64 {
    let started = ["JobStart", "EnteredCurrentActivity", "EnteredCurrentState"]
        .iter()
        .find_map(|name| own_number(ad, name, now))
        .unwrap_or(now as f64);
    let ran = (now as f64 - started).max(0.0);
    let stated = duration_s(ad, now);
    let estimate = own_number(ad, ESTIMATE, now);
    let expected = match (stated, estimate) {
        (Some(stated), Some(estimate)) => Some(stated.min(estimate)),
        (stated, estimate) => stated.or(estimate),
    };
    match expected {
        Some(expected) if ran < expected => started + expected,
        // Longer than was expected: nothing is known of it any more but that it is slow.
        Some(expected) => now as f64 + (ran - expected).max(1.0),
        None => now as f64 + ran.max(UNKNOWN_S),
    }
}

impl<'a> Cycle<'a> {
    /// Puts the reservations of the cycle before into force.
    pub(crate) fn restore_reservations(&mut self, kept: &[Kept]) {
        if !self.shared.config.partition.reserve {
            return;
        }
        let now = self.shared.now as f64;
        for one in kept {
            let request = self.demand.requests.iter().position(|r| {
                let submitter = &self.demand.submitters[r.submitter].name;
                *submitter == one.submitter && r.first_job.to_string() == one.job && r.count > 0
            });
            let row = self.shared.table.row_of(one.slot.as_bytes());
            let (Some(request), Some(row)) = (request, row) else {
                continue;
            };
            if one.given_up {
                if now < one.gives_up_at {
                    self.reservations.given_up.push(one.clone());
                }
            } else if now >= one.gives_up_at {
                // As long again as it was waited for, so that a claim that never ends costs little.
                let waited = (one.gives_up_at - one.starts_at).max(PATIENCE_S);
                self.reservations.given_up.push(Kept {
                    gives_up_at: now + 2.0 * waited,
                    given_up: true,
                    ..one.clone()
                });
            } else if self.reservations.kept.len() < self.shared.config.partition.reserve_max {
                self.keep(request, row, one.starts_at, one.gives_up_at);
            }
        }
    }

    fn keep(&mut self, request: usize, row: Row, starts_at: f64, gives_up_at: f64) {
        let asked = &self.demand.requests[request];
        let reserved = ReservedFor {
            submitter: self.demand.submitters[asked.submitter].name.clone(),
            job: asked.first_job.to_string(),
            until: starts_at,
        };
        self.pool.isolate(row, reserved);
        self.reservations.kept.push(Reservation {
            request: request as u32,
            row,
            starts_at,
            gives_up_at,
            claims: Vec::new(),
        });
    }

    /// Whether a machine may be kept for a request now: its submitter is below its share, or nobody who is waits.
    fn may_keep(&self, request: usize) -> bool {
        let below = |entry: usize| {
            let account = self.ledger.get(self.account_of[entry]);
            let used = self.ledger.usage(self.account_of[entry]);
            account.limit.is_none_or(|limit| used < limit)
        };
        let entry = self.demand.requests[request].submitter;
        let waits = |other: &usize| self.served[*other].iter().any(|r| self.left[*r] > 0);
        below(entry)
            || !(0..self.demand.submitters.len())
                .filter(|other| self.account_of[*other] != self.account_of[entry])
                .filter(waits)
                .any(below)
    }

    /// Keeps the slot that is ready first for a request that fits nowhere now.
    pub(crate) fn reserve(&mut self, request: usize, evaluation: &Evaluation<'a>) -> bool {
        let policy = &self.shared.config.partition;
        let known = self
            .reservations
            .kept
            .iter()
            .any(|kept| kept.request == request as u32);
        if !policy.reserve || known || self.reservations.kept.len() >= policy.reserve_max {
            return known;
        }
        if !self.may_keep(request) {
            return false;
        }
        let Some((row, ready)) = self.first_ready(request, evaluation) else {
            return false;
        };
        let now = self.shared.now as f64;
        let gives_up_at = now
            + (2.0 * (ready - now) + PATIENCE_S)
                .min(self.shared.config.partition.reserve_wait_s.max(ready - now));
        self.keep(request, row, ready, gives_up_at);
        true
    }

    /// The slot on which the request fits first, and when.
    fn first_ready(&mut self, request: usize, evaluation: &Evaluation<'a>) -> Option<(Row, f64)> {
        let asked = &self.demand.requests[request];
        let (submitter, job) = (
            self.demand.submitters[asked.submitter].name.as_str(),
            asked.first_job.to_string(),
        );
        let given_up: Vec<Row> = self
            .reservations
            .given_up
            .iter()
            .filter(|kept| kept.submitter == submitter && kept.job == job)
            .filter_map(|kept| self.shared.table.row_of(kept.slot.as_bytes()))
            .collect();
        let latest = self.shared.now as f64 + self.shared.config.partition.reserve_wait_s;
        let shared = self.shared;
        let children = self
            .reservations
            .children
            .get_or_insert_with(|| children_of(&shared));
        let taken: Vec<Row> = self.reservations.kept.iter().map(|kept| kept.row).collect();
        let mut best: Option<(f64, &[u8], Row)> = None;
        for row in shared.table.rows() {
            let Some(class) = shared.index.class_of(row) else {
                continue;
            };
            let facts = &shared.index.classes()[class];
            if facts.excluded
                || !facts.partitionable
                || taken.contains(&row)
                || given_up.contains(&row)
            {
                continue;
            }
            let key = shared.table.key(row);
            let kids = children.get(&String::from_utf8_lossy(key).into_owned());
            let Some(kids) = kids else { continue };
            let Some((ready, _)) = ready_after_ends(&shared, evaluation, facts, row, kids) else {
                continue;
            };
            if ready > latest {
                continue;
            }
            let better = best.is_none_or(|(at, name, _)| ready < at || ready == at && key < name);
            if better {
                best = Some((ready, key, row));
            }
        }
        best.map(|(ready, _, row)| (row, ready))
    }
}

/// When a partitionable slot is expected to fit the request, and the dynamic slots that have to end for that.
///
/// None where a single one would do: that is no large request there, and fair share sees to it.
fn ready_after_ends(
    shared: &Shared<'_>,
    evaluation: &Evaluation<'_>,
    facts: &SlotClass,
    row: Row,
    children: &[Row],
) -> Option<(f64, Vec<Row>)> {
    let own = shared.table.ad(row);
    let held = |ad: &Ad, name: &str| own_number(ad, name, shared.now).unwrap_or(0.0);
    let mut empty = SlotClass::clone(facts);
    for (name, free) in &mut empty.resources {
        *free = held(&own, &name.to_text());
    }
    let mut ends: Vec<(f64, Row, Ad)> = children
        .iter()
        .map(|child| {
            let ad = shared.table.ad(*child);
            (ends_at(&ad, shared.now), *child, ad)
        })
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let fits = |slot: &SlotClass| {
        requirements_hold(shared, &evaluation.job, &slot.ad)
            && evaluation.amounts_of(slot).is_some()
    };
    for (_, _, child) in &ends {
        let mut alone = SlotClass::clone(&empty);
        for (name, amount) in &mut alone.resources {
            *amount = held(child, &name.to_text());
        }
        if evaluation.amounts_of(&alone).is_some() {
            return None;
        }
    }
    let mut grown = empty;
    let mut needed = Vec::new();
    for (at, row, child) in ends {
        needed.push(row);
        for (name, free) in &mut grown.resources {
            *free += held(&child, &name.to_text());
            grown.ad.insert(name.clone(), amount_expr(*free));
        }
        if fits(&grown) {
            return Some((at, needed));
        }
    }
    None
}

impl<'a> Cycle<'a> {
    /// Finds the claims that have to end before kept machines are ready, and when that is. An expectation gets earlier
    /// only, or jobs that end in time could be let in for ever.
    pub(crate) fn look_at_kept(&mut self) {
        let mut kept = std::mem::take(&mut self.reservations.kept);
        let shared = self.shared;
        for one in &mut kept {
            let request = one.request as usize;
            let entry = self.demand.requests[request].submitter;
            let group = self.ledger.get(self.account_of[entry]).group;
            let evaluation = self.evaluation(entry, group, request);
            let children = self
                .reservations
                .children
                .get_or_insert_with(|| children_of(&shared));
            let key = String::from_utf8_lossy(shared.table.key(one.row)).into_owned();
            let kids = children.get(&key).map_or(&[][..], Vec::as_slice);
            let facts = shared
                .index
                .class_of(one.row)
                .map(|class| &shared.index.classes()[class]);
            if let Some(facts) = facts
                && let Some((ready, needed)) =
                    ready_after_ends(&shared, &evaluation, facts, one.row, kids)
            {
                one.claims = needed;
                one.starts_at = one.starts_at.min(ready);
            }
            self.keep_answers(evaluation);
        }
        self.reservations.kept = kept;
    }
}

/// Dynamic slots by the key of their parent: `slot1_3@host` belongs to `slot1@host`.
fn children_of(shared: &Shared<'_>) -> FxHashMap<String, Vec<Row>> {
    let mut out: FxHashMap<String, Vec<Row>> = FxHashMap::default();
    let Some(dynamic) = shared.table.column_named("DynamicSlot") else {
        return out;
    };
    for row in shared.table.rows() {
        if !shared
            .table
            .cell_value(shared.table.cell(row, dynamic))
            .is_true()
        {
            continue;
        }
        let key = String::from_utf8_lossy(shared.table.key(row)).into_owned();
        let name = own_text(&shared.table.ad(row), "Name", shared.now).unwrap_or(key);
        let (slot, host) = name.split_once('@').unwrap_or((&name, ""));
        if let Some((parent, _)) = slot.rsplit_once('_') {
            out.entry(format!("{parent}@{host}")).or_default().push(row);
        }
    }
    out
}
