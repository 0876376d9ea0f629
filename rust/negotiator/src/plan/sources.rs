//! What the names of a cycle mean: attributes of its two tables, and what is reachable through them.

use super::is_submitter_attribute;
use crate::mentions::Mentions;
use classad::{Expr, Name};
use columns::{AdTable, Cell, Chunk, ColumnId};
use rustc_hash::{FxHashMap, FxHashSet};

/// What the names mean: the two tables of a cycle.
pub struct Sources<'t> {
    /// Slot ads.
    pub slots: &'t AdTable,
    /// Job or request ads.
    pub jobs: &'t AdTable,
    /// What the cycle gives every slot besides.
    given: FxHashMap<Name, &'t Expr>,
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

    /// Adds the names that any expression of any slot may look up in a job (lists aside).
    pub(super) fn add_job_names(&mut self, names: &mut FxHashSet<Name>) {
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
    pub(super) fn reach(&mut self, start: Mentions) -> Mentions {
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
                if let Some(expr) = self.given.get(&name) {
                    all.add(expr);
                }
            }
        }
    }

    /// Whether `expr`, an expression of slots, can see the job at all.
    pub(super) fn sees_job(&mut self, expr: &Expr) -> bool {
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
                    if let Some(expr) = self.given.get(name) {
                        open.push(Mentions::of(expr));
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
