//! Who pays: the groups, the accounts, and the account of each submitter entry.

use crate::inputs::Inputs;
use crate::ledger::{Accounts, Ledger};
use fairshare::{GroupTree, IgnoredGroup};
use rustc_hash::FxHashMap;

/// See the module text.
pub(crate) struct Accounting {
    pub groups: GroupTree,
    pub ledger: Ledger,
    /// Account of each submitter entry.
    pub account_of: Vec<usize>,
    /// What accounts were entitled to hold after the cycle before, as far as others waited.
    pub entitled_before: FxHashMap<usize, f64>,
}

impl Accounting {
    /// Ages the accounts and counts what running claims use; gives the configured groups that are ignored, too.
    pub fn open(inputs: &Inputs<'_>, accounts: &Accounts) -> (Self, Vec<IgnoredGroup>) {
        let config = inputs.config;
        let (mut groups, ignored) = GroupTree::build(config.share.groups.clone());
        groups[0].setting.autoregroup |= config.share.regroup_by_default && groups.is_active();
        for index in 0..groups.len() {
            let name = &groups[index].setting.name;
            let time = accounts.remainder_times.get(name).copied();
            groups[index].round_robin_time = time.unwrap_or(0.0);
        }
        let mut ledger = Ledger::open(accounts, &groups, &config.share, inputs.now);
        ledger.count_slots(inputs.index, &groups, config);
        let submitters = inputs.demand.submitters.iter();
        let account_of = submitters
            .map(|submitter| ledger.account(&submitter.name, &groups, &config.share))
            .collect();
        let entitled = accounts.entitled.iter();
        let entitled_before = entitled
            .filter_map(|(name, weight)| Some((ledger.find(name)?, *weight)))
            .collect();
        let accounting = Self {
            groups,
            ledger,
            account_of,
            entitled_before,
        };
        (accounting, ignored)
    }

    /// Effective priority of the submitter of an entry.
    pub fn priority_of(&self, entry: usize) -> f64 {
        self.ledger.effective_priority(self.account_of[entry])
    }

    /// Group of the submitter of an entry.
    pub fn group_of(&self, entry: usize) -> usize {
        self.ledger.get(self.account_of[entry]).group
    }

    /// Weighted usage of the submitter of an entry.
    pub fn usage_of(&self, entry: usize) -> f64 {
        self.ledger.usage(self.account_of[entry])
    }

    /// What the submitter of an entry may take before it meets its ceiling.
    pub fn ceiling_headroom_of(&self, entry: usize) -> f64 {
        self.ledger.ceiling_headroom(self.account_of[entry])
    }
}
