//! One negotiation cycle, from snapshot to outcome.

use crate::accounting::Accounting;
use crate::budgets::{Budgets, Stopwatch};
use crate::config::CycleConfig;
use crate::cycle::Cycle;
use crate::dependencies::Dependencies;
use crate::evaluations::Evaluations;
use crate::excess::{ClaimsToReturn, Search};
use crate::index::SlotIndex;
use crate::inputs::{Inputs, Traversal};
use crate::ledger::Accounts;
use crate::outcome::Outcome;
use crate::pool::Pool;
use crate::pool_size::PoolSize;
use crate::prefetch::{Prefetch, StopWorkers};
use crate::progress::Progress;
use crate::remote_users;
use crate::report::Report;
use crate::request::Demand;
use crate::reserve::{self, Reservations};
use crate::slot_overlay::SlotOverlay;
use crate::standing::Standing;
use columns::{AdTable, EvalSettings, Matcher};

/// What is kept from one cycle to the next to save work; dropping it changes no outcome.
#[derive(Default)]
pub struct Memory {
    /// Slots by class.
    pub index: SlotIndex,
    /// The engine that evaluates conditions over whole columns.
    pub matcher: Matcher,
    /// Slot ads as conditions see them, where that is not as they are.
    pub overlay: SlotOverlay,
    /// How requests go through slots; the outcome is the same.
    pub traversal: Traversal,
}

/// What a cycle is given.
pub struct Snapshot<'a> {
    /// Slot ads by name.
    pub slots: &'a AdTable,
    /// Submitters and their requests.
    pub demand: &'a Demand,
    /// Accounting state.
    pub accounts: &'a Accounts,
    /// Which attributes the expressions of the cycle read.
    pub dependencies: &'a Dependencies,
}

/// Runs one cycle. Deterministic: the same input gives the same outcome, whatever the thread count.
#[must_use]
pub fn run_cycle(
    snapshot: &Snapshot<'_>,
    config: &CycleConfig,
    memory: &mut Memory,
    now: i64,
    clock: &dyn Stopwatch,
) -> Outcome {
    let started = clock.seconds();
    let settings = EvalSettings {
        now,
        ..EvalSettings::default()
    };
    let dependencies = snapshot.dependencies;
    let overlay =
        memory
            .overlay
            .refresh(snapshot.slots, dependencies, config, snapshot.accounts, now);
    let table = overlay.unwrap_or(snapshot.slots);
    memory.matcher.refresh(table, settings);
    memory
        .index
        .refresh(table, dependencies, config, &memory.matcher, now);
    let inputs = Inputs {
        table,
        matcher: &memory.matcher,
        demand: snapshot.demand,
        index: &memory.index,
        dependencies,
        config,
        now,
        traversal: memory.traversal,
    };
    let prefetch = Prefetch::new(inputs);
    let budgets = Budgets::begin(&inputs, clock, started);
    let mut cycle = prepare(inputs, snapshot.accounts, &prefetch, budgets);
    let prepared = clock.seconds();
    let excess = std::thread::scope(|scope| {
        let _stop = StopWorkers(&prefetch);
        for _ in 0..prefetch.workers {
            scope.spawn(|| prefetch.work());
        }
        cycle.negotiate_all();
        look_after_matching(&mut cycle)
    });
    let ended = clock.seconds();
    let mut outcome = outcome_of(cycle, excess);
    outcome.timings.prepare_s = prepared - started;
    outcome.timings.match_s = ended - prepared - outcome.timings.sort_s;
    outcome.timings.total_s = clock.seconds() - started;
    outcome
}

fn prepare<'a>(
    inputs: Inputs<'a>,
    accounts: &Accounts,
    prefetch: &'a Prefetch<'a>,
    budgets: Budgets<'a>,
) -> Cycle<'a> {
    let (accounting, ignored) = Accounting::open(&inputs, accounts);
    let mut report = Report::begin(accounting.groups.len());
    for group in ignored {
        let warning = format!("group {} is ignored: {}", group.name, group.reason);
        report.statistics.warnings.push(warning);
    }
    let size = PoolSize::measure(&inputs, &mut report.statistics);
    let mut pool = Pool::new(
        inputs.table,
        inputs.index,
        inputs.dependencies,
        inputs.config,
        inputs.now,
    );
    pool.set_traversal(inputs.traversal);
    let progress = Progress::begin(inputs.demand);
    let mut evaluations = Evaluations::new(inputs, prefetch);
    let mut reservations = Reservations::default();
    let standing = Standing {
        inputs,
        accounting: &accounting,
        progress: &progress,
    };
    reserve::restore(
        standing,
        &mut evaluations,
        &mut pool,
        &mut reservations,
        &accounts.reservations,
    );
    remote_users::insert(&inputs, &accounting, &mut pool);
    Cycle {
        inputs,
        accounting,
        size,
        pool,
        progress,
        budgets,
        evaluations,
        reservations,
        report,
    }
}

/// Keeps machines for requests that had no turn, and finds what submitters hold beyond their shares.
fn look_after_matching(cycle: &mut Cycle<'_>) -> ClaimsToReturn {
    let Cycle {
        inputs,
        accounting,
        size,
        pool,
        progress,
        evaluations,
        reservations,
        report,
        ..
    } = cycle;
    let standing = Standing {
        inputs: *inputs,
        accounting,
        progress,
    };
    reserve::reserve_for_waiting(standing, evaluations, pool, reservations, report);
    reserve::look_at_kept(standing, evaluations, reservations);
    let search = Search {
        standing,
        size,
        pool,
        reservations,
    };
    search.find(report, evaluations)
}

fn outcome_of(cycle: Cycle<'_>, excess: ClaimsToReturn) -> Outcome {
    let standing = Standing {
        inputs: cycle.inputs,
        accounting: &cycle.accounting,
        progress: &cycle.progress,
    };
    let name_of = |account: usize| cycle.accounting.ledger.get(account).name.clone();
    let entitled = excess.entitled.iter();
    Outcome {
        reservations: cycle.reservations.kept(),
        given_up: cycle.reservations.given_up,
        entitled: entitled
            .map(|(account, weight)| (name_of(*account), *weight))
            .collect(),
        excess: excess.excess,
        ..cycle.report.outcome(standing, cycle.pool.any_free())
    }
}
