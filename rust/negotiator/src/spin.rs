//! One pie: spins over the submitters in order, until nothing more can be given.

use crate::accounting::Accounting;
use crate::cycle::Cycle;
use crate::inputs::Inputs;
use crate::negotiate::{Turn, TurnEnd};
use crate::outcome::HeldBack;
use crate::progress::Progress;
use fairshare::{Claimant, Limits, Pie, shares, starvation, tolerance};

/// Who shares a pie, and how much of it there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieScope {
    /// Group it belongs to; none for the whole pool (also an autoregrouping root).
    pub group: Option<usize>,
    /// Group under which matches are negotiated.
    pub negotiating: usize,
    /// Most the group may use.
    pub quota: f64,
    /// Only submitters below their floor, one spin.
    pub floor_round: bool,
}

impl PieScope {
    /// Whether the group has used up its quota.
    fn is_used_up(&self, accounting: &Accounting) -> bool {
        self.group.is_some_and(|group| {
            tolerance::reached(accounting.ledger.group_usage(group), self.quota)
        })
    }
}

/// One spin of a pie.
#[derive(Debug, Clone, Copy)]
struct Spin {
    scope: PieScope,
    pie: Pie,
    /// Counted from 1.
    number: u32,
    /// Past their limits, submitters go on with slots that prefer their jobs to what they run.
    ignore_limit: bool,
}

impl Cycle<'_> {
    /// Negotiates with the entries; those that are done are taken off the list.
    pub(crate) fn negotiate_pie(&mut self, scope: PieScope, entries: &mut Vec<usize>) {
        self.report.statistics.pies += 1;
        let demand = self.inputs.demand;
        let consider = self.inputs.config.preemption.consider;
        let weight = self.size.weight.min(scope.quota);
        let mut number = 0;
        loop {
            number += 1;
            self.report.statistics.spins += 1;
            let ignore_limit = number == 1 && consider;
            if !ignore_limit && scope.is_used_up(&self.accounting) {
                self.note_group_quota(entries);
                break;
            }
            if !consider {
                entries.retain(|entry| demand.submitters[*entry].idle > 0.0);
            }
            let usage = |group| self.accounting.ledger.group_usage(group);
            let pie = Pie {
                weight,
                group_headroom: scope.group.map(|group| scope.quota - usage(group)),
                consider_preemption: consider,
                ignore_priorities: self.inputs.config.share.ignore_priorities,
            };
            let mut pie_left = pie_left(&self.accounting, &pie, entries);
            if !consider && pie_left <= 0.0 {
                break;
            }
            if number == 1 {
                let began = self.budgets.seconds();
                sort(&self.inputs, &self.accounting, &pie, entries);
                if self.inputs.config.selection.global_job_prios {
                    merge_neighbours(&self.inputs, &mut self.progress, entries);
                }
                self.report.sort_s += self.budgets.seconds() - began;
            }
            let before = (pie_left, entries.len());
            let spin = Spin {
                scope,
                pie,
                number,
                ignore_limit,
            };
            let capped = self.spin(&spin, entries, &mut pie_left);
            let progress =
                capped || tolerance::below(pie_left, before.0) || entries.len() < before.1;
            if !progress || entries.is_empty() || self.pool.remaining == 0 || scope.floor_round {
                break;
            }
        }
    }

    /// One turn for each entry; those that may go on in the next spin stay. Returns whether the limit of somebody was
    /// what it is entitled to while others wait.
    fn spin(&mut self, spin: &Spin, entries: &mut Vec<usize>, pie_left: &mut f64) -> bool {
        let shares = shares(&claimants(&self.accounting, entries));
        self.announce(entries, spin.number);
        let mut any_capped = false;
        let mut stay = Vec::with_capacity(entries.len());
        let mut at = 0;
        while at < entries.len() {
            let entry = entries[at];
            if !spin.ignore_limit && spin.scope.is_used_up(&self.accounting) {
                self.note_group_quota(&entries[at..]);
                break;
            }
            let (limits, capped) = self.limits(spin, entry, shares[at], *pie_left);
            any_capped |= capped;
            let end = self.visit(spin, entry, limits, pie_left);
            if end == TurnEnd::Resume {
                let why = self.limit_met(spin.scope, entry);
                self.report.hold_back(&self.progress, entry, why);
                stay.push(entry);
            }
            at += 1;
        }
        stay.extend_from_slice(&entries[at..]);
        *entries = stay;
        self.progress.end_spin();
        any_capped
    }

    /// Lets the other cores work on the requests of a spin.
    fn announce(&self, entries: &[usize], spin: u32) {
        // What the first spin asked is known in the others.
        if spin > 1 || self.pool.remaining == 0 {
            return;
        }
        let progress = &self.progress;
        let next = entries
            .iter()
            .flat_map(|entry| &progress.requests_of[*entry])
            .copied();
        self.evaluations
            .announce(next.filter(|request| progress.remaining[*request] > 0));
    }

    /// What an entry may take in this spin, and whether that is what it is entitled to while others wait.
    fn limits(&mut self, spin: &Spin, entry: usize, share: f64, pie_left: f64) -> (Limits, bool) {
        let account = self.accounting.account_of[entry];
        let ledger = &mut self.accounting.ledger;
        let floor_round = spin.scope.floor_round;
        let mut limits = spin.pie.limits(share, ledger.usage(account));
        if floor_round {
            limits.total = limits.total.min(ledger.floor(account));
        }
        if spin.number == 1 {
            let noted = ledger.get_mut(account);
            noted.share = Some(share);
            noted.limit = Some(share * spin.pie.weight);
        }
        let between_jobs = self.inputs.config.share.between_jobs;
        let capped = spin.number == 1
            && !floor_round
            && between_jobs
            && cap(&self.accounting, account, &mut limits);
        if limits.total > pie_left && limits.total.is_finite() {
            limits.total = pie_left;
        }
        (limits, capped)
    }

    /// Gives an entry its turn, unless one of its limits is reached.
    fn visit(&mut self, spin: &Spin, entry: usize, limits: Limits, pie_left: &mut f64) -> TurnEnd {
        let time = &self.inputs.config.time;
        let submitter = &self.inputs.demand.submitters[entry];
        let account = self.accounting.account_of[entry];
        let left = self.budgets.time_left(time, entry, &submitter.schedd);
        let ceiling = self.accounting.ceiling_headroom_of(entry);
        // Who has got all it asked for stays in the list, as the access point is not asked again before it is its turn.
        if submitter.idle <= 0.0 {
            return TurnEnd::Done;
        }
        if self.budgets.steps_left(&self.inputs, account) <= 0 {
            self.report
                .hold_back(&self.progress, entry, HeldBack::TooMuchWork);
            return TurnEnd::Done;
        }
        if left.is_over() {
            let statistics = &mut self.report.statistics;
            if left.submitter <= 0.0 {
                statistics
                    .submitters_out_of_time
                    .push(submitter.name.clone());
            } else if left.schedd <= 0.0 {
                statistics
                    .schedds_out_of_time
                    .push(submitter.schedd.clone());
            }
            self.report
                .hold_back(&self.progress, entry, HeldBack::OutOfTime);
            return TurnEnd::Done;
        }
        let least = self.size.least_weight;
        let too_small = |weight: f64| tolerance::below(weight, least);
        if spin.number > 1 && (too_small(limits.total) || too_small(*pie_left)) {
            return TurnEnd::Resume;
        }
        if ceiling <= 0.0 || ceiling < least {
            self.report
                .hold_back(&self.progress, entry, HeldBack::Ceiling);
            return TurnEnd::Done;
        }
        let began = self.budgets.seconds();
        let bound = time
            .spin_s
            .min(left.cycle)
            .min(left.submitter)
            .min(left.schedd);
        let turn = Turn {
            entry,
            negotiating: spin.scope.negotiating,
            limits,
            ceiling,
            ignore_limit: spin.ignore_limit,
            deadline: began + bound,
        };
        let end = self.negotiate(&turn, pie_left);
        if end == TurnEnd::TooMuchWork {
            self.budgets.exhaust(account);
            self.report
                .hold_back(&self.progress, entry, HeldBack::TooMuchWork);
        }
        let spent = self.budgets.seconds() - began;
        self.budgets.spend_time(entry, &submitter.schedd, spent);
        end
    }

    /// The limit that a turn met: that of the group when it is used up, else the submitter's own.
    fn limit_met(&self, scope: PieScope, entry: usize) -> HeldBack {
        // In a pool without groups there is none to name.
        let group_used_up =
            self.accounting.groups.is_active() && scope.is_used_up(&self.accounting);
        let ceiling = self.accounting.ceiling_headroom_of(entry);
        if ceiling <= 0.0 || ceiling < self.size.least_weight {
            HeldBack::Ceiling
        } else if group_used_up {
            HeldBack::GroupQuota
        } else {
            HeldBack::ShareUsed
        }
    }

    /// Notes for all of these that the quota of their group is used up.
    pub(crate) fn note_group_quota(&mut self, entries: &[usize]) {
        for entry in entries {
            self.report
                .hold_back(&self.progress, *entry, HeldBack::GroupQuota);
        }
    }
}

fn claimants(accounting: &Accounting, entries: &[usize]) -> Vec<Claimant> {
    entries
        .iter()
        .map(|entry| Claimant {
            name: accounting.account_of[*entry],
            effective_priority: accounting.priority_of(*entry),
        })
        .collect()
}

/// What all entries together may still take.
fn pie_left(accounting: &Accounting, pie: &Pie, entries: &[usize]) -> f64 {
    let shares = shares(&claimants(accounting, entries));
    let limit =
        |(entry, share): (&usize, f64)| pie.limits(share, accounting.usage_of(*entry)).total;
    entries.iter().zip(shares).map(limit).sum()
}

/// Puts entries in the order of their turns: by priority, those served least first.
fn sort(inputs: &Inputs<'_>, accounting: &Accounting, pie: &Pie, entries: &mut Vec<usize>) {
    let demand = inputs.demand;
    let shares = shares(&claimants(accounting, entries));
    let mut keyed: Vec<_> = entries
        .iter()
        .zip(shares)
        .map(|(entry, share)| {
            let usage = accounting.usage_of(*entry);
            let submitter = &demand.submitters[*entry];
            let priority = submitter.priorities.map_or(0, |(_, high)| -high);
            let starved = starvation(usage, pie.limits(share, usage).total);
            let spread = submitter.last_heard_from.rem_euclid(1009);
            (
                accounting.priority_of(*entry),
                priority,
                starved,
                spread,
                *entry,
            )
        })
        .collect();
    keyed.sort_by(|a, b| {
        let name = |e: usize| (&demand.submitters[e].name, &demand.submitters[e].schedd);
        a.0.total_cmp(&b.0)
            .then_with(|| a.1.cmp(&b.1))
            .then_with(|| a.2.total_cmp(&b.2))
            .then_with(|| a.3.cmp(&b.3))
            .then_with(|| name(a.4).cmp(&name(b.4)))
            .then_with(|| a.4.cmp(&b.4))
    });
    *entries = keyed.into_iter().map(|k| k.4).collect();
}

/// Entries of one submitter and access point that stand next to each other, split by job priority, become one.
fn merge_neighbours(inputs: &Inputs<'_>, progress: &mut Progress, entries: &mut Vec<usize>) {
    let whose = |entry: usize| {
        let submitter = &inputs.demand.submitters[entry];
        (&submitter.name, &submitter.schedd)
    };
    let mut kept: Vec<usize> = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        match kept.last() {
            Some(last) if whose(*last) == whose(entry) => {
                let more = std::mem::take(&mut progress.requests_of[entry]);
                progress.requests_of[*last].extend(more);
            }
            _ => kept.push(entry),
        }
    }
    *entries = kept;
}

/// Who was entitled to less while others waited leaves them the first choice: else it would have again what it gave
/// back. Returns whether that lowered the limits.
fn cap(accounting: &Accounting, account: usize, limits: &mut Limits) -> bool {
    let Some(entitled) = accounting.entitled_before.get(&account) else {
        return false;
    };
    let left = fairshare::share::slice_left(*entitled, accounting.ledger.usage(account));
    let lower = left < limits.total;
    if lower {
        limits.total = left;
        limits.unclaimed = limits.unclaimed.min(left);
    }
    lower
}
