//! Rows that some columns do not tell apart.
//!
//! A [`Groups`] numbers the distinct tuples of values that a set of columns takes. An expression that
//! reads only those columns has one result a group. Numbers stay when rows change, so results that
//! were computed for a group stay good too; only changed rows are looked at again.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::buckets::Buckets;
use crate::cell::Cell;
use crate::column::{CHUNK_ROWS, Chunk};
use crate::lists::{Derived, FIRST_DERIVED};
use crate::matcher::Tuning;
use crate::table::{AdTable, ColumnId, Row};

/// Group numbers of all rows. See the module text.
#[derive(Clone, Debug)]
pub struct Groups {
    columns: Box<[ColumnId]>,
    /// The first of the rows that are grouped.
    first: usize,
    /// Group of each row from the first on; rows without an ad have any.
    group_of: Vec<u32>,
    /// The values of each group, `columns.len()` cells each.
    tuples: Vec<Cell>,
    count: usize,
    /// Made when first needed.
    index: FxHashMap<Box<[Cell]>, u32>,
    /// Number of the refresh that last moved a row to another group, and of the one before.
    pub(crate) stamp: u64,
    pub(crate) stamp_before: u64,
    /// Number of the refresh in which group numbers began anew.
    pub(crate) restarted: u64,
    /// Rows that moved in refresh `stamp`.
    pub(crate) moved: Vec<Row>,
    /// Made when first needed.
    buckets: OnceLock<Buckets>,
}

impl Groups {
    /// Groups rows by `columns`.
    pub fn new(table: &AdTable, columns: &[ColumnId]) -> Self {
        Self::of(&Cells::new(table, None, Vec::new()), columns)
    }

    /// Groups the rows of `cells` by `columns`, derived ones among them.
    pub(crate) fn of(cells: &Cells<'_>, columns: &[ColumnId]) -> Self {
        let first = cells.rows.start;
        let mut group_of = vec![0u32; cells.rows.len()];
        let mut count = 1usize;
        let mut codes = Vec::new();
        for id in columns {
            let distinct = cells.codes(*id, &mut codes);
            if distinct > 1 {
                count = refine(&mut group_of, count, &codes, distinct);
            }
        }
        let width = columns.len();
        let mut tuples = vec![Cell::MISSING; count * width];
        let mut seen = vec![false; count];
        for (row, group) in group_of.iter().enumerate() {
            let group = *group as usize;
            if !seen[group] {
                seen[group] = true;
                for (at, id) in columns.iter().enumerate() {
                    tuples[group * width + at] = cells.get(first + row, *id);
                }
            }
        }
        Groups {
            columns: columns.into(),
            first,
            group_of,
            tuples,
            count,
            index: FxHashMap::default(),
            stamp: 0,
            stamp_before: 0,
            restarted: 0,
            moved: Vec::new(),
            buckets: OnceLock::new(),
        }
    }

    /// Each of `rows` a group of its own.
    pub(crate) fn each_row(rows: &Range<usize>) -> Self {
        Groups {
            columns: Box::default(),
            first: rows.start,
            group_of: (0..rows.len() as u32).collect(),
            tuples: Vec::new(),
            count: rows.len().max(1),
            index: FxHashMap::default(),
            stamp: 0,
            stamp_before: 0,
            restarted: 0,
            moved: Vec::new(),
            buckets: OnceLock::new(),
        }
    }

    /// Marks the numbers as new in a refresh.
    pub(crate) fn restart(&mut self, stamp: u64) {
        self.stamp = stamp;
        self.stamp_before = stamp;
        self.restarted = stamp;
    }

    /// The columns that tell groups apart.
    pub fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    /// Number of groups; some may have no row any more.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Group of a row that is grouped. Rows without an ad have any group.
    #[inline]
    pub fn group(&self, row: usize) -> usize {
        self.group_of[row - self.first] as usize
    }

    /// The rows that are grouped.
    pub fn rows(&self) -> Range<usize> {
        self.first..self.first + self.group_of.len()
    }

    /// The group of each of those rows.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.group_of
    }

    /// The values of a group, in the order of [`Groups::columns`].
    pub fn tuple(&self, group: usize) -> &[Cell] {
        let width = self.columns.len();
        &self.tuples[group * width..(group + 1) * width]
    }

    /// The groups sorted into those that one program serves.
    pub(crate) fn buckets(&self, tuning: &Tuning) -> &Buckets {
        let (width, from) = (self.columns.len(), tuning.split_from);
        self.buckets
            .get_or_init(|| Buckets::new(&self.tuples, width, self.count, from))
    }

    /// Puts changed rows into their groups. False if starting anew is better.
    pub(crate) fn refresh(&mut self, cells: &Cells<'_>, rows: &[Row], stamp: u64) -> bool {
        if self.count > cells.table.row_end() * 2 + 4096 {
            return false;
        }
        if self.index.is_empty() {
            for group in 0..self.count {
                let tuple = self.tuple(group).into();
                self.index.insert(tuple, group as u32);
            }
        }
        let mut moved = Vec::new();
        let mut tuple = Vec::with_capacity(self.columns.len());
        self.group_of.resize(cells.table.row_end(), 0);
        for row in rows {
            tuple.clear();
            tuple.extend(self.columns.iter().map(|id| cells.get(*row as usize, *id)));
            let group = match self.index.get(&*tuple) {
                Some(group) => *group,
                None => {
                    let group = self.count as u32;
                    self.count += 1;
                    self.tuples.extend_from_slice(&tuple);
                    self.index.insert(tuple.as_slice().into(), group);
                    group
                }
            };
            self.group_of[*row as usize] = group;
            moved.push(*row);
        }
        if let Some(buckets) = self.buckets.get_mut() {
            buckets.extend(&self.tuples, self.columns.len(), self.count);
        }
        if !moved.is_empty() {
            self.stamp_before = self.stamp;
            self.stamp = stamp;
            self.moved = moved;
        }
        true
    }
}

/// Where the values of columns are: in the table, or with the lists that derived columns are made of.
pub(crate) struct Cells<'a> {
    table: &'a AdTable,
    rows: Range<usize>,
    derived: Vec<(ColumnId, Arc<Derived>)>,
}

impl<'a> Cells<'a> {
    /// Those of `rows`, of all without any.
    pub fn new(
        table: &'a AdTable,
        rows: Option<&Range<usize>>,
        derived: Vec<(ColumnId, Arc<Derived>)>,
    ) -> Self {
        let end = table.row_end();
        let rows = rows.map_or(0..end, |rows| rows.start.min(end)..rows.end.min(end));
        Cells {
            table,
            rows,
            derived,
        }
    }

    fn derived(&self, id: ColumnId) -> Option<&Derived> {
        let found = self.derived.iter().find(|entry| entry.0 == id)?;
        Some(&found.1)
    }

    /// The value of a row in a column.
    pub fn get(&self, row: usize, id: ColumnId) -> Cell {
        if id < FIRST_DERIVED {
            return self.table.column(id).get(row);
        }
        let derived = self.derived(id);
        derived.map_or(Cell::MISSING, |derived| derived.cell(row))
    }

    /// Numbers the distinct values of a column, row by row; gives how many there are.
    fn codes(&self, id: ColumnId, codes: &mut Vec<u32>) -> usize {
        if id < FIRST_DERIVED {
            return column_codes(self.table, id, &self.rows, codes);
        }
        codes.clear();
        let derived = self.derived(id);
        let known = derived.map_or(&[][..], Derived::codes);
        let end = self.rows.end.min(known.len());
        codes.extend_from_slice(&known[self.rows.start.min(end)..end]);
        codes.resize(self.rows.len(), 0);
        derived.map_or(1, Derived::count).max(1)
    }
}

/// Numbers the distinct values of a column, row by row; gives how many there are.
fn column_codes(table: &AdTable, id: ColumnId, rows: &Range<usize>, codes: &mut Vec<u32>) -> usize {
    let column = table.column(id);
    codes.clear();
    codes.reserve(rows.len());
    if let Some(some) = column.rare_rows() {
        codes.resize(rows.len(), 0);
        let mut numbers: FxHashMap<Cell, u32> = FxHashMap::default();
        for (row, cell) in some {
            let row = *row as usize;
            if rows.contains(&row) {
                let next = numbers.len() as u32 + 1;
                codes[row - rows.start] = *numbers.entry(*cell).or_insert(next);
            }
        }
        return numbers.len() + 1;
    }
    let mut numbers: FxHashMap<Cell, u32> = FxHashMap::default();
    let mut number = |cell: Cell| {
        let next = numbers.len() as u32;
        *numbers.entry(cell).or_insert(next)
    };
    let mut at = rows.start;
    while at < rows.end {
        let from = at % CHUNK_ROWS;
        let len = (CHUNK_ROWS - from).min(rows.end - at);
        let done = codes.len() + len;
        match column.chunk(at / CHUNK_ROWS) {
            Chunk::Const(cell) => codes.resize(done, number(*cell)),
            Chunk::Coded { dict, codes: local } => {
                let local = &local[from.min(local.len())..(from + len).min(local.len())];
                let mut used = [false; 256];
                local
                    .iter()
                    .for_each(|code| used[usize::from(*code)] = true);
                let mut map = [0u32; 256];
                for (code, cell) in dict.iter().enumerate() {
                    if used[code] {
                        map[code] = number(*cell);
                    }
                }
                codes.extend(local.iter().map(|code| map[usize::from(*code)]));
                if codes.len() < done {
                    codes.resize(done, number(Cell::MISSING));
                }
            }
            Chunk::Dense(cells) => {
                let mut last = (Cell::MISSING, u32::MAX);
                for cell in cells.iter().skip(from).take(len) {
                    if last.1 == u32::MAX || last.0 != *cell {
                        last = (*cell, number(*cell));
                    }
                    codes.push(last.1);
                }
                if codes.len() < done {
                    codes.resize(done, number(Cell::MISSING));
                }
            }
        }
        at += len;
    }
    numbers.len().max(1)
}

/// Splits groups by further codes; gives the new number of groups.
fn refine(group_of: &mut [u32], count: usize, codes: &[u32], distinct: usize) -> usize {
    let mut next = 0u32;
    if count * distinct <= 1 << 18 {
        let mut numbers = vec![u32::MAX; count * distinct];
        for (group, code) in group_of.iter_mut().zip(codes) {
            let slot = &mut numbers[*group as usize * distinct + *code as usize];
            if *slot == u32::MAX {
                *slot = next;
                next += 1;
            }
            *group = *slot;
        }
    } else {
        let mut numbers: FxHashMap<u64, u32> = FxHashMap::default();
        for (group, code) in group_of.iter_mut().zip(codes) {
            let pair = u64::from(*group) << 32 | u64::from(*code);
            *group = *numbers.entry(pair).or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
    }
    next.max(1) as usize
}
