//! Results of clauses, by group of rows, remembered across jobs and cycles.

mod key;
mod numbers;

use key::result_key;

use std::sync::{Arc, Mutex};

use classad::{Ad, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::answers::{Numbers, Truth, Values};
use crate::bitmap::Bitmap;
use crate::cell::{Cell, ExprId};
use crate::clause::{Clause, ClauseCache};
use crate::compute::Scalar;
use crate::groups::Groups;
use crate::log::WHOLE_ROW;
use crate::matcher::{Matcher, Owner};
use crate::reads::{Reads, evaluation_depth};
use crate::table::{AdTable, ColumnId, Row};

/// Bytes of bitmaps that are remembered, and as many of numbers; beyond that results are worked out anew.
const REMEMBER_BYTES: usize = 512 << 20;
/// Expressions whose reads are remembered.
const READS_MAX: usize = 100_000;
/// Refreshes that groups outlive without being asked for.
const GROUPS_KEPT: u64 = 8;

/// The number of a clause and whose ad it belongs to.
type Asked = (Owner, u32);

#[derive(Debug)]
struct TruthEntry {
    columns: Box<[ColumnId]>,
    /// Result by group, as far as groups were known.
    by_group: Bitmap,
    rows: Arc<Bitmap>,
    stamp: u64,
    used: u64,
}

#[derive(Debug)]
struct NumberEntry {
    columns: Box<[ColumnId]>,
    numbers: Arc<Numbers>,
    used: u64,
}

#[derive(Debug)]
struct GroupsEntry {
    groups: Arc<Groups>,
    used: u64,
}

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct LeafCache {
    groups: Mutex<FxHashMap<Box<[ColumnId]>, GroupsEntry>>,
    exprs: Mutex<FxHashMap<ColumnId, Arc<[ExprId]>>>,
    reads: Mutex<FxHashMap<Asked, Arc<Reads>>>,
    truths: Mutex<FxHashMap<Box<[u8]>, TruthEntry>>,
    numbers: Mutex<FxHashMap<Box<[u8]>, NumberEntry>>,
    bytes: Mutex<usize>,
    number_bytes: Mutex<usize>,
    /// Counts refreshes.
    stamp: u64,
    columns_known: usize,
}

impl LeafCache {
    /// Forgets everything.
    pub fn clear(&mut self) {
        let stamp = self.stamp + 1;
        *self = LeafCache {
            stamp,
            ..LeafCache::default()
        };
    }

    /// Takes changed cells into account.
    pub fn refresh(&mut self, table: &AdTable, changed: &[(Row, ColumnId)]) {
        self.stamp += 1;
        let stamp = self.stamp;
        let known = std::mem::replace(&mut self.columns_known, table.column_count());
        let definitions_changed = known != table.column_count()
            || changed.iter().any(|(row, column)| {
                *column == WHOLE_ROW || table.cell(*row, *column).expr_id().is_some()
            });
        if definitions_changed {
            lock(&self.exprs).clear();
            lock(&self.reads).clear();
        }
        let mut by_column: FxHashMap<ColumnId, Vec<Row>> = FxHashMap::default();
        for (row, column) in changed {
            if table.live().get(*row as usize) {
                by_column.entry(*column).or_default().push(*row);
            }
        }
        lock(&self.groups).retain(|columns, entry| {
            if entry.used + GROUPS_KEPT < stamp {
                return false;
            }
            let groups = &mut entry.groups;
            let mut rows: Vec<Row> = Vec::new();
            for column in columns.iter().chain([&WHOLE_ROW]) {
                rows.extend(by_column.get(column).into_iter().flatten());
            }
            if rows.is_empty() {
                return true;
            }
            rows.sort_unstable();
            rows.dedup();
            if !Arc::make_mut(groups).refresh(table, &rows, stamp) {
                let mut fresh = Groups::new(table, columns);
                fresh.restart(stamp);
                *groups = Arc::new(fresh);
            }
            true
        });
        let mut bytes = 0;
        let row_bytes = table.row_end() / 8;
        lock(&self.truths).retain(|_, entry| {
            let keep = entry.used + 2 >= stamp;
            bytes += if keep { row_bytes } else { 0 };
            keep
        });
        *lock(&self.bytes) = bytes;
        let mut bytes = 0;
        lock(&self.numbers).retain(|_, entry| {
            let keep = entry.used + 2 >= stamp;
            bytes += if keep {
                entry.numbers.by_group.len() * 8
            } else {
                0
            };
            keep
        });
        *lock(&self.number_bytes) = bytes;
    }

    /// Rows grouped by columns.
    pub fn groups(&self, table: &AdTable, columns: &[ColumnId]) -> Arc<Groups> {
        if let Some(entry) = lock(&self.groups).get_mut(columns) {
            entry.used = self.stamp;
            return entry.groups.clone();
        }
        let mut sorted: Vec<ColumnId> = columns.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let key: Box<[ColumnId]> = sorted.into();
        let used = self.stamp;
        if let Some(entry) = lock(&self.groups).get_mut(&key) {
            entry.used = used;
            return entry.groups.clone();
        }
        let mut groups = Groups::new(table, &key);
        groups.restart(self.stamp);
        let groups = Arc::new(groups);
        let mut known = lock(&self.groups);
        let entry = known.entry(key).or_insert(GroupsEntry { groups, used });
        entry.groups.clone()
    }

    /// The distinct expressions in a column.
    pub fn column_exprs(&self, table: &AdTable, column: ColumnId) -> Arc<[ExprId]> {
        if let Some(known) = lock(&self.exprs).get(&column) {
            return known.clone();
        }
        let mut seen = FxHashSet::default();
        let mut last = Cell::MISSING;
        for chunk in table.column(column).chunks() {
            chunk.for_each_value(|cell| {
                if cell != last {
                    last = cell;
                    seen.extend(cell.expr_id());
                }
            });
        }
        let mut found: Vec<ExprId> = seen.into_iter().collect();
        found.sort_unstable();
        let found: Arc<[ExprId]> = found.into();
        lock(&self.exprs).insert(column, found.clone());
        found
    }

    /// What evaluating a clause can read.
    pub fn reads(
        &self,
        table: &AdTable,
        clause: &Arc<Clause>,
        owner: Owner,
        job: Option<&Ad>,
        clauses: &ClauseCache,
    ) -> Arc<Reads> {
        let key = (owner, clause.id);
        let known = lock(&self.reads).get(&key).cloned();
        let plain = |reads: &Reads| {
            let Some(job) = job else { return true };
            let literal = |name| {
                job.get(name)
                    .is_none_or(|expr| matches!(expr, classad::Expr::Lit(_)))
            };
            reads.job_names.iter().all(literal)
        };
        if let Some(reads) = known
            && plain(&reads)
        {
            return reads;
        }
        let mut reads = Reads::of(clause, owner, table, job, clauses, self);
        reads.depth += evaluation_depth(clause);
        reads.columns.sort_unstable();
        let cacheable = !reads.job_exprs;
        let reads = Arc::new(reads);
        if cacheable {
            let mut known = lock(&self.reads);
            if known.len() >= READS_MAX {
                known.clear();
            }
            known.insert(key, reads.clone());
        }
        reads
    }

    /// The rows for which a clause is true.
    pub fn truth(
        &self,
        matcher: &Matcher,
        table: &AdTable,
        clause: &Clause,
        owner: Owner,
        job: Option<&Ad>,
        reads: &Reads,
    ) -> Truth {
        let scalar = Scalar::new(matcher, table, clause, owner, job);
        if reads.dynamic {
            let rows = table.live();
            let mut out = Bitmap::empty(rows.len());
            for row in rows.iter() {
                out.set(row, scalar.row(row as Row).is_true());
            }
            return Truth::Rows(Arc::new(out));
        }
        let groups = self.groups(table, &reads.columns);
        if groups.count() == 1 {
            let value = scalar.tuple(&mut Ad::new(), groups.columns(), groups.tuple(0));
            return if value.is_true() {
                Truth::Always
            } else {
                Truth::Never
            };
        }
        let key = result_key(matcher, clause, owner, job, reads);
        let found = {
            let mut truths = lock(&self.truths);
            if let Some(entry) = truths.get_mut(&key)
                && entry.stamp == groups.stamp
                && entry.rows.len() == table.row_end()
                && *entry.columns == *groups.columns()
            {
                entry.used = self.stamp;
                return Truth::Rows(entry.rows.clone());
            }
            truths.remove(&key)
        };
        let known = found.is_some();
        let mut entry = match found {
            Some(entry) if *entry.columns == *groups.columns() => entry,
            _ => TruthEntry {
                columns: groups.columns().into(),
                by_group: Bitmap::default(),
                rows: Arc::default(),
                stamp: u64::MAX,
                used: 0,
            },
        };
        self.bring_up_to_date(&mut entry, &scalar, &groups, table.row_end());
        let out = entry.rows.clone();
        let mut bytes = lock(&self.bytes);
        if known || *bytes < REMEMBER_BYTES {
            *bytes += if known { 0 } else { out.heap_bytes() };
            drop(bytes);
            lock(&self.truths).insert(key, entry);
        }
        Truth::Rows(out)
    }

    fn bring_up_to_date(
        &self,
        entry: &mut TruthEntry,
        scalar: &Scalar<'_>,
        groups: &Groups,
        row_end: usize,
    ) {
        entry.used = self.stamp;
        if entry.stamp == groups.stamp && entry.rows.len() == row_end {
            return;
        }
        let fresh = entry.stamp == u64::MAX || groups.restarted > entry.stamp;
        if fresh {
            entry.by_group = Bitmap::default();
        }
        let known = entry.by_group.len();
        entry.by_group.resize(groups.count());
        scalar.truths(groups, known, &mut entry.by_group);
        let by_group = &entry.by_group;
        if !fresh && entry.stamp == groups.stamp_before {
            let rows = Arc::make_mut(&mut entry.rows);
            rows.resize(row_end);
            for row in &groups.moved {
                let group = groups.group_of()[*row as usize];
                rows.set(*row as usize, by_group.get(group as usize));
            }
        } else {
            entry.rows = Arc::new(spread(by_group, groups.group_of()));
        }
        entry.stamp = groups.stamp;
    }
}

/// One bit a row from one bit a group.
fn spread(by_group: &Bitmap, group_of: &[u32]) -> Bitmap {
    let mut out = Bitmap::empty(group_of.len());
    let words = by_group.words();
    for (word, groups) in out.words_mut().iter_mut().zip(group_of.chunks(64)) {
        let mut bits = 0u64;
        for (at, group) in groups.iter().enumerate() {
            let group = *group as usize;
            bits |= (words[group / 64] >> (group % 64) & 1) << at;
        }
        *word = bits;
    }
    out
}

/// A poisoned lock only means that another thread panicked between two whole updates.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
