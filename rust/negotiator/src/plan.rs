//! What a cycle has to know of each slot: which attributes, and how finely.
//!
//! Slots that agree in everything any expression of the cycle can see are one
//! class and are evaluated once. An attribute that is only ever compared with
//! numbers of the jobs (`Disk >= RequestDisk`) is known by the interval
//! between those numbers, so slots that differ in it still share a class.

use crate::config::CycleConfig;
use crate::evaluate::REMOTE_NAMES;
use crate::mentions::Mentions;
use crate::reserve::DURATIONS;
use classad::{Ad, BinaryOp, Context, Expr, Name, Value, evaluate};
use columns::{AdTable, Cell, Chunk, ColumnId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Attributes that decide by themselves how a slot is treated.
const FACTS: [&str; 26] = [
    "Rank",
    "CurrentRank",
    "SlotWeight",
    "State",
    "Activity",
    "RemoteUser",
    "RemoteOwner",
    "AccountingGroup",
    "PreemptingUser",
    "PreemptingAccountingGroup",
    "PreemptingRank",
    "RetirementTimeRemaining",
    "PartitionableSlot",
    "DynamicSlot",
    "PslotRollupInformation",
    "Offline",
    "WantClaiming",
    "WantMatching",
    "WorkingCM",
    "RemoteScheddName",
    "ConcurrencyLimits",
    "PreemptingConcurrencyLimits",
    "MatchedConcurrencyLimits",
    "WantAdRevaluate",
    "GhostMultiplier",
    "MachineResources",
];
/// What decides whether a slot takes a job.
const CONDITIONS: [&str; 2] = ["Requirements", "NegotiatorRequirements"];
/// Facts needed of partitionable slots.
const PARTITION_FACTS: [&str; 3] = ["Cpus", "Memory", "Disk"];
/// Job attributes that matter in every cycle.
pub const JOB_FACTS: [&str; 4] = ["Requirements", "Rank", "ConcurrencyLimits", "JobUniverse"];

/// How finely an attribute tells slots apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Grain {
    /// By its value.
    Value,
    /// By its place among these numbers (sorted, distinct); other kinds of value by themselves.
    Intervals(Vec<f64>),
    /// By whether it is there at all.
    Presence,
}

/// A column of the class key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyColumn {
    /// The column.
    pub column: ColumnId,
    /// How finely it tells slots apart.
    pub grain: Grain,
    /// Tells all slots apart, not only those that are divided (whose rest has to be evaluated anew).
    pub always: bool,
}

/// The attributes a cycle looks at.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All names any expression of the cycle mentions.
    pub names: FxHashSet<Name>,
    /// Job attributes that slots or the policy refer to anywhere: jobs that differ in one are not alike.
    pub job_names: FxHashSet<Name>,
    /// Those that order slots or decide how a slot is treated; the others only decide whether it matches.
    pub order_names: FxHashSet<Name>,
    /// Columns of the slot table that tell classes apart.
    pub key: Vec<KeyColumn>,
    /// Whether a slot matches is asked row by row of the column engine; else class by class of the plain evaluator,
    /// because conditions read attributes that only exist during the cycle.
    pub row_matching: bool,
    /// Whether a slot matches may depend on the submitter's priority or usage.
    pub conditions_see_submitter: bool,
    /// Something may look up names that are only known when it runs.
    pub unbounded: bool,
    /// Values may change though no attribute does.
    pub unsteady: bool,
    /// The value of NEGOTIATOR_PRE_JOB_RANK is the same for all jobs.
    pub pre_rank_static: bool,
    /// NEGOTIATOR_POST_JOB_RANK is the same for all jobs and does not change by carving.
    pub post_rank_static: bool,
    /// PREEMPTION_RANK is the same for all jobs and does not change in a cycle.
    pub preemption_rank_static: bool,
    /// Names that PREEMPTION_RANK and NEGOTIATOR_POST_JOB_RANK need when static (row by row).
    pub row_names: FxHashSet<Name>,
    /// Slot Rank does not depend on the job.
    pub slot_rank_static: bool,
}

/// What the names mean: the two tables of a cycle.
pub struct Sources<'t> {
    /// Slot ads.
    pub slots: &'t AdTable,
    /// Job or request ads.
    pub jobs: &'t AdTable,
    slot_exprs: FxHashMap<ColumnId, Vec<u32>>,
    job_exprs: FxHashMap<ColumnId, Vec<u32>>,
}

/// Calls `visit` with every cell that may be in the column (some may be stale).
pub fn each_distinct(table: &AdTable, column: ColumnId, mut visit: impl FnMut(Cell)) {
    let mut last = None;
    let mut once = |cell: Cell| {
        if last != Some(cell) {
            last = Some(cell);
            visit(cell);
        }
    };
    for chunk in table.column(column).chunks() {
        match chunk {
            Chunk::Const(cell) => once(*cell),
            Chunk::Coded { dict, .. } => dict.iter().copied().for_each(&mut once),
            Chunk::Dense(cells) => cells.iter().copied().for_each(&mut once),
        }
    }
}

fn expressions(table: &AdTable, column: ColumnId) -> Vec<u32> {
    let mut ids: Vec<u32> = Vec::new();
    each_distinct(table, column, |cell| ids.extend(cell.expr_id()));
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl<'t> Sources<'t> {
    /// The tables of a cycle.
    #[must_use]
    pub fn new(slots: &'t AdTable, jobs: &'t AdTable) -> Self {
        Self {
            slots,
            jobs,
            slot_exprs: FxHashMap::default(),
            job_exprs: FxHashMap::default(),
        }
    }

    fn slot_exprs(&mut self, name: &Name) -> Vec<u32> {
        let Some(column) = self.slots.column_id(name) else {
            return Vec::new();
        };
        let table = self.slots;
        let found = self.slot_exprs.entry(column);
        found.or_insert_with(|| expressions(table, column)).clone()
    }

    fn job_exprs(&mut self, name: &Name) -> Vec<u32> {
        let Some(column) = self.jobs.column_id(name) else {
            return Vec::new();
        };
        let table = self.jobs;
        let found = self.job_exprs.entry(column);
        found.or_insert_with(|| expressions(table, column)).clone()
    }

    /// Adds the names that any expression of any slot may look up in a job (lists aside).
    fn add_job_names(&mut self, names: &mut FxHashSet<Name>) {
        let pool = self.slots.exprs();
        for id in 0..pool.id_end() {
            let expr = pool.get(id);
            if !matches!(expr, Expr::List(_)) {
                let found = Mentions::of(expr);
                names.extend(found.target.into_iter().chain(found.bare));
            }
        }
    }

    /// Everything reachable from `start` through attributes of slots and jobs.
    fn reach(&mut self, start: Mentions) -> Mentions {
        let mut all = start;
        let mut seen: FxHashSet<Name> = FxHashSet::default();
        loop {
            let fresh: Vec<Name> = all
                .names()
                .filter(|n| !seen.contains(*n))
                .cloned()
                .collect();
            if fresh.is_empty() {
                return all;
            }
            for name in fresh {
                seen.insert(name.clone());
                for id in self.slot_exprs(&name) {
                    all.add(self.slots.exprs().get(id));
                }
                for id in self.job_exprs(&name) {
                    all.add(self.jobs.exprs().get(id));
                }
            }
        }
    }

    /// Whether `expr`, an expression of slots, can see the job at all.
    fn sees_job(&mut self, expr: &Expr) -> bool {
        let mut open = vec![Mentions::of(expr)];
        let mut seen: FxHashSet<Name> = FxHashSet::default();
        while let Some(found) = open.pop() {
            let job_side = found.target.iter().chain(&found.bare);
            let mut outside = job_side.filter(|n| {
                let local = !found.target.contains(*n) && self.is_everywhere(n);
                !local && (self.jobs.column_id(n).is_some() || is_submitter_attribute(n))
            });
            if found.unbounded || outside.next().is_some() {
                return true;
            }
            for name in found.my.iter().chain(&found.bare) {
                if seen.insert(name.clone()) {
                    for id in self.slot_exprs(name) {
                        open.push(Mentions::of(self.slots.exprs().get(id)));
                    }
                }
            }
        }
        false
    }

    fn is_everywhere(&self, name: &Name) -> bool {
        let Some(column) = self.slots.column_id(name) else {
            return false;
        };
        let mut complete = true;
        each_distinct(self.slots, column, |cell| complete &= !cell.is_missing());
        complete
    }
}

fn is_submitter_attribute(name: &Name) -> bool {
    let text = name.as_bytes();
    text.len() >= 9 && text[..7].eq_ignore_ascii_case(b"submitt")
}

/// Names whose values the cycle itself inserts and changes.
fn is_live_attribute(name: &Name) -> bool {
    name.is("RemoteUserResourcesInUse") || name.is("RemoteGroupResourcesInUse")
}

impl Plan {
    /// Looks at every expression the cycle can evaluate.
    #[must_use]
    pub fn make(slots: &AdTable, jobs: &AdTable, config: &CycleConfig) -> Self {
        let mut sources = Sources::new(slots, jobs);
        let resources = resource_names(slots);
        let sees = |s: &mut Sources<'_>, e: &Expr| s.sees_job(e);
        let selection = &config.selection;
        let rank = Expr::select(Expr::attr("MY"), "Rank".into());
        let slot_rank_static = !sees(&mut sources, &rank);
        let pre_rank_static = !sees(&mut sources, &selection.pre_job_rank);

        let post = sources.reach(Mentions::of(&selection.post_job_rank));
        let carved = |m: &Mentions| m.names().any(|n| resources.contains(n));
        let partitioned = slots.column_named("PartitionableSlot").is_some();
        let post_rank_static = !(sees(&mut sources, &selection.post_job_rank)
            || partitioned && carved(&post)
            || post.names().any(is_live_attribute));
        let preempt = sources.reach(Mentions::of(&config.preemption.rank));
        let preemption_rank_static = !(sees(&mut sources, &config.preemption.rank)
            || preempt.names().any(is_live_attribute));

        let start = starting_points(config, post_rank_static, preemption_rank_static);
        let ordering = sources.reach(start);
        let mut order_names: FxHashSet<Name> = ordering.names().cloned().collect();
        let mut start = ordering;
        conditions(config, &resources, jobs, &mut start);
        let reached = sources.reach(start);
        let names: FxHashSet<Name> = reached.names().cloned().collect();
        let inserted = |name: &Name| {
            REMOTE_NAMES.iter().any(|n| name.is(n))
                || selection.match_exprs.iter().any(|(n, _)| name.is(n))
        };
        let replaced = slots.column_named("NegotiatorRequirements").is_some();
        let mut asked = Mentions::default();
        conditions(config, &resources, jobs, &mut asked);
        asked.bare.insert(Name::from("Rank"));
        asked.add(&selection.pre_job_rank);
        let asked = sources.reach(asked);
        let row_matching = !(reached.unbounded || replaced || asked.names().any(inserted));
        let conditions_see_submitter = asked.names().any(is_submitter_attribute);
        if !row_matching {
            order_names.clone_from(&names);
        }
        let mut row_names = FxHashSet::default();
        if post_rank_static {
            row_names.extend(post.names().cloned());
        }
        if preemption_rank_static {
            row_names.extend(preempt.names().cloned());
        }
        let key = key_columns(&mut sources, &names, &order_names, &reached, config);
        let mut job_names = names.clone();
        sources.add_job_names(&mut job_names);
        Self {
            names,
            job_names,
            order_names,
            key,
            row_matching,
            unsteady: reached.unsteady,
            unbounded: reached.unbounded,
            conditions_see_submitter,
            pre_rank_static,
            post_rank_static,
            preemption_rank_static,
            row_names,
            slot_rank_static,
        }
    }

    /// Whether any of `names` is looked at.
    #[must_use]
    pub fn mentions(&self, names: &[&str]) -> bool {
        names
            .iter()
            .any(|name| self.names.contains(&Name::from(*name)))
    }
}

/// Names of the resources that machines can be divided into.
pub fn resource_names(slots: &AdTable) -> FxHashSet<Name> {
    let mut out: FxHashSet<Name> = PARTITION_FACTS.iter().map(|n| Name::from(*n)).collect();
    let Some(column) = slots.column_named("MachineResources") else {
        return out;
    };
    each_distinct(slots, column, |cell| {
        if let Some(id) = cell.str_id() {
            let text = slots.strings().get(id);
            let words = text.split(|b| b.is_ascii_whitespace() || *b == b',');
            out.extend(words.filter(|w| !w.is_empty()).map(Name::new));
        }
    });
    out
}

/// What decides whether a slot takes a job, and what a divided slot gives.
fn conditions(
    config: &CycleConfig,
    resources: &FxHashSet<Name>,
    jobs: &AdTable,
    start: &mut Mentions,
) {
    for name in CONDITIONS
        .iter()
        .chain(&PARTITION_FACTS)
        .chain(&["NumClaims"])
    {
        start.bare.insert(Name::from(*name));
    }
    for resource in resources {
        start.bare.insert(resource.clone());
        let text = resource.to_text();
        start
            .bare
            .insert(Name::from(format!("Consumption{text}").as_str()));
        start
            .bare
            .insert(Name::from(format!("Request{text}").as_str()));
    }
    for column in 0..jobs.column_count() {
        let name = jobs.column_name(column as ColumnId);
        if name.as_bytes().len() > 7 && name.as_bytes()[..7].eq_ignore_ascii_case(b"request") {
            start.bare.insert(name.clone());
        }
    }
    if config.partition.reserve {
        for name in DURATIONS {
            start.bare.insert(Name::from(name));
        }
    }
    config.partition.carve.values().for_each(|e| start.add(e));
    config
        .selection
        .match_exprs
        .iter()
        .for_each(|(_, e)| start.add(e));
}

/// What orders slots or decides how one is treated.
fn starting_points(config: &CycleConfig, post_static: bool, preempt_static: bool) -> Mentions {
    let mut start = Mentions::default();
    for name in FACTS.iter().chain(&["ConcurrencyLimits"]) {
        start.bare.insert(Name::from(*name));
    }
    let selection = &config.selection;
    start.add(&selection.pre_job_rank);
    start.add(&config.preemption.requirements);
    start.add(&config.share.slot_weight);
    let optional = [
        &selection.slot_constraint,
        &selection.pool_constraint,
        &selection.job_constraint,
    ];
    optional.into_iter().flatten().for_each(|e| start.add(e));
    if !post_static {
        start.add(&selection.post_job_rank);
    }
    if !preempt_static {
        start.add(&config.preemption.rank);
    }
    if selection.shutdown_threshold_s > 0 {
        for name in ["DaemonShutdown", "DaemonShutdownFast", "MyCurrentTime"] {
            start.bare.insert(name.into());
        }
    }
    if config.preemption.partitionable && config.preemption.consider {
        for name in ["NumDynamicSlots", "ChildName", "Name"] {
            start.bare.insert(name.into());
        }
    }
    start
}

fn key_columns(
    sources: &mut Sources<'_>,
    names: &FxHashSet<Name>,
    order_names: &FxHashSet<Name>,
    reached: &Mentions,
    config: &CycleConfig,
) -> Vec<KeyColumn> {
    let slots = sources.slots;
    if reached.unbounded {
        let all = 0..slots.column_count() as ColumnId;
        let value = |column| KeyColumn {
            column,
            grain: Grain::Value,
            always: true,
        };
        return all.map(value).collect();
    }
    let grains = grains(sources, names, config);
    let mut key: Vec<KeyColumn> = names
        .iter()
        .filter_map(|name| Some((slots.column_id(name)?, name)))
        .map(|(column, name)| KeyColumn {
            column,
            grain: grains.get(name).cloned().unwrap_or(Grain::Value),
            always: order_names.contains(name),
        })
        .collect();
    for name in ["Name", "MyAddress"] {
        if let Some(column) = slots.column_named(name)
            && !key.iter().any(|known| known.column == column)
        {
            key.push(KeyColumn {
                column,
                grain: Grain::Presence,
                always: true,
            });
        }
    }
    key.sort_unstable_by_key(|known| known.column);
    key
}

/// Attributes that are only ever compared with numbers known before the cycle.
fn grains(
    sources: &mut Sources<'_>,
    names: &FxHashSet<Name>,
    config: &CycleConfig,
) -> FxHashMap<Name, Grain> {
    let mut uses = Uses::default();
    uses.numbers(&"RetirementTimeRemaining".into(), 0.0);
    for raw in FACTS
        .iter()
        .chain(&CONDITIONS)
        .filter(|n| **n != "RetirementTimeRemaining")
    {
        uses.spoil(&Name::from(*raw));
    }
    let consuming = sources.slots.column_named("ConsumptionDisk").is_some();
    for name in resource_names(sources.slots) {
        // What is carved has to be known exactly; disk sizes differ on every
        // machine, so they are kept per row unless a consumption policy asks.
        if consuming || !name.is("Disk") {
            uses.spoil(&name);
        }
    }
    let mut exprs: Vec<Expr> = vec![
        config.selection.pre_job_rank.clone(),
        config.preemption.requirements.clone(),
        config.share.slot_weight.clone(),
        config.selection.post_job_rank.clone(),
        config.preemption.rank.clone(),
    ];
    let selection = &config.selection;
    let optional = [&selection.slot_constraint, &selection.pool_constraint];
    exprs.extend(optional.into_iter().flatten().cloned());
    exprs.extend(selection.match_exprs.iter().map(|(_, e)| e.clone()));
    exprs.extend(config.partition.carve.values().cloned());
    for name in names {
        for id in sources.slot_exprs(name) {
            exprs.push(sources.slots.exprs().get(id).clone());
        }
        for id in sources.job_exprs(name) {
            exprs.push(sources.jobs.exprs().get(id).clone());
        }
    }
    for expr in &exprs {
        uses.walk(expr, sources);
    }
    uses.finish()
}

/// How attributes are used in all expressions.
#[derive(Default)]
struct Uses {
    numbers: FxHashMap<Name, Vec<f64>>,
    spoiled: FxHashSet<Name>,
    job_numbers: FxHashMap<Name, Option<Vec<f64>>>,
}

impl Uses {
    fn spoil(&mut self, name: &Name) {
        self.spoiled.insert(name.clone());
    }

    fn numbers(&mut self, name: &Name, number: f64) {
        self.numbers.entry(name.clone()).or_default().push(number);
    }

    fn walk(&mut self, expr: &Expr, sources: &mut Sources<'_>) {
        match expr {
            Expr::Binary(b) if b.op.is_comparison() => {
                self.compare(b.op, &b.left, &b.right, sources);
            }
            Expr::Paren(inner) => self.walk(inner, sources),
            Expr::Unary(inner) => self.walk(&inner.arg, sources),
            Expr::Binary(inner) => {
                self.walk(&inner.left, sources);
                self.walk(&inner.right, sources);
            }
            Expr::Ternary(inner) => {
                self.walk(&inner.cond, sources);
                self.walk(&inner.then, sources);
                self.walk(&inner.other, sources);
            }
            other => Mentions::of(other)
                .names()
                .for_each(|name| self.spoil(name)),
        }
    }

    fn compare(&mut self, op: BinaryOp, left: &Expr, right: &Expr, sources: &mut Sources<'_>) {
        for (one, two) in [(left, right), (right, left)] {
            let Some((_, name)) = one.unparen().as_reference() else {
                continue;
            };
            let known = match two.unparen() {
                Expr::Lit(value) => match (value, op) {
                    (Value::Undefined, _) => Some(Vec::new()),
                    (value, BinaryOp::Is | BinaryOp::Isnt) if value.as_number().is_some() => None,
                    (value, _) => value.as_number().map(|n| vec![n]),
                },
                Expr::Unary(inner) => inner.arg.as_reference().is_none().then(|| {
                    let value = evaluate(two, &Context::default());
                    value.as_number().into_iter().collect()
                }),
                other => match other.as_reference() {
                    Some((_, job_name)) if !matches!(op, BinaryOp::Is | BinaryOp::Isnt) => {
                        self.numbers_of_jobs(job_name, sources)
                    }
                    _ => None,
                },
            };
            if let Some(numbers) = known {
                numbers.iter().for_each(|n| self.numbers(name, *n));
                // The other side is a constant or a job attribute that no slot has.
                return;
            }
        }
        for side in [left, right] {
            Mentions::of(side).names().for_each(|name| self.spoil(name));
        }
    }

    /// All numbers jobs have for an attribute that no slot has and that needs no slot.
    fn numbers_of_jobs(&mut self, name: &Name, sources: &mut Sources<'_>) -> Option<Vec<f64>> {
        if let Some(known) = self.job_numbers.get(name) {
            return known.clone();
        }
        let found = job_numbers(name, sources);
        self.job_numbers.insert(name.clone(), found.clone());
        found
    }

    fn finish(self) -> FxHashMap<Name, Grain> {
        let mut out = FxHashMap::default();
        for (name, mut numbers) in self.numbers {
            if !self.spoiled.contains(&name) {
                numbers.sort_unstable_by(f64::total_cmp);
                numbers.dedup();
                out.insert(name, Grain::Intervals(numbers));
            }
        }
        out
    }
}

fn job_numbers(name: &Name, sources: &mut Sources<'_>) -> Option<Vec<f64>> {
    if sources.slots.column_id(name).is_some() || is_submitter_attribute(name) {
        return None;
    }
    let mut reach = Mentions::default();
    for id in sources.job_exprs(name) {
        reach.add(sources.jobs.exprs().get(id));
    }
    let reach = sources.reach(reach);
    let needs_slot = reach.names().any(|n| sources.slots.column_id(n).is_some());
    if needs_slot || reach.unbounded || reach.unsteady {
        return None;
    }
    let Some(column) = sources.jobs.column_id(name) else {
        return Some(Vec::new());
    };
    let mut out = Vec::new();
    if sources.job_exprs(name).is_empty() {
        each_distinct(sources.jobs, column, |cell| {
            out.extend(sources.jobs.cell_value(cell).as_number());
        });
        return Some(out);
    }
    for row in sources.jobs.rows() {
        let value = match sources.jobs.expr_at(row, column) {
            Some(Expr::Lit(value)) => value,
            Some(expr) => {
                let ad: Ad = sources.jobs.ad(row);
                let context = Context {
                    my: Some(&ad),
                    ..Context::default()
                };
                evaluate(&expr, &context)
            }
            None => continue,
        };
        out.extend(value.as_number());
    }
    Some(out)
}
