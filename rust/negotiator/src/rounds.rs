//! Groups: allocation rounds, the order of groups, and how far each may go.

use crate::accounting::Accounting;
use crate::cycle::Cycle;
use crate::inputs::Inputs;
use crate::remote_users;
use crate::spin::PieScope;
use classad::{Ad, Context, Expr, Value, evaluate};
use fairshare::tolerance;

impl Cycle<'_> {
    /// Negotiates with everybody: one pie, or one for each group and round.
    pub(crate) fn negotiate_all(&mut self) {
        let share = &self.inputs.config.share;
        let mut all: Vec<usize> = (0..self.inputs.demand.submitters.len()).collect();
        if !self.accounting.groups.is_active() {
            let groups = &mut self.accounting.groups;
            groups[0].requested = demand_of(&self.inputs, &all);
            self.report.requested_first[0] = groups[0].requested;
            groups.assign_quotas(self.size.weight, share.oversubscribe);
            groups[0].allocated = self.size.weight;
            let scope = PieScope {
                group: None,
                negotiating: 0,
                quota: f64::INFINITY,
                floor_round: false,
            };
            self.negotiate_scope(scope, &mut all);
            return;
        }
        let mut lists = self.prepare_groups(&all);
        for _ in 0..share.allocation_rounds {
            self.report.statistics.rounds += 1;
            if self.allocation_round(&mut lists) {
                break;
            }
        }
        for index in 0..self.accounting.groups.len() {
            let group = &mut self.accounting.groups[index];
            if group.got_remainder || group.requested <= 0.0 {
                group.round_robin_time = self.inputs.now as f64;
            }
        }
    }

    /// A floor round for those below their floor, then the pie.
    fn negotiate_scope(&mut self, scope: PieScope, entries: &mut Vec<usize>) {
        let ledger = &self.accounting.ledger;
        let below: Vec<usize> = entries
            .iter()
            .copied()
            .filter(|entry| {
                let account = self.accounting.account_of[*entry];
                let floor = ledger.floor(account);
                floor > 0.0 && ledger.usage(account) < floor
            })
            .collect();
        if !below.is_empty() {
            let floor_round = PieScope {
                floor_round: true,
                ..scope
            };
            // Entries that the floor round merges are apart again afterwards.
            let requests_of = self.progress.requests_of.clone();
            self.negotiate_pie(floor_round, &mut below.clone());
            self.progress.requests_of = requests_of;
        }
        self.negotiate_pie(scope, entries);
    }

    /// Quotas and demand of all groups; returns the submitters of each.
    fn prepare_groups(&mut self, all: &[usize]) -> Vec<Vec<usize>> {
        let share = &self.inputs.config.share;
        let lists = self.lists_by_group(all);
        let pool = self.size.for_groups(share.weighted);
        let groups = &mut self.accounting.groups;
        groups.assign_quotas(pool, share.oversubscribe);
        // RemoteGroupQuota is that of this cycle.
        remote_users::insert(&self.inputs, &self.accounting, &mut self.pool);
        lists
    }

    /// Submitters of each group, those that compete in the root too there as well; notes what each group asks for.
    fn lists_by_group(&mut self, all: &[usize]) -> Vec<Vec<usize>> {
        let Accounting { groups, ledger, .. } = &mut self.accounting;
        let mut lists = vec![Vec::new(); groups.len()];
        for entry in all {
            let name = &self.inputs.demand.submitters[*entry].name;
            if name.contains('@') {
                lists[groups.group_of(name)].push(*entry);
            }
        }
        for (index, list) in lists.iter().enumerate() {
            groups[index].requested = demand_of(&self.inputs, list);
            groups[index].usage = ledger.group_usage(index);
            self.report.requested_first[index] = groups[index].requested;
        }
        for index in 1..lists.len() {
            if groups[index].setting.autoregroup {
                let again = lists[index].clone();
                lists[0].extend(again);
            }
        }
        lists
    }

    /// One round: allocate, negotiate with every group. Returns whether all that was allocated is used.
    fn allocation_round(&mut self, lists: &mut [Vec<usize>]) -> bool {
        let config = &self.inputs.config.share;
        let groups = &mut self.accounting.groups;
        groups.allocate();
        if !config.weighted {
            groups.recover_remainders();
        }
        if groups.autoregroup() {
            let pool = self.size.for_groups(config.weighted);
            groups[0].quota = pool;
            groups[0].allocated = pool;
        }
        let allocated: f64 = (0..groups.len()).map(|i| groups[i].allocated).sum();
        let most = self.most_missing();
        self.report.group_sort_keys = group_sort_keys(&self.inputs, &self.accounting);
        let order = group_order(&self.accounting, &self.report.group_sort_keys);
        let mut step = 0.0_f64;
        loop {
            step = (step + config.round_robin_rate).min(most);
            for &index in &order {
                self.negotiate_group(index, step, most, &mut lists[index]);
            }
            if tolerance::reached(step, most) {
                break;
            }
        }
        tolerance::reached(settle_round(&mut self.accounting), allocated)
    }

    /// Largest amount a group is short of what it may have.
    fn most_missing(&self) -> f64 {
        let groups = &self.accounting.groups;
        let by_allocation =
            groups.any_accepts_surplus() || self.inputs.config.share.surplus_by_default;
        (0..groups.len())
            .map(|i| {
                let group = &groups[i];
                let target = if by_allocation {
                    group.allocated
                } else {
                    group.quota
                };
                (target - group.usage).max(0.0)
            })
            .fold(0.0, f64::max)
    }

    fn negotiate_group(&mut self, index: usize, step: f64, most: f64, entries: &mut Vec<usize>) {
        let config = self.inputs.config;
        let group = &self.accounting.groups[index];
        let consider = config.preemption.consider;
        if group.allocated <= 0.0
            || entries.is_empty()
            || !consider && tolerance::reached(group.usage, group.allocated)
        {
            self.note_group_quota(entries);
            return;
        }
        let whole_pool = index == 0 && self.accounting.groups.autoregroup();
        let scope = PieScope {
            group: (!whole_pool).then_some(index),
            negotiating: index,
            quota: self.offered_to(index, step, most),
            floor_round: false,
        };
        self.negotiate_scope(scope, entries);
    }

    /// What a group may use in all in this step of a round.
    fn offered_to(&self, index: usize, step: f64, most: f64) -> f64 {
        let share = &self.inputs.config.share;
        let group = &self.accounting.groups[index];
        let target = group.allocated.max(group.quota);
        let missing = (target - group.usage).max(0.0);
        let mut amount = if missing <= 0.0 {
            target
        } else if most > 0.0 {
            (group.usage + missing * (step / most).min(1.0)).min(target)
        } else if self.report.statistics.rounds > 1 {
            // Everybody has what this round allots: what a group could not use before is not offered again.
            0.0
        } else {
            target
        };
        if !share.weighted {
            amount = tolerance::whole_part(amount);
        }
        if share.strict_quota {
            let usage_of = |i: usize| self.accounting.ledger.group_usage(i);
            let groups = &self.accounting.groups;
            amount = groups.strictly_capped(index, amount, &usage_of);
        }
        // Only whole units are offered; what a fraction leaves is allocated again.
        tolerance::whole_part(amount.max(0.0))
    }
}

/// What submitters ask for, what they run included.
fn demand_of(inputs: &Inputs<'_>, entries: &[usize]) -> f64 {
    let weighted = inputs.config.share.weighted_demand;
    entries
        .iter()
        .map(|entry| {
            let s = &inputs.demand.submitters[*entry];
            if weighted {
                s.weighted_running + s.weighted_idle
            } else {
                s.running + s.idle
            }
        })
        .fold(0.0, |sum: f64, weight: f64| sum + weight)
}

/// Takes note of what groups use after a round, and of what they ask for in the next; returns how much is used of what
/// was allocated.
fn settle_round(accounting: &mut Accounting) -> f64 {
    let mut used = 0.0;
    for index in 0..accounting.groups.len() {
        let usage = accounting.ledger.group_usage(index);
        let group = &mut accounting.groups[index];
        group.usage = usage;
        used += usage.min(group.allocated);
        if tolerance::below(usage, group.allocated) {
            group.requested = usage;
        } else {
            group.requested += group.allocated;
        }
    }
    used
}

/// Groups in the order they are served.
fn group_order(accounting: &Accounting, keys: &[f64]) -> Vec<usize> {
    let root_last = accounting.groups.autoregroup();
    let mut order: Vec<usize> = (0..accounting.groups.len()).collect();
    order.sort_by(|a, b| {
        let last = |i: usize| root_last && i == 0;
        last(*a)
            .cmp(&last(*b))
            .then_with(|| keys[*a].total_cmp(&keys[*b]))
    });
    order
}

/// GROUP_SORT_EXPR of each group.
fn group_sort_keys(inputs: &Inputs<'_>, accounting: &Accounting) -> Vec<f64> {
    let expr = &inputs.config.share.group_sort;
    (0..accounting.groups.len())
        .map(|index| sort_key(inputs, accounting, expr, index))
        .collect()
}

fn sort_key(inputs: &Inputs<'_>, accounting: &Accounting, expr: &Expr, index: usize) -> f64 {
    let group = &accounting.groups[index];
    let mut ad = Ad::new();
    let real = |x: f64| Expr::Lit(Value::Real(x));
    let name = group.setting.name.as_str();
    ad.set("AccountingGroup", Expr::Lit(Value::str(name)));
    ad.set("GroupQuota", real(group.quota));
    ad.set("GroupResourcesAllocated", real(group.allocated));
    let in_use = accounting.ledger.group_usage(index);
    ad.set("GroupResourcesInUse", real(in_use));
    let context = Context {
        my: Some(&ad),
        now: inputs.now,
        ..Context::default()
    };
    evaluate(expr, &context)
        .as_number()
        .filter(|n| !n.is_nan())
        .unwrap_or(f64::from(f32::MAX))
}
