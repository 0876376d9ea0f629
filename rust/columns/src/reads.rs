//! What evaluating an expression can read, definitions of attributes followed.

use classad::analysis::{Reads as Mentions, reach};
use classad::{Ad, Expr, Name};

use crate::ads::canonical_text;
use crate::clause::{Clause, ClauseCache};
use crate::leaf::LeafCache;
use crate::matcher::Owner;
use crate::table::{AdTable, ColumnId};

/// What evaluating an expression can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Columns of the table.
    pub columns: Vec<ColumnId>,
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
        };
        let found = reach(&clause.mentions, &mut definitions);
        let mut reads = definitions.reads;
        reads.dynamic = found.unbounded;
        reads.unsteady = found.volatile;
        reads.chancy = found.random;
        reads
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
        let mut deepest = 0;
        for id in self.leaves.column_exprs(self.table, column).iter() {
            let clause = self.cache.pooled(self.table, *id);
            deepest = evaluation_depth(&clause).max(deepest);
            visit(&clause.mentions);
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
            let clause = Clause::new(expr.clone(), canonical_text(expr));
            if !known {
                self.reads.depth += evaluation_depth(&clause);
            }
            visit(&clause.mentions);
        }
    }
}
