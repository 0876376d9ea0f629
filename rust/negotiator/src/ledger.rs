//! Accounts while a cycle runs: who uses how much, and who took which limits.

use crate::config::{CycleConfig, SharePolicy};
use crate::index::SlotIndex;
use crate::reservation::Kept;
use fairshare::{
    AccountRecord, FactorPolicy, GroupTree, LimitCounts, LimitRequest, MIN_PRIORITY, parse_limits,
};
use rustc_hash::FxHashMap;

/// Accounting state between cycles: a value in, a value out.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// Records by submitter or group name.
    pub records: FxHashMap<String, AccountRecord>,
    /// When each group last got a remainder slot (unweighted quotas).
    pub remainder_times: FxHashMap<String, f64>,
    /// Slots kept for large requests by the cycle before.
    pub reservations: Vec<Kept>,
    /// What submitters were entitled to hold after the cycle before, while others waited.
    pub entitled: FxHashMap<String, f64>,
}

/// One submitter or group known to the cycle.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// What is stored of it.
    pub record: AccountRecord,
    /// Its factor under the rules.
    pub factor: f64,
    /// Group index; a group's own account has its own.
    pub group: usize,
    /// Whether this is a group.
    pub is_group: bool,
    /// Share of spin 1.
    pub share: Option<f64>,
    /// Share x pie of spin 1.
    pub limit: Option<f64>,
    /// Matches of this cycle.
    pub matched: u32,
}

/// `GROUP_PRIO_FACTOR_<g>` of a group, 0 for the root.
fn group_factor(groups: &GroupTree, group: usize) -> f64 {
    if group == 0 {
        0.0
    } else {
        groups[group].setting.prio_factor
    }
}

/// The accounts of a cycle.
pub struct Ledger {
    accounts: Vec<Account>,
    by_name: FxHashMap<String, usize>,
    group_accounts: Vec<usize>,
    /// Concurrency limits in use.
    pub counts: LimitCounts,
    now: i64,
    /// Names and factors of groups, and what else gives new submitters their factors.
    rules: (GroupTree, FactorPolicy),
    /// Counts bookings: anything read from live usage is stale after a change.
    pub generation: u64,
}

impl Ledger {
    /// Ages all records to `now`, then counts usage anew from the slots.
    #[must_use]
    pub fn open(accounts: &Accounts, groups: &GroupTree, share: &SharePolicy, now: i64) -> Self {
        let mut ledger = Self {
            accounts: Vec::new(),
            by_name: FxHashMap::default(),
            group_accounts: Vec::new(),
            counts: LimitCounts::default(),
            now,
            rules: (groups.clone(), share.factors.clone()),
            generation: 0,
        };
        for index in 0..groups.len() {
            let name = &groups[index].setting.name;
            let mut record = accounts.records.get(name).cloned();
            let usage_below = |i: usize| {
                accounts
                    .records
                    .get(&groups[i].setting.name)
                    .map_or(0.0, |r| r.weighted_resources_used)
            };
            if let Some(record) = &mut record {
                record.age(
                    now,
                    share.half_life_s,
                    groups.subtree_usage(index, &usage_below),
                );
            }
            let at = ledger.add(
                name,
                record.unwrap_or_else(|| AccountRecord::new(now)),
                groups,
                share,
                true,
            );
            ledger.group_accounts.push(at);
        }
        let mut names: Vec<&String> = accounts.records.keys().collect();
        names.sort_unstable();
        for name in names {
            if groups.index_of(name).is_none() {
                let mut record = accounts.records[name].clone();
                record.age(now, share.half_life_s, 0.0);
                ledger.add(name, record, groups, share, false);
            }
        }
        for account in &mut ledger.accounts {
            account.record.resources_used = 0.0;
            account.record.weighted_resources_used = 0.0;
        }
        ledger
    }

    fn add(
        &mut self,
        name: &str,
        record: AccountRecord,
        groups: &GroupTree,
        share: &SharePolicy,
        is_group: bool,
    ) -> usize {
        let group = if is_group {
            groups.index_of(name).unwrap_or(0)
        } else {
            groups.group_of(name)
        };
        let group_factor = if is_group {
            0.0
        } else {
            group_factor(groups, group)
        };
        let factor = share.factors.factor_of(name, record.factor, group_factor);
        self.accounts.push(Account {
            name: name.to_owned(),
            record,
            factor,
            group,
            is_group,
            share: None,
            limit: None,
            matched: 0,
        });
        self.by_name
            .insert(name.to_owned(), self.accounts.len() - 1);
        self.accounts.len() - 1
    }

    /// Effective priority of somebody who uses slots; of one without an account, that of a new submitter.
    #[must_use]
    pub fn priority_of(&self, user: &str) -> f64 {
        match self.find(user) {
            Some(account) => self.effective_priority(account),
            None => {
                let (groups, factors) = &self.rules;
                let group_factor = group_factor(groups, groups.group_of(user));
                factors.factor_of(user, None, group_factor) * MIN_PRIORITY
            }
        }
    }

    /// The account of a submitter, opened when it is new.
    pub fn account(&mut self, name: &str, groups: &GroupTree, share: &SharePolicy) -> usize {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        self.add(name, AccountRecord::new(self.now), groups, share, false)
    }

    /// Counts what running claims use and which limits they hold.
    pub fn count_slots(&mut self, index: &SlotIndex, groups: &GroupTree, config: &CycleConfig) {
        for (at, class) in index.classes().iter().enumerate() {
            let slots = index.members(at).len() as f64;
            if slots == 0.0 || class.excluded {
                continue;
            }
            if let Some(user) = class.charged_to.as_ref().filter(|_| class.charged) {
                let account = self.account(user, groups, &config.share);
                let weight = class.weight * slots;
                for account in [account, self.group_accounts[self.accounts[account].group]] {
                    let record = &mut self.accounts[account].record;
                    record.resources_used += slots;
                    record.weighted_resources_used += weight;
                }
            }
            for text in &class.limits {
                let mut requests = parse_limits(text);
                requests.iter_mut().for_each(|r| r.count *= slots);
                self.counts.take(&requests);
            }
        }
    }

    /// Books a match of `weight` for an account and its group.
    pub fn book(&mut self, account: usize, weight: f64, limits: &[LimitRequest]) {
        let group = self.group_accounts[self.accounts[account].group];
        self.accounts[account].matched += 1;
        for at in [account, group] {
            self.accounts[at].record.book_match(self.now, weight);
        }
        self.counts.take(limits);
        self.generation += 1;
    }

    /// The account with this number.
    #[must_use]
    pub fn get(&self, account: usize) -> &Account {
        &self.accounts[account]
    }

    /// The account with this number, to note shares.
    pub fn get_mut(&mut self, account: usize) -> &mut Account {
        &mut self.accounts[account]
    }

    /// All accounts.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Effective priority.
    #[must_use]
    pub fn effective_priority(&self, account: usize) -> f64 {
        let account = &self.accounts[account];
        account.record.priority * account.factor
    }

    /// Weighted usage of a submitter.
    #[must_use]
    pub fn usage(&self, account: usize) -> f64 {
        self.accounts[account].record.weighted_resources_used
    }

    /// Weighted usage of a group's own submitters.
    #[must_use]
    pub fn group_usage(&self, group: usize) -> f64 {
        self.usage(self.group_accounts[group])
    }

    /// Existing account of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Weighted usage up to which an account is served first.
    #[must_use]
    pub fn floor(&self, account: usize) -> f64 {
        self.accounts[account].record.floor as f64
    }

    /// What an account may take before it meets its ceiling.
    #[must_use]
    pub fn ceiling_headroom(&self, account: usize) -> f64 {
        match self.accounts[account].record.ceiling {
            None => f64::INFINITY,
            Some(ceiling) => {
                let usage = fairshare::tolerance::whole_part(self.usage(account));
                (ceiling as f64 - usage).max(0.0)
            }
        }
    }

    /// The records as they are to be stored.
    #[must_use]
    pub fn close(&self) -> FxHashMap<String, AccountRecord> {
        self.accounts
            .iter()
            .map(|account| {
                let mut record = account.record.clone();
                if !account.is_group {
                    record.factor = Some(account.factor);
                }
                (account.name.clone(), record)
            })
            .collect()
    }
}
