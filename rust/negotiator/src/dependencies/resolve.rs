//! What the names of a cycle mean: attributes of its two tables, and what is reachable through them.

use super::is_submitter_attribute;
use classad::analysis::{Definitions, Reads, reach};
use classad::{Expr, Name};
use columns::{AdTable, Cell, ColumnId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What the names mean: the two tables of a cycle.
pub struct Resolver<'t> {
    /// Slot ads.
    pub slots: &'t AdTable,
    /// Job or request ads.
    pub jobs: &'t AdTable,
    /// What the cycle gives every slot besides.
    given: FxHashMap<Name, &'t Expr>,
    slot_exprs: FxHashMap<ColumnId, Vec<u32>>,
    job_exprs: FxHashMap<ColumnId, Vec<u32>>,
    slot_reads: FxHashMap<u32, Arc<Reads>>,
    job_reads: FxHashMap<u32, Arc<Reads>>,
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
    table
        .column(column)
        .for_each_value(&(0..table.row_end()), &mut once);
}

pub(crate) fn expressions(table: &AdTable, column: ColumnId) -> Vec<u32> {
    let mut ids: Vec<u32> = Vec::new();
    each_distinct(table, column, |cell| ids.extend(cell.expr_id()));
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl<'t> Resolver<'t> {
    /// The tables of a cycle, and what it gives slots.
    #[must_use]
    pub fn new(slots: &'t AdTable, jobs: &'t AdTable, given: &'t [(String, Expr)]) -> Self {
        Self {
            slots,
            jobs,
            given: given
                .iter()
                .map(|(name, expr)| (Name::from(name.as_str()), expr))
                .collect(),
            slot_exprs: FxHashMap::default(),
            job_exprs: FxHashMap::default(),
            slot_reads: FxHashMap::default(),
            job_reads: FxHashMap::default(),
        }
    }

    pub(super) fn slot_exprs(&mut self, name: &Name) -> Vec<u32> {
        let Some(column) = self.slots.column_id(name) else {
            return Vec::new();
        };
        let table = self.slots;
        let found = self.slot_exprs.entry(column);
        found.or_insert_with(|| expressions(table, column)).clone()
    }

    pub(super) fn job_exprs(&mut self, name: &Name) -> Vec<u32> {
        let Some(column) = self.jobs.column_id(name) else {
            return Vec::new();
        };
        let table = self.jobs;
        let found = self.job_exprs.entry(column);
        found.or_insert_with(|| expressions(table, column)).clone()
    }

    fn slot_reads(&mut self, id: u32) -> Arc<Reads> {
        let table = self.slots;
        let known = self.slot_reads.entry(id);
        let found = known.or_insert_with(|| Arc::new(Reads::of(table.exprs().get(id))));
        Arc::clone(found)
    }

    pub(super) fn job_reads(&mut self, id: u32) -> Arc<Reads> {
        let table = self.jobs;
        let known = self.job_reads.entry(id);
        let found = known.or_insert_with(|| Arc::new(Reads::of(table.exprs().get(id))));
        Arc::clone(found)
    }

    /// Adds the names that any expression of any slot may look up in a job (lists aside).
    pub(super) fn add_job_names(&mut self, names: &mut FxHashSet<Name>) {
        let pool = self.slots.exprs();
        for id in 0..pool.id_end() {
            if !matches!(pool.get(id), Expr::List(_)) {
                names.extend(self.slot_reads(id).of_target().cloned());
            }
        }
    }

    /// Everything reachable from `start` through attributes of slots and jobs, whichever has them.
    pub(super) fn reach(&mut self, start: &Reads) -> Reads {
        let mut followed = Followed {
            resolver: self,
            seen: FxHashSet::default(),
        };
        reach(start, &mut followed)
    }

    /// Whether `expr`, an expression of slots, can see the job at all.
    pub(super) fn sees_job(&mut self, expr: &Expr) -> bool {
        let mut open = vec![Arc::new(Reads::of(expr))];
        let mut seen: FxHashSet<Name> = FxHashSet::default();
        while let Some(found) = open.pop() {
            let in_jobs = |n: &Name| self.jobs.column_id(n).is_some() || is_submitter_attribute(n);
            let outside = found.target.iter().any(in_jobs)
                || found
                    .either
                    .iter()
                    .any(|n| in_jobs(n) && !self.is_everywhere(n));
            // A definition that is taken out of its ad may read another.
            if outside || found.unbounded || !found.dereferenced.is_empty() {
                return true;
            }
            for name in found.of_my() {
                if seen.insert(name.clone()) {
                    for id in self.slot_exprs(name) {
                        open.push(self.slot_reads(id));
                    }
                    if let Some(expr) = self.given.get(name) {
                        open.push(Arc::new(Reads::of(expr)));
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

/// All definitions that a name may have, in slots, jobs and the configuration.
struct Followed<'s, 't> {
    resolver: &'s mut Resolver<'t>,
    seen: FxHashSet<Name>,
}

impl Definitions for Followed<'_, '_> {
    fn visit(&mut self, _ours: bool, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        if !self.seen.insert(name.clone()) {
            return;
        }
        for id in self.resolver.slot_exprs(name) {
            visit(&self.resolver.slot_reads(id));
        }
        for id in self.resolver.job_exprs(name) {
            visit(&self.resolver.job_reads(id));
        }
        if let Some(expr) = self.resolver.given.get(name) {
            visit(&Reads::of(expr));
        }
    }
}
