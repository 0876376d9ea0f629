//! What a cycle notes while it runs, and the outcome made of that.

use crate::accounting::Accounting;
use crate::inputs::Inputs;
use crate::outcome::{
    GroupReport, HeldBack, Match, Outcome, Reason, Rejection, SlotCounts, Statistics,
    SubmitterReport, Timings, Waiting,
};
use crate::progress::Progress;
use crate::request::{Demand, JobId};
use crate::standing::Standing;
use rustc_hash::{FxHashMap, FxHashSet};

/// Requests of one submitter and access point that are told why they wait: those behind them wait for the same.
const MOST_TOLD: usize = 100;

/// See the module text.
pub(crate) struct Report {
    /// In the order they were made.
    pub matches: Vec<Match>,
    /// The last rejection of each autocluster of a submitter for each reason.
    pub rejections: Vec<Rejection>,
    rejection_at: FxHashMap<(u32, Reason), usize>,
    /// The first request of each autocluster, for entries that had a rejection.
    firsts: FxHashMap<usize, FxHashMap<JobId, usize>>,
    held_back: FxHashMap<usize, HeldBack>,
    pub statistics: Statistics,
    /// Seconds spent sorting submitters.
    pub sort_s: f64,
    /// Value of GROUP_SORT_EXPR of each group.
    pub group_sort_keys: Vec<f64>,
    /// Demand of each group when the cycle began.
    pub requested_first: Vec<f64>,
}

impl Report {
    /// Nothing noted yet.
    pub fn begin(groups: usize) -> Self {
        Self {
            matches: Vec::new(),
            rejections: Vec::new(),
            rejection_at: FxHashMap::default(),
            firsts: FxHashMap::default(),
            held_back: FxHashMap::default(),
            statistics: Statistics::default(),
            sort_s: 0.0,
            group_sort_keys: vec![0.0; groups],
            requested_first: vec![0.0; groups],
        }
    }

    /// Notes that jobs of a request were considered and got nothing.
    pub fn reject(
        &mut self,
        demand: &Demand,
        progress: &Progress,
        request: usize,
        reason: Reason,
        slots: SlotCounts,
    ) {
        self.statistics.rejections += 1;
        // Requests of one autocluster of a submitter are one in the report.
        let like = demand.requests[request].first_job;
        let entry = demand.requests[request].submitter;
        let firsts = self
            .firsts
            .entry(entry)
            .or_insert_with(|| firsts_of(demand, entry));
        let first = firsts.get(&like).copied().unwrap_or(request) as u32;
        let fresh = Rejection {
            request: first,
            reason: reason.clone(),
            count: progress.remaining[request],
            slots,
        };
        match self.rejection_at.get(&(first, reason.clone())) {
            Some(at) => self.rejections[*at] = fresh,
            None => {
                self.rejection_at
                    .insert((first, reason), self.rejections.len());
                self.rejections.push(fresh);
            }
        }
    }

    /// Notes why the jobs left of an entry are not considered, if there are any.
    pub fn hold_back(&mut self, progress: &Progress, entry: usize, why: HeldBack) {
        if progress.remaining_of(entry) > 0 {
            self.held_back.insert(entry, why);
        }
    }

    /// Why an entry was held back last.
    pub fn held_back(&self, entry: usize) -> Option<HeldBack> {
        self.held_back.get(&entry).copied()
    }

    /// Turns what was noted into the outcome, reservations and excess aside; `free_slots`: some slot is left that
    /// nobody uses.
    pub fn outcome(mut self, standing: Standing<'_, '_>, free_slots: bool) -> Outcome {
        let Standing {
            inputs,
            accounting,
            progress,
        } = standing;
        let demand = inputs.demand;
        self.count_demand(demand);
        self.statistics.submitters_share_limit = self.limited(demand);
        let submitters = self.submitters(standing);
        let groups = self.groups(inputs, accounting);
        let waiting = self.waiting(demand, progress, free_slots);
        count_jobs_left(&mut self.rejections, demand, progress);
        let known = (0..accounting.groups.len()).map(|i| &accounting.groups[i]);
        Outcome {
            submitters,
            groups,
            records: accounting.ledger.close(),
            remainder_times: known
                .map(|g| (g.setting.name.clone(), g.round_robin_time))
                .collect(),
            warnings: self.statistics.warnings.clone(),
            timings: Timings {
                sort_s: self.sort_s,
                ..Timings::default()
            },
            matches: self.matches,
            statistics: self.statistics,
            rejections: self.rejections,
            waiting,
            ..Outcome::default()
        }
    }

    fn count_demand(&mut self, demand: &Demand) {
        let submitters = || demand.submitters.iter();
        let names: FxHashSet<&str> = submitters().map(|s| s.name.as_str()).collect();
        let schedds: FxHashSet<&str> = submitters().map(|s| s.schedd.as_str()).collect();
        self.statistics.active_submitters = names.len() as u64;
        self.statistics.active_schedds = schedds.len() as u64;
        self.statistics.idle_jobs = submitters().map(|s| s.idle as u64).sum();
    }

    /// Requests with jobs left that were not rejected. Where no slot is free, the pool is what they wait for.
    fn waiting(&self, demand: &Demand, progress: &Progress, free_slots: bool) -> Vec<Waiting> {
        if self.held_back.is_empty() {
            return Vec::new();
        }
        let rejected: FxHashSet<_> = self
            .rejections
            .iter()
            .map(|r| {
                let asked = &demand.requests[r.request as usize];
                (asked.submitter, asked.first_job)
            })
            .collect();
        let mut told: FxHashMap<usize, usize> = FxHashMap::default();
        let mut out = Vec::new();
        for (request, asked) in demand.requests.iter().enumerate() {
            let Some(why) = self.held_back(asked.submitter) else {
                continue;
            };
            if told.get(&asked.submitter).is_some_and(|n| *n >= MOST_TOLD) {
                continue;
            }
            let count = progress.remaining[request];
            if count == 0 || rejected.contains(&(asked.submitter, asked.first_job)) {
                continue;
            }
            *told.entry(asked.submitter).or_default() += 1;
            let reason = match why {
                HeldBack::ShareUsed if !free_slots => Reason::NO_MATCH,
                why => why.reason(),
            };
            out.push(Waiting {
                request: request as u32,
                reason,
                count,
            });
        }
        out
    }

    /// Submitters that met their limit.
    fn limited(&self, demand: &Demand) -> Vec<String> {
        let mut names: Vec<String> = self
            .held_back
            .iter()
            .filter(|(_, why)| matches!(why, HeldBack::ShareUsed | HeldBack::GroupQuota))
            .map(|(entry, _)| demand.submitters[*entry].name.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Jobs left of an entry whose autocluster was rejected.
    fn rejected_of(&self, demand: &Demand, progress: &Progress, entry: usize) -> u32 {
        let firsts: FxHashSet<_> = self
            .rejections
            .iter()
            .map(|r| &demand.requests[r.request as usize])
            .filter(|asked| asked.submitter == entry)
            .map(|asked| asked.first_job)
            .collect();
        let requests = demand.submitters[entry].requests.iter();
        requests
            .filter(|r| firsts.contains(&demand.requests[**r].first_job))
            .map(|r| progress.remaining[*r])
            .sum()
    }

    fn submitters(&self, standing: Standing<'_, '_>) -> Vec<SubmitterReport> {
        let Standing {
            inputs,
            accounting,
            progress,
        } = standing;
        let demand = inputs.demand;
        let mut seen: FxHashMap<usize, usize> = FxHashMap::default();
        let mut out: Vec<SubmitterReport> = Vec::new();
        for (entry, account_number) in accounting.account_of.iter().enumerate() {
            let left: u32 = demand.submitters[entry]
                .requests
                .iter()
                .map(|r| progress.remaining[*r])
                .sum();
            let rejected = self.rejected_of(demand, progress, entry);
            let held = self.held_back(entry).filter(|_| left > rejected);
            let held = held.map(|why| (why, left - rejected));
            if let Some(at) = seen.get(account_number) {
                if let (Some((_, more)), Some((_, count))) = (held, &mut out[*at].held_back) {
                    *count += more;
                }
                continue;
            }
            let account = accounting.ledger.get(*account_number);
            seen.insert(*account_number, out.len());
            out.push(SubmitterReport {
                name: account.name.clone(),
                group: accounting.groups[account.group].setting.name.clone(),
                priority: account.record.priority,
                factor: account.factor,
                share: account.share,
                limit: account.limit,
                matched: account.matched,
                usage: account.record.weighted_resources_used,
                held_back: held,
            });
        }
        out
    }

    fn groups(&self, inputs: Inputs<'_>, accounting: &Accounting) -> Vec<GroupReport> {
        let mut matched = vec![0; accounting.groups.len()];
        for made in &self.matches {
            let entry = inputs.demand.requests[made.request as usize].submitter;
            matched[accounting.group_of(entry)] += 1;
        }
        (0..accounting.groups.len())
            .map(|index| {
                let group = &accounting.groups[index];
                GroupReport {
                    name: group.setting.name.clone(),
                    quota: group.quota,
                    config_quota: group.setting.quota.configured(),
                    is_static: group.setting.quota.is_static(),
                    subtree_quota: group.subtree_quota,
                    requested: self.requested_first[index],
                    allocated: group.allocated,
                    usage: accounting.ledger.group_usage(index),
                    matched: matched[index],
                    accept_surplus: group.setting.accept_surplus,
                    autoregroup: group.setting.autoregroup,
                    sort_key: self.group_sort_keys[index],
                }
            })
            .collect()
    }
}

/// The first request of each autocluster of an entry.
fn firsts_of(demand: &Demand, entry: usize) -> FxHashMap<JobId, usize> {
    let mut firsts = FxHashMap::default();
    for request in &demand.submitters[entry].requests {
        firsts
            .entry(demand.requests[*request].first_job)
            .or_insert(*request);
    }
    firsts
}

/// Gives each rejection the jobs that its autocluster has left at the end of the cycle.
fn count_jobs_left(rejections: &mut [Rejection], demand: &Demand, progress: &Progress) {
    let autocluster = |request: usize| {
        let asked = &demand.requests[request];
        (asked.submitter, asked.first_job)
    };
    let mut left: FxHashMap<_, u32> = rejections
        .iter()
        .map(|rejection| (autocluster(rejection.request as usize), 0))
        .collect();
    if left.is_empty() {
        return;
    }
    for (request, jobs) in progress.remaining.iter().enumerate() {
        if let Some(sum) = left.get_mut(&autocluster(request)) {
            *sum += jobs;
        }
    }
    for rejection in rejections {
        rejection.count = left[&autocluster(rejection.request as usize)];
    }
}
