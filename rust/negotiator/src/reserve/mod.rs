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

mod occupied;
mod turn;

use crate::cycle::Cycle;
use crate::evaluate::Evaluation;
use crate::outcome::{HeldBack, Reservation};
use crate::slot::own_number;
use classad::Ad;
use columns::Row;
use occupied::{Occupied, by_time_and_key, ready_after_ends};
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
    occupied: Option<Occupied>,
    /// Requests that fit nowhere now, and whether the room of a single claim would do for them: then fair share hands one
    /// over, or the access point uses one again.
    small: FxHashMap<u32, bool>,
    /// Machines that were looked at closely.
    looks: usize,
    /// How many may be kept.
    most: usize,
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

    /// Ends that of a request which got the slot, and those it needs no more with so many jobs left.
    pub fn served(&mut self, request: u32, row: Row, left: u32) {
        let mut most = left as usize;
        self.kept.retain(|kept| {
            if kept.request != request {
                return true;
            }
            let stays = kept.row != row && most > 0;
            most -= usize::from(stays);
            stays
        });
    }

    /// Whether one more may be kept.
    fn is_free(&self) -> bool {
        self.kept.len() < self.most
    }

    /// Machines kept for a request.
    fn of(&self, request: usize) -> usize {
        self.kept
            .iter()
            .filter(|kept| kept.request as usize == request)
            .count()
    }
}

/// What a job says of how long it runs, seconds.
pub const DURATIONS: [&str; 3] = [
    "AllowedJobDuration",
    "AllowedExecuteDuration",
    "ExpectedRuntime",
];

/// A machine is given up when it is not ready after twice the time that was expected, and so much more, seconds.
const PATIENCE_S: f64 = 60.0;
/// Of so many partitionable slots one is kept at the most, unless the configuration says otherwise.
const MACHINES_FOR_ONE: usize = 20;
/// Machines that are looked at closely in a cycle.
const MOST_LOOKS: usize = 2000;
/// Requests of a submitter that has its share that are looked at.
const MOST_OF_ENTRY: usize = 20;

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

impl<'a> Cycle<'a> {
    /// Puts the reservations of the cycle before into force.
    pub(crate) fn restore_reservations(&mut self, kept: &[Kept]) {
        if !self.shared.config.partition.reserve {
            return;
        }
        self.reservations.most = self.most_kept();
        let now = self.shared.now as f64;
        for one in kept {
            let request = self.request_of(one);
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
            } else if self.reservations.is_free()
                && self.reservations.of(request) < self.left[request] as usize
                && !self.one_claim_would_do(request, row)
            {
                self.keep(request, row, one.starts_at, one.gives_up_at);
            }
        }
    }

    /// Whether a claim that the machine did not have when it was kept would do for the request by now: then it goes to
    /// and fro between two users, unless fair share decides.
    fn one_claim_would_do(&mut self, request: usize, row: Row) -> bool {
        let shared = self.shared;
        let occupied = match self.reservations.occupied.take() {
            Some(known) => known,
            None => Occupied::new(self),
        };
        let entry = self.demand.requests[request].submitter;
        let group = self.ledger.get(self.account_of[entry]).group;
        let evaluation = self.evaluation(entry, group, request);
        let would_do = occupied.one_would_do(shared, &evaluation, row);
        self.keep_answers(evaluation);
        self.reservations.occupied = Some(occupied);
        would_do
    }

    /// The request that a machine was kept for. Its first job may have started since: jobs of its cluster follow.
    fn request_of(&self, kept: &Kept) -> Option<usize> {
        let cluster = |job: &str| job.split('.').next().map(str::to_owned);
        let of = |like: &dyn Fn(&str) -> bool| {
            self.demand.requests.iter().position(|r| {
                let submitter = &self.demand.submitters[r.submitter].name;
                *submitter == kept.submitter && r.count > 0 && like(&r.first_job.to_string())
            })
        };
        of(&|job| job == kept.job).or_else(|| of(&|job| cluster(job) == cluster(&kept.job)))
    }

    /// How many machines may be kept at once.
    fn most_kept(&self) -> usize {
        let classes = self.shared.index.classes().iter().enumerate();
        let machines = classes
            .filter(|(_, class)| class.partitionable && !class.excluded)
            .map(|(at, _)| self.shared.index.members(at).len())
            .sum::<usize>();
        let part = machines.div_ceil(MACHINES_FOR_ONE);
        self.shared.config.partition.reserve_max.unwrap_or(part)
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

    /// Keeps machines for requests that had no turn, because their submitters have their shares.
    pub(crate) fn reserve_for_waiting(&mut self) {
        if !self.shared.config.partition.reserve || !self.has_dynamic_slots() {
            return;
        }
        let mut entries: Vec<usize> = (0..self.demand.submitters.len())
            .filter(|entry| {
                let held_back = self.held_back.get(entry).map(|(why, _)| *why);
                !matches!(
                    held_back,
                    Some(
                        HeldBack::Ceiling
                            | HeldBack::GroupQuota
                            | HeldBack::OutOfTime
                            | HeldBack::TooMuchWork
                    )
                )
            })
            .collect();
        entries.sort_by(|a, b| {
            let priority = |entry: usize| self.ledger.effective_priority(self.account_of[entry]);
            priority(*a).total_cmp(&priority(*b)).then_with(|| a.cmp(b))
        });
        for entry in entries {
            let waiting = self.served[entry].clone().into_iter();
            for request in waiting.take(MOST_OF_ENTRY) {
                if !self.reservations.is_free() {
                    return;
                }
                if self.left[request] == 0 {
                    continue;
                }
                match self.reservations.small.get(&(request as u32)) {
                    Some(true) => break,
                    Some(false) => continue,
                    None => {}
                }
                let group = self.ledger.get(self.account_of[entry]).group;
                let evaluation = self.evaluation(entry, group, request);
                if evaluation.fixed_limit_met(&self.ledger).is_none()
                    && self.reserve(request, &evaluation)
                {
                    self.reject(
                        request,
                        crate::outcome::Reason::Reserved,
                        Default::default(),
                    );
                }
                self.keep_answers(evaluation);
                if self.reservations.small.get(&(request as u32)) == Some(&true) {
                    break;
                }
            }
        }
    }

    fn has_dynamic_slots(&self) -> bool {
        self.shared.table.column_named("DynamicSlot").is_some()
    }

    /// Keeps slots that are ready first for a request that fits nowhere now, as many as it has jobs; whether it has any.
    pub(crate) fn reserve(&mut self, request: usize, evaluation: &Evaluation<'a>) -> bool {
        if !self.shared.config.partition.reserve || !self.has_dynamic_slots() {
            return false;
        }
        if self.reservations.is_free() && self.wants_more(request) {
            let mut occupied = match self.reservations.occupied.take() {
                Some(known) => known,
                None => Occupied::new(self),
            };
            self.reserve_among(request, evaluation, &mut occupied);
            self.reservations.occupied = Some(occupied);
        }
        self.reservations.of(request) > 0
    }

    fn wants_more(&self, request: usize) -> bool {
        self.reservations.of(request) < self.left[request] as usize
    }

    fn reserve_among(
        &mut self,
        request: usize,
        evaluation: &Evaluation<'a>,
        occupied: &mut Occupied,
    ) {
        let shared = self.shared;
        let (mut machines, mut small) = occupied.large_for(shared, evaluation);
        if self.is_below_share(request) {
            let before = machines.len();
            machines.retain(|row| !occupied.lacks_cores_of_one(shared, evaluation, *row));
            small |= machines.len() < before;
        }
        self.reservations.small.insert(request as u32, small);
        if machines.is_empty() || !self.is_in_turn(request) || !self.may_keep_any(request) {
            return;
        }
        let given_up = self.given_up_by(request);
        let open: Vec<Row> = machines
            .into_iter()
            .filter(|row| !self.reservations.keeps(*row) && !given_up.contains(row))
            .collect();
        let now = shared.now as f64;
        let longest = shared.config.partition.reserve_wait_s;
        let mut ready: Vec<(f64, Row)> = Vec::new();
        let mut enough = occupied.with_enough(shared, evaluation, &open, now + longest);
        // Soonest last.
        enough.reverse();
        while self.reservations.is_free() && self.wants_more(request) && self.may_keep_any(request)
        {
            // There may be enough of everything before Requirements hold.
            while let Some((soonest, row)) = enough.last().copied()
                && ready.last().is_none_or(|(at, _)| *at > soonest)
                && self.reservations.looks < MOST_LOOKS
            {
                enough.pop();
                self.reservations.looks += 1;
                let Some(class) = shared.index.class_of(row) else {
                    continue;
                };
                let facts = &shared.index.classes()[class];
                let found = ready_after_ends(shared, evaluation, facts, row, occupied);
                if let Some((at, ending)) = found.filter(|(at, _)| *at <= now + longest)
                    && self.may_keep(request, &ending)
                {
                    ready.push((at, row));
                    ready.sort_by(|a, b| by_time_and_key(&shared, *b, *a));
                }
            }
            let Some((at, row)) = ready.pop() else {
                return;
            };
            self.keep(request, row, at, self.gives_up_at(at));
        }
    }

    /// Until when a machine is waited for that is expected to be ready by a time.
    fn gives_up_at(&self, ready: f64) -> f64 {
        let now = self.shared.now as f64;
        let longest = self.shared.config.partition.reserve_wait_s;
        now + (2.0 * (ready - now) + PATIENCE_S).min(longest.max(ready - now))
    }

    /// Machines that were given up for a request, and are not kept for it again yet.
    fn given_up_by(&self, request: usize) -> Vec<Row> {
        let asked = &self.demand.requests[request];
        let submitter = self.demand.submitters[asked.submitter].name.as_str();
        let of =
            |kept: &&Kept| kept.submitter == submitter && self.request_of(kept) == Some(request);
        let given_up = self.reservations.given_up.iter().filter(of);
        given_up
            .filter_map(|kept| self.shared.table.row_of(kept.slot.as_bytes()))
            .collect()
    }

    /// Finds the claims that have to end before kept machines are ready, and when that is. An expectation gets earlier
    /// only, or jobs that end in time could be let in for ever.
    pub(crate) fn look_at_kept(&mut self) {
        if self.reservations.is_empty() {
            return;
        }
        let mut kept = std::mem::take(&mut self.reservations.kept);
        let mut occupied = match self.reservations.occupied.take() {
            Some(known) => known,
            None => Occupied::new(self),
        };
        let shared = self.shared;
        for one in &mut kept {
            let request = one.request as usize;
            let entry = self.demand.requests[request].submitter;
            let group = self.ledger.get(self.account_of[entry]).group;
            let evaluation = self.evaluation(entry, group, request);
            let facts = shared
                .index
                .class_of(one.row)
                .map(|class| &shared.index.classes()[class]);
            if let Some(facts) = facts
                && let Some((ready, needed)) =
                    ready_after_ends(shared, &evaluation, facts, one.row, &mut occupied)
            {
                one.claims = needed;
                one.starts_at = one.starts_at.min(ready);
            }
            self.keep_answers(evaluation);
        }
        self.reservations.kept = kept;
    }
}
