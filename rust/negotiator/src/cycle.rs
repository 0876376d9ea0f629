//! One negotiation cycle, from snapshot to outcome.

use crate::config::CycleConfig;
use crate::cross_slots;
use crate::dependencies::Dependencies;
use crate::evaluate::{Answers, REMOTE_NAMES, Shared, insert_remote};
use crate::index::SlotIndex;
use crate::ledger::{Accounts, Ledger};
use crate::outcome::{Match, Outcome, Reason, Rejection, SlotCounts, Statistics};
use crate::pool::{Pool, SlotKind, Traversal};
use crate::prefetch::{Prefetch, StopWorkers};
use crate::request::Demand;
use crate::slot::SlotClass;
use crate::slot_overlay::SlotOverlay;
use classad::{Ad, Name};
use columns::{AdTable, EvalSettings, Matcher};
use fairshare::GroupTree;
use rustc_hash::FxHashMap;

/// Seconds since some moment before the cycle; the caller's clock.
pub trait Stopwatch: Sync {
    /// Seconds, never less than before.
    fn seconds(&self) -> f64;
}

/// A stopwatch that stands still: a cycle without time limits.
pub struct Stopped;
impl Stopwatch for Stopped {
    fn seconds(&self) -> f64 {
        0.0
    }
}

/// What is kept from one cycle to the next to save work; dropping it changes no outcome.
#[derive(Default)]
pub struct Memory {
    /// Slots by class.
    pub index: SlotIndex,
    /// The engine that asks conditions of whole columns.
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
    /// What the cycle looks at.
    pub dependencies: &'a Dependencies,
}

/// A cycle in progress.
pub(crate) struct Cycle<'a> {
    pub shared: Shared<'a>,
    pub demand: &'a Demand,
    pub groups: GroupTree,
    pub ledger: Ledger,
    pub pool: Pool<'a>,
    pub prefetch: &'a Prefetch<'a>,
    pub clock: &'a dyn Stopwatch,
    pub started: f64,
    /// Requests of each submitter entry, in the order they are served.
    pub served: Vec<Vec<usize>>,
    /// Jobs left of each request.
    pub left: Vec<u32>,
    /// Matches with sleeping slots in this spin, given back at its end.
    pub given_back: Vec<u32>,
    /// With NEGOTIATOR_DEPTH_FIRST: jobs expected to run along with those matched in this turn, asked for again in the next.
    pub along: Vec<u32>,
    pub account_of: Vec<usize>,
    /// Seconds used by each submitter entry and each access point.
    pub entry_time: Vec<f64>,
    /// Steps that the conditions of each account's requests have taken, by account; see [`crate::effort`].
    pub effort: FxHashMap<usize, i64>,
    pub schedd_time: FxHashMap<String, f64>,
    pub answers: FxHashMap<u128, Answers>,
    pub answer_bytes: usize,
    pub matches: Vec<Match>,
    pub rejections: Vec<Rejection>,
    pub rejection_at: FxHashMap<(u32, Reason), usize>,
    pub held_back: FxHashMap<usize, (crate::outcome::HeldBack, u32)>,
    pub statistics: Statistics,
    pub min_slot_weight: f64,
    pub pool_weight: f64,
    pub pool_slots: f64,
    pub rank_preemption_possible: bool,
    pub names_submitter: bool,
    pub turns: FxHashMap<u32, u32>,
    /// Classes and rows of slots matched by this request that may be matched again.
    pub returning: Vec<(usize, u32)>,
    pub sort_s: f64,
    pub group_sort_keys: Vec<f64>,
    pub requested_first: Vec<f64>,
    pub reservations: crate::reserve::Reservations,
    /// What accounts were entitled to after the cycle before, as far as others waited; later: after this one.
    pub entitled: FxHashMap<usize, f64>,
    pub excess: Vec<crate::outcome::Excess>,
    /// Somebody's limit in this spin was what it is entitled to while others wait.
    pub capped: bool,
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
    let shared = Shared {
        table,
        matcher: &memory.matcher,
        index: &memory.index,
        dependencies,
        config,
        now,
        traversal: memory.traversal,
    };
    let prefetch = Prefetch::new(shared, snapshot);
    let mut cycle = Cycle::prepare(shared, snapshot, &prefetch, clock, started);
    let prepared = clock.seconds();
    std::thread::scope(|scope| {
        let _ending = StopWorkers(&prefetch);
        for _ in 0..prefetch.workers {
            scope.spawn(|| prefetch.work());
        }
        cycle.negotiate_all();
        cycle.reserve_for_waiting();
        cycle.look_at_kept();
        cycle.find_excess();
    });
    let ended = clock.seconds();
    let mut outcome = cycle.finish();
    outcome.timings.prepare_s = prepared - started;
    outcome.timings.match_s = ended - prepared - outcome.timings.sort_s;
    outcome.timings.total_s = clock.seconds() - started;
    outcome
}

impl<'a> Cycle<'a> {
    fn prepare(
        shared: Shared<'a>,
        snapshot: &Snapshot<'a>,
        prefetch: &'a Prefetch<'a>,
        clock: &'a dyn Stopwatch,
        started: f64,
    ) -> Self {
        let config = shared.config;
        let (mut groups, ignored) = GroupTree::build(config.share.groups.clone());
        groups[0].setting.autoregroup |= config.share.regroup_by_default && groups.is_active();
        for index in 0..groups.len() {
            let name = &groups[index].setting.name;
            let time = snapshot.accounts.remainder_times.get(name).copied();
            groups[index].round_robin_time = time.unwrap_or(0.0);
        }
        let mut ledger = Ledger::open(snapshot.accounts, &groups, &config.share, shared.now);
        ledger.count_slots(shared.index, &groups, config);
        let demand = snapshot.demand;
        let account =
            |s: &crate::request::Submitter| ledger.account(&s.name, &groups, &config.share);
        let account_of = demand.submitters.iter().map(account).collect();
        let entitled = snapshot.accounts.entitled.iter();
        let entitled = entitled
            .filter_map(|(name, weight)| Some((ledger.find(name)?, *weight)))
            .collect();
        let mut pool = Pool::new(
            shared.table,
            shared.index,
            shared.dependencies,
            config,
            shared.now,
        );
        pool.set_traversal(shared.traversal);
        let mut cycle = Self {
            demand,
            served: demand
                .submitters
                .iter()
                .map(|s| s.requests.clone())
                .collect(),
            left: demand.requests.iter().map(|r| r.count).collect(),
            given_back: vec![0; demand.requests.len()],
            along: vec![0; demand.requests.len()],
            entry_time: demand.submitters.iter().map(|s| s.time_used_s).collect(),
            effort: FxHashMap::default(),
            schedd_time: FxHashMap::default(),
            names_submitter: shared
                .dependencies
                .mentions(&crate::evaluate::SUBMITTER_NAMES),
            rejection_at: FxHashMap::default(),
            held_back: FxHashMap::default(),
            group_sort_keys: vec![0.0; groups.len()],
            requested_first: vec![0.0; groups.len()],
            reservations: crate::reserve::Reservations::default(),
            entitled,
            excess: Vec::new(),
            capped: false,
            matches: Vec::new(),
            rejections: Vec::new(),
            statistics: Statistics::default(),
            min_slot_weight: f64::INFINITY,
            pool_weight: 0.0,
            pool_slots: 0.0,
            rank_preemption_possible: false,
            turns: FxHashMap::default(),
            returning: Vec::new(),
            sort_s: 0.0,
            account_of,
            shared,
            groups,
            ledger,
            pool,
            prefetch,
            clock,
            started,
            answers: FxHashMap::default(),
            answer_bytes: 0,
        };
        for group in ignored {
            cycle
                .statistics
                .warnings
                .push(format!("group {} is ignored: {}", group.name, group.reason));
        }
        cycle.measure_pool();
        cycle.restore_reservations(&snapshot.accounts.reservations);
        cycle.insert_remote_users();
        cycle
    }

    /// Sizes of the pool: all slots, claimed ones included.
    fn measure_pool(&mut self) {
        let config = self.shared.config;
        for (at, class) in self.shared.index.classes().iter().enumerate() {
            let slots = self.shared.index.members(at).len() as f64;
            if slots == 0.0 || class.excluded {
                continue;
            }
            self.pool_weight += class.pool_weight * slots;
            self.pool_slots += class.pool_slots * slots;
            let divided = class.division == crate::slot::Division::Carved;
            // A slot that the cycle carves can be taken in small pieces.
            let least = if divided {
                class.weight.min(1.0)
            } else {
                class.weight
            };
            self.min_slot_weight = self.min_slot_weight.min(least);
            self.statistics.total_slots += slots as u64;
            if class.is_candidate() {
                self.statistics.candidate_slots += slots as u64;
                self.statistics.slot_classes += 1;
            } else {
                self.statistics.trimmed_slots += slots as u64;
            }
            let busy = config.preemption.consider && class.user.is_some() && class.is_candidate();
            let fixed = self.shared.dependencies.slot_rank_static;
            let prefers = !fixed || crate::evaluate::exceeds(class.static_rank, class.current_rank);
            let evicts = config.preemption.consider
                && config.preemption.partitionable
                && class.partitionable;
            self.rank_preemption_possible |= busy && prefers || evicts;
        }
        if !config.share.weighted {
            // Slots that the cycle carves count as what they can be carved into.
            if config.partition.many_matches {
                self.pool_weight = self.pool_slots;
            }
            self.min_slot_weight = 1.0;
        }
        self.statistics.pool_weight = self.pool_weight;
    }

    /// Inserts what is known of slot users into busy slots, when something asks for it.
    pub fn insert_remote_users(&mut self) {
        let dependencies = self.shared.dependencies;
        if !self.shared.config.preemption.consider {
            return;
        }
        self.insert_neighbours();
        let read = |name: &str| {
            let policy = dependencies.policy.as_ref();
            policy.is_some_and(|names| names.contains(&Name::from(name)))
        };
        if !dependencies.mentions(&REMOTE_NAMES) && !REMOTE_NAMES.iter().any(|name| read(name)) {
            return;
        }
        let known = |user: String| {
            let mut ad = Ad::new();
            insert_remote(&mut ad, &user, &self.ledger, &self.groups);
            (user, ad)
        };
        let users = self.pool.users().into_iter().map(known).collect();
        self.pool.know_users(users);
        for class in 0..self.pool.base_classes() {
            let by_class = self.pool.summaries()[class].kind != SlotKind::Preemptable
                && self.pool.classes()[class].user.is_some();
            if by_class && self.pool.left(class) > 0 {
                self.pool.put_user(class);
            }
        }
        if dependencies.policy.is_none() {
            self.pool.put_users();
        }
    }

    /// Inserts what is known of the users of a slot's neighbours, when something asks for it.
    fn insert_neighbours(&mut self) {
        let numbers = &self.shared.dependencies.cross_slots;
        if numbers.is_empty() {
            return;
        }
        for class in 0..self.pool.base_classes() {
            let mut facts = SlotClass::clone(&self.pool.classes()[class]);
            let (ledger, groups, now) = (&self.ledger, &self.groups, self.shared.now);
            if cross_slots::insert(&mut facts.ad, numbers, ledger, groups, now) {
                self.pool.replace_class(class, facts);
            }
        }
    }

    /// Notes that jobs of a request were considered and got nothing.
    pub fn reject(&mut self, request: usize, reason: Reason, slots: SlotCounts) {
        self.statistics.rejections += 1;
        let count = self.left[request];
        // Requests of one autocluster of a submitter are one in the report.
        let like = self.demand.requests[request].first_job;
        let entry = self.demand.requests[request].submitter;
        let first = self.demand.submitters[entry]
            .requests
            .iter()
            .copied()
            .find(|r| self.demand.requests[*r].first_job == like)
            .unwrap_or(request) as u32;
        let fresh = Rejection {
            request: first,
            reason: reason.clone(),
            count,
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

    /// Seconds since the cycle began.
    pub fn elapsed(&self) -> f64 {
        self.clock.seconds() - self.started
    }

    fn finish(self) -> Outcome {
        crate::report::outcome_of(self)
    }
}
