//! Slots sorted into classes, kept between cycles and brought up to date row by row.

use crate::config::CycleConfig;
use crate::plan::{Grain, KeyColumn, Plan, each_distinct};
use crate::slot::SlotClass;
use classad::{Ad, Name};
use columns::{AdTable, Bitmap, Cell, Chunk, ColumnId, Matcher, Owner, Row};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Rows of a chunk of a column.
const CHUNK: usize = 1024;
/// No class: the row holds no ad.
pub const NO_CLASS: u32 = u32::MAX;

/// The slot table sorted into classes.
#[derive(Default)]
pub struct SlotIndex {
    /// What the classes were made for; another plan needs another index.
    stamp: u64,
    table_version: u64,
    table_epoch: u64,
    row_class: Vec<u32>,
    /// Value of NEGOTIATOR_POST_JOB_RANK by row, when it is the same for all jobs.
    post_rank: Vec<f64>,
    classes: Vec<Arc<SlotClass>>,
    by_key: FxHashMap<u128, u32>,
    /// Rows of each class, best first: post rank, then name.
    members: Vec<Vec<Row>>,
}

/// Mixes a word into a 128-bit hash (two independent 64-bit lanes).
#[inline]
fn mix(hash: u128, word: u64) -> u128 {
    let (low, high) = (hash as u64, (hash >> 64) as u64);
    let low = (low ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let low = low ^ (low >> 29);
    let high = (high.rotate_left(23) ^ word).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let high = high ^ (high >> 31);
    (u128::from(high) << 64) | u128::from(low)
}

/// A 128-bit hash of words.
#[must_use]
pub fn hash_words(words: impl IntoIterator<Item = u64>) -> u128 {
    words.into_iter().fold(0x1234_5678_9ABC_DEF0, mix)
}

/// A 128-bit hash of bytes.
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> u128 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    mix(hash_words(words), bytes.len() as u64)
}

/// The word that stands for a cell under a grain.
fn grain_word(table: &AdTable, cell: Cell, grain: &Grain) -> u64 {
    match grain {
        Grain::Value => cell.word(),
        Grain::Presence => u64::from(!cell.is_missing()),
        Grain::Intervals(numbers) => {
            let number = table
                .cell_int(cell)
                .map(|i| i as f64)
                .or_else(|| cell.as_real());
            match number {
                Some(number) if !number.is_nan() => {
                    let below = numbers.partition_point(|n| *n < number);
                    let equal = numbers.get(below).is_some_and(|n| *n == number);
                    // A word no cell has: the exponent of a NaN with a payload of its own.
                    0x7FFF_0000_0000_0000 | (2 * below as u64 + u64::from(equal))
                }
                _ => cell.word(),
            }
        }
    }
}

impl SlotIndex {
    /// An index of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Classes of the table; ids stay as long as the plan does.
    #[must_use]
    pub fn classes(&self) -> &[Arc<SlotClass>] {
        &self.classes
    }

    /// Rows of a class, best first.
    #[must_use]
    pub fn members(&self, class: usize) -> &[Row] {
        &self.members[class]
    }

    /// Class of a row, if it holds an ad.
    #[must_use]
    pub fn class_of(&self, row: Row) -> Option<usize> {
        let class = self
            .row_class
            .get(row as usize)
            .copied()
            .unwrap_or(NO_CLASS);
        (class != NO_CLASS).then_some(class as usize)
    }

    /// Static post-job rank of a row.
    #[must_use]
    pub fn post_rank(&self, row: Row) -> f64 {
        self.post_rank[row as usize]
    }

    /// Row of the slot with that Name.
    #[must_use]
    pub fn row_named(&self, table: &AdTable, name: &str) -> Option<Row> {
        if let Some(row) = table.row_of(name.as_bytes()) {
            return Some(row);
        }
        let column = table.column_named("Name")?;
        let id = table.strings().find(name.as_bytes())?;
        table
            .rows()
            .find(|row| table.cell(*row, column).str_id() == Some(id))
    }

    /// What the classes were made for; changes when class ids lose their meaning.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Brings the index up to date. Returns whether it had to be made anew.
    pub fn refresh(
        &mut self,
        table: &AdTable,
        plan: &Plan,
        config: &CycleConfig,
        matcher: &Matcher,
        now: i64,
    ) -> bool {
        let stamp = stamp_of(table, plan, config);
        let keep = stamp == self.stamp && table.epoch() == self.table_epoch && !plan.unsteady;
        if !keep {
            *self = Self {
                stamp,
                table_epoch: table.epoch(),
                ..Self::default()
            };
        }
        let changed = self.changed_rows(table);
        if !changed.is_empty() {
            let builder = Builder {
                table,
                plan,
                config,
                matcher,
                now,
            };
            self.apply(&builder, &changed);
        }
        self.table_version = table.version();
        !keep
    }

    fn changed_rows(&self, table: &AdTable) -> Vec<Row> {
        let known = self.row_class.len();
        (0..table.row_end() as Row)
            .filter(|row| {
                let at = *row as usize;
                let live = table.live().get(at);
                if at >= known {
                    return live;
                }
                let had = self.row_class[at] != NO_CLASS;
                live != had || live && table.row_info(*row).version > self.table_version
            })
            .collect()
    }

    fn apply(&mut self, builder: &Builder<'_>, changed: &[Row]) {
        let table = builder.table;
        self.row_class.resize(table.row_end(), NO_CLASS);
        self.post_rank.resize(table.row_end(), f64::NEG_INFINITY);
        let keys = builder.keys(changed);
        let mut touched = vec![false; self.classes.len()];
        let mut arrivals: Vec<(u32, Row)> = Vec::with_capacity(changed.len());
        for (row, key) in changed.iter().zip(keys) {
            let at = *row as usize;
            let before = std::mem::replace(&mut self.row_class[at], NO_CLASS);
            if before != NO_CLASS {
                touched[before as usize] = true;
            }
            let Some(key) = key else { continue };
            let class = match self.by_key.get(&key) {
                Some(class) => *class,
                None => {
                    let class = self.classes.len() as u32;
                    self.classes.push(Arc::new(builder.read(*row)));
                    self.members.push(Vec::new());
                    self.by_key.insert(key, class);
                    touched.push(false);
                    class
                }
            };
            self.row_class[at] = class;
            arrivals.push((class, *row));
        }
        builder.post_ranks(&arrivals, &mut self.post_rank);
        self.merge_members(table, arrivals, &touched, changed);
    }

    fn merge_members(
        &mut self,
        table: &AdTable,
        mut arrivals: Vec<(u32, Row)>,
        touched: &[bool],
        changed: &[Row],
    ) {
        if touched.iter().any(|t| *t) {
            let mut gone = Bitmap::empty(table.row_end());
            changed.iter().for_each(|row| gone.set(*row as usize, true));
            for (class, members) in self.members.iter_mut().enumerate() {
                if touched[class] {
                    members.retain(|row| !gone.get(*row as usize));
                }
            }
        }
        let rank = &self.post_rank;
        let better = |a: Row, b: Row| {
            let by_rank = rank[b as usize].total_cmp(&rank[a as usize]);
            by_rank.then_with(|| table.key(a).cmp(table.key(b)))
        };
        arrivals.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| better(a.1, b.1)));
        for group in arrivals.chunk_by(|a, b| a.0 == b.0) {
            let members = &mut self.members[group[0].0 as usize];
            if members.is_empty() {
                members.extend(group.iter().map(|(_, row)| *row));
                continue;
            }
            let old = std::mem::take(members);
            members.reserve(old.len() + group.len());
            let mut rest = old.as_slice();
            for (_, row) in group {
                let before = rest.partition_point(|known| better(*known, *row).is_lt());
                members.extend_from_slice(&rest[..before]);
                members.push(*row);
                rest = &rest[before..];
            }
            members.extend_from_slice(rest);
        }
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.row_class.capacity() * 4
            + self.post_rank.capacity() * 8
            + self
                .members
                .iter()
                .map(|m| m.capacity() * 4 + 24)
                .sum::<usize>()
            + self.classes.len() * 2048
    }
}

/// A number that is the same as long as classes mean the same.
fn stamp_of(table: &AdTable, plan: &Plan, config: &CycleConfig) -> u64 {
    let mut text = format!("{:?}", plan.key);
    let mut names: Vec<String> = plan
        .names
        .iter()
        .map(|n| n.to_text().to_ascii_lowercase())
        .collect();
    names.sort_unstable();
    text.push_str(&names.join(","));
    text.push_str(&format!(
        "{:?}{:?}{:?}{:?}{:?}{}{}",
        config.preemption,
        config.selection,
        config.partition,
        config.share.slot_weight,
        (
            config.share.weighted,
            config.share.force_slot_weight,
            config.share.discount_suspended
        ),
        plan.post_rank_static,
        table.column_count(),
    ));
    hash_bytes(text.as_bytes()) as u64 | 1
}

/// What rows are read with.
struct Builder<'b> {
    table: &'b AdTable,
    plan: &'b Plan,
    config: &'b CycleConfig,
    matcher: &'b Matcher,
    now: i64,
}

impl Builder<'_> {
    /// Class keys of rows; `None` for rows without an ad.
    fn keys(&self, rows: &[Row]) -> Vec<Option<u128>> {
        let family = self.family_words();
        let divided = self.table.column_named("PartitionableSlot");
        let mut out: Vec<Option<u128>> = Vec::with_capacity(rows.len());
        for group in rows.chunk_by(|a, b| *a as usize / CHUNK == *b as usize / CHUNK) {
            let chunk = group[0] as usize / CHUNK;
            let mut keys = vec![0x5107_u128; group.len()];
            let is_divided = |row: &Row| divided.is_some_and(|c| self.may_be_divided(*row, c));
            let whole: Vec<bool> = group.iter().map(is_divided).collect();
            let any_whole = whole.iter().any(|w| *w);
            for known in &self.plan.key {
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
        family: &FxHashMap<u64, u64>,
        only: Option<&[bool]>,
    ) {
        let table = self.table;
        let is_address = Some(known.column) == self.address_column();
        let word = |cell: Cell| {
            if is_address {
                family.get(&cell.word()).copied().unwrap_or(0)
            } else {
                grain_word(table, cell, &known.grain)
            }
        };
        let wanted = |at: usize| only.is_none_or(|only| only[at]);
        match table.column(known.column).chunk(chunk) {
            Chunk::Const(cell) => {
                let same = word(*cell);
                for (at, key) in keys.iter_mut().enumerate() {
                    if wanted(at) {
                        *key = mix(*key, same);
                    }
                }
            }
            Chunk::Coded { dict, codes } => {
                let words: Vec<u64> = dict.iter().map(|cell| word(*cell)).collect();
                let missing = word(Cell::MISSING);
                for (at, (key, row)) in keys.iter_mut().zip(rows).enumerate() {
                    if wanted(at) {
                        let code = codes.get(*row as usize % CHUNK);
                        *key = mix(*key, code.map_or(missing, |c| words[usize::from(*c)]));
                    }
                }
            }
            dense => {
                for (at, (key, row)) in keys.iter_mut().zip(rows).enumerate() {
                    if wanted(at) {
                        *key = mix(*key, word(dense.get(*row as usize % CHUNK)));
                    }
                }
            }
        }
    }

    fn address_column(&self) -> Option<ColumnId> {
        self.table.column_named("MyAddress")
    }

    /// Address families by address cell, so that slots of many hosts share classes.
    fn family_words(&self) -> FxHashMap<u64, u64> {
        let mut out = FxHashMap::default();
        if let Some(column) = self.address_column() {
            each_distinct(self.table, column, |cell| {
                if let Some(id) = cell.str_id() {
                    let text = String::from_utf8_lossy(self.table.strings().get(id));
                    out.insert(
                        cell.word(),
                        0x100 | u64::from(crate::slot::address_families(&text)),
                    );
                }
            });
        }
        out
    }

    fn partial_ad<'n>(&self, row: Row, names: impl IntoIterator<Item = &'n Name>) -> Ad {
        let mut ad = Ad::new();
        for name in names {
            if let Some(column) = self.table.column_id(name)
                && let Some(expr) = self.table.expr_at(row, column)
            {
                ad.insert(name.clone(), expr);
            }
        }
        ad
    }

    fn read(&self, row: Row) -> SlotClass {
        let divided = self.table.column_named("PartitionableSlot");
        let whole = divided.is_some_and(|c| self.may_be_divided(row, c));
        let names = if whole {
            &self.plan.names
        } else {
            &self.plan.order_names
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
    fn post_ranks(&self, rows: &[(u32, Row)], out: &mut [f64]) {
        if !self.plan.post_rank_static {
            rows.iter().for_each(|(_, row)| out[*row as usize] = 0.0);
            return;
        }
        let expr = &self.config.selection.post_job_rank;
        let numbers = self.matcher.numbers(self.table, expr, Owner::Slot, None);
        for (_, row) in rows {
            out[*row as usize] = numbers.get(*row).unwrap_or(f64::NEG_INFINITY);
        }
    }
}
