//! Slots sorted into classes, kept between cycles and brought up to date row by row.
//!
//! What bounds it: the first cycle reads every key column of every slot and sorts
//! the slots once; a later one looks at the rows that changed, and touches lists
//! only where a row changed its class or its place.

mod keys;
mod order;

pub use order::RowOrder;

use crate::config::CycleConfig;
use crate::dependencies::{Dependencies, Granularity, KeyColumn};
use crate::hash::{hash_bytes, hash_words};
use crate::slot::SlotClass;
use columns::{AdTable, Bitmap, Matcher, Row};
use keys::Builder;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// No class: the row holds no ad.
pub const NO_CLASS: u32 = u32::MAX;

/// The slot table sorted into classes.
#[derive(Default)]
pub struct SlotIndex {
    /// What the classes were made for; other dependencies need another index.
    stamp: u64,
    /// The numbers that attributes were told apart by.
    numbers: u64,
    table_version: u64,
    table_epoch: u64,
    row_class: Vec<u32>,
    /// All rows by NEGOTIATOR_POST_JOB_RANK (when it is the same for all jobs) and name.
    order: RowOrder,
    classes: Vec<Arc<SlotClass>>,
    by_key: FxHashMap<u128, u32>,
    /// Rows of each class, best first: post rank, then name.
    members: Vec<Vec<Row>>,
}

impl SlotIndex {
    /// An index of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Classes of the table; ids stay as long as the dependencies do.
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
        self.order.post_rank(row)
    }

    /// All rows: best static post-job rank first, then by name.
    #[must_use]
    pub fn order(&self) -> &[Row] {
        self.order.rows()
    }

    /// Place of a row in that order.
    #[must_use]
    pub fn order_number(&self, row: Row) -> u32 {
        self.order.number(row)
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
        dependencies: &Dependencies,
        config: &CycleConfig,
        matcher: &Matcher,
        now: i64,
    ) -> bool {
        let stamp = stamp_of(table, dependencies, config);
        let numbers = numbers_of(table, dependencies);
        let crowded = self.classes.len() > 2 * table.len() + 4096;
        let same = stamp == self.stamp && table.epoch() == self.table_epoch;
        let keep = same && !dependencies.volatile && !crowded;
        if !keep {
            *self = Self {
                stamp,
                numbers,
                table_epoch: table.epoch(),
                ..Self::default()
            };
        }
        let changed = if numbers == self.numbers {
            self.changed_rows(table)
        } else {
            // Keys of all rows are made anew; rows whose key is the same stay where they are.
            self.all_rows(table)
        };
        self.numbers = numbers;
        if !changed.is_empty() {
            let builder = Builder {
                table,
                dependencies,
                config,
                matcher,
                now,
            };
            self.apply(&builder, &changed);
        }
        self.table_version = table.version();
        !keep
    }

    fn all_rows(&self, table: &AdTable) -> Vec<Row> {
        let known = |row: &Row| {
            let at = *row as usize;
            table.live().get(at) || self.row_class.get(at).is_some_and(|c| *c != NO_CLASS)
        };
        (0..table.row_end() as Row).filter(known).collect()
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
        let moved = self
            .order
            .refresh(table, changed, &builder.post_ranks(changed));
        let keys = builder.keys(changed);
        let mut touched = vec![false; self.classes.len()];
        let mut gone = Bitmap::empty(table.row_end());
        let mut arrivals: Vec<(u32, Row)> = Vec::with_capacity(changed.len());
        for (row, key) in changed.iter().zip(keys) {
            let at = *row as usize;
            let before = self.row_class[at];
            let class = match key {
                None => NO_CLASS,
                Some(key) => match self.by_key.get(&key) {
                    Some(class) => *class,
                    None => {
                        touched.push(false);
                        self.open_class(builder, key, *row)
                    }
                },
            };
            if class == before && !moved.get(at) {
                continue;
            }
            self.row_class[at] = class;
            if before != NO_CLASS {
                touched[before as usize] = true;
                gone.set(at, true);
            }
            if class != NO_CLASS {
                arrivals.push((class, *row));
            }
        }
        self.merge_members(arrivals, &touched, &gone);
    }

    fn open_class(&mut self, builder: &Builder<'_>, key: u128, row: Row) -> u32 {
        let class = self.classes.len() as u32;
        self.classes.push(Arc::new(builder.read(row)));
        self.members.push(Vec::new());
        self.by_key.insert(key, class);
        class
    }

    fn merge_members(&mut self, mut arrivals: Vec<(u32, Row)>, touched: &[bool], gone: &Bitmap) {
        for (class, members) in self.members.iter_mut().enumerate() {
            if touched[class] {
                members.retain(|row| !gone.get(*row as usize));
            }
        }
        let number = |row: Row| self.order.number(row);
        arrivals.sort_unstable_by_key(|(class, row)| (*class, number(*row)));
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
                let before = rest.partition_point(|known| number(*known) < number(*row));
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
            + self.order.heap_bytes()
            + self
                .members
                .iter()
                .map(|m| m.capacity() * 4 + 24)
                .sum::<usize>()
            + self.classes.len() * 2048
    }
}

/// A number that is the same as long as classes mean the same.
fn stamp_of(table: &AdTable, dependencies: &Dependencies, config: &CycleConfig) -> u64 {
    let mut text = String::new();
    for known in key_columns(table, dependencies) {
        let granularity: &dyn std::fmt::Debug = match &known.granularity {
            Granularity::Intervals(_) => &"intervals",
            other => other,
        };
        text.push_str(&format!(
            "{} {granularity:?} {},",
            known.column, known.always
        ));
    }
    let read = if divides(table) {
        &dependencies.names
    } else {
        &dependencies.order_names
    };
    let mut names: Vec<String> = read
        .iter()
        .map(|n| n.to_text().to_ascii_lowercase())
        .collect();
    names.sort_unstable();
    text.push_str(&names.join(","));
    text.push_str(&format!(
        "{:?}{:?}{:?}{:?}{:?}{}/{:?}/{}",
        config.preemption,
        config.selection,
        config.partition,
        config.share.slot_weight,
        (
            config.share.weighted,
            config.share.force_slot_weight,
            config.share.discount_suspended
        ),
        dependencies.post_rank_static,
        (table.column_count(), table.common_columns().len()),
        classad::externals::installed().map_or(0, classad::Externals::version),
    ));
    hash_bytes(text.as_bytes()) as u64 | 1
}

/// Whether some slot may be divided.
fn divides(table: &AdTable) -> bool {
    table.column_named("PartitionableSlot").is_some()
}

/// The columns that tell classes of this table apart.
fn key_columns<'p>(
    table: &AdTable,
    dependencies: &'p Dependencies,
) -> impl Iterator<Item = &'p KeyColumn> {
    let all = divides(table);
    dependencies
        .key
        .iter()
        .filter(move |known| all || known.always)
}

/// A number that is the same as long as intervals are.
fn numbers_of(table: &AdTable, dependencies: &Dependencies) -> u64 {
    let numbers = |known: &KeyColumn| match &known.granularity {
        Granularity::Intervals(numbers) => numbers.iter().map(|n| n.to_bits()).collect(),
        _ => Vec::new(),
    };
    hash_words(key_columns(table, dependencies).flat_map(|known| {
        let column = u64::from(known.column);
        std::iter::once(column).chain(numbers(known))
    })) as u64
}
