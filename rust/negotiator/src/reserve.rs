//! Machines kept for large requests, and who may run there meanwhile.
//!
//! Off by default (`NEGOTIATOR_RESERVE_FOR_LARGE_JOBS`). A request that fits no
//! slot now, but would fit one once some of its jobs have ended, keeps the slot
//! that is ready first. Until then only jobs that say they end in time may use
//! it (backfill); how long a job runs is what it says in AllowedJobDuration,
//! AllowedExecuteDuration or ExpectedRuntime (seconds).

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
    /// When the slot is ready at the latest, epoch seconds.
    pub starts_at: f64,
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

/// When the job on a slot has ended at the latest.
fn ends_at(ad: &Ad, now: i64) -> Option<f64> {
    let started = ["JobStart", "EnteredCurrentActivity", "EnteredCurrentState"]
        .iter()
        .find_map(|name| own_number(ad, name, now));
    Some((started? + duration_s(ad, now)?).max(now as f64))
}

impl<'a> Cycle<'a> {
    /// Puts the reservations of the cycle before into force.
    pub(crate) fn restore_reservations(&mut self, kept: &[Kept]) {
        if !self.shared.config.partition.reserve {
            return;
        }
        for one in kept.iter().take(self.shared.config.partition.reserve_max) {
            let request = self.demand.requests.iter().position(|r| {
                let submitter = &self.demand.submitters[r.submitter].name;
                *submitter == one.submitter && r.first_job.to_string() == one.job && r.count > 0
            });
            let row = self.shared.table.row_of(one.slot.as_bytes());
            if let (Some(request), Some(row)) = (request, row) {
                self.keep(request, row, one.starts_at);
            }
        }
    }

    fn keep(&mut self, request: usize, row: Row, starts_at: f64) {
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
        });
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
        let Some((row, ready)) = self.first_ready(evaluation) else {
            return false;
        };
        self.keep(request, row, ready);
        true
    }

    /// The slot on which the request fits first, and when.
    fn first_ready(&mut self, evaluation: &Evaluation<'a>) -> Option<(Row, f64)> {
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
            if facts.excluded || taken.contains(&row) || facts.rolled_up {
                continue;
            }
            let key = shared.table.key(row);
            let ready = if facts.partitionable {
                let kids = children.get(&String::from_utf8_lossy(key).into_owned());
                ready_after_ends(
                    &shared,
                    evaluation,
                    facts,
                    row,
                    kids.map_or(&[], Vec::as_slice),
                )
            } else if facts.user.is_some() && evaluation.accepts_row(row) {
                ends_at(&shared.table.ad(row), shared.now)
            } else {
                None
            };
            let Some(ready) = ready else { continue };
            let better = best.is_none_or(|(at, name, _)| ready < at || ready == at && key < name);
            if better {
                best = Some((ready, key, row));
            }
        }
        best.map(|(ready, _, row)| (row, ready))
    }
}

/// When a partitionable slot fits the request: after as many of its jobs have ended as need be.
fn ready_after_ends(
    shared: &Shared<'_>,
    evaluation: &Evaluation<'_>,
    facts: &SlotClass,
    row: Row,
    children: &[Row],
) -> Option<f64> {
    let mut grown = SlotClass::clone(facts);
    for (name, free) in &mut grown.resources {
        if let Some(own) = own_number(&shared.table.ad(row), &name.to_text(), shared.now) {
            *free = own;
        }
    }
    let mut ends: Vec<(f64, Ad)> = children
        .iter()
        .filter_map(|child| {
            let ad = shared.table.ad(*child);
            Some((ends_at(&ad, shared.now)?, ad))
        })
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, child) in ends {
        for (name, free) in &mut grown.resources {
            *free += own_number(&child, &name.to_text(), shared.now).unwrap_or(0.0);
            grown.ad.insert(name.clone(), amount_expr(*free));
        }
        if requirements_hold(shared, &evaluation.job, &grown.ad)
            && evaluation.amounts_of(&grown).is_some()
        {
            return Some(at);
        }
    }
    None
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
