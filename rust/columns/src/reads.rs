//! What evaluating an expression can read, definitions of attributes followed.

use std::sync::Arc;

use classad::analysis::{Reads as Mentions, reach};
use classad::{Ad, Expr, Name};
use rustc_hash::FxHashSet;

use crate::ads::canonical_text;
use crate::clause::{Clause, ClauseCache};
use crate::leaf::LeafCache;
use crate::lists::Following;
use crate::matcher::Owner;
use crate::table::{AdTable, ColumnId};

/// What evaluating an expression can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
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
    pub dynamic: bool,
    /// It depends on the time or on chance.
    pub unsteady: bool,
    /// It draws random numbers, in an order that must be kept.
    pub chancy: bool,
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
    leaves: &'a LeafCache,
    reads: Reads,
    following: Following,
}

impl Reads {
    /// What a clause of `owner`'s ad can read.
    pub fn of(
        clause: &Clause,
        owner: Owner,
        table: &AdTable,
        job: Option<&Ad>,
        cache: &ClauseCache,
        leaves: &LeafCache,
    ) -> Self {
        let mut definitions = Definitions {
            table,
            job,
            owner,
            cache,
            leaves,
            reads: Reads::default(),
            following: Following::default(),
        };
        let found = reach(&clause.mentions, &mut definitions);
        let (mut reads, following) = (definitions.reads, definitions.following);
        if !following.columns.is_empty() {
            let names: FxHashSet<&Name> = found.names().chain(&found.scope_words).collect();
            for telling in following.tellings(table, leaves, clause, job, &names) {
                reads.columns.push(leaves.derived_number(telling));
            }
            reads.touched = leaves.touched(&following.columns, job);
            reads.listed = following.columns;
        }
        reads.dynamic = found.unbounded;
        reads.unsteady = found.volatile;
        reads.chancy = found.random;
        reads
    }

    /// Whether a column of the table may be read.
    pub fn may_read(&self, table: &AdTable, leaves: &LeafCache, column: ColumnId) -> bool {
        let on_the_way = |listed: &ColumnId| {
            *listed == column
                || leaves
                    .known_list(*listed)
                    .is_some_and(|listed| listed.mentions(table.column_name(column)))
        };
        self.columns.contains(&column) || self.listed.iter().any(on_the_way)
    }
}

impl classad::analysis::Definitions for Definitions<'_> {
    fn visit(&mut self, ours: bool, name: &Name, visit: &mut dyn FnMut(&Mentions)) {
        if ours == (self.owner == Owner::Slot) {
            self.slot_attribute(name, visit);
        } else {
            self.job_attribute(name, visit);
        }
    }
}

impl Definitions<'_> {
    fn slot_attribute(&mut self, name: &Name, visit: &mut dyn FnMut(&Mentions)) {
        let Some(column) = self.table.column_id(name) else {
            return;
        };
        if let Some(listed) = self.leaves.listed(self.table, column, self.cache) {
            if !self.following.columns.contains(&column) {
                self.following.columns.push(column);
                self.reads.depth = self.reads.depth.saturating_add(listed.depth);
            }
            visit(&listed.as_mentions(self.job));
            return;
        }
        let mut deepest = 0;
        for id in self.leaves.column_exprs(self.table, column).iter() {
            let clause = self.cache.pooled(self.table, *id);
            deepest = evaluation_depth(&clause).max(deepest);
            visit(&clause.mentions);
            self.following.used(&clause);
        }
        if !self.reads.columns.contains(&column) {
            self.reads.columns.push(column);
            self.reads.depth += deepest;
        }
    }

    fn job_attribute(&mut self, name: &Name, visit: &mut dyn FnMut(&Mentions)) {
        let known = self.reads.job_names.contains(name);
        if !known {
            self.reads.job_names.push(name.clone());
        }
        let Some(expr) = self.job.and_then(|job| job.get(name)) else {
            return;
        };
        if !matches!(expr, Expr::Lit(_)) {
            self.reads.job_exprs = true;
            let clause = Arc::new(Clause::new(expr.clone(), canonical_text(expr)));
            if !known {
                self.reads.depth += evaluation_depth(&clause);
            }
            visit(&clause.mentions);
            self.following.used(&clause);
        }
    }
}
