//! What evaluating an expression can read, definitions of attributes followed.

use std::sync::Arc;

use classad::analysis::{Reads, reach};
use classad::{Ad, Expr, Name};
use rustc_hash::FxHashSet;

use crate::ads::canonical_text;
use crate::clause::{Clause, ClauseCache};
use crate::lists::Following;
use crate::matcher::Owner;
use crate::predicate_cache::PredicateCache;
use crate::table::{AdTable, ColumnId};

/// What evaluating an expression can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    /// Columns of the table, and derived ones.
    pub columns: Vec<ColumnId>,
    /// Columns of the table that are followed row by row, for which the derived ones stand.
    pub listed: Vec<ColumnId>,
    /// What is read by following those depends on attributes of this job.
    pub touched: bool,
    /// Attributes of the job, whether it has them or not.
    pub job_names: Vec<Name>,
    /// Some of those are expressions, so the rest holds for this job only.
    pub job_exprs: bool,
    /// It may read more than that.
    pub unbounded: bool,
    /// It depends on the time or on chance.
    pub volatile: bool,
    /// It draws random numbers, in an order that must be kept.
    pub random: bool,
    /// How deep evaluation can go at most.
    pub depth: u32,
}

/// How deep the plain evaluator goes in an expression, definitions of attributes not counted: never
/// more than this.
pub(crate) fn evaluation_depth(clause: &Clause) -> u32 {
    clause.depth * 2 + 4
}

/// The definitions that a table and a job have for names, and what following them collects.
struct Definitions<'a> {
    table: &'a AdTable,
    job: Option<&'a Ad>,
    owner: Owner,
    cache: &'a ClauseCache,
    predicates: &'a PredicateCache,
    dependencies: Dependencies,
    following: Following,
}

impl Dependencies {
    /// What a clause of `owner`'s ad can read.
    pub fn of(
        clause: &Clause,
        owner: Owner,
        table: &AdTable,
        job: Option<&Ad>,
        cache: &ClauseCache,
        predicates: &PredicateCache,
    ) -> Self {
        let mut definitions = Definitions {
            table,
            job,
            owner,
            cache,
            predicates,
            dependencies: Dependencies::default(),
            following: Following::default(),
        };
        let found = reach(&clause.reads, &mut definitions);
        let (mut dependencies, following) = (definitions.dependencies, definitions.following);
        if !following.columns.is_empty() {
            let names: FxHashSet<&Name> = found.names().chain(&found.scope_words).collect();
            for telling in following.tellings(table, predicates, clause, job, &names) {
                dependencies
                    .columns
                    .push(predicates.derived_number(telling));
            }
            dependencies.touched = predicates.touched(&following.columns, job);
            dependencies.listed = following.columns;
        }
        dependencies.unbounded = found.unbounded;
        dependencies.volatile = found.volatile;
        dependencies.random = found.random;
        dependencies
    }

    /// Whether a column of the table may be read.
    pub fn may_read(&self, table: &AdTable, predicates: &PredicateCache, column: ColumnId) -> bool {
        let on_the_way = |listed: &ColumnId| {
            *listed == column
                || predicates
                    .known_list(*listed)
                    .is_some_and(|listed| listed.reads(table.column_name(column)))
        };
        self.columns.contains(&column) || self.listed.iter().any(on_the_way)
    }
}

impl classad::analysis::Definitions for Definitions<'_> {
    fn visit(&mut self, ours: bool, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        if ours == (self.owner == Owner::Slot) {
            self.slot_attribute(name, visit);
        } else {
            self.job_attribute(name, visit);
        }
    }
}

impl Definitions<'_> {
    fn slot_attribute(&mut self, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        let Some(column) = self.table.column_id(name) else {
            return;
        };
        if let Some(listed) = self.predicates.listed(self.table, column, self.cache) {
            if !self.following.columns.contains(&column) {
                self.following.columns.push(column);
                self.dependencies.depth = self.dependencies.depth.saturating_add(listed.depth);
            }
            visit(&listed.as_reads(self.job));
            return;
        }
        let mut deepest = 0;
        for id in self.predicates.column_exprs(self.table, column).iter() {
            let clause = self.cache.pooled(self.table, *id);
            deepest = evaluation_depth(&clause).max(deepest);
            visit(&clause.reads);
            self.following.used(&clause);
        }
        if !self.dependencies.columns.contains(&column) {
            self.dependencies.columns.push(column);
            self.dependencies.depth += deepest;
        }
    }

    fn job_attribute(&mut self, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        let known = self.dependencies.job_names.contains(name);
        if !known {
            self.dependencies.job_names.push(name.clone());
        }
        let Some(expr) = self.job.and_then(|job| job.get(name)) else {
            return;
        };
        if !matches!(expr, Expr::Lit(_)) {
            self.dependencies.job_exprs = true;
            let clause = Arc::new(Clause::new(expr.clone(), canonical_text(expr)));
            if !known {
                self.dependencies.depth += evaluation_depth(&clause);
            }
            visit(&clause.reads);
            self.following.used(&clause);
        }
    }
}
