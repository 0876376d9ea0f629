//! One negotiation: the requests of one submitter, within its limits.

use crate::candidate::{Candidate, SlotState};
use crate::candidates::{Candidates, Taken};
use crate::cycle::Cycle;
use crate::effort::{self, Spent};
use crate::evaluate::{Answers, Evaluation, SUBMITTER_NAMES, insert_submitter, live_signature};
use crate::outcome::{Match, Preempted, PreemptionKind, Reason};
use crate::slot::{Division, SlotClass, own_number};
use crate::spin::Verdict;
use classad::{Ad, allowance};
use fairshare::{Limits, exhausted, tolerance};
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Answers kept at once; beyond that they are asked for again.
const ANSWER_BYTES: usize = 512 << 20;

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

/// What bounds a negotiation.
pub(crate) struct Turn {
    pub entry: usize,
    pub negotiating: usize,
    pub limits: Limits,
    pub ceiling: f64,
    /// Past the limit, go on with slots that prefer the job to what they run.
    pub ignore_limit: bool,
    pub deadline: f64,
}

/// How a request ended.
enum Ended {
    /// All its jobs were matched, or none of the rest can be.
    Request { too_heavy: bool },
    /// The submitter's turn is over.
    Turn,
}

impl<'a> Cycle<'a> {
    /// Serves the requests of one entry.
    pub(crate) fn negotiate(&mut self, turn: &Turn, pie_left: &mut f64) -> Verdict {
        let mut taken = Taken::default();
        let mut rejected: FxHashSet<i64> = FxHashSet::default();
        let mut limited = false;
        let mut limits_met = BTreeSet::new();
        for at in 0..self.served[turn.entry].len() {
            let request = self.served[turn.entry][at];
            let autocluster = self.demand.requests[request].autocluster;
            if self.left[request] == 0 || rejected.contains(&autocluster) {
                continue;
            }
            let bound = effort::of_request(&self.shared).min(self.effort_left(turn.entry));
            let (ended, spent) = effort::within(bound, || {
                self.serve(turn, request, &mut taken, pie_left, &mut limits_met)
            });
            if self.charge(turn.entry, spent) {
                self.reject(request, Reason::TooMuchWork, Default::default());
                return Verdict::TooMuchWork;
            }
            let used_up = self.left[request] == 0;
            self.left[request] += std::mem::take(&mut self.along[request]);
            match ended {
                Ended::Turn => return Verdict::Resume,
                Ended::Request { too_heavy } => {
                    limited |= too_heavy;
                    if !used_up {
                        rejected.insert(autocluster);
                    }
                }
            }
            let share = &self.shared.config.share;
            if limited && !self.shared.config.preemption.consider && !share.weighted {
                return Verdict::Resume;
            }
        }
        if exhausted(taken.total, turn.limits.total) || limited {
            Verdict::Resume
        } else {
            Verdict::Done
        }
    }

    /// Matches the jobs of one request one after the other.
    fn serve(
        &mut self,
        turn: &Turn,
        request: usize,
        taken: &mut Taken,
        pie_left: &mut f64,
        limits_met: &mut BTreeSet<String>,
    ) -> Ended {
        let demand = self.demand;
        let asked = &demand.requests[request];
        self.statistics.jobs_considered += 1;
        let mut evaluation: Option<Evaluation<'a>> = None;
        let mut candidates: Option<Candidates> = None;
        let mut ended = Ended::Request { too_heavy: false };
        while self.left[request] > 0 {
            if self.clock.seconds() >= turn.deadline {
                ended = Ended::Turn;
                break;
            }
            let rank_only = exhausted(taken.total, turn.limits.total);
            let over_ceiling = tolerance::reached(taken.total, turn.ceiling);
            if rank_only && !(turn.ignore_limit && self.rank_preemption_possible) || over_ceiling {
                ended = Ended::Turn;
                break;
            }
            let evaluation = evaluation
                .get_or_insert_with(|| self.evaluation(turn.entry, turn.negotiating, request));
            if let Some(limit) = evaluation.fixed_limit_met(&self.ledger) {
                limits_met.insert(limit);
                if !rank_only {
                    // The reason names all limits that this submitter's requests met one after the other.
                    let reason = Reason::limits(limits_met);
                    self.reject(request, reason, Default::default());
                }
                break;
            }
            limits_met.clear();
            let of = (request, turn.negotiating);
            self.gather_if_needed(of, evaluation, &mut candidates, rank_only);
            let Some(list) = &mut candidates else { break };
            if allowance::exhausted() {
                break;
            }
            let Some(best) = list.best(
                evaluation,
                &mut self.pool,
                &self.ledger,
                *taken,
                turn.limits,
            ) else {
                if !rank_only && !allowance::exhausted() {
                    list.refused.protected += evaluation.count_protected(&self.pool);
                    list.count_refused(evaluation, &self.pool);
                    ended = Ended::Request {
                        too_heavy: list.refused.too_heavy > 0,
                    };
                    let (mut reason, slots) = (list.reason(), list.refused);
                    let nowhere =
                        matches!(reason, Reason::NoMatch | Reason::PreemptionRequirements);
                    if nowhere && self.reserve(request, evaluation) {
                        reason = Reason::Reserved;
                    }
                    self.reject(request, reason, slots);
                }
                break;
            };
            let cost = best.cost;
            let free = best.state == SlotState::Free;
            let nth = asked.count - self.left[request] - self.along[request];
            if !self.accept(turn, request, nth, best, evaluation, list) {
                break;
            }
            taken.total += cost;
            if free {
                taken.unclaimed += cost;
            }
            *pie_left -= cost;
        }
        if let Some(evaluation) = evaluation
            && !allowance::exhausted()
        {
            self.keep_answers(evaluation);
        }
        self.put_back();
        ended
    }

    /// Steps that the requests of this entry's account may still take.
    pub(crate) fn effort_left(&self, entry: usize) -> i64 {
        let spent = self.effort.get(&self.account_of[entry]);
        effort::of_submitter(&self.shared) - spent.copied().unwrap_or(0)
    }

    /// Counts what a request took; whether that was more than it, or its submitter, may.
    fn charge(&mut self, entry: usize, spent: Spent) -> bool {
        *self.effort.entry(self.account_of[entry]).or_default() += spent.steps;
        spent.cut
    }

    /// Slots that take several matches (WantAdRevaluate) go behind the others; like jobs get each of them once.
    fn put_back(&mut self) {
        for (class, row) in std::mem::take(&mut self.returning) {
            let turns = self.turns.entry(row).or_default();
            *turns += 1;
            let facts = &self.pool.classes()[class];
            let before = own_number(&facts.ad, "CurMatches", self.shared.now).unwrap_or(0.0);
            self.pool.put_last(class, row, *turns, before as i64 + 1);
        }
    }

    /// The request with what is known of it.
    pub(crate) fn evaluation(
        &mut self,
        entry: usize,
        negotiating: usize,
        request: usize,
    ) -> Evaluation<'a> {
        let demand = self.demand;
        let asked = &demand.requests[request];
        let mut job = Cow::Borrowed(&asked.ad);
        let mut signature = asked.signature;
        if self.names_submitter {
            insert_submitter(
                job.to_mut(),
                self.account_of[entry],
                negotiating,
                &self.ledger,
                &self.groups,
            );
        }
        let live = self.names_submitter && self.shared.dependencies.conditions_see_submitter;
        if live {
            signature = live_signature(asked, &job, &SUBMITTER_NAMES);
        }
        let mut answers = match self.answers.remove(&signature) {
            Some(known) => known,
            None if live => Answers::ask(&self.shared, &job),
            None => self.prefetch.answers(request),
        };
        allowance::charge(std::mem::take(&mut answers.uncharged));
        let submitter = &demand.submitters[entry];
        let mut evaluation = Evaluation::new(self.shared, asked, submitter, job, answers);
        evaluation.signature = signature;
        if self.shared.config.preemption.partitionable {
            evaluation.groups = Some(Arc::new(self.groups.clone()));
        }
        evaluation
    }

    /// Keeps answers for later spins, as long as they do not fill the memory.
    pub(crate) fn keep_answers(&mut self, evaluation: Evaluation<'a>) {
        let bytes = evaluation.answers.own_bytes();
        let live = self.names_submitter && self.shared.dependencies.conditions_see_submitter;
        if bytes == 0 && !live {
            return;
        }
        self.answer_bytes += bytes + evaluation.answers.heap_bytes();
        if self.answer_bytes > ANSWER_BYTES {
            self.answers.clear();
            self.answer_bytes = 0;
        }
        self.answers
            .insert(evaluation.signature, evaluation.answers);
    }

    fn gather_if_needed(
        &mut self,
        (request, negotiating): (usize, usize),
        evaluation: &mut Evaluation<'a>,
        candidates: &mut Option<Candidates>,
        rank_only: bool,
    ) {
        let policy = &self.shared.config.preemption;
        let stable = policy.requirements_stable && policy.rank_stable;
        if let Some(list) = candidates
            && list.rank_only == rank_only
            && (stable || list.generation == self.ledger.generation)
        {
            return;
        }
        if !stable
            || self
                .shared
                .dependencies
                .mentions(&["RemoteUserResourcesInUse", "RemoteGroupResourcesInUse"])
        {
            self.insert_remote_users();
        }
        if candidates.is_some() && self.names_submitter {
            // What the job says of its submitter has changed, too.
            let entry = self.demand.requests[request].submitter;
            if self.shared.dependencies.conditions_see_submitter {
                let fresh = self.evaluation(entry, negotiating, request);
                self.keep_answers(std::mem::replace(evaluation, fresh));
            } else {
                let account = self.account_of[entry];
                let (ledger, groups) = (&self.ledger, &self.groups);
                let job = evaluation.job.to_mut();
                insert_submitter(job, account, negotiating, ledger, groups);
            }
        }
        evaluation.deferred.clear();
        if self.shared.dependencies.conditions_see_usage {
            // What was said of slots before is said of other usage.
            evaluation.answers = Answers::default();
        }
        *candidates = Some(Candidates::gather(
            evaluation,
            &mut self.pool,
            &self.ledger,
            rank_only,
        ));
    }

    /// Makes the match: takes the slot, books the cost and what else it holds. False: nothing is left to find out what.
    fn accept(
        &mut self,
        turn: &Turn,
        request: usize,
        nth: u32,
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
        self.ledger
            .book(self.account_of[turn.entry], best.cost, &limits);
        let preempted = best
            .state
            .preemption()
            .map(|kind| Box::new(preempted(kind, &best, &facts)));
        let (offline, unclaimable) = (facts.offline, facts.offline || !facts.want_claiming);
        // A claim is given away once: only slots that nobody claims can be matched again.
        let reevaluate = facts.reevaluate && unclaimable && facts.division == Division::Whole;
        let policy = &self.shared.config.partition;
        // The access point starts as many as fit on a machine it is given whole.
        let alone =
            !policy.depth_first || !facts.partitionable || facts.division != Division::Whole;
        let along = if alone {
            0
        } else {
            jobs_in(&evaluation.job, &facts, self.shared.now) - 1
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
        if unclaimable {
            self.given_back[request] += 1;
        }
        if reevaluate {
            self.returning.push((class, row));
        }
        self.left[request] -= 1;
        self.reservations
            .served(request as u32, row, self.left[request]);
        let along = along.min(self.left[request]);
        self.left[request] -= along;
        self.along[request] += along;
        self.matches.push(Match {
            request: request as u32,
            nth,
            job: self.demand.requests[request].job(nth as usize),
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
            list.add(evaluation, &mut self.pool, &self.ledger, rest as usize);
        }
        true
    }

    /// Lets the other cores go ahead with the requests of a spin.
    pub(crate) fn announce(&self, entries: &[usize], spin: u32) {
        // What the first spin asked is known in the others.
        if spin > 1 || self.pool.remaining == 0 {
            return;
        }
        let next = entries
            .iter()
            .flat_map(|entry| &self.served[*entry])
            .copied();
        self.prefetch
            .expect(next.filter(|request| self.left[*request] > 0));
    }
}
