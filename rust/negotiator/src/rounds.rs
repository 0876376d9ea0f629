//! Groups: allocation rounds, the order of groups, and how far each may go.

use crate::cycle::Cycle;
use crate::spin::Table;
use classad::{Ad, Context, Expr, Value, evaluate};
use fairshare::tolerance;

impl Cycle<'_> {
    /// Negotiates with everybody: one pie, or one for each group and round.
    pub(crate) fn negotiate_all(&mut self) {
        let all: Vec<usize> = (0..self.demand.submitters.len()).collect();
        if !self.groups.is_active() {
            self.groups[0].requested = self.demand_of(&all);
            self.requested_first[0] = self.groups[0].requested;
            self.groups
                .assign_quotas(self.pool_weight, self.shared.config.share.oversubscribe);
            self.groups[0].allocated = self.pool_weight;
            let table = Table {
                group: None,
                negotiating: 0,
                quota: f64::INFINITY,
                floor_round: false,
            };
            let mut entries = all;
            self.negotiate_table(table, &mut entries);
            return;
        }
        let mut lists = self.prepare_groups(&all);
        let rounds = self.shared.config.share.allocation_rounds;
        for _ in 0..rounds {
            self.statistics.rounds += 1;
            if self.allocation_round(&mut lists) {
                break;
            }
        }
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            if group.got_remainder || group.requested <= 0.0 {
                group.round_robin_time = self.shared.now as f64;
            }
        }
    }

    /// A floor round for those below their floor, then the pie.
    fn negotiate_table(&mut self, table: Table, entries: &mut Vec<usize>) {
        let below: Vec<usize> = entries
            .iter()
            .copied()
            .filter(|entry| {
                let account = self.account_of[*entry];
                let floor = self.ledger.floor(account);
                floor > 0.0 && self.ledger.usage(account) < floor
            })
            .collect();
        if !below.is_empty() {
            let floor_round = Table {
                floor_round: true,
                ..table
            };
            // Entries that the floor round merges are apart again afterwards.
            let served = self.served.clone();
            self.negotiate_pie(floor_round, &mut below.clone());
            self.served = served;
        }
        self.negotiate_pie(table, entries);
    }

    fn demand_of(&self, entries: &[usize]) -> f64 {
        let weighted = self.shared.config.share.weighted_demand;
        entries
            .iter()
            .map(|entry| {
                let s = &self.demand.submitters[*entry];
                if weighted {
                    s.weighted_running + s.weighted_idle
                } else {
                    s.running + s.idle
                }
            })
            .fold(0.0, |sum: f64, weight: f64| sum + weight)
    }

    /// Quotas and demand of all groups; returns the submitters of each.
    fn prepare_groups(&mut self, all: &[usize]) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.groups.len()];
        for entry in all {
            let name = &self.demand.submitters[*entry].name;
            if name.contains('@') {
                lists[self.groups.group_of(name)].push(*entry);
            }
        }
        for (index, list) in lists.iter().enumerate() {
            self.groups[index].requested = self.demand_of(list);
            self.groups[index].usage = self.ledger.group_usage(index);
            self.requested_first[index] = self.groups[index].requested;
        }
        for index in 1..lists.len() {
            if self.groups[index].setting.autoregroup {
                let again = lists[index].clone();
                lists[0].extend(again);
            }
        }
        let pool = if self.shared.config.share.weighted {
            self.pool_weight
        } else {
            self.pool_slots
        };
        self.groups
            .assign_quotas(pool, self.shared.config.share.oversubscribe);
        // RemoteGroupQuota is that of this cycle.
        self.insert_remote_users();
        lists
    }

    /// One round: allocate, negotiate with every group. Returns whether all that was allocated is used.
    fn allocation_round(&mut self, lists: &mut [Vec<usize>]) -> bool {
        let config = &self.shared.config.share;
        self.groups.allocate();
        if !config.weighted {
            self.groups.recover_remainders();
        }
        if self.groups.autoregroup() {
            let pool = if config.weighted {
                self.pool_weight
            } else {
                self.pool_slots
            };
            self.groups[0].quota = pool;
            self.groups[0].allocated = pool;
        }
        let allocated: f64 = (0..self.groups.len())
            .map(|i| self.groups[i].allocated)
            .sum();
        let most = self.most_missing();
        let order = self.group_order();
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
        let mut used = 0.0;
        for index in 0..self.groups.len() {
            let usage = self.ledger.group_usage(index);
            let group = &mut self.groups[index];
            group.usage = usage;
            used += usage.min(group.allocated);
            if tolerance::below(usage, group.allocated) {
                group.requested = usage;
            } else {
                group.requested += group.allocated;
            }
        }
        tolerance::reached(used, allocated)
    }

    /// Largest amount a group is short of what it may have.
    fn most_missing(&self) -> f64 {
        let by_allocation =
            self.groups.any_accepts_surplus() || self.shared.config.share.surplus_by_default;
        (0..self.groups.len())
            .map(|i| {
                let group = &self.groups[i];
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
        let config = self.shared.config;
        let group = &self.groups[index];
        let consider = config.preemption.consider;
        if group.allocated <= 0.0
            || entries.is_empty()
            || !consider && tolerance::reached(group.usage, group.allocated)
        {
            self.note_group_quota(entries);
            return;
        }
        let target = group.allocated.max(group.quota);
        let missing = (target - group.usage).max(0.0);
        let mut amount = if missing <= 0.0 {
            target
        } else if most > 0.0 {
            (group.usage + missing * (step / most).min(1.0)).min(target)
        } else if self.statistics.rounds > 1 {
            // Everybody has what this round allots: what a group could not use before is not offered again.
            0.0
        } else {
            target
        };
        if !config.share.weighted {
            amount = tolerance::whole_part(amount);
        }
        if config.share.strict_quota {
            let usage_of = |i: usize| self.ledger.group_usage(i);
            amount = self.groups.strictly_capped(index, amount, &usage_of);
        }
        // Only whole units are offered; what a fraction leaves is allocated again.
        let quota = tolerance::whole_part(amount.max(0.0));
        let whole_pool = index == 0 && self.groups.autoregroup();
        let table = Table {
            group: (!whole_pool).then_some(index),
            negotiating: index,
            quota,
            floor_round: false,
        };
        self.negotiate_table(table, entries);
    }

    /// Groups in the order they are served.
    fn group_order(&mut self) -> Vec<usize> {
        let expr = self.shared.config.share.group_sort.clone();
        for index in 0..self.groups.len() {
            self.group_sort_keys[index] = self.sort_key(&expr, index);
        }
        let root_last = self.groups.autoregroup();
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by(|a, b| {
            let last = |i: usize| root_last && i == 0;
            last(*a)
                .cmp(&last(*b))
                .then_with(|| self.group_sort_keys[*a].total_cmp(&self.group_sort_keys[*b]))
        });
        order
    }

    fn sort_key(&self, expr: &Expr, index: usize) -> f64 {
        let group = &self.groups[index];
        let mut ad = Ad::new();
        let real = |x: f64| Expr::Lit(Value::Real(x));
        ad.set(
            "AccountingGroup",
            Expr::Lit(Value::str(group.setting.name.as_str())),
        );
        ad.set("GroupQuota", real(group.quota));
        ad.set("GroupResourcesAllocated", real(group.allocated));
        ad.set("GroupResourcesInUse", real(self.ledger.group_usage(index)));
        let context = Context {
            my: Some(&ad),
            now: self.shared.now,
            ..Context::default()
        };
        evaluate(expr, &context)
            .as_number()
            .filter(|n| !n.is_nan())
            .unwrap_or(f64::from(f32::MAX))
    }
}
