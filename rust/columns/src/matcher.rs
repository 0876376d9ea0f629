//! Which rows match a job, and how they rank.
//!
//! A [`Matcher`] lives beside a table and remembers what it worked out until the columns it read change.
//! Call [`Matcher::refresh`] whenever the table may have changed (at the start of a cycle); between two
//! refreshes the table must stay as it is, and every question takes `&self`, from any thread.
//!
//! How it works: a condition is split at `&&`; a clause that is the name of an attribute holding an
//! expression is followed into that expression, once per distinct text. Each remaining clause is
//! evaluated once per distinct tuple of the values it can read (see [`crate::groups`]); its rows are a
//! bitmap, shared by all jobs that agree in the attributes the clause reads of them. The evaluator is
//! [`classad::evaluate`] or a program proved equal to it.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use classad::{Ad, Expr, Name, Side, Value};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::clause::{Clause, ClauseCache};
use crate::dependencies::Dependencies;
use crate::groups::Groups;
use crate::logic::{Ask, Scope, Way};
use crate::predicate_cache::PredicateCache;
use crate::results::{Numbers, Truth, Values};
pub use crate::settings::{EvalSettings, ExternalsRef};
use crate::table::{AdTable, ColumnId};

/// Distinct expressions of one attribute that are followed one by one.
const FOLLOW_MAX: usize = 256;
/// How deep the plain evaluator can go (it has a little more) before it gives up.
pub(crate) const DEPTH_MAX: u32 = 380;

/// Whose ad an expression belongs to: the other one is its TARGET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// MY is the job.
    Job,
    /// MY is the row of the table.
    Slot,
}

/// From how much on a shorter way is taken. The answers are the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Groups for which a program is worth making.
    pub program_from: usize,
    /// Groups from which on columns with few values tell them apart besides definitions.
    pub split_from: usize,
    /// Groups from which on it is worth asking whether a call has fewer distinct arguments.
    pub hoist_from: usize,
    /// Groups from which on those that matter may be picked.
    pub pick_from: usize,
    /// Combinations of values up to which a condition is asked as a whole.
    pub whole_max: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            program_from: 4,
            split_from: 2048,
            hoist_from: 1024,
            pick_from: 512,
            whole_max: 1024,
        }
    }
}

/// See the module text.
#[derive(Debug, Default)]
pub struct Matcher {
    pub(crate) settings: EvalSettings,
    pub(crate) clauses: ClauseCache,
    pub(crate) predicates: PredicateCache,
    /// Rows per value of columns that are followed.
    split_rows: Mutex<FxHashMap<ColumnId, Arc<SplitRows>>>,
    requirements: OnceLock<Arc<Clause>>,
    version: u64,
    epoch: u64,
    /// Version of the externals at the last refresh.
    externals_version: u64,
    pub(crate) tuning: Tuning,
}

/// The rows of each group of a one-column grouping.
#[derive(Debug)]
pub(crate) struct SplitRows {
    pub groups: Arc<Groups>,
    pub rows: Vec<Bitmap>,
}

impl Matcher {
    /// A matcher that remembers nothing yet.
    pub fn new(settings: EvalSettings) -> Self {
        Matcher {
            settings,
            version: u64::MAX,
            ..Matcher::default()
        }
    }

    /// The matcher for questions about some rows alone: nothing is worked out for others, and what is said of them
    /// means nothing.
    #[must_use]
    pub fn within(mut self, rows: Range<usize>) -> Self {
        self.predicates.window = Some(rows);
        self
    }

    /// The matcher with programs used from so many tuples on: 1 always, `usize::MAX` never. For tests and
    /// benches; the answers are the same.
    #[must_use]
    pub fn with_programs_from(mut self, tuples: usize) -> Self {
        self.tuning.program_from = tuples;
        self
    }

    /// The matcher with lists followed row by row from so many names on. For tests; the answers are the same.
    #[must_use]
    pub fn with_lists_from(mut self, names: usize) -> Self {
        self.predicates.lists_from = names;
        self
    }

    /// The matcher with every shorter way taken, however few rows there are. For tests; the answers are the same.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.tuning = Tuning {
            program_from: 1,
            split_from: 1,
            hoist_from: 1,
            pick_from: 1,
            whole_max: 0,
        };
        self.predicates.lists_from = 1;
        self
    }

    /// Takes note of changes of the table and of a new time. Only changed rows are looked at again.
    pub fn refresh(&mut self, table: &AdTable, settings: EvalSettings) {
        let old = self.settings;
        self.settings = settings;
        let same_rules = EvalSettings {
            now: settings.now,
            seed: settings.seed,
            ..old
        } == settings
            && self.externals_version == settings.externals.version();
        self.externals_version = settings.externals.version();
        let changed = if self.epoch == table.epoch()
            && same_rules
            && self.version != u64::MAX
            && self.predicates.window.is_none()
        {
            table
                .log
                .cells_since(self.version)
                .map(|cells| cells.collect::<Vec<_>>())
        } else {
            None
        };
        match changed {
            Some(changed) => self.predicates.refresh(table, &changed, &self.clauses),
            None => {
                self.predicates.clear();
                self.clauses.clear();
            }
        }
        if let Ok(mut split) = self.split_rows.lock() {
            split.clear();
        }
        self.version = table.version();
        self.epoch = table.epoch();
    }

    /// The settings of the last refresh.
    pub fn settings(&self) -> EvalSettings {
        self.settings
    }

    // ---- questions ----

    /// The rows that match a job both ways: its Requirements is true with the row as TARGET, and the
    /// row's Requirements is true with the job as TARGET. Undefined and error are "no".
    pub fn matches(&self, table: &AdTable, job: &Ad) -> Bitmap {
        let mut rows = table.live().clone();
        if let Some(expr) = job.get_str("Requirements") {
            let clause = self.clauses.whole(expr);
            let truth = self.true_within(table, &clause, Owner::Job, Some(job), None);
            truth.narrow(&mut rows);
        } else {
            return Bitmap::empty(rows.len());
        }
        if !rows.is_clear() {
            let clause = self.requirements();
            let truth = self.true_within(table, &clause, Owner::Slot, Some(job), Some(&rows));
            truth.narrow(&mut rows);
        }
        rows
    }

    /// The rows that the job's Requirements accepts.
    pub fn job_accepts(&self, table: &AdTable, job: &Ad) -> Truth {
        match job.get_str("Requirements") {
            Some(expr) => self.truth(table, expr, Owner::Job, Some(job)),
            None => Truth::Never,
        }
    }

    /// The rows whose Requirements accepts the job.
    pub fn slot_accepts(&self, table: &AdTable, job: &Ad) -> Truth {
        let clause = self.requirements();
        self.true_within(table, &clause, Owner::Slot, Some(job), None)
    }

    pub(crate) fn requirements(&self) -> Arc<Clause> {
        self.requirements
            .get_or_init(|| Arc::new(Clause::requirements()))
            .clone()
    }

    /// The rows for which an expression is true (or a number other than 0).
    pub fn truth(&self, table: &AdTable, expr: &Expr, owner: Owner, job: Option<&Ad>) -> Truth {
        let clause = self.clauses.whole(expr);
        self.true_within(table, &clause, owner, job, None)
    }

    /// Those of `within` for which a clause is true; what is said of other rows means nothing.
    fn true_within(
        &self,
        table: &AdTable,
        clause: &Arc<Clause>,
        owner: Owner,
        job: Option<&Ad>,
        within: Option<&Bitmap>,
    ) -> Truth {
        let (ask, mut way) = (Ask { table, owner, job }, Way::default());
        self.true_rows(ask, clause, &mut Scope::new(within, &mut way))
    }

    /// The rows for which a condition in a definition is true.
    pub(crate) fn clause_truth(&self, ask: Ask<'_>, clause: &Arc<Clause>, way: &mut Way) -> Truth {
        self.part_true(ask, clause, &mut Scope::new(None, way))
    }

    /// The live rows for which an expression is true, as a set.
    pub fn rows_where(
        &self,
        table: &AdTable,
        expr: &Expr,
        owner: Owner,
        job: Option<&Ad>,
    ) -> Bitmap {
        let mut rows = table.live().clone();
        self.truth(table, expr, owner, job).narrow(&mut rows);
        rows
    }

    /// Those of `rows` for which an expression is true.
    pub(crate) fn those_where(
        &self,
        table: &AdTable,
        expr: &Expr,
        target: Option<&Ad>,
        mut rows: Bitmap,
    ) -> Bitmap {
        let clause = self.clauses.whole(expr);
        let within = rows.clone();
        self.true_within(table, &clause, Owner::Slot, target, Some(&within))
            .narrow(&mut rows);
        rows
    }

    /// The number an expression gives for each row.
    pub fn numbers(
        &self,
        table: &AdTable,
        expr: &Expr,
        owner: Owner,
        job: Option<&Ad>,
    ) -> Arc<Numbers> {
        let clause = self.clauses.whole(expr);
        let dependencies = self.dependencies(table, &clause, owner, job);
        self.predicates
            .numbers(self, table, &clause, owner, job, &dependencies)
    }

    /// The value an expression gives for each row.
    pub fn values(&self, table: &AdTable, expr: &Expr, owner: Owner, job: Option<&Ad>) -> Values {
        let clause = self.clauses.whole(expr);
        let dependencies = self.dependencies(table, &clause, owner, job);
        self.predicates
            .values(self, Ask { table, owner, job }, &clause, &dependencies)
    }

    /// The job's Rank for each row (none where it is absent or no number).
    pub fn job_rank(&self, table: &AdTable, job: &Ad) -> Arc<Numbers> {
        let zero = Expr::Lit(Value::Undefined);
        self.numbers(
            table,
            job.get_str("Rank").unwrap_or(&zero),
            Owner::Job,
            Some(job),
        )
    }

    /// Rows that no attribute among `names` tells apart.
    pub fn groups(&self, table: &AdTable, names: &[Name]) -> Arc<Groups> {
        let columns: Vec<ColumnId> = names
            .iter()
            .filter_map(|name| table.column_id(name))
            .collect();
        self.predicates.groups(table, &columns)
    }

    // ---- how ----

    /// The rows by the definition of the attribute that a clause names, if it is worth following.
    pub(crate) fn followed(
        &self,
        ask: Ask<'_>,
        clause: &Clause,
        path: &[ColumnId],
    ) -> Option<Arc<SplitRows>> {
        let Ask { table, owner, job } = ask;
        let (side, name) = clause.reference.as_ref()?;
        // An attribute named MY comes before the scope.
        let shadowed = *side == Side::My && table.column_named("MY").is_some();
        // A name that means something where it is not an attribute is not simply undefined there.
        let special = name.special().is_some();
        if owner != Owner::Slot || *side == Side::Target || shadowed || special {
            return None;
        }
        let column = table.column_id(name)?;
        if self
            .predicates
            .listed(table, column, &self.clauses)
            .is_some()
        {
            return None;
        }
        let definitions = self.predicates.column_exprs(table, column);
        if definitions.is_empty() || definitions.len() > FOLLOW_MAX || path.contains(&column) {
            return None;
        }
        // A bare name that some row lacks is looked up in the job: leave that to the evaluator.
        if *side == Side::Bare && job.is_some_and(|job| job.contains(name)) {
            return None;
        }
        // A definition that leads back to its own name means something else when it is followed.
        if !clause.root {
            let leads_back = definitions.iter().any(|id| {
                let definition = self.clauses.pooled(table, *id);
                self.dependencies(table, &definition, Owner::Slot, job)
                    .may_read(table, &self.predicates, column)
            });
            if leads_back {
                return None;
            }
        }
        if let Some(split) = self.split_rows.lock().ok()?.get(&column) {
            return Some(split.clone());
        }
        let groups = self.predicates.groups(table, &[column]);
        if groups.count() > FOLLOW_MAX * 2 {
            return None;
        }
        let mut rows = vec![Bitmap::empty(table.row_end()); groups.count()];
        for (row, group) in groups.rows().zip(groups.numbers()) {
            rows[*group as usize].set(row, true);
        }
        let split = Arc::new(SplitRows { groups, rows });
        self.split_rows.lock().ok()?.insert(column, split.clone());
        Some(split)
    }

    /// Whether names after this expression in the same definition may be looked up elsewhere than before it.
    pub(crate) fn moves(&self, ask: Ask<'_>, clause: &Clause) -> bool {
        let reads = &clause.reads;
        if !reads.moves && reads.dereferenced.is_empty() {
            return false;
        }
        let everywhere = |column: ColumnId| {
            let groups = self.predicates.groups(ask.table, &[column]);
            (0..groups.count()).all(|group| !groups.tuple(group)[0].is_missing())
        };
        reads.moves_in(|name| match ask.owner {
            Owner::Job => ask.job.is_some_and(|job| job.contains(name)),
            // A scope word means something else where any row has an attribute of that name.
            Owner::Slot => ask
                .table
                .column_id(name)
                .is_some_and(|column| name.special().is_some() || everywhere(column)),
        })
    }

    /// What evaluating a clause can read, definitions of attributes followed.
    pub(crate) fn dependencies(
        &self,
        table: &AdTable,
        clause: &Arc<Clause>,
        owner: Owner,
        job: Option<&Ad>,
    ) -> Arc<Dependencies> {
        self.predicates
            .dependencies(table, clause, owner, job, &self.clauses)
    }
}
