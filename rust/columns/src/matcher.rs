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

use std::sync::{Arc, Mutex, OnceLock};

use classad::{Ad, Expr, Name, Side, Value};
use rustc_hash::FxHashMap;

use crate::answers::{Numbers, Truth, Values};
use crate::bitmap::Bitmap;
use crate::cell::CellKind;
use crate::clause::{Clause, ClauseCache};
use crate::groups::Groups;
use crate::leaf::LeafCache;
use crate::reads::Reads;
pub use crate::settings::{EvalSettings, HostRef};
use crate::table::{AdTable, ColumnId};

/// Distinct expressions of one attribute that are followed one by one.
const FOLLOW_MAX: usize = 256;
/// Fewer tuples than this are not worth a program.
const LOWER_FROM: usize = 4;
/// How deep the plain evaluator can go (it has a little more) before it gives up.
const DEPTH_MAX: u32 = 380;

/// Whose ad an expression belongs to: the other one is its TARGET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// MY is the job.
    Job,
    /// MY is the row of the table.
    Slot,
}

/// See the module text.
#[derive(Debug, Default)]
pub struct Matcher {
    pub(crate) settings: EvalSettings,
    pub(crate) clauses: ClauseCache,
    pub(crate) leaves: LeafCache,
    /// Rows per value of columns that are followed.
    split_rows: Mutex<FxHashMap<ColumnId, Arc<SplitRows>>>,
    requirements: OnceLock<Arc<Clause>>,
    version: u64,
    epoch: u64,
    /// What the host's answers were like at the last refresh.
    host_version: u64,
    /// Tuples from which on an expression is lowered to a program.
    pub(crate) lower_from: usize,
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
            lower_from: LOWER_FROM,
            ..Matcher::default()
        }
    }

    /// The matcher with programs used from so many tuples on: 1 always, `usize::MAX` never. For tests and
    /// benches; the answers are the same.
    #[must_use]
    pub fn with_programs_from(mut self, tuples: usize) -> Self {
        self.lower_from = tuples;
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
            && self.host_version == settings.host.version();
        self.host_version = settings.host.version();
        let changed = if self.epoch == table.epoch() && same_rules && self.version != u64::MAX {
            table
                .log
                .cells_since(self.version)
                .map(|cells| cells.collect::<Vec<_>>())
        } else {
            None
        };
        match changed {
            Some(changed) => self.leaves.refresh(table, &changed),
            None => {
                self.leaves.clear();
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
        self.job_accepts(table, job).narrow(&mut rows);
        if !rows.is_clear() {
            self.slot_accepts(table, job).narrow(&mut rows);
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
        let reads = self.reads(table, &clause, Owner::Slot, Some(job));
        if reads.chancy || reads.depth > DEPTH_MAX {
            return self
                .leaves
                .truth(self, table, &clause, Owner::Slot, Some(job), &reads);
        }
        self.clause_truth(table, &clause, Owner::Slot, Some(job), &mut Vec::new())
    }

    pub(crate) fn requirements(&self) -> Arc<Clause> {
        self.requirements
            .get_or_init(|| Arc::new(Clause::requirements()))
            .clone()
    }

    /// The rows for which an expression is true (or a number other than 0).
    pub fn truth(&self, table: &AdTable, expr: &Expr, owner: Owner, job: Option<&Ad>) -> Truth {
        let whole = self.clauses.whole(expr);
        let reads = self.reads(table, &whole, owner, job);
        // Taken apart, it would draw other numbers, or go deeper than the whole could.
        if reads.chancy || reads.depth > DEPTH_MAX {
            return self.leaves.truth(self, table, &whole, owner, job, &reads);
        }
        let clauses = self.clauses.split(expr);
        self.conjunction(table, &clauses, owner, job, &mut Vec::new())
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

    /// The number an expression gives for each row.
    pub fn numbers(
        &self,
        table: &AdTable,
        expr: &Expr,
        owner: Owner,
        job: Option<&Ad>,
    ) -> Arc<Numbers> {
        let clause = self.clauses.whole(expr);
        let reads = self.reads(table, &clause, owner, job);
        self.leaves
            .numbers(self, table, &clause, owner, job, &reads)
    }

    /// The value an expression gives for each row.
    pub fn values(&self, table: &AdTable, expr: &Expr, owner: Owner, job: Option<&Ad>) -> Values {
        let clause = self.clauses.whole(expr);
        let reads = self.reads(table, &clause, owner, job);
        self.leaves.values(self, table, &clause, owner, job, &reads)
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
        self.leaves.groups(table, &columns)
    }

    // ---- how ----

    fn conjunction(
        &self,
        table: &AdTable,
        clauses: &[Arc<Clause>],
        owner: Owner,
        job: Option<&Ad>,
        path: &mut Vec<u32>,
    ) -> Truth {
        let mut out: Option<Bitmap> = None;
        let mut single: Option<Arc<Bitmap>> = None;
        for clause in clauses {
            match self.clause_truth(table, clause, owner, job, path) {
                Truth::Never => return Truth::Never,
                Truth::Always => {}
                Truth::Rows(rows) => match (&mut out, single.take()) {
                    (Some(out), _) => out.and(&rows),
                    (None, Some(first)) => {
                        let mut both = (*first).clone();
                        both.and(&rows);
                        out = Some(both);
                    }
                    (None, None) => single = Some(rows),
                },
            }
        }
        match (out, single) {
            (Some(rows), _) => Truth::Rows(Arc::new(rows)),
            (None, Some(rows)) => Truth::Rows(rows),
            (None, None) => Truth::Always,
        }
    }

    pub(crate) fn clause_truth(
        &self,
        table: &AdTable,
        clause: &Arc<Clause>,
        owner: Owner,
        job: Option<&Ad>,
        path: &mut Vec<u32>,
    ) -> Truth {
        if let Some(split) = self.followed(table, clause, owner, job, path) {
            return self.follow(table, &split, job, path);
        }
        let reads = self.reads(table, clause, owner, job);
        self.leaves.truth(self, table, clause, owner, job, &reads)
    }

    /// The rows by the definition of the attribute that a clause names, if it is worth following.
    pub(crate) fn followed(
        &self,
        table: &AdTable,
        clause: &Clause,
        owner: Owner,
        job: Option<&Ad>,
        path: &[u32],
    ) -> Option<Arc<SplitRows>> {
        let (side, name) = clause.reference.as_ref()?;
        if owner != Owner::Slot || *side == Side::Target {
            return None;
        }
        let column = table.column_id(name)?;
        let definitions = self.leaves.column_exprs(table, column);
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
                self.reads(table, &definition, Owner::Slot, job)
                    .columns
                    .contains(&column)
            });
            if leads_back {
                return None;
            }
        }
        if let Some(split) = self.split_rows.lock().ok()?.get(&column) {
            return Some(split.clone());
        }
        let groups = self.leaves.groups(table, &[column]);
        if groups.count() > FOLLOW_MAX * 2 {
            return None;
        }
        let mut rows = vec![Bitmap::empty(table.row_end()); groups.count()];
        for (row, group) in groups.group_of().iter().enumerate() {
            rows[*group as usize].set(row, true);
        }
        let split = Arc::new(SplitRows { groups, rows });
        self.split_rows.lock().ok()?.insert(column, split.clone());
        Some(split)
    }

    fn follow(
        &self,
        table: &AdTable,
        split: &SplitRows,
        job: Option<&Ad>,
        path: &mut Vec<u32>,
    ) -> Truth {
        let column = split.groups.columns()[0];
        path.push(column);
        let mut truths = Vec::with_capacity(split.rows.len());
        for group in 0..split.rows.len() {
            let cell = split.groups.tuple(group)[0];
            truths.push(match cell.kind() {
                CellKind::Expr(id) => {
                    let clauses = self.clauses.split_pooled(table, id);
                    self.conjunction(table, &clauses, Owner::Slot, job, path)
                }
                _ if table.cell_value(cell).is_true() => Truth::Always,
                _ => Truth::Never,
            });
        }
        path.pop();
        if truths.len() == 1 {
            return truths.swap_remove(0);
        }
        if truths.iter().all(|truth| matches!(truth, Truth::Never)) {
            return Truth::Never;
        }
        let mut out = Bitmap::empty(table.row_end());
        for (truth, rows) in truths.iter().zip(&split.rows) {
            match truth {
                Truth::Never => {}
                Truth::Always => out.or(rows),
                Truth::Rows(these) => out.or_and(rows, these),
            }
        }
        Truth::Rows(Arc::new(out))
    }

    /// What evaluating a clause can read, definitions of attributes followed.
    pub(crate) fn reads(
        &self,
        table: &AdTable,
        clause: &Arc<Clause>,
        owner: Owner,
        job: Option<&Ad>,
    ) -> Arc<Reads> {
        self.leaves.reads(table, clause, owner, job, &self.clauses)
    }
}
