//! One pie: spins over the submitters in order, until nothing more can be given.

use crate::cycle::Cycle;
use crate::outcome::HeldBack;
use fairshare::{Claimant, Limits, Pie, shares, starvation, tolerance};

/// What became of a negotiation with one submitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has no more requests.
    Done,
    /// It met a limit and may go on in the next spin.
    Resume,
    /// Its conditions take too much work.
    TooMuchWork,
}

/// A pie and who eats of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// Group it belongs to; none for the whole pool (also an autoregrouping root).
    pub group: Option<usize>,
    /// Group under which matches are negotiated.
    pub negotiating: usize,
    /// Most the group may use.
    pub quota: f64,
    /// Only submitters below their floor, one spin.
    pub floor_round: bool,
}

/// What one spin has worked out for an entry.
#[derive(Debug, Clone, Copy)]
struct Slice {
    share: f64,
    limits: Limits,
}

impl Cycle<'_> {
    /// Negotiates with the entries; those that are done are taken off the list.
    pub(crate) fn negotiate_pie(&mut self, table: Table, entries: &mut Vec<usize>) {
        self.statistics.pies += 1;
        let consider = self.shared.config.preemption.consider;
        let weight = self.pool_weight.min(table.quota);
        let mut spin = 0;
        loop {
            spin += 1;
            self.statistics.spins += 1;
            let ignore_limit = spin == 1 && consider;
            let usage = table.group.map_or(0.0, |g| self.ledger.group_usage(g));
            if !ignore_limit && table.group.is_some() && tolerance::reached(usage, table.quota) {
                self.note_group_quota(entries);
                break;
            }
            if !consider {
                entries.retain(|e| self.demand.submitters[*e].idle > 0.0);
            }
            let pie = Pie {
                weight,
                group_headroom: table.group.map(|_| table.quota - usage),
                consider_preemption: consider,
                ignore_priorities: self.shared.config.share.ignore_priorities,
            };
            let mut pie_left = self.pie_left(&pie, entries);
            if !consider && pie_left <= 0.0 {
                break;
            }
            if spin == 1 {
                self.sort(&pie, entries);
            }
            let before = (pie_left, entries.len());
            self.spin(table, &pie, spin, ignore_limit, entries, &mut pie_left);
            let capped = std::mem::take(&mut self.capped);
            let progress =
                capped || tolerance::below(pie_left, before.0) || entries.len() < before.1;
            if !progress || entries.is_empty() || self.pool.remaining == 0 || table.floor_round {
                break;
            }
        }
    }

    fn claimants(&self, entries: &[usize]) -> Vec<Claimant> {
        entries
            .iter()
            .map(|entry| {
                let account = self.account_of[*entry];
                Claimant {
                    name: account,
                    effective_priority: self.ledger.effective_priority(account),
                }
            })
            .collect()
    }

    fn pie_left(&self, pie: &Pie, entries: &[usize]) -> f64 {
        let shares = shares(&self.claimants(entries));
        let limit = |(entry, share): (&usize, f64)| {
            pie.limits(share, self.ledger.usage(self.account_of[*entry]))
                .total
        };
        entries.iter().zip(shares).map(limit).sum()
    }

    fn sort(&mut self, pie: &Pie, entries: &mut Vec<usize>) {
        let began = self.clock.seconds();
        let shares = shares(&self.claimants(entries));
        let mut keyed: Vec<_> = entries
            .iter()
            .zip(shares)
            .map(|(entry, share)| {
                let account = self.account_of[*entry];
                let usage = self.ledger.usage(account);
                let submitter = &self.demand.submitters[*entry];
                let priority = submitter.priorities.map_or(0, |(_, high)| -high);
                let starved = starvation(usage, pie.limits(share, usage).total);
                let spread = submitter.last_heard_from.rem_euclid(1009);
                (
                    self.ledger.effective_priority(account),
                    priority,
                    starved,
                    spread,
                    *entry,
                )
            })
            .collect();
        keyed.sort_by(|a, b| {
            let name = |e: usize| {
                (
                    &self.demand.submitters[e].name,
                    &self.demand.submitters[e].schedd,
                )
            };
            a.0.total_cmp(&b.0)
                .then_with(|| a.1.cmp(&b.1))
                .then_with(|| a.2.total_cmp(&b.2))
                .then_with(|| a.3.cmp(&b.3))
                .then_with(|| name(a.4).cmp(&name(b.4)))
                .then_with(|| a.4.cmp(&b.4))
        });
        *entries = keyed.into_iter().map(|k| k.4).collect();
        if self.shared.config.selection.global_job_prios {
            self.merge_neighbours(entries);
        }
        self.sort_s += self.clock.seconds() - began;
    }

    /// Entries of one submitter and access point that stand next to each other, split by job priority, become one.
    fn merge_neighbours(&mut self, entries: &mut Vec<usize>) {
        let demand = self.demand;
        let whose = |entry: usize| {
            let submitter = &demand.submitters[entry];
            (&submitter.name, &submitter.schedd)
        };
        let mut kept: Vec<usize> = Vec::with_capacity(entries.len());
        for entry in entries.drain(..) {
            match kept.last() {
                Some(last) if whose(*last) == whose(entry) => {
                    let more = std::mem::take(&mut self.served[entry]);
                    self.served[*last].extend(more);
                }
                _ => kept.push(entry),
            }
        }
        *entries = kept;
    }

    fn spin(
        &mut self,
        table: Table,
        pie: &Pie,
        spin: u32,
        ignore_limit: bool,
        entries: &mut Vec<usize>,
        pie_left: &mut f64,
    ) {
        let shares = shares(&self.claimants(entries));
        self.announce(entries, spin);
        let mut stay = Vec::with_capacity(entries.len());
        let mut at = 0;
        while at < entries.len() {
            let entry = entries[at];
            if !ignore_limit
                && let Some(group) = table.group
                && tolerance::reached(self.ledger.group_usage(group), table.quota)
            {
                self.note_group_quota(&entries[at..]);
                break;
            }
            let slice = self.slice(table, pie, spin, entry, shares[at], *pie_left);
            let verdict = self.visit(table, spin, ignore_limit, entry, slice, pie_left);
            if verdict == Verdict::Resume {
                self.note_limit(table, entry);
                stay.push(entry);
            }
            at += 1;
        }
        stay.extend_from_slice(&entries[at..]);
        *entries = stay;
        for (left, given) in self.left.iter_mut().zip(&mut self.given_back) {
            *left += std::mem::take(given);
        }
    }

    fn slice(
        &mut self,
        table: Table,
        pie: &Pie,
        spin: u32,
        entry: usize,
        share: f64,
        pie_left: f64,
    ) -> Slice {
        let account = self.account_of[entry];
        let mut limits = pie.limits(share, self.ledger.usage(account));
        if table.floor_round {
            limits.total = limits.total.min(self.ledger.floor(account));
        }
        if spin == 1 {
            let noted = self.ledger.get_mut(account);
            noted.share = Some(share);
            noted.limit = Some(share * pie.weight);
        }
        if spin == 1 && !table.floor_round && self.shared.config.share.between_jobs {
            self.cap(account, &mut limits);
        }
        if limits.total > pie_left && limits.total.is_finite() {
            limits.total = pie_left;
        }
        Slice { share, limits }
    }

    /// Who was entitled to less while others waited leaves them the first choice: else it would have again what it gave back.
    fn cap(&mut self, account: usize, limits: &mut Limits) {
        let Some(entitled) = self.entitled.get(&account) else {
            return;
        };
        let left = fairshare::share::slice_left(*entitled, self.ledger.usage(account));
        if left < limits.total {
            self.capped = true;
            limits.total = left;
            limits.unclaimed = limits.unclaimed.min(left);
        }
    }

    fn visit(
        &mut self,
        table: Table,
        spin: u32,
        ignore_limit: bool,
        entry: usize,
        slice: Slice,
        pie_left: &mut f64,
    ) -> Verdict {
        let time = &self.shared.config.time;
        let submitter = &self.demand.submitters[entry];
        let schedd_used = self
            .schedd_time
            .get(&submitter.schedd)
            .copied()
            .unwrap_or(0.0);
        let left_cycle = time.cycle_s - self.elapsed();
        let left_entry = time.submitter_s - self.entry_time[entry];
        let left_schedd = time.schedd_s - schedd_used;
        let ceiling = self.ledger.ceiling_headroom(self.account_of[entry]);
        let _ = slice.share;
        // Who has got all it asked for stays in the list, as the access point is not asked again before it is its turn.
        if submitter.idle <= 0.0 {
            return Verdict::Done;
        }
        if self.effort_left(entry) <= 0 {
            self.hold_back(entry, HeldBack::TooMuchWork);
            return Verdict::Done;
        }
        if left_entry <= 0.0 || left_schedd <= 0.0 || left_cycle <= 0.0 {
            if left_entry <= 0.0 {
                self.statistics
                    .submitters_out_of_time
                    .push(submitter.name.clone());
            } else if left_schedd <= 0.0 {
                self.statistics
                    .schedds_out_of_time
                    .push(submitter.schedd.clone());
            }
            self.hold_back(entry, HeldBack::OutOfTime);
            return Verdict::Done;
        }
        let least = self.min_slot_weight;
        let too_small = |weight: f64| tolerance::below(weight, least);
        if spin > 1 && (too_small(slice.limits.total) || too_small(*pie_left)) {
            return Verdict::Resume;
        }
        if ceiling <= 0.0 || ceiling < least {
            self.hold_back(entry, HeldBack::Ceiling);
            return Verdict::Done;
        }
        let began = self.clock.seconds();
        let bound = time.spin_s.min(left_cycle).min(left_entry).min(left_schedd);
        let turn = crate::negotiate::Turn {
            entry,
            negotiating: table.negotiating,
            limits: slice.limits,
            ceiling,
            ignore_limit,
            deadline: began + bound,
        };
        let verdict = self.negotiate(&turn, pie_left);
        if verdict == Verdict::TooMuchWork {
            self.effort.insert(self.account_of[entry], i64::MAX);
            self.hold_back(entry, HeldBack::TooMuchWork);
        }
        let spent = self.clock.seconds() - began;
        self.entry_time[entry] += spent;
        *self
            .schedd_time
            .entry(self.demand.submitters[entry].schedd.clone())
            .or_default() += spent;
        verdict
    }

    /// The negotiation met a limit: that of the group when it is used up, else the submitter's own.
    fn note_limit(&mut self, table: Table, entry: usize) {
        let group = table.group.filter(|group| {
            // In a pool without groups there is none to name.
            self.groups.is_active()
                && tolerance::reached(self.ledger.group_usage(*group), table.quota)
        });
        let ceiling = self.ledger.ceiling_headroom(self.account_of[entry]);
        let why = match group {
            _ if ceiling <= 0.0 || ceiling < self.min_slot_weight => HeldBack::Ceiling,
            Some(_) => HeldBack::GroupQuota,
            None => HeldBack::ShareUsed,
        };
        self.hold_back(entry, why);
    }

    pub(crate) fn note_group_quota(&mut self, entries: &[usize]) {
        for entry in entries {
            self.hold_back(*entry, HeldBack::GroupQuota);
        }
    }

    fn hold_back(&mut self, entry: usize, why: HeldBack) {
        let left: u32 = self.served[entry].iter().map(|r| self.left[*r]).sum();
        if left > 0 {
            self.held_back.insert(entry, (why, left));
        }
    }
}
