//! Results of clauses, by group of rows, remembered across jobs and cycles.

mod key;
mod numbers;

use key::result_key;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use classad::{Ad, Value, allowance};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bitmap::Bitmap;
use crate::cell::{Cell, ExprId};
use crate::clause::{Clause, ClauseCache};
use crate::compute::{Scalar, Wanted};
use crate::dependencies::{Dependencies, evaluation_depth};
use crate::exec::Memo;
use crate::groups::{Cells, Groups};
use crate::lists::{Derived, FIRST_DERIVED, Listed, Lists, Telling, cells_of};
use crate::log::WHOLE_ROW;
use crate::logic::Ask;
use crate::lower::Residue;
use crate::matcher::{Matcher, Owner};
use crate::results::{Numbers, Truth, Values};
use crate::scan::Comparison;
use crate::table::{AdTable, ColumnId, Row};
use crate::verdicts::{VERDICTS, Verdict, Verdicts};

/// Bytes of bitmaps that are remembered, and as many of numbers; beyond that results are worked out anew.
const REMEMBER_BYTES: usize = 512 << 20;
/// Expressions whose reads are remembered.
const READS_MAX: usize = 100_000;
/// Refreshes that groups outlive without being asked for.
const GROUPS_KEPT: u64 = 8;

/// The number of a clause and whose ad it belongs to.
type Asked = (Owner, u32);

/// What a condition says, by group and by row.
#[derive(Debug)]
struct VerdictEntry {
    columns: Box<[ColumnId]>,
    /// As far as groups were known.
    by_group: Verdicts,
    /// Some groups below the end may have been left out.
    partial: bool,
    /// Rows by verdict, as far as they were asked for.
    rows: [Option<Arc<Bitmap>>; 4],
    stamp: u64,
    used: u64,
}

#[derive(Debug)]
struct NumberEntry {
    columns: Box<[ColumnId]>,
    numbers: Arc<Numbers>,
    used: u64,
}

/// What is known of a part of expressions that the plain evaluator evaluates.
#[derive(Debug)]
struct MemoEntry {
    columns: Box<[ColumnId]>,
    memo: Arc<Memo>,
    /// Refresh in which the numbers of its groups began.
    restarted: u64,
    used: u64,
}

/// Groups, other groups of the same rows, and the refreshes in which they came to be as they are.
type MapKey = (Box<[ColumnId]>, Box<[ColumnId]>, u64, u64);

#[derive(Debug)]
struct GroupsEntry {
    groups: Arc<Groups>,
    used: u64,
}

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct PredicateCache {
    groups: Mutex<FxHashMap<Box<[ColumnId]>, GroupsEntry>>,
    exprs: Mutex<FxHashMap<ColumnId, Arc<[ExprId]>>>,
    dependencies: Mutex<FxHashMap<Asked, Arc<Dependencies>>>,
    verdicts: Mutex<FxHashMap<Box<[u8]>, VerdictEntry>>,
    residues: Mutex<FxHashMap<Box<[u8]>, MemoEntry>>,
    maps: Mutex<FxHashMap<MapKey, Arc<[u32]>>>,
    distinct: Mutex<FxHashMap<ColumnId, (u64, usize)>>,
    numbers: Mutex<FxHashMap<Box<[u8]>, NumberEntry>>,
    bytes: Mutex<usize>,
    number_bytes: Mutex<usize>,
    /// Counts refreshes.
    stamp: u64,
    columns_known: usize,
    lists: Mutex<Lists>,
    /// Names from which on lists are followed row by row; 0 for the usual number.
    pub lists_from: usize,
    /// The only rows that are asked about: work is in proportion to them, not to those of the table.
    pub window: Option<Range<usize>>,
}

impl PredicateCache {
    /// Forgets everything.
    pub fn clear(&mut self) {
        let stamp = self.stamp + 1;
        *self = PredicateCache {
            stamp,
            lists_from: self.lists_from,
            window: self.window.take(),
            ..PredicateCache::default()
        };
    }

    /// Takes changed cells into account.
    pub fn refresh(&mut self, table: &AdTable, changed: &[(Row, ColumnId)], clauses: &ClauseCache) {
        self.stamp += 1;
        let stamp = self.stamp;
        let known = std::mem::replace(&mut self.columns_known, table.column_count());
        let definitions_changed = known != table.column_count()
            || changed.iter().any(|(row, column)| {
                *column == WHOLE_ROW || table.cell(*row, *column).expr_id().is_some()
            });
        if definitions_changed {
            lock(&self.exprs).clear();
            lock(&self.dependencies).clear();
        }
        let mut by_column: FxHashMap<ColumnId, Vec<Row>> = FxHashMap::default();
        for (row, column) in changed {
            if table.live().get(*row as usize) {
                by_column.entry(*column).or_default().push(*row);
            }
        }
        let mut known = lock(&self.groups);
        known.retain(|_, entry| entry.used + GROUPS_KEPT >= stamp);
        let derived = |column: &&ColumnId| **column >= FIRST_DERIVED;
        let needed = known
            .keys()
            .flat_map(|columns| columns.iter().filter(derived));
        let needed: FxHashSet<ColumnId> = needed.copied().collect();
        let mut anew: FxHashSet<ColumnId> = FxHashSet::default();
        lock(&self.lists).refresh(
            table,
            changed,
            WHOLE_ROW,
            clauses,
            &needed,
            |column, rows| match rows {
                Some(rows) => by_column.entry(column).or_default().extend(rows),
                None => {
                    anew.insert(column);
                }
            },
        );
        known.retain(|columns, entry| {
            let groups = &mut entry.groups;
            let cells = || self.cells(table, columns);
            if columns.iter().any(|column| anew.contains(column)) {
                let mut fresh = Groups::of(&cells(), columns);
                fresh.restart(stamp);
                *groups = Arc::new(fresh);
                return true;
            }
            let mut rows: Vec<Row> = Vec::new();
            for column in columns.iter().chain([&WHOLE_ROW]) {
                rows.extend(by_column.get(column).into_iter().flatten());
            }
            if rows.is_empty() {
                return true;
            }
            rows.sort_unstable();
            rows.dedup();
            if !Arc::make_mut(groups).refresh(&cells(), &rows, stamp) {
                let mut fresh = Groups::of(&cells(), columns);
                fresh.restart(stamp);
                *groups = Arc::new(fresh);
            }
            true
        });
        drop(known);
        lock(&self.maps).clear();
        let mut bytes = 0;
        lock(&self.residues).retain(|_, entry| {
            let keep = entry.used + 2 >= stamp;
            bytes += if keep { entry.memo.heap_bytes() } else { 0 };
            keep
        });
        let row_bytes = table.row_end() / 8;
        lock(&self.verdicts).retain(|_, entry| {
            let keep = entry.used + 2 >= stamp;
            bytes += if keep {
                row_bytes + entry.by_group.heap_bytes()
            } else {
                0
            };
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

    /// The rows that may be asked about.
    pub fn rows(&self, table: &AdTable) -> Range<usize> {
        let end = table.row_end();
        let all = 0..end;
        let window = self.window.as_ref();
        window.map_or(all, |rows| rows.start.min(end)..rows.end.min(end))
    }

    /// What a column leads to, if it is followed row by row.
    pub fn listed(
        &self,
        table: &AdTable,
        column: ColumnId,
        clauses: &ClauseCache,
    ) -> Option<Arc<Listed>> {
        let exprs = || self.column_exprs(table, column);
        lock(&self.lists).get(table, column, self.lists_from, exprs, clauses)
    }

    /// What a column leads to, if it is known to be followed row by row.
    pub fn known_list(&self, column: ColumnId) -> Option<Arc<Listed>> {
        lock(&self.lists).known(column)
    }

    /// Whether what is read by following columns row by row depends on the attributes of a job.
    pub fn touched(&self, listed: &[ColumnId], job: Option<&Ad>) -> bool {
        let touches = |column: &ColumnId| {
            let known = self.known_list(*column);
            known.is_none_or(|listed| listed.touches(job))
        };
        listed.iter().any(touches)
    }

    /// The derived column that tells rows apart so.
    pub fn derived_number(&self, telling: Telling) -> ColumnId {
        lock(&self.lists).number(telling)
    }

    /// A derived column.
    pub fn derived(&self, table: &AdTable, column: ColumnId) -> Option<Arc<Derived>> {
        lock(&self.lists).derived(table, column)
    }

    /// Whether rows that agree in one derived column agree in the other.
    pub fn refines(&self, column: ColumnId, other: ColumnId) -> bool {
        let lists = lock(&self.lists);
        let (one, other) = (lists.telling(column), lists.telling(other));
        one.zip(other)
            .is_some_and(|(one, other)| one.refines(other))
    }

    fn cells<'t>(&self, table: &'t AdTable, columns: &[ColumnId]) -> Cells<'t> {
        let rows = self.window.as_ref();
        cells_of(table, rows, columns, |column| self.derived(table, column))
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
        let mut groups = Groups::of(&self.cells(table, &key), &key);
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
        let rows = self.rows(table);
        table.column(column).for_each_value(&rows, |cell| {
            if cell != last {
                last = cell;
                seen.extend(cell.expr_id());
            }
        });
        let mut found: Vec<ExprId> = seen.into_iter().collect();
        found.sort_unstable();
        let found: Arc<[ExprId]> = found.into();
        lock(&self.exprs).insert(column, found.clone());
        found
    }

    /// What evaluating a clause can read.
    pub fn dependencies(
        &self,
        table: &AdTable,
        clause: &Arc<Clause>,
        owner: Owner,
        job: Option<&Ad>,
        clauses: &ClauseCache,
    ) -> Arc<Dependencies> {
        let key = (owner, clause.id);
        let known = lock(&self.dependencies).get(&key).cloned();
        let plain = |dependencies: &Dependencies| {
            let Some(job) = job else { return true };
            let literal = |name| {
                job.get(name)
                    .is_none_or(|expr| matches!(expr, classad::Expr::Lit(_)))
            };
            dependencies.job_names.iter().all(literal)
                && (dependencies.listed.is_empty()
                    || !self.touched(&dependencies.listed, Some(job)))
        };
        if let Some(dependencies) = known
            && plain(&dependencies)
        {
            return dependencies;
        }
        let mut dependencies = Dependencies::of(clause, owner, table, job, clauses, self);
        dependencies.depth += evaluation_depth(clause);
        dependencies.columns.sort_unstable();
        let cacheable = !dependencies.job_exprs && !dependencies.touched;
        let dependencies = Arc::new(dependencies);
        if cacheable {
            let mut known = lock(&self.dependencies);
            if known.len() >= READS_MAX {
                known.clear();
            }
            known.insert(key, dependencies.clone());
        }
        dependencies
    }

    /// At most so many different values a column has.
    pub fn distinct(&self, table: &AdTable, column: ColumnId) -> usize {
        let version = table.version();
        if let Some((known, count)) = lock(&self.distinct).get(&column)
            && *known == version
        {
            return *count;
        }
        let count = match self.derived(table, column) {
            Some(derived) => derived.count(),
            None => table.column(column).distinct_at_most(&self.rows(table)),
        };
        lock(&self.distinct).insert(column, (version, count));
        count
    }

    /// The group among `to` that the rows of each group have; `u32::MAX` for a group without rows.
    pub fn group_map(&self, from: &Groups, to: &Groups) -> Arc<[u32]> {
        let key = (
            from.columns().into(),
            to.columns().into(),
            from.stamp,
            to.stamp,
        );
        if let Some(known) = lock(&self.maps).get(&key) {
            return known.clone();
        }
        let mut map = vec![u32::MAX; from.count()];
        for (here, there) in from.numbers().iter().zip(to.numbers()) {
            map[*here as usize] = *there;
        }
        let map: Arc<[u32]> = map.into();
        lock(&self.maps).insert(key, map.clone());
        map
    }

    /// What is known of a residue, by the groups of what it reads.
    pub fn memo(
        &self,
        matcher: &Matcher,
        residue: &Residue,
        job: Option<&Ad>,
        groups: &Groups,
    ) -> Arc<Memo> {
        let (clause, dependencies) = (&residue.clause, &residue.dependencies);
        let key = result_key(matcher, clause, residue.owner, job, dependencies);
        let mut residues = lock(&self.residues);
        if let Some(entry) = residues.get_mut(&key)
            && *entry.columns == *groups.columns()
            && entry.restarted == groups.restarted
        {
            entry.used = self.stamp;
            return entry.memo.clone();
        }
        let memo: Arc<Memo> = Arc::default();
        let mut bytes = lock(&self.bytes);
        if *bytes < REMEMBER_BYTES {
            *bytes += groups.count() * size_of::<Value>();
            let entry = MemoEntry {
                columns: groups.columns().into(),
                memo: memo.clone(),
                restarted: groups.restarted,
                used: self.stamp,
            };
            residues.insert(key, entry);
        }
        memo
    }

    /// The rows of which a comparison with an integer says this, in a question of its own, which nobody shares.
    fn scanned(
        &self,
        ask: Ask<'_>,
        clause: &Clause,
        scalar: &Scalar<'_>,
        dependencies: &Dependencies,
        want: Verdict,
        within: Option<&Bitmap>,
    ) -> Option<Truth> {
        self.window.as_ref()?;
        let comparison = Comparison::of(ask, clause)?;
        if *dependencies.columns != [comparison.column()] {
            return None;
        }
        let all = within.unwrap_or(ask.table.live());
        comparison.rows(ask, clause, scalar, want, all)
    }

    /// The rows of which a clause says this; of those of `within` alone, if that is far less to do.
    pub fn verdict(
        &self,
        matcher: &Matcher,
        ask: Ask<'_>,
        clause: &Clause,
        dependencies: &Dependencies,
        want: Verdict,
        within: Option<&Bitmap>,
    ) -> Truth {
        if allowance::exhausted() {
            return constant(want == Verdict::Error);
        }
        let Ask { table, owner, job } = ask;
        let scalar = Scalar::new(matcher, table, clause, owner, job);
        if dependencies.unbounded {
            let mut out = Bitmap::empty(table.row_end());
            for row in within.unwrap_or(table.live()).iter() {
                let said = Verdict::of(&scalar.row(row as Row));
                out.set(row, said == want);
            }
            return Truth::Rows(Arc::new(out));
        }
        if let Some(rows) = self.scanned(ask, clause, &scalar, dependencies, want, within) {
            return rows;
        }
        let groups = self.groups(table, &dependencies.columns);
        if groups.count() == 1 {
            return constant(Verdict::of(&scalar.only(&groups)) == want);
        }
        let key = result_key(matcher, clause, owner, job, dependencies);
        let found = {
            let mut verdicts = lock(&self.verdicts);
            if let Some(entry) = verdicts.get_mut(&key)
                && let Some(known) = entry.known(&groups, table.row_end(), want)
            {
                entry.used = self.stamp;
                return known;
            }
            verdicts.remove(&key)
        };
        let remembered = found.is_some();
        let mut entry = match found {
            Some(entry) if *entry.columns == *groups.columns() => entry,
            _ => VerdictEntry {
                columns: groups.columns().into(),
                by_group: Verdicts::default(),
                partial: false,
                rows: Default::default(),
                stamp: u64::MAX,
                used: 0,
            },
        };
        entry.used = self.stamp;
        entry.forget(&groups);
        // Whether the rows are so few that their groups are far from all.
        let few = |rows: &&Bitmap| {
            clause.heavy
                && groups.count() >= matcher.tuning.pick_from
                && rows.count() < groups.count() / 2
        };
        let few = within.filter(few);
        let out = match few {
            Some(rows) => entry.some(&scalar, &groups, want, rows),
            None => entry.all(&scalar, &groups, want, table.row_end()),
        };
        if allowance::exhausted() {
            // Some groups may count as errors for want of steps: others who ask this must not be told so.
            return out;
        }
        let mut bytes = lock(&self.bytes);
        if remembered || *bytes < REMEMBER_BYTES {
            *bytes += if remembered {
                0
            } else {
                groups.rows().len() / 8 + entry.by_group.heap_bytes()
            };
            drop(bytes);
            lock(&self.verdicts).insert(key, entry);
        }
        out
    }
}

fn constant(holds: bool) -> Truth {
    if holds { Truth::Always } else { Truth::Never }
}

impl VerdictEntry {
    /// The rows, if nothing has to be computed for them.
    fn known(&self, groups: &Groups, row_end: usize, want: Verdict) -> Option<Truth> {
        if self.stamp != groups.stamp
            || self.partial
            || *self.columns != *groups.columns()
            || self.by_group.len() != groups.count()
        {
            return None;
        }
        let said = self.by_group.groups(want);
        if said.is_clear() {
            return Some(Truth::Never);
        }
        let rows = self.rows[want as usize].as_ref()?;
        (rows.len() == row_end).then(|| Truth::Rows(rows.clone()))
    }

    /// Drops what does not hold any more.
    fn forget(&mut self, groups: &Groups) {
        if self.stamp == u64::MAX || groups.restarted > self.stamp {
            self.by_group = Verdicts::default();
            self.partial = false;
            self.rows = Default::default();
        }
    }

    /// The rows of which the clause says this.
    fn all(
        &mut self,
        scalar: &Scalar<'_>,
        groups: &Groups,
        want: Verdict,
        row_end: usize,
    ) -> Truth {
        let known = self.by_group.len();
        self.by_group.resize(groups.count());
        if self.partial {
            let mut missing = Bitmap::full(groups.count());
            missing.and_not(&self.by_group.known());
            scalar.verdicts(groups, Wanted::These(&missing), &mut self.by_group);
            self.partial = false;
        } else {
            scalar.verdicts(groups, Wanted::From(known), &mut self.by_group);
        }
        self.move_rows(groups, row_end);
        let said = self.by_group.groups(want);
        if said.is_clear() {
            return Truth::Never;
        }
        if said.count() == groups.count() {
            return Truth::Always;
        }
        let spread = || Arc::new(spread(said, groups, row_end));
        Truth::Rows(self.rows[want as usize].get_or_insert_with(spread).clone())
    }

    /// Brings the rows up to date: those that changed their group, or none are known.
    fn move_rows(&mut self, groups: &Groups, row_end: usize) {
        if self.stamp == groups.stamp_before && self.stamp != groups.stamp {
            for (at, rows) in self.rows.iter_mut().enumerate() {
                let Some(rows) = rows else { continue };
                let rows = Arc::make_mut(rows);
                let said = self.by_group.groups(VERDICTS[at]);
                rows.resize(row_end);
                for row in &groups.moved {
                    let group = groups.group(*row as usize);
                    rows.set(*row as usize, said.get(group));
                }
            }
        } else if self.stamp != groups.stamp {
            self.rows = Default::default();
        }
        for rows in &mut self.rows {
            rows.take_if(|rows| rows.len() != row_end);
        }
        self.stamp = groups.stamp;
    }

    /// Those of `within` of which the clause says this.
    fn some(
        &mut self,
        scalar: &Scalar<'_>,
        groups: &Groups,
        want: Verdict,
        within: &Bitmap,
    ) -> Truth {
        let complete = !self.partial && self.by_group.len() == groups.count();
        if !complete {
            self.by_group.resize(groups.count());
            let mut missing = Bitmap::empty(groups.count());
            for row in within.iter() {
                let group = groups.group(row);
                if !self.by_group.has(group) {
                    missing.set(group, true);
                }
            }
            scalar.verdicts(groups, Wanted::These(&missing), &mut self.by_group);
            self.partial = true;
            self.rows = Default::default();
            self.stamp = groups.stamp;
        }
        let said = self.by_group.groups(want);
        let mut out = Bitmap::empty(within.len());
        for row in within.iter() {
            out.set(row, said.get(groups.group(row)));
        }
        Truth::Rows(Arc::new(out))
    }
}

/// One bit a row from one bit a group, of a table that ends with `row_end`.
fn spread(by_group: &Bitmap, groups: &Groups, row_end: usize) -> Bitmap {
    let mut out = Bitmap::empty(row_end);
    let words = by_group.words();
    let (rows, mut left) = (groups.rows(), groups.numbers());
    let mut at = rows.start;
    for word in &mut out.words_mut()[rows.start / 64..] {
        let (here, after) = left.split_at((64 - at % 64).min(left.len()));
        let mut bits = 0u64;
        for (place, group) in here.iter().enumerate() {
            let group = *group as usize;
            bits |= (words[group / 64] >> (group % 64) & 1) << place;
        }
        *word = bits << (at % 64);
        at += here.len();
        left = after;
        if left.is_empty() {
            break;
        }
    }
    out
}

/// A poisoned lock only means that another thread panicked between two whole updates.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
