//! All slots in the order that does not depend on requests: static post-job rank, then name.
//!
//! Every order that a request takes slots in is this one, sorted once more by
//! ranks. Kept between cycles; a slot moves only when its post-job rank or its
//! name changes.
//!
//! What bounds it: the first sort, which reads names where ranks are equal; later
//! one pass over the rows when anything moved.

use columns::{AdTable, Bitmap, Row};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::hash::Hasher;

/// No place: the row holds no ad.
const NOWHERE: u32 = u32::MAX;

/// The order of all slots. See the module text.
#[derive(Debug, Default)]
pub struct RowOrder {
    rows: Vec<Row>,
    /// Place of each row in `rows`.
    number: Vec<u32>,
    post_rank: Vec<f64>,
    /// Hash of each row's key: a row may be given to another ad.
    keys: Vec<u64>,
}

impl RowOrder {
    /// Rows, best first.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Place of a row.
    #[must_use]
    pub fn number(&self, row: Row) -> u32 {
        self.number[row as usize]
    }

    /// Static post-job rank of a row.
    #[must_use]
    pub fn post_rank(&self, row: Row) -> f64 {
        self.post_rank[row as usize]
    }

    /// Takes changed rows and their ranks into account; gives those that moved, came or went.
    pub fn refresh(&mut self, table: &AdTable, changed: &[Row], ranks: &[f64]) -> Bitmap {
        let end = table.row_end();
        self.number.resize(end, NOWHERE);
        self.post_rank.resize(end, f64::NEG_INFINITY);
        self.keys.resize(end, 0);
        let mut moved = Bitmap::empty(end);
        let mut arrived = Vec::new();
        let mut any = false;
        for (row, rank) in changed.iter().zip(ranks) {
            let at = *row as usize;
            let live = table.live().get(at);
            let key = if live { hash(table.key(*row)) } else { 0 };
            let known = self.number[at] != NOWHERE;
            let same = self.keys[at] == key && self.post_rank[at].to_bits() == rank.to_bits();
            if known == live && (same || !live) {
                continue;
            }
            any = true;
            moved.set(at, true);
            self.number[at] = NOWHERE;
            (self.keys[at], self.post_rank[at]) = (key, *rank);
            if live {
                arrived.push(*row);
            }
        }
        if any {
            self.place(table, &moved, arrived);
        }
        moved
    }

    fn place(&mut self, table: &AdTable, moved: &Bitmap, mut arrived: Vec<Row>) {
        let rank = &self.post_rank;
        let better = |a: Row, b: Row| -> Ordering {
            let by_rank = rank[b as usize].total_cmp(&rank[a as usize]);
            by_rank
                .then_with(|| table.key(a).cmp(table.key(b)))
                .then(a.cmp(&b))
        };
        arrived.par_sort_unstable_by(|a, b| better(*a, *b));
        let mut old = std::mem::take(&mut self.rows);
        old.retain(|row| !moved.get(*row as usize));
        self.rows.reserve(old.len() + arrived.len());
        let mut rest = old.as_slice();
        for row in arrived {
            let before = rest.partition_point(|known| better(*known, row).is_lt());
            self.rows.extend_from_slice(&rest[..before]);
            self.rows.push(row);
            rest = &rest[before..];
        }
        self.rows.extend_from_slice(rest);
        for (at, row) in self.rows.iter().enumerate() {
            self.number[*row as usize] = at as u32;
        }
    }

    /// Bytes held, roughly.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.rows.capacity() * 4 + self.number.capacity() * 20
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(key);
    hasher.finish()
}
