//! What evaluating an expression can read, definitions of attributes followed.

use classad::{Ad, Expr, Name};
use rustc_hash::FxHashSet;

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

/// What `reads` collects while it follows definitions.
pub(crate) struct Closure<'a> {
    table: &'a AdTable,
    job: Option<&'a Ad>,
    seen: FxHashSet<(Owner, Box<[u8]>)>,
    /// The result.
    pub reads: Reads,
}

impl<'a> Closure<'a> {
    /// Nothing read yet.
    pub fn new(table: &'a AdTable, job: Option<&'a Ad>) -> Self {
        Closure {
            table,
            job,
            seen: FxHashSet::default(),
            reads: Reads::default(),
        }
    }

    /// Adds what an expression can read.
    pub fn add(&mut self, clause: &Clause, owner: Owner, cache: &ClauseCache, leaves: &LeafCache) {
        if !self.seen.insert((owner, clause.text.clone())) {
            return;
        }
        let found = &clause.mentions;
        self.reads.dynamic |= found.dynamic;
        self.reads.unsteady |= found.unsteady;
        self.reads.chancy |= found.chancy;
        let (mine, other) = match owner {
            Owner::Job => (Owner::Job, Owner::Slot),
            Owner::Slot => (Owner::Slot, Owner::Job),
        };
        let sided = found.mine.iter().map(|name| (name, Some(mine)));
        let sided = sided.chain(found.other.iter().map(|name| (name, Some(other))));
        let all: Vec<(&Name, Option<Owner>)> = sided
            .chain(found.both.iter().map(|name| (name, None)))
            .collect();
        for (name, side) in all {
            if side != Some(Owner::Job) {
                self.slot_attribute(name, cache, leaves);
            }
            if side != Some(Owner::Slot) {
                self.job_attribute(name, cache, leaves);
            }
        }
    }

    fn slot_attribute(&mut self, name: &Name, cache: &ClauseCache, leaves: &LeafCache) {
        let Some(column) = self.table.column_id(name) else {
            return;
        };
        if self.reads.columns.contains(&column) {
            return;
        }
        self.reads.columns.push(column);
        let mut deepest = 0;
        for id in leaves.column_exprs(self.table, column).iter() {
            let clause = cache.pooled(self.table, *id);
            deepest = evaluation_depth(&clause).max(deepest);
            self.add(&clause, Owner::Slot, cache, leaves);
        }
        self.reads.depth += deepest;
    }

    fn job_attribute(&mut self, name: &Name, cache: &ClauseCache, leaves: &LeafCache) {
        if self.reads.job_names.contains(name) {
            return;
        }
        self.reads.job_names.push(name.clone());
        let Some(expr) = self.job.and_then(|job| job.get(name)) else {
            return;
        };
        if !matches!(expr, Expr::Lit(_)) {
            self.reads.job_exprs = true;
            let clause = Clause::new(expr.clone(), canonical_text(expr));
            self.reads.depth += evaluation_depth(&clause);
            self.add(&clause, Owner::Job, cache, leaves);
        }
    }
}
