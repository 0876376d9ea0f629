//! One negotiation: the requests of one submitter, within its limits.

use crate::candidate::{Candidate, SlotState};
use crate::candidates::{Candidates, Taken};
use crate::cycle::Cycle;
use crate::effort;
use crate::evaluate::{Answers, Evaluation};
use crate::outcome::{Match, Preempted, PreemptionKind, Reason, SlotCounts};
use crate::own_values::own_number;
use crate::pool::Pool;
use crate::progress::{Progress, Reevaluated};
use crate::remote_users;
use crate::reserve;
use crate::slot::{Division, SlotClass};
use crate::standing::Standing;
use classad::{Ad, allowance};
use fairshare::{Limits, exhausted, tolerance};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The claim that a match with a candidate ends.
fn preempted(kind: PreemptionKind, best: &Candidate, facts: &SlotClass) -> Preempted {
    match &best.eviction {
        Some(eviction) => Preempted {
            user: eviction.users.join(","),
            kind,
            dynamic_slots: eviction.names.clone(),
        },
        None => Preempted {
            user: facts.user.clone().unwrap_or_default(),
            kind,
            dynamic_slots: Vec::new(),
        },
    }
}

/// How many jobs like this one fit a machine: by cores and memory, at least one.
fn jobs_in(job: &Ad, facts: &SlotClass, now: i64) -> u32 {
    let per = |wanted: &str, free: &str| {
        let wanted = own_number(job, wanted, now).unwrap_or(1.0).max(1.0);
        (own_number(&facts.ad, free, now).unwrap_or(1.0) / wanted).floor()
    };
    per("RequestCpus", "Cpus")
        .min(per("RequestMemory", "Memory"))
        .max(1.0) as u32
}

/// The turn of a submitter in a spin: what bounds it.
pub(crate) struct Turn {
    pub entry: usize,
    pub negotiating: usize,
    pub limits: Limits,
    pub ceiling: f64,
    /// Past the limit, go on with slots that prefer the job to what they run.
    pub ignore_limit: bool,
    pub deadline: f64,
}

/// How a turn of a submitter ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// It has no more requests.
    Done,
    /// It met a limit and may go on in the next spin.
    Resume,
    /// Its conditions take too much work.
    TooMuchWork,
}

/// How a request ended.
enum Ended {
    /// All its jobs were matched, or none of the rest can be.
    Request { too_heavy: bool },
    /// The submitter's turn is over.
    Turn,
}

/// What a turn has taken so far.
struct TurnState<'p> {
    taken: Taken,
    pie_left: &'p mut f64,
    /// Concurrency limits that the requests met one after the other.
    limits_met: BTreeSet<String>,
}

impl<'a> Cycle<'a> {
    /// Serves the requests of one entry.
    pub(crate) fn negotiate(&mut self, turn: &Turn, pie_left: &mut f64) -> TurnEnd {
        let account = self.accounting.account_of[turn.entry];
        let mut state = TurnState {
            taken: Taken::default(),
            pie_left,
            limits_met: BTreeSet::new(),
        };
        let mut rejected: FxHashSet<i64> = FxHashSet::default();
        let mut limited = false;
        for at in 0..self.progress.requests_of[turn.entry].len() {
            let request = self.progress.requests_of[turn.entry][at];
            let autocluster = self.inputs.demand.requests[request].autocluster;
            if self.progress.remaining[request] == 0 || rejected.contains(&autocluster) {
                continue;
            }
            let left = self.budgets.steps_left(&self.inputs, account);
            let bound = effort::of_request(&self.inputs).min(left);
            let (ended, spent) = effort::within(bound, || self.serve(turn, request, &mut state));
            if self.budgets.charge(account, spent) {
                self.reject(request, Reason::TooMuchWork, SlotCounts::default());
                return TurnEnd::TooMuchWork;
            }
            let used_up = self.progress.remaining[request] == 0;
            self.progress.end_request(request);
            match ended {
                Ended::Turn => return TurnEnd::Resume,
                Ended::Request { too_heavy } => {
                    limited |= too_heavy;
                    if !used_up {
                        rejected.insert(autocluster);
                    }
                }
            }
            let config = self.inputs.config;
            if limited && !config.preemption.consider && !config.share.weighted {
                return TurnEnd::Resume;
            }
        }
        if exhausted(state.taken.total, turn.limits.total) || limited {
            TurnEnd::Resume
        } else {
            TurnEnd::Done
        }
    }

    /// Matches the jobs of one request one after the other.
    fn serve(&mut self, turn: &Turn, request: usize, state: &mut TurnState<'_>) -> Ended {
        self.report.statistics.jobs_considered += 1;
        let mut evaluation: Option<Evaluation<'a>> = None;
        let mut candidates: Option<Candidates> = None;
        let mut ended = Ended::Request { too_heavy: false };
        while self.progress.remaining[request] > 0 {
            if self.budgets.seconds() >= turn.deadline {
                ended = Ended::Turn;
                break;
            }
            let rank_only = exhausted(state.taken.total, turn.limits.total);
            let over_ceiling = tolerance::reached(state.taken.total, turn.ceiling);
            let may_preempt = turn.ignore_limit && self.size.rank_preemption_possible;
            if rank_only && !may_preempt || over_ceiling {
                ended = Ended::Turn;
                break;
            }
            let evaluation = evaluation.get_or_insert_with(|| {
                self.evaluations
                    .open(&self.accounting, turn.entry, turn.negotiating, request)
            });
            if let Some(limit) = evaluation.fixed_limit_met(&self.accounting.ledger) {
                state.limits_met.insert(limit);
                if !rank_only {
                    // The reason names all limits that this submitter's requests met one after the other.
                    let reason = Reason::limits(&state.limits_met);
                    self.reject(request, reason, SlotCounts::default());
                }
                break;
            }
            state.limits_met.clear();
            let of = (request, turn.negotiating);
            self.gather_if_needed(of, evaluation, &mut candidates, rank_only);
            let Some(list) = &mut candidates else { break };
            if allowance::exhausted() {
                break;
            }
            let Some(best) = list.best(
                evaluation,
                &mut self.pool,
                &self.accounting.ledger,
                state.taken,
                turn.limits,
            ) else {
                if !rank_only && !allowance::exhausted() {
                    self.reject_without_candidates(request, evaluation, list);
                    ended = Ended::Request {
                        too_heavy: list.refused.too_heavy > 0,
                    };
                }
                break;
            };
            let cost = best.cost;
            let free = best.state == SlotState::Free;
            if !self.accept(turn, request, best, evaluation, list) {
                break;
            }
            state.taken.total += cost;
            if free {
                state.taken.unclaimed += cost;
            }
            *state.pie_left -= cost;
        }
        if let Some(evaluation) = evaluation
            && !allowance::exhausted()
        {
            self.evaluations.keep(evaluation);
        }
        put_back(&mut self.progress, &mut self.pool, self.inputs.now);
        ended
    }

    /// Notes that jobs of a request were considered and got nothing.
    fn reject(&mut self, request: usize, reason: Reason, slots: SlotCounts) {
        let demand = self.inputs.demand;
        self.report
            .reject(demand, &self.progress, request, reason, slots);
    }

    /// Rejects a request for which no slot is left that it may have, unless a machine is kept for it.
    fn reject_without_candidates(
        &mut self,
        request: usize,
        evaluation: &mut Evaluation<'a>,
        list: &mut Candidates,
    ) {
        list.refused.protected += evaluation.count_protected(&self.pool);
        list.count_refused(evaluation, &self.pool);
        let mut reason = list.reason();
        let nowhere = matches!(reason, Reason::NoMatch | Reason::PreemptionRequirements);
        let standing = Standing {
            inputs: self.inputs,
            accounting: &self.accounting,
            progress: &self.progress,
        };
        let (pool, reservations) = (&mut self.pool, &mut self.reservations);
        if nowhere && reserve::reserve(standing, pool, reservations, request, evaluation) {
            reason = Reason::Reserved;
        }
        self.reject(request, reason, list.refused);
    }

    /// Gathers candidates where there are none yet, or where what was said of them is stale.
    fn gather_if_needed(
        &mut self,
        (request, negotiating): (usize, usize),
        evaluation: &mut Evaluation<'a>,
        candidates: &mut Option<Candidates>,
        rank_only: bool,
    ) {
        let policy = &self.inputs.config.preemption;
        let dependencies = self.inputs.dependencies;
        let stable = policy.requirements_stable && policy.rank_stable;
        if let Some(list) = candidates
            && list.rank_only == rank_only
            && (stable || list.generation == self.accounting.ledger.generation)
        {
            return;
        }
        if !stable
            || dependencies.mentions(&["RemoteUserResourcesInUse", "RemoteGroupResourcesInUse"])
        {
            remote_users::insert(&self.inputs, &self.accounting, &mut self.pool);
        }
        if candidates.is_some() {
            self.evaluations
                .refresh(&self.accounting, negotiating, request, evaluation);
        }
        evaluation.deferred.clear();
        if dependencies.conditions_see_usage {
            // What was said of slots before is said of other usage.
            evaluation.answers = Answers::default();
        }
        *candidates = Some(Candidates::gather(
            evaluation,
            &mut self.pool,
            &self.accounting.ledger,
            rank_only,
        ));
    }

    /// Makes the match: takes the slot, books the cost and what else it holds. False: nothing is left to find out what.
    fn accept(
        &mut self,
        turn: &Turn,
        request: usize,
        best: Candidate,
        evaluation: &mut Evaluation<'a>,
        list: &mut Candidates,
    ) -> bool {
        let class = best.class as usize;
        let facts = Arc::clone(&self.pool.classes()[class]);
        let whole = facts.division == Division::Whole || best.eviction.is_some();
        let amounts = (!whole).then(|| evaluation.amounts(&facts)).flatten();
        let (limits, text) = evaluation.limits_of(&best, &facts);
        if allowance::exhausted() || amounts.is_none() && !whole {
            return false;
        }
        let account = self.accounting.account_of[turn.entry];
        self.accounting.ledger.book(account, best.cost, &limits);
        let preempted = best
            .state
            .preemption()
            .map(|kind| Box::new(preempted(kind, &best, &facts)));
        let (offline, unclaimable) = (facts.offline, facts.offline || !facts.want_claiming);
        // A claim is given away once: only slots that nobody claims can be matched again.
        let reevaluate = facts.reevaluate && unclaimable && facts.division == Division::Whole;
        let policy = &self.inputs.config.partition;
        // The access point starts as many as fit on a machine it is given whole.
        let alone =
            !policy.depth_first || !facts.partitionable || facts.division != Division::Whole;
        let along = if alone {
            0
        } else {
            jobs_in(&evaluation.job, &facts, self.inputs.now) - 1
        };
        let mut carve = Vec::new();
        let mut landed = None;
        let row = if let Some(amounts) = amounts {
            let names = facts.resources.iter().map(|(name, _)| name.clone());
            carve = names.zip(amounts.iter().copied()).collect();
            let cut = self.pool.cut(class, amounts);
            // The class may be this slot's own and is changed in place: nobody else may hold it.
            drop(facts);
            let (row, rest) = self.pool.take_cut(class, &best.head, &cut);
            landed = rest;
            row
        } else {
            self.pool.take(class, &best.head)
        };
        let asked = &self.inputs.demand.requests[request];
        let progress = &mut self.progress;
        let nth = asked.count - progress.remaining[request] - progress.coscheduled[request];
        if unclaimable {
            progress.unclaimable[request] += 1;
        }
        if reevaluate {
            progress.reevaluated.push(Reevaluated { class, row });
        }
        progress.remaining[request] -= 1;
        let left = progress.remaining[request];
        self.reservations.served(request as u32, row, left);
        progress.run_along(request, along);
        self.report.matches.push(Match {
            request: request as u32,
            nth,
            job: asked.job(nth as usize),
            row,
            rank: best.job_rank,
            cost: best.cost,
            carve,
            preempted,
            offline,
            unclaimable,
            limits: text,
            group: turn.negotiating as u32,
        });
        list.again(best, evaluation, &self.pool);
        if let Some(rest) = landed {
            let ledger = &self.accounting.ledger;
            list.add(evaluation, &mut self.pool, ledger, rest as usize);
        }
        true
    }
}

/// Slots that take several matches (WantAdRevaluate) go behind the others; like jobs get each of them once.
fn put_back(progress: &mut Progress, pool: &mut Pool<'_>, now: i64) {
    for Reevaluated { class, row } in std::mem::take(&mut progress.reevaluated) {
        let turns = progress.times_matched.entry(row).or_default();
        *turns += 1;
        let facts = &pool.classes()[class];
        let before = own_number(&facts.ad, "CurMatches", now).unwrap_or(0.0);
        pool.put_last(class, row, *turns, before as i64 + 1);
    }
}
