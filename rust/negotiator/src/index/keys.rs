//! What class a slot belongs to: words of its cells, column by column, mixed into a key.
//!
//! What bounds it: every changed row reads the cells of all key columns, a chunk
//! of a column at a time; text is never looked at.

use crate::config::CycleConfig;
use crate::dependencies::{Dependencies, Granularity, KeyColumn};
use crate::hash::mix;
use crate::slot::SlotClass;
use classad::{Ad, Name};
use columns::{AdTable, Cell, Chunk, ColumnId, Matcher, Owner, Row};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// Rows of a chunk of a column.
const CHUNK: usize = 1024;

/// What stands for a cell at a granularity: a word, for an interval its two ends.
type Mark = (u64, Option<u64>);

#[inline]
fn mix_mark(key: u128, mark: Mark) -> u128 {
    let key = mix(key, mark.0);
    match mark.1 {
        // The tag tells the ends of an interval from a word followed by that of the next column.
        Some(end) => mix(mix(key, end), 0x1A7E_57A1),
        None => key,
    }
}

/// The mark of a cell. Intervals are known by their ends, so that numbers added elsewhere do not change it.
fn mark(table: &AdTable, cell: Cell, granularity: &Granularity) -> Mark {
    match granularity {
        Granularity::Value => (cell.word(), None),
        Granularity::Presence => (u64::from(!cell.is_missing()), None),
        Granularity::Intervals(numbers) => {
            let number = table
                .cell_int(cell)
                .map(|i| i as f64)
                .or_else(|| cell.as_real());
            let Some(number) = number.filter(|number| !number.is_nan()) else {
                return (cell.word(), None);
            };
            let below = numbers.partition_point(|n| *n < number);
            let end = |at: Option<usize>, none: f64| {
                let known = at.and_then(|at| numbers.get(at));
                known.copied().unwrap_or(none).to_bits()
            };
            if numbers.get(below).is_some_and(|n| *n == number) {
                let same = end(Some(below), 0.0);
                return (same, Some(same));
            }
            let lower = end(below.checked_sub(1), f64::NEG_INFINITY);
            (lower, Some(end(Some(below), f64::INFINITY)))
        }
    }
}

/// What rows are read with.
pub(super) struct Builder<'b> {
    pub table: &'b AdTable,
    pub dependencies: &'b Dependencies,
    pub config: &'b CycleConfig,
    pub matcher: &'b Matcher,
    pub now: i64,
}

impl Builder<'_> {
    /// Class keys of rows; `None` for rows without an ad.
    pub fn keys(&self, rows: &[Row]) -> Vec<Option<u128>> {
        let family = RefCell::default();
        let divided = self.table.column_named("PartitionableSlot");
        let mut out: Vec<Option<u128>> = Vec::with_capacity(rows.len());
        for group in rows.chunk_by(|a, b| *a as usize / CHUNK == *b as usize / CHUNK) {
            let chunk = group[0] as usize / CHUNK;
            let mut keys = vec![0x5107_u128; group.len()];
            let is_divided = |row: &Row| divided.is_some_and(|c| self.may_be_divided(*row, c));
            let whole: Vec<bool> = group.iter().map(is_divided).collect();
            let any_whole = whole.iter().any(|w| *w);
            self.add_rare(&mut keys, group, &whole);
            for known in &self.dependencies.key {
                if self.table.column(known.column).rare_rows().is_some() {
                    continue;
                }
                if known.always {
                    self.add_column(&mut keys, group, chunk, known, &family, None);
                } else if any_whole {
                    self.add_column(&mut keys, group, chunk, known, &family, Some(&whole));
                }
            }
            let live = self.table.live();
            out.extend(
                group
                    .iter()
                    .zip(keys)
                    .map(|(row, key)| live.get(*row as usize).then_some(key)),
            );
        }
        out
    }

    /// Adds what rows have of rare attributes; one that a row does not have is left out.
    fn add_rare(&self, keys: &mut [u128], rows: &[Row], whole: &[bool]) {
        let table = self.table;
        let key = &self.dependencies.key;
        for (at, row) in rows.iter().enumerate() {
            for id in table.rare_columns(*row) {
                let Ok(place) = key.binary_search_by_key(id, |known| known.column) else {
                    continue;
                };
                let known = &key[place];
                if known.always || whole[at] {
                    let mark = mark(table, table.cell(*row, *id), &known.granularity);
                    keys[at] = mix_mark(mix(keys[at], 0x4A4E | u64::from(*id) << 32), mark);
                }
            }
        }
    }

    fn may_be_divided(&self, row: Row, column: ColumnId) -> bool {
        let cell = self.table.cell(row, column);
        cell == Cell::TRUE || cell.expr_id().is_some()
    }

    fn add_column(
        &self,
        keys: &mut [u128],
        rows: &[Row],
        chunk: usize,
        known: &KeyColumn,
        family: &RefCell<FxHashMap<u64, u64>>,
        only: Option<&[bool]>,
    ) {
        let table = self.table;
        let is_address = Some(known.column) == self.address_column();
        let mark = |cell: Cell| {
            if is_address {
                let mut known = family.borrow_mut();
                let known = known.entry(cell.word());
                (*known.or_insert_with(|| self.family_word(cell)), None)
            } else {
                mark(table, cell, &known.granularity)
            }
        };
        let wanted = |at: usize| only.is_none_or(|only| only[at]);
        match table.column(known.column).chunk(chunk) {
            Chunk::Const(cell) => {
                let same = mark(*cell);
                for (at, key) in keys.iter_mut().enumerate() {
                    if wanted(at) {
                        *key = mix_mark(*key, same);
                    }
                }
            }
            Chunk::Coded { dict, codes } => {
                let marks: Vec<Mark> = dict.iter().map(|cell| mark(*cell)).collect();
                let missing = mark(Cell::MISSING);
                for (at, (key, row)) in keys.iter_mut().zip(rows).enumerate() {
                    if wanted(at) {
                        let code = codes.get(*row as usize % CHUNK);
                        let mark = code.map_or(missing, |c| marks[usize::from(*c)]);
                        *key = mix_mark(*key, mark);
                    }
                }
            }
            dense => {
                for (at, (key, row)) in keys.iter_mut().zip(rows).enumerate() {
                    if wanted(at) {
                        *key = mix_mark(*key, mark(dense.get(*row as usize % CHUNK)));
                    }
                }
            }
        }
    }

    fn address_column(&self) -> Option<ColumnId> {
        self.table.column_named("MyAddress")
    }

    /// A word for the address families of an address, so that slots of many hosts share classes.
    fn family_word(&self, cell: Cell) -> u64 {
        let Some(id) = cell.str_id() else { return 0 };
        let text = String::from_utf8_lossy(self.table.strings().get(id));
        0x100 | u64::from(crate::slot::address_families(&text))
    }

    fn partial_ad(&self, row: Row, names: &FxHashSet<Name>) -> Ad {
        let table = self.table;
        let mut ad = Ad::new();
        let mut add = |name: &Name, column: ColumnId| {
            if let Some(expr) = table.expr_at(row, column) {
                ad.insert(name.clone(), expr);
            }
        };
        let (common, rare) = (table.common_columns(), table.rare_columns(row));
        if names.len() < common.len() + rare.len() {
            for name in names {
                if let Some(column) = table.column_id(name) {
                    add(name, column);
                }
            }
            return ad;
        }
        for column in common.iter().chain(rare) {
            let name = table.column_name(*column);
            if names.contains(name) {
                add(name, *column);
            }
        }
        ad
    }

    pub fn read(&self, row: Row) -> SlotClass {
        let divided = self.table.column_named("PartitionableSlot");
        let whole = divided.is_some_and(|c| self.may_be_divided(row, c));
        let names = if whole {
            &self.dependencies.names
        } else {
            &self.dependencies.order_names
        };
        let ad = self.partial_ad(row, names);
        let address = self
            .address_column()
            .and_then(|c| self.table.cell(row, c).str_id());
        let address =
            address.map(|id| String::from_utf8_lossy(self.table.strings().get(id)).into_owned());
        let mut class = SlotClass::read(ad, address.as_deref(), self.config, self.now);
        let named = self
            .table
            .column_named("Name")
            .is_some_and(|c| !self.table.cell(row, c).is_missing());
        class.excluded |= !named;
        class
    }

    /// Static post-job ranks of rows.
    pub fn post_ranks(&self, rows: &[Row]) -> Vec<f64> {
        if !self.dependencies.post_rank_static {
            return vec![0.0; rows.len()];
        }
        let expr = &self.config.selection.post_job_rank;
        let numbers = self.matcher.numbers(self.table, expr, Owner::Slot, None);
        let rank = |row: &Row| numbers.get(*row).unwrap_or(f64::NEG_INFINITY);
        rows.iter().map(rank).collect()
    }
}
