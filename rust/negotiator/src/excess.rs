//! Claims that a submitter holds beyond its share while others wait for them.
//!
//! An access point starts one job after the other on a claim, without the
//! negotiator. So that shares hold all the same, a cycle that leaves requests
//! unmet looks at who has more than it is entitled to and says which of its
//! claims are to be given back, as many as the others can use, when the jobs
//! on them end. Nothing is preempted.
//!
//! What is divided is what submitters hold after the cycle: all that could be
//! matched has been. It is divided by effective priority, within what groups
//! may have, between the floor of each submitter and what it can use. Nobody
//! is brought below its entitlement in whole claims, so what one gave back it
//! does not get again, and claims do not go to and fro.
//!
//! What bounds it: for each request that waits a few passes over one bit a
//! slot; for each of [`MOST_GROWN`] partitionable slots at most a look at what
//! it would be without one of its dynamic slots.

use crate::amounts::amount_expr;
use crate::evaluate::{Evaluation, requirements_hold};
use crate::evaluations::Evaluations;
use crate::outcome::{Excess, HeldBack, Reason};
use crate::own_values::{own_number, own_text};
use crate::pool::Pool;
use crate::pool_size::PoolSize;
use crate::report::Report;
use crate::reserve::Reservations;
use crate::slot::{Division, SlotClass};
use crate::standing::Standing;
use columns::{Bitmap, ColumnId, Row};
use fairshare::{Want, entitlements, tolerance};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests of one submitter entry that are looked at: those behind them wait for the same.
const MOST_OF_ENTRY: usize = 20;
/// Requests that are looked at in all.
const MOST_REQUESTS: usize = 1000;
/// Looks at partitionable slots with one dynamic slot given back.
const MOST_GROWN: usize = 2000;
/// Claims named for one that is to be given back: the first whose job ends is.
const NAMED_FOR_ONE: usize = 4;
/// So much of what is lacked counts as a whole claim: priorities drift, so that no two users have quite the same share.
const NEARLY_WHOLE: f64 = 1.05;
/// Claims named at least, as far as there are so many.
const NAMED_LEAST: usize = 100;

/// A request with jobs left that other claims could serve.
struct Waiter {
    account: usize,
    request: usize,
    /// Weight of one job.
    cost: f64,
}

/// The claims of one submitter that may be given back between jobs.
struct Holder {
    rows: Bitmap,
    /// Entitlements are not met by claims that are on their way out.
    leaving: f64,
}

/// What one holder is to give back.
#[derive(Default)]
struct Part {
    rows: Vec<Row>,
    weight: f64,
}

/// Why a claim goes from one to another.
#[derive(Clone, Copy)]
enum Handover {
    /// It is wholly beyond the share of its holder.
    Whole,
    /// It is so in part only, but the other lacks (nearly) all of it, and so needs it more.
    Partly,
    /// It is more than either's share, and the other has nothing: they hold it in turns.
    Turn,
}

/// Looks so far, and what they told.
#[derive(Default)]
struct Grown {
    looks: usize,
    /// By class of the partitionable slot and of the dynamic one, for the request at hand.
    known: FxHashMap<(usize, usize), bool>,
}

/// What a cycle finds out about claims beyond shares.
#[derive(Default)]
pub(crate) struct ClaimsToReturn {
    /// What accounts are entitled to hold after the cycle, as far as others wait.
    pub entitled: FxHashMap<usize, f64>,
    /// What is to be given back.
    pub excess: Vec<Excess>,
}

/// The cycle after matching, as far as it decides who gives claims back.
#[derive(Clone, Copy)]
pub(crate) struct Search<'c, 'a> {
    pub standing: Standing<'c, 'a>,
    pub size: &'c PoolSize,
    pub pool: &'c Pool<'a>,
    pub reservations: &'c Reservations,
}

impl<'a> Search<'_, 'a> {
    /// Finds what submitters hold beyond their shares and others can use, and what everybody is entitled to.
    pub fn find(&self, report: &Report, evaluations: &mut Evaluations<'a>) -> ClaimsToReturn {
        let nothing = ClaimsToReturn::default();
        let share = &self.standing.inputs.config.share;
        if !share.between_jobs || share.ignore_priorities {
            return nothing;
        }
        let waiting = self.waiting_requests(report);
        if waiting.is_empty() {
            return nothing;
        }
        let holders = self.holders();
        if holders.is_empty() {
            return nothing;
        }
        let mut grown = Grown::default();
        let waiters = self.waiters(&waiting, &holders, evaluations, &mut grown);
        if waiters.is_empty() {
            return nothing;
        }
        let mut entitled = self.entitled(&waiters);
        let parts = self.parts(&waiters, &holders, &mut entitled, evaluations, &mut grown);
        ClaimsToReturn {
            entitled,
            excess: self.by_schedd(parts),
        }
    }

    /// Entries and requests with jobs left which more slots would serve, in the order of the submitters' priorities.
    fn waiting_requests(&self, report: &Report) -> Vec<(usize, usize)> {
        let limited: FxHashSet<usize> = report
            .rejections
            .iter()
            .filter(|r| {
                matches!(
                    r.reason,
                    Reason::ConcurrencyLimit(_) | Reason::Reserved | Reason::TooMuchWork
                )
            })
            .map(|r| r.request as usize)
            .collect();
        let mut entries: Vec<usize> = (0..self.standing.inputs.demand.submitters.len()).collect();
        entries.sort_by(|a, b| {
            let priority = |entry: usize| {
                self.standing
                    .accounting
                    .ledger
                    .effective_priority(self.standing.accounting.account_of[entry])
            };
            let name = |entry: usize| &self.standing.inputs.demand.submitters[entry].name;
            priority(*a)
                .total_cmp(&priority(*b))
                .then_with(|| name(*a).cmp(name(*b)))
                .then_with(|| a.cmp(b))
        });
        let mut out = Vec::new();
        for entry in entries {
            if matches!(
                report.held_back(entry),
                Some(HeldBack::Ceiling | HeldBack::OutOfTime | HeldBack::TooMuchWork)
            ) {
                continue;
            }
            let waiting = self.standing.inputs.demand.submitters[entry]
                .requests
                .iter()
                .copied()
                .filter(|request| {
                    self.standing.remaining(*request) > 0 && !limited.contains(request)
                });
            out.extend(waiting.take(MOST_OF_ENTRY).map(|request| (entry, request)));
        }
        out.truncate(MOST_REQUESTS);
        out
    }

    /// Submitters that hold claims, by account.
    fn holders(&self) -> FxHashMap<usize, Holder> {
        let index = self.standing.inputs.index;
        let now = self.standing.inputs.now;
        let mut out: FxHashMap<usize, Holder> = FxHashMap::default();
        for (at, facts) in index.classes().iter().enumerate() {
            let members = index.members(at);
            let Some(user) = facts.charged_to.as_ref().filter(|_| facts.charged) else {
                continue;
            };
            if members.is_empty() || facts.excluded {
                continue;
            }
            let Some(account) = self.standing.accounting.ledger.find(user) else {
                continue;
            };
            let holder = out.entry(account).or_insert_with(|| Holder {
                rows: Bitmap::empty(self.standing.inputs.table.row_end()),
                leaving: 0.0,
            });
            let claimed = own_text(&facts.ad, "State", now).as_deref() == Some("Claimed");
            let retiring = own_text(&facts.ad, "Activity", now).as_deref() == Some("Retiring");
            if !claimed || retiring {
                holder.leaving += facts.weight * members.len() as f64;
            } else if facts.user.as_ref() == Some(user) && !facts.partitionable {
                // One that a claim waits for already, or the whole of a machine, is not given back for others.
                members
                    .iter()
                    .for_each(|row| holder.rows.set(*row as usize, true));
            }
        }
        out
    }

    /// Those of the requests that could be served by what others hold.
    fn waiters(
        &self,
        waiting: &[(usize, usize)],
        holders: &FxHashMap<usize, Holder>,
        evaluations: &mut Evaluations<'a>,
        grown: &mut Grown,
    ) -> Vec<Waiter> {
        let mut all = Bitmap::empty(self.standing.inputs.table.row_end());
        holders.values().for_each(|holder| all.or(&holder.rows));
        let mut out = Vec::new();
        for (entry, request) in waiting.iter().copied() {
            let account = self.standing.accounting.account_of[entry];
            let evaluation = evaluations.of_request(self.standing.accounting, request);
            grown.known.clear();
            let mut others = all.clone();
            if let Some(own) = holders.get(&account) {
                others.and_not(&own.rows);
            }
            let found = self.could_have(&evaluation, &others, 1, grown);
            if evaluation
                .fixed_limit_met(&self.standing.accounting.ledger)
                .is_none()
                && let Some(row) = found.first().copied()
            {
                let cost = self.cost_on(&evaluation, row);
                out.push(Waiter {
                    account,
                    request,
                    cost,
                });
            }
            evaluations.keep(evaluation);
        }
        out
    }

    /// What a job of the request would be charged in place of the claim on a row.
    fn cost_on(&self, evaluation: &Evaluation<'a>, row: Row) -> f64 {
        let Some(class) = self.standing.inputs.index.class_of(row) else {
            return 1.0;
        };
        let facts = &self.standing.inputs.index.classes()[class];
        if self.standing.inputs.parent_of(row).is_none()
            || !self.standing.inputs.config.share.weighted
        {
            return facts.weight;
        }
        let cpus =
            own_number(&evaluation.job, "RequestCpus", self.standing.inputs.now).unwrap_or(1.0);
        let held = own_number(&facts.ad, "Cpus", self.standing.inputs.now).unwrap_or(cpus);
        // Weights are mostly cores; where they are not, what it takes of the claim counts.
        if held > 0.0 {
            facts.weight * cpus / held
        } else {
            facts.weight
        }
    }

    /// Rows of `held` that a request could have when their claims are given back, at most so many.
    fn could_have(
        &self,
        evaluation: &Evaluation<'a>,
        held: &Bitmap,
        most: usize,
        grown: &mut Grown,
    ) -> Vec<Row> {
        let mut out = Vec::new();
        let mut rest = held.clone();
        if let Some(rows) = &evaluation.answers.rows {
            let mut fits = held.clone();
            fits.and(rows);
            rest.and_not(rows);
            let permitted = fits
                .iter()
                .map(|row| row as Row)
                .filter(|row| self.may_pass(evaluation, *row));
            out.extend(permitted.take(most));
        }
        let asked = evaluation.answers.rows.is_some();
        for row in rest.iter().map(|row| row as Row) {
            if out.len() >= most || grown.looks >= MOST_GROWN {
                break;
            }
            if self.may_pass(evaluation, row) && self.fits_without(evaluation, row, asked, grown) {
                out.push(row);
            }
        }
        out
    }

    /// Whether a claim may go to a request at all: its machine is not kept for another, and prefers nobody to it.
    fn may_pass(&self, evaluation: &Evaluation<'a>, row: Row) -> bool {
        let Some(class) = self.standing.inputs.index.class_of(row) else {
            return false;
        };
        let facts = &self.pool.classes()[class];
        let kept = || {
            self.standing
                .inputs
                .parent_of(row)
                .is_some_and(|parent| self.reservations.keeps(parent))
        };
        if !self.reservations.is_empty() && kept() {
            return false;
        }
        let rank = evaluation.slot_rank(facts);
        let below =
            matches!((rank, facts.current_rank), (Some(rank), Some(current)) if rank < current);
        !below && evaluation.may_meet(facts)
    }

    /// Whether the request fits once the claim on a row is given back.
    fn fits_without(
        &self,
        evaluation: &Evaluation<'a>,
        row: Row,
        asked: bool,
        grown: &mut Grown,
    ) -> bool {
        let inputs = &self.standing.inputs;
        let Some(class) = inputs.index.class_of(row) else {
            return false;
        };
        let Some(parent) = self.standing.inputs.parent_of(row) else {
            if !asked {
                grown.looks += 1;
            }
            return !asked && requirements_hold(inputs, &evaluation.job, &inputs.table.ad(row));
        };
        let Some(parents) = inputs.index.class_of(parent) else {
            return false;
        };
        let free = self.pool.free_of(parent);
        if free.is_none()
            && let Some(known) = grown.known.get(&(parents, class))
        {
            return *known;
        }
        grown.looks += 1;
        let facts = &inputs.index.classes()[parents];
        let fits = facts.is_candidate()
            && matches!(facts.division, Division::Carved)
            && self.fits_grown(evaluation, facts, free, class);
        if free.is_none() {
            grown.known.insert((parents, class), fits);
        }
        fits
    }

    /// Whether the request fits a partitionable slot that got back what a dynamic slot holds.
    fn fits_grown(
        &self,
        evaluation: &Evaluation<'a>,
        parent: &Arc<SlotClass>,
        free: Option<&[f64]>,
        child: usize,
    ) -> bool {
        let (inputs, now) = (&self.standing.inputs, self.standing.inputs.now);
        let child = &inputs.index.classes()[child];
        let mut whole = SlotClass::clone(parent);
        for (at, (name, amount)) in whole.resources.iter_mut().enumerate() {
            if let Some(left) = free.and_then(|free| free.get(at)) {
                *amount = *left;
            }
            *amount += own_number(&child.ad, &name.to_text(), now).unwrap_or(0.0);
            whole.ad.insert(name.clone(), amount_expr(*amount));
        }
        evaluation.amounts(&whole).is_some()
            && requirements_hold(inputs, &evaluation.job, &whole.ad)
    }

    /// What every account with usage or requests should hold of what all of them hold.
    fn entitled(&self, waiters: &[Waiter]) -> FxHashMap<usize, f64> {
        let mut wanted: FxHashMap<usize, f64> = FxHashMap::default();
        for waiter in waiters {
            *wanted.entry(waiter.account).or_default() +=
                waiter.cost * f64::from(self.standing.remaining(waiter.request));
        }
        let accounts: Vec<usize> = (0..self.standing.accounting.ledger.accounts().len())
            .filter(|at| !self.standing.accounting.ledger.get(*at).is_group)
            .filter(|at| {
                self.standing.accounting.ledger.usage(*at) > 0.0 || wanted.contains_key(at)
            })
            .collect();
        let want = |account: usize, least: f64| {
            let usage = self.standing.accounting.ledger.usage(account);
            let more = wanted.get(&account).copied().unwrap_or(0.0);
            let most = usage + more.min(self.standing.accounting.ledger.ceiling_headroom(account));
            let least = self
                .standing
                .accounting
                .ledger
                .floor(account)
                .min(most)
                .max(least);
            Want {
                weight: 1.0 / self.standing.accounting.ledger.effective_priority(account),
                least,
                most: most.max(least),
            }
        };
        let divide = |accounts: &[usize], amount: f64| -> Vec<(usize, f64)> {
            let wants: Vec<Want> = accounts.iter().map(|at| want(*at, 0.0)).collect();
            let parts = entitlements(&wants, amount);
            accounts.iter().copied().zip(parts).collect()
        };
        if !self.standing.accounting.groups.is_active() {
            let held = accounts
                .iter()
                .map(|at| self.standing.accounting.ledger.usage(*at))
                .sum();
            return divide(&accounts, held).into_iter().collect();
        }
        let share = &self.standing.inputs.config.share;
        let mut members = vec![Vec::new(); self.standing.accounting.groups.len()];
        for account in accounts {
            members[self.standing.accounting.ledger.get(account).group].push(account);
        }
        let sum = |of: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let of_group = |list: &Vec<usize>| list.iter().map(|at| of(*at)).sum();
            members.iter().map(of_group).collect()
        };
        let usage = sum(&|at| self.standing.accounting.ledger.usage(at));
        let demand = sum(&|at| want(at, 0.0).most);
        let pool = self.size.for_groups(share.weighted);
        let targets =
            self.standing
                .accounting
                .groups
                .targets(&usage, &demand, pool, share.oversubscribe);
        let again =
            |group: usize| group == 0 || self.standing.accounting.groups[group].setting.autoregroup;
        let mut out = FxHashMap::default();
        let (mut regrouped, mut spare) = (Vec::new(), 0.0);
        for (group, list) in members.iter().enumerate() {
            if self.standing.accounting.groups.autoregroup() && again(group) {
                let own = targets.held[group].min(targets.allotted[group]);
                spare += targets.held[group];
                regrouped.extend(divide(list, own));
            } else {
                out.extend(divide(list, targets.held[group]));
            }
        }
        // What groups hold beyond their allotment their submitters compete for in the root.
        let wants: Vec<Want> = regrouped.iter().map(|(at, own)| want(*at, *own)).collect();
        let parts = entitlements(&wants, spare);
        out.extend(regrouped.iter().map(|(at, _)| *at).zip(parts));
        out
    }

    /// What each holder is to give back, by account: as much as waiting requests of submitters below their
    /// entitlement can use, of those first that hold most beyond theirs. One who is beyond its entitlement by less
    /// than a claim gives it up all the same for the reasons of [`Handover`]; its entitlement is then what is left to it.
    fn parts(
        &self,
        waiters: &[Waiter],
        holders: &FxHashMap<usize, Holder>,
        entitled: &mut FxHashMap<usize, f64>,
        evaluations: &mut Evaluations<'a>,
        grown: &mut Grown,
    ) -> Vec<(usize, Part)> {
        let at_first = entitled.clone();
        let own = |account: usize| at_first.get(&account).copied().unwrap_or(0.0);
        let busy = self.with_idle_jobs();
        let mut over: Vec<(f64, usize)> = holders
            .iter()
            .filter(|(account, _)| busy.contains(account))
            .map(|(account, holder)| {
                let held = self.standing.accounting.ledger.usage(*account) - holder.leaving;
                (held - own(*account), *account)
            })
            .filter(|(excess, _)| tolerance::below(0.0, *excess))
            .collect();
        over.sort_by(|a, b| {
            let name = |account: usize| &self.standing.accounting.ledger.get(account).name;
            b.0.total_cmp(&a.0).then_with(|| name(a.1).cmp(name(b.1)))
        });
        let mut leaving: f64 = holders.values().map(|holder| holder.leaving).sum();
        let mut short: FxHashMap<usize, f64> = FxHashMap::default();
        let mut parts: Vec<(usize, Part)> = Vec::new();
        let mut rounded = 0.0_f64;
        for waiter in waiters {
            let usage = self.standing.accounting.ledger.usage(waiter.account);
            let short = short
                .entry(waiter.account)
                .or_insert(own(waiter.account) - usage);
            if !tolerance::below(0.0, *short) {
                continue;
            }
            // As in a spin: whoever is below its share may have a slot, however heavy.
            let jobs = waiter.cost * f64::from(self.standing.remaining(waiter.request));
            let mut need = jobs.min(short.max(waiter.cost));
            let mut lack = jobs.min(*short);
            let before = *short;
            *short -= need;
            let soon = leaving.min(need);
            leaving -= soon;
            need -= soon;
            lack -= soon;
            if over.is_empty() || !tolerance::below(0.0, need) {
                continue;
            }
            grown.known.clear();
            let evaluation = evaluations.of_request(self.standing.accounting, waiter.request);
            let others = || over.iter().filter(|(_, holder)| *holder != waiter.account);
            let ways = [Handover::Whole, Handover::Partly];
            let starves = !tolerance::below(0.0, usage + soon);
            let asked = need;
            let ways = ways.into_iter().chain(starves.then_some(Handover::Turn));
            let turns = ways.flat_map(|way| others().map(move |other| (way, other)));
            for (way, (excess, holder)) in turns {
                if !tolerance::below(0.0, need) {
                    break;
                }
                let at = parts.iter().position(|(known, _)| known == holder);
                let beyond = excess - at.map_or(0.0, |at| parts[at].1.weight);
                if !tolerance::below(0.0, beyond) {
                    continue;
                }
                // Of a submitter's claims alike some are named.
                let most =
                    NAMED_LEAST + NAMED_FOR_ONE * (need / waiter.cost.max(1e-9)).ceil() as usize;
                let rows = self.could_have(&evaluation, &holders[holder].rows, most, grown);
                let least = rows
                    .iter()
                    .map(|row| self.weight_of(*row))
                    .fold(f64::INFINITY, f64::min);
                let fits = tolerance::at_most(least, beyond);
                let more = match way {
                    Handover::Whole if fits => {
                        (need.max(least).min(beyond) / least + 1e-9).floor() * least
                    }
                    Handover::Partly
                        if !fits
                            && tolerance::at_most(least, NEARLY_WHOLE * lack)
                            && tolerance::below(least - lack, beyond) =>
                    {
                        rounded = rounded.max(least.min(lack));
                        *entitled.entry(*holder).or_default() -= least - beyond;
                        least
                    }
                    // The other will be beyond its share by less, so it goes back only when priorities have changed.
                    Handover::Turn
                        if !fits && need >= asked && tolerance::below(least - lack, beyond) =>
                    {
                        rounded = rounded.max(lack);
                        *entitled.entry(*holder).or_default() -= least - beyond;
                        least
                    }
                    _ => continue,
                };
                let at = at.unwrap_or_else(|| {
                    parts.push((*holder, Part::default()));
                    parts.len() - 1
                });
                let part = &mut parts[at].1;
                part.weight += more;
                part.rows.extend(rows);
                need -= more;
                lack -= more;
            }
            if need >= asked && !tolerance::below(0.0, soon) {
                // No claim is right for it: what its submitter lacks may serve another of its requests.
                *short = before;
            }
            evaluations.keep(evaluation);
        }
        // Such a claim is not for those who lack less than that.
        for (account, own) in entitled {
            let usage = self.standing.accounting.ledger.usage(*account);
            if tolerance::below(usage, *own) && tolerance::below(*own - usage, rounded) {
                *own = usage;
            }
        }
        parts
    }

    /// Accounts whose claims would serve another job of theirs: others' end with the job that runs.
    fn with_idle_jobs(&self) -> FxHashSet<usize> {
        let requests = self
            .standing
            .inputs
            .demand
            .requests
            .iter()
            .zip(&self.standing.progress.remaining);
        requests
            .filter(|(_, left)| **left > 0)
            .map(|(asked, _)| self.standing.accounting.account_of[asked.submitter])
            .collect()
    }

    fn weight_of(&self, row: Row) -> f64 {
        let class = self.standing.inputs.index.class_of(row);
        class.map_or(0.0, |class| {
            self.standing.inputs.index.classes()[class].weight
        })
    }

    /// What holders are to give back, told to the access points that hold it for them.
    fn by_schedd(&self, parts: Vec<(usize, Part)>) -> Vec<Excess> {
        let table = self.standing.inputs.table;
        let schedd = table.column_named("RemoteScheddName");
        let text = |row: Row, column: Option<ColumnId>| {
            let value = table.cell_value(table.cell(row, column?));
            Some(String::from_utf8_lossy(value.as_str()?).into_owned())
        };
        let mut out = Vec::new();
        for (account, mut part) in parts {
            part.rows.sort_unstable();
            part.rows.dedup();
            let mut of: BTreeMap<String, Vec<(Row, f64)>> = BTreeMap::new();
            for row in part.rows {
                if let Some(name) = text(row, schedd) {
                    of.entry(name).or_default().push((row, self.weight_of(row)));
                }
            }
            out.extend(split(
                &self.standing.accounting.ledger.get(account).name,
                part.weight,
                of,
            ));
        }
        out
    }
}

/// Divides `weight` among access points in proportion to what each holds, in whole claims.
fn split(user: &str, weight: f64, of: BTreeMap<String, Vec<(Row, f64)>>) -> Vec<Excess> {
    let all: f64 = of.values().flatten().map(|(_, weight)| weight).sum();
    let mut left = weight.min(all);
    let mut due_so_far = 0.0;
    let mut out = Vec::new();
    for (schedd, mut claims) in of {
        claims.sort_unstable_by_key(|(row, _)| *row);
        let own: f64 = claims.iter().map(|(_, weight)| weight).sum();
        due_so_far += weight.min(all) * own / all;
        // What is due so far, less what those before were told.
        let due = due_so_far - (weight.min(all) - left);
        let lightest = claims
            .iter()
            .map(|(_, weight)| *weight)
            .fold(f64::INFINITY, f64::min);
        let part = ((due / lightest + 0.5).floor() * lightest)
            .min(left)
            .min(own);
        if tolerance::below(0.0, part) {
            left -= part;
            out.push(Excess {
                user: user.to_owned(),
                schedd,
                claims,
                weight: part,
            });
        }
    }
    out
}
