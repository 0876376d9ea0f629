//! Whose turn it is to have a machine kept.

use super::Reservations;
use crate::own_values::own_number;
use crate::standing::Standing;
use columns::Row;
use fairshare::tolerance;
use rustc_hash::FxHashMap;

/// See the module text.
#[derive(Clone, Copy)]
pub(super) struct Turns<'c, 'a> {
    pub standing: Standing<'c, 'a>,
    pub reservations: &'c Reservations,
}

impl Turns<'_, '_> {
    /// What a job of a request adds to the usage of its submitter, about.
    fn weight_of_job(&self, request: usize) -> f64 {
        if !self.standing.inputs.config.share.weighted {
            return 1.0;
        }
        let asked = &self.standing.inputs.demand.requests[request];
        own_number(&asked.ad, "RequestCpus", self.standing.inputs.now).unwrap_or(1.0)
    }

    /// What an account uses, with what machines are kept for.
    fn usage_with_kept(&self, account: usize) -> f64 {
        let kept = self.reservations.kept.iter();
        let kept = kept
            .map(|kept| kept.request as usize)
            .filter(|request| self.standing.account_of(*request) == account);
        self.standing.accounting.ledger.usage(account)
            + kept.map(|request| self.weight_of_job(request)).sum::<f64>()
    }

    /// Whether one that holds so much lacks a job of this weight of its share, to the nearest whole one: priorities drift
    /// all the time, so somebody is always below its share by a fraction.
    fn lacks(&self, account: usize, held: f64, job: f64) -> bool {
        let Some(limit) = self.standing.accounting.ledger.get(account).limit else {
            return true;
        };
        let nothing = !tolerance::below(0.0, held);
        if nothing {
            tolerance::below(0.0, limit)
        } else {
            tolerance::at_most(job, 2.0 * (limit - held))
        }
    }

    /// Whether the submitter of a request lacks a job of it.
    pub(super) fn is_below_share(&self, request: usize) -> bool {
        let account = self.standing.account_of(request);
        let held = self.usage_with_kept(account);
        self.lacks(account, held, self.weight_of_job(request))
    }

    /// Whether another submitter waits that lacks a job of its share, or would when it held so much less.
    fn another_lacks(&self, account: usize, ending: &FxHashMap<usize, f64>) -> bool {
        (0..self.standing.inputs.demand.submitters.len())
            .filter(|entry| self.standing.accounting.account_of[*entry] != account)
            .any(|entry| {
                let waiting = self.standing.progress.requests_of[entry]
                    .iter()
                    .filter(|r| self.standing.remaining(**r) > 0);
                let least = waiting
                    .map(|request| self.weight_of_job(*request))
                    .min_by(f64::total_cmp);
                let other = self.standing.accounting.account_of[entry];
                least.is_some_and(|job| {
                    let less = ending.get(&other).copied().unwrap_or(0.0);
                    self.lacks(other, self.usage_with_kept(other) - less, job)
                })
            })
    }

    /// Whether a machine may be kept for a request at all, whichever it is.
    pub(super) fn may_keep_any(&self, request: usize) -> bool {
        let account = self.standing.account_of(request);
        let kept = self.usage_with_kept(account) - self.standing.accounting.ledger.usage(account);
        self.lacks(account, kept, self.weight_of_job(request))
            || !self.another_lacks(account, &FxHashMap::default())
    }

    /// Whether a machine may be kept for a request on which the jobs of these slots end: its submitter is below its share
    /// without those of its own, or nobody who waits will be below its.
    pub(super) fn may_keep(&self, request: usize, ending: &[Row]) -> bool {
        let account = self.standing.account_of(request);
        let mut ends: FxHashMap<usize, f64> = FxHashMap::default();
        for row in ending {
            let class = self.standing.inputs.index.class_of(*row);
            let facts = class.map(|class| &self.standing.inputs.index.classes()[class]);
            if let Some(facts) = facts.filter(|facts| facts.charged)
                && let Some(user) = &facts.charged_to
                && let Some(holder) = self.standing.accounting.ledger.find(user)
            {
                *ends.entry(holder).or_default() += facts.weight;
            }
        }
        let own = ends.get(&account).copied().unwrap_or(0.0);
        let held = self.usage_with_kept(account) - own;
        self.lacks(account, held, self.weight_of_job(request))
            || !self.another_lacks(account, &ends)
    }

    /// Whether all that its submitter wants before this request has machines kept for it, or could never run: jobs that
    /// are merely waiting for claims come first.
    pub(super) fn is_in_turn(&self, request: usize) -> bool {
        let entry = self.standing.inputs.demand.requests[request].submitter;
        self.standing.progress.requests_of[entry]
            .iter()
            .take_while(|other| **other != request)
            .filter(|other| self.standing.remaining(**other) > 0)
            .all(|other| self.reservations.small.get(&(*other as u32)) != Some(&true))
    }
}
