//! The outcome of a finished cycle.

use crate::cycle::Cycle;
use crate::outcome::{GroupReport, HeldBack, Outcome, Reason, SubmitterReport, Timings, Waiting};
use rustc_hash::{FxHashMap, FxHashSet};

/// Turns what a cycle noted into its outcome.
pub(crate) fn outcome_of(mut cycle: Cycle<'_>) -> Outcome {
    let submitters = submitters(&cycle);
    let groups = groups(&cycle);
    let names = (0..cycle.groups.len()).map(|i| &cycle.groups[i]);
    let remainder_times = names
        .map(|g| (g.setting.name.clone(), g.round_robin_time))
        .collect();
    let active: FxHashSet<&str> = cycle
        .demand
        .submitters
        .iter()
        .map(|s| s.name.as_str())
        .collect();
    let schedds: FxHashSet<&str> = cycle
        .demand
        .submitters
        .iter()
        .map(|s| s.schedd.as_str())
        .collect();
    cycle.statistics.active_submitters = active.len() as u64;
    cycle.statistics.active_schedds = schedds.len() as u64;
    cycle.statistics.idle_jobs = cycle.demand.submitters.iter().map(|s| s.idle as u64).sum();
    cycle.statistics.submitters_share_limit = limited(&cycle);
    let waiting = waiting(&cycle);
    let mut rejections = std::mem::take(&mut cycle.rejections);
    for rejection in &mut rejections {
        rejection.count = jobs_left(&cycle, rejection.request as usize);
    }
    Outcome {
        submitters,
        groups,
        reservations: cycle.reservations.kept(),
        given_up: std::mem::take(&mut cycle.reservations.given_up),
        entitled: cycle
            .entitled
            .iter()
            .map(|(account, weight)| (cycle.ledger.get(*account).name.clone(), *weight))
            .collect(),
        excess: cycle.excess,
        records: cycle.ledger.close(),
        remainder_times,
        warnings: cycle.statistics.warnings.clone(),
        timings: Timings {
            sort_s: cycle.sort_s,
            ..Timings::default()
        },
        matches: cycle.matches,
        statistics: cycle.statistics,
        rejections,
        waiting,
    }
}

/// Requests of one submitter and access point that are told why they wait: those behind them wait for the same.
const MOST_TOLD: usize = 100;

/// Requests with jobs left that were not rejected. Where no slot is free, the pool is what they wait for.
fn waiting(cycle: &Cycle<'_>) -> Vec<Waiting> {
    if cycle.held_back.is_empty() {
        return Vec::new();
    }
    let rejected: FxHashSet<_> = cycle
        .rejections
        .iter()
        .map(|r| {
            let asked = &cycle.demand.requests[r.request as usize];
            (asked.submitter, asked.first_job)
        })
        .collect();
    let full = !cycle.pool.any_free();
    let mut told: FxHashMap<usize, usize> = FxHashMap::default();
    let mut out = Vec::new();
    for (request, asked) in cycle.demand.requests.iter().enumerate() {
        let Some((why, _)) = cycle.held_back.get(&asked.submitter) else {
            continue;
        };
        if told.get(&asked.submitter).is_some_and(|n| *n >= MOST_TOLD) {
            continue;
        }
        let count = cycle.left[request];
        if count == 0 || rejected.contains(&(asked.submitter, asked.first_job)) {
            continue;
        }
        *told.entry(asked.submitter).or_default() += 1;
        let reason = match why {
            HeldBack::ShareUsed if full => Reason::NO_MATCH,
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

/// Jobs left of the autocluster of a request.
fn jobs_left(cycle: &Cycle<'_>, request: usize) -> u32 {
    let asked = &cycle.demand.requests[request];
    cycle.demand.submitters[asked.submitter]
        .requests
        .iter()
        .filter(|r| cycle.demand.requests[**r].first_job == asked.first_job)
        .map(|r| cycle.left[*r])
        .sum()
}

fn limited(cycle: &Cycle<'_>) -> Vec<String> {
    let mut names: Vec<String> = cycle
        .held_back
        .iter()
        .filter(|(_, (why, _))| matches!(why, HeldBack::ShareUsed | HeldBack::GroupQuota))
        .map(|(entry, _)| cycle.demand.submitters[*entry].name.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Jobs left of an entry whose autocluster was rejected.
fn rejected_of(cycle: &Cycle<'_>, entry: usize) -> u32 {
    let firsts: FxHashSet<_> = cycle
        .rejections
        .iter()
        .map(|r| &cycle.demand.requests[r.request as usize])
        .filter(|asked| asked.submitter == entry)
        .map(|asked| asked.first_job)
        .collect();
    let requests = cycle.demand.submitters[entry].requests.iter();
    requests
        .filter(|r| firsts.contains(&cycle.demand.requests[**r].first_job))
        .map(|r| cycle.left[*r])
        .sum()
}

fn submitters(cycle: &Cycle<'_>) -> Vec<SubmitterReport> {
    let mut seen: FxHashMap<usize, usize> = FxHashMap::default();
    let mut out: Vec<SubmitterReport> = Vec::new();
    for (entry, account_number) in cycle.account_of.iter().enumerate() {
        let left: u32 = cycle.demand.submitters[entry]
            .requests
            .iter()
            .map(|r| cycle.left[*r])
            .sum();
        let rejected = rejected_of(cycle, entry);
        let held = cycle.held_back.get(&entry).filter(|_| left > rejected);
        let held = held.map(|(why, _)| (*why, left - rejected));
        if let Some(at) = seen.get(account_number) {
            if let (Some((_, more)), Some((_, count))) = (held, &mut out[*at].held_back) {
                *count += more;
            }
            continue;
        }
        let account = cycle.ledger.get(*account_number);
        seen.insert(*account_number, out.len());
        out.push(SubmitterReport {
            name: account.name.clone(),
            group: cycle.groups[account.group].setting.name.clone(),
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

fn groups(cycle: &Cycle<'_>) -> Vec<GroupReport> {
    let mut matched = vec![0; cycle.groups.len()];
    for made in &cycle.matches {
        let entry = cycle.demand.requests[made.request as usize].submitter;
        matched[cycle.ledger.get(cycle.account_of[entry]).group] += 1;
    }
    (0..cycle.groups.len())
        .map(|index| {
            let group = &cycle.groups[index];
            GroupReport {
                name: group.setting.name.clone(),
                quota: group.quota,
                config_quota: group.setting.quota.configured(),
                is_static: group.setting.quota.is_static(),
                subtree_quota: group.subtree_quota,
                requested: cycle.requested_first[index],
                allocated: group.allocated,
                usage: cycle.ledger.group_usage(index),
                matched: matched[index],
                accept_surplus: group.setting.accept_surplus,
                autoregroup: group.setting.autoregroup,
                sort_key: cycle.group_sort_keys[index],
            }
        })
        .collect()
}
