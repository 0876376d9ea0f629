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

use crate::evaluate::Evaluation;
use crate::evaluations::Evaluations;
use crate::inputs::Inputs;
use crate::outcome::{HeldBack, Reason, Reservation, SlotCounts};
use crate::pool::Pool;
use crate::report::Report;
use crate::request::Demand;
use crate::reservation::{Kept, ReservedFor};
use crate::standing::Standing;
use columns::Row;
use occupied::{Occupied, by_time_and_key, ready_after_ends};
use rustc_hash::FxHashMap;
use turn::Turns;

/// Reservations of a cycle.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
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
    pub fn kept(&self) -> Vec<Reservation> {
        self.kept.clone()
    }

    /// Whether no slot is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether a slot is kept.
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

    /// Whether a request has more jobs than machines are kept for it.
    fn wants_more(&self, standing: &Standing<'_, '_>, request: usize) -> bool {
        self.of(request) < standing.remaining(request) as usize
    }

    /// What running jobs hold of machines, found out when it is first asked for; to be put back.
    fn take_occupied(&mut self, inputs: &Inputs<'_>) -> Occupied {
        let known = self.occupied.take();
        known.unwrap_or_else(|| Occupied::new(inputs))
    }

    /// Keeps a machine for a request: from when it is expected to be ready, and until when it is waited for.
    fn keep(
        &mut self,
        inputs: &Inputs<'_>,
        pool: &mut Pool<'_>,
        request: usize,
        row: Row,
        (starts_at, gives_up_at): (f64, f64),
    ) {
        let asked = &inputs.demand.requests[request];
        let reserved = ReservedFor {
            submitter: inputs.demand.submitters[asked.submitter].name.clone(),
            job: asked.first_job.to_string(),
            until: starts_at,
        };
        pool.isolate(row, reserved);
        self.kept.push(Reservation {
            request: request as u32,
            row,
            starts_at,
            gives_up_at,
            claims: Vec::new(),
        });
    }

    /// Machines that were given up for a request, and are not kept for it again yet.
    fn given_up_by(&self, inputs: &Inputs<'_>, request: usize) -> Vec<Row> {
        let demand = inputs.demand;
        let asked = &demand.requests[request];
        let submitter = demand.submitters[asked.submitter].name.as_str();
        let of =
            |kept: &&Kept| kept.submitter == submitter && request_of(demand, kept) == Some(request);
        let given_up = self.given_up.iter().filter(of);
        given_up
            .filter_map(|kept| inputs.table.row_of(kept.slot.as_bytes()))
            .collect()
    }

    /// Machines kept for a request.
    fn of(&self, request: usize) -> usize {
        self.kept
            .iter()
            .filter(|kept| kept.request as usize == request)
            .count()
    }
}

/// A machine is given up when it is not ready after twice the time that was expected, and so much more, seconds.
const PATIENCE_S: f64 = 60.0;
/// Of so many partitionable slots one is kept at the most, unless the configuration says otherwise.
const MACHINES_FOR_ONE: usize = 20;
/// Machines that are looked at closely in a cycle.
const MOST_LOOKS: usize = 2000;
/// Requests of a submitter that has its share that are looked at.
const MOST_OF_ENTRY: usize = 20;

/// Puts the reservations of the cycle before into force.
pub(crate) fn restore<'a>(
    standing: Standing<'_, 'a>,
    evaluations: &mut Evaluations<'a>,
    pool: &mut Pool<'a>,
    reservations: &mut Reservations,
    kept: &[Kept],
) {
    let inputs = standing.inputs;
    if !inputs.config.partition.reserve {
        return;
    }
    reservations.most = most_kept(&inputs);
    let now = inputs.now as f64;
    for one in kept {
        let request = request_of(inputs.demand, one);
        let row = inputs.table.row_of(one.slot.as_bytes());
        let (Some(request), Some(row)) = (request, row) else {
            continue;
        };
        if one.given_up {
            if now < one.gives_up_at {
                reservations.given_up.push(one.clone());
            }
        } else if now >= one.gives_up_at {
            // As long again as it was waited for, so that a claim that never ends costs little.
            let waited = (one.gives_up_at - one.starts_at).max(PATIENCE_S);
            reservations.given_up.push(Kept {
                gives_up_at: now + 2.0 * waited,
                given_up: true,
                ..one.clone()
            });
        } else if reservations.is_free()
            && reservations.wants_more(&standing, request)
            && !one_claim_would_do(standing, evaluations, reservations, request, row)
        {
            reservations.keep(
                &inputs,
                pool,
                request,
                row,
                (one.starts_at, one.gives_up_at),
            );
        }
    }
}

/// Whether a claim that the machine did not have when it was kept would do for the request by now: then it goes to
/// and fro between two users, unless fair share decides.
fn one_claim_would_do<'a>(
    standing: Standing<'_, 'a>,
    evaluations: &mut Evaluations<'a>,
    reservations: &mut Reservations,
    request: usize,
    row: Row,
) -> bool {
    let inputs = standing.inputs;
    let occupied = reservations.take_occupied(&inputs);
    let evaluation = evaluations.of_request(standing.accounting, request);
    let would_do = occupied.one_would_do(inputs, &evaluation, row);
    evaluations.keep(evaluation);
    reservations.occupied = Some(occupied);
    would_do
}

/// The request that a machine was kept for. Its first job may have started since: jobs of its cluster follow.
fn request_of(demand: &Demand, kept: &Kept) -> Option<usize> {
    let cluster = |job: &str| job.split('.').next().map(str::to_owned);
    let of = |like: &dyn Fn(&str) -> bool| {
        demand.requests.iter().position(|r| {
            let submitter = &demand.submitters[r.submitter].name;
            *submitter == kept.submitter && r.count > 0 && like(&r.first_job.to_string())
        })
    };
    of(&|job| job == kept.job).or_else(|| of(&|job| cluster(job) == cluster(&kept.job)))
}

/// How many machines may be kept at once.
fn most_kept(inputs: &Inputs<'_>) -> usize {
    let classes = inputs.index.classes().iter().enumerate();
    let machines = classes
        .filter(|(_, class)| class.partitionable && !class.excluded)
        .map(|(at, _)| inputs.index.members(at).len())
        .sum::<usize>();
    let part = machines.div_ceil(MACHINES_FOR_ONE);
    inputs.config.partition.reserve_max.unwrap_or(part)
}

/// Keeps machines for requests that had no turn, because their submitters have their shares.
pub(crate) fn reserve_for_waiting<'a>(
    standing: Standing<'_, 'a>,
    evaluations: &mut Evaluations<'a>,
    pool: &mut Pool<'a>,
    reservations: &mut Reservations,
    report: &mut Report,
) {
    let Standing {
        inputs,
        accounting,
        progress,
    } = standing;
    if !is_on(&inputs) {
        return;
    }
    let mut entries: Vec<usize> = (0..inputs.demand.submitters.len())
        .filter(|entry| {
            !matches!(
                report.held_back(*entry),
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
        let priority = |entry: usize| accounting.priority_of(entry);
        priority(*a).total_cmp(&priority(*b)).then_with(|| a.cmp(b))
    });
    for entry in entries {
        let waiting = progress.requests_of[entry].iter().copied();
        for request in waiting.take(MOST_OF_ENTRY) {
            if !reservations.is_free() {
                return;
            }
            if standing.remaining(request) == 0 {
                continue;
            }
            match reservations.small.get(&(request as u32)) {
                Some(true) => break,
                Some(false) => continue,
                None => {}
            }
            let group = accounting.group_of(entry);
            let evaluation = evaluations.open(accounting, entry, group, request);
            if evaluation.fixed_limit_met(&accounting.ledger).is_none()
                && reserve(standing, pool, reservations, request, &evaluation)
            {
                let demand = inputs.demand;
                let none = SlotCounts::default();
                report.reject(demand, progress, request, Reason::Reserved, none);
            }
            evaluations.keep(evaluation);
            if reservations.small.get(&(request as u32)) == Some(&true) {
                break;
            }
        }
    }
}

/// Whether machines are kept at all, and there are any with more than one claim.
fn is_on(inputs: &Inputs<'_>) -> bool {
    inputs.config.partition.reserve && inputs.table.column_named("DynamicSlot").is_some()
}

/// Keeps slots that are ready first for a request that fits nowhere now, as many as it has jobs; whether it has any.
pub(crate) fn reserve<'a>(
    standing: Standing<'_, 'a>,
    pool: &mut Pool<'a>,
    reservations: &mut Reservations,
    request: usize,
    evaluation: &Evaluation<'a>,
) -> bool {
    if !is_on(&standing.inputs) {
        return false;
    }
    if reservations.is_free() && reservations.wants_more(&standing, request) {
        let mut occupied = reservations.take_occupied(&standing.inputs);
        let search = Search {
            standing,
            request,
            evaluation,
        };
        search.keep_soonest(pool, reservations, &mut occupied);
        reservations.occupied = Some(occupied);
    }
    reservations.of(request) > 0
}

/// The search for machines to be kept for a request.
struct Search<'c, 'a> {
    standing: Standing<'c, 'a>,
    request: usize,
    evaluation: &'c Evaluation<'a>,
}

impl<'a> Search<'_, 'a> {
    fn turns<'r>(&'r self, reservations: &'r Reservations) -> Turns<'r, 'a> {
        Turns {
            standing: self.standing,
            reservations,
        }
    }

    fn keep_soonest(
        &self,
        pool: &mut Pool<'a>,
        reservations: &mut Reservations,
        occupied: &mut Occupied,
    ) {
        let (inputs, evaluation, request) = (self.standing.inputs, self.evaluation, self.request);
        let (mut machines, mut small) = occupied.large_for(inputs, evaluation);
        if self.turns(reservations).is_below_share(request) {
            let before = machines.len();
            machines.retain(|row| !occupied.lacks_cores_of_one(inputs, evaluation, *row));
            small |= machines.len() < before;
        }
        reservations.small.insert(request as u32, small);
        if machines.is_empty()
            || !self.turns(reservations).is_in_turn(request)
            || !self.turns(reservations).may_keep_any(request)
        {
            return;
        }
        let given_up = reservations.given_up_by(&inputs, request);
        let open: Vec<Row> = machines
            .into_iter()
            .filter(|row| !reservations.keeps(*row) && !given_up.contains(row))
            .collect();
        let now = inputs.now as f64;
        let longest = inputs.config.partition.reserve_wait_s;
        let mut ready: Vec<(f64, Row)> = Vec::new();
        let mut enough = occupied.with_enough(inputs, evaluation, &open, now + longest);
        // Soonest last.
        enough.reverse();
        while reservations.is_free()
            && reservations.wants_more(&self.standing, request)
            && self.turns(reservations).may_keep_any(request)
        {
            // There may be enough of everything before Requirements hold.
            while let Some((soonest, row)) = enough.last().copied()
                && ready.last().is_none_or(|(at, _)| *at > soonest)
                && reservations.looks < MOST_LOOKS
            {
                enough.pop();
                reservations.looks += 1;
                let Some(class) = inputs.index.class_of(row) else {
                    continue;
                };
                let facts = &inputs.index.classes()[class];
                let found = ready_after_ends(inputs, evaluation, facts, row, occupied);
                if let Some((at, ending)) = found.filter(|(at, _)| *at <= now + longest)
                    && self.turns(reservations).may_keep(request, &ending)
                {
                    ready.push((at, row));
                    ready.sort_by(|a, b| by_time_and_key(&inputs, *b, *a));
                }
            }
            let Some((at, row)) = ready.pop() else {
                return;
            };
            let times = (at, gives_up_at(&inputs, at));
            reservations.keep(&inputs, pool, request, row, times);
        }
    }
}

/// Until when a machine is waited for that is expected to be ready by a time.
fn gives_up_at(inputs: &Inputs<'_>, ready: f64) -> f64 {
    let now = inputs.now as f64;
    let longest = inputs.config.partition.reserve_wait_s;
    now + (2.0 * (ready - now) + PATIENCE_S).min(longest.max(ready - now))
}

/// Finds the claims that have to end before kept machines are ready, and when that is. An expectation gets earlier
/// only, or jobs that end in time could be let in for ever.
pub(crate) fn look_at_kept<'a>(
    standing: Standing<'_, 'a>,
    evaluations: &mut Evaluations<'a>,
    reservations: &mut Reservations,
) {
    if reservations.is_empty() {
        return;
    }
    let inputs = standing.inputs;
    let mut occupied = reservations.take_occupied(&inputs);
    for one in &mut reservations.kept {
        let evaluation = evaluations.of_request(standing.accounting, one.request as usize);
        let facts = inputs
            .index
            .class_of(one.row)
            .map(|class| &inputs.index.classes()[class]);
        if let Some(facts) = facts
            && let Some((ready, needed)) =
                ready_after_ends(inputs, &evaluation, facts, one.row, &mut occupied)
        {
            one.claims = needed;
            one.starts_at = one.starts_at.min(ready);
        }
        evaluations.keep(evaluation);
    }
}
