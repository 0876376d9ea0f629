//! Groups sorted into buckets that one program serves.
//!
//! A program is made for definitions: within a bucket an attribute that is an expression is the same expression. Columns
//! with few values tell buckets apart as well where there are many groups, so that what depends on those alone is
//! computed once, when the program is made, instead of once a group.

use std::sync::OnceLock;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cell::Cell;

/// The part of the groups from which on columns with few values count that a bucket has on average.
const BUCKET_PART: usize = 4;

/// Values, if all are plain integers.
type Integers = Option<Box<[i64]>>;

/// Groups with one definition for each attribute.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Their numbers, ascending.
    pub members: Vec<u32>,
    /// By column: the value that all of them have.
    pub fixed: Box<[Option<Cell>]>,
    /// By column: the values of the members, if all are plain integers; made when first needed.
    integers: Box<[OnceLock<Integers>]>,
}

impl Bucket {
    /// The values of the members in a column, if all are plain integers.
    pub fn integers(&self, column: usize, cell: impl Fn(u32) -> Cell) -> Option<&[i64]> {
        let made = self.integers[column].get_or_init(|| {
            self.members
                .iter()
                .map(|group| cell(*group).as_small_int())
                .collect()
        });
        made.as_deref()
    }

    /// The members from a group on.
    pub fn from(&self, first: usize) -> &[u32] {
        let start = self
            .members
            .partition_point(|group| (*group as usize) < first);
        &self.members[start..]
    }
}

/// How a column tells buckets apart.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Split {
    /// By its expressions; values are all alike.
    Definitions,
    /// By its values as well.
    Values,
}

/// All groups by bucket. See the module text.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    split: Box<[Split]>,
    list: Vec<Bucket>,
    index: FxHashMap<Box<[Cell]>, u32>,
    known: usize,
}

impl Buckets {
    /// The buckets of groups with these tuples, `width` cells each; from `split_from` groups on columns with few
    /// values tell buckets apart.
    pub fn new(tuples: &[Cell], width: usize, count: usize, split_from: usize) -> Self {
        let mut buckets = Buckets {
            split: splits(tuples, width, count, split_from),
            list: Vec::new(),
            index: FxHashMap::default(),
            known: 0,
        };
        buckets.extend(tuples, width, count);
        buckets
    }

    /// The buckets.
    pub fn list(&self) -> &[Bucket] {
        &self.list
    }

    /// Takes in groups that came after those known.
    pub fn extend(&mut self, tuples: &[Cell], width: usize, count: usize) {
        let mut key: Vec<Cell> = Vec::with_capacity(width);
        let mut last: (Vec<Cell>, usize) = (Vec::new(), usize::MAX);
        for group in self.known..count {
            let tuple = &tuples[group * width..(group + 1) * width];
            key.clear();
            key.extend(tuple.iter().zip(&self.split).map(|(cell, split)| {
                let shown = *split == Split::Values || cell.expr_id().is_some();
                if shown { *cell } else { Cell::MISSING }
            }));
            // Neighbours mostly belong together.
            if last.1 == usize::MAX || last.0 != key {
                last = (key.clone(), self.place(&key, tuple));
            }
            let bucket = &mut self.list[last.1];
            bucket.members.push(group as u32);
            for (place, cell) in tuple.iter().enumerate() {
                if bucket.fixed[place].is_some_and(|fixed| fixed != *cell) {
                    bucket.fixed[place] = None;
                }
                if self.known > 0 {
                    bucket.integers[place] = OnceLock::new();
                }
            }
        }
        self.known = count;
    }

    fn place(&mut self, key: &[Cell], tuple: &[Cell]) -> usize {
        if let Some(at) = self.index.get(key) {
            return *at as usize;
        }
        let at = self.list.len();
        self.index.insert(key.into(), at as u32);
        self.list.push(Bucket {
            members: Vec::new(),
            fixed: tuple.iter().copied().map(Some).collect(),
            integers: tuple.iter().map(|_| OnceLock::new()).collect(),
        });
        at
    }
}

fn splits(tuples: &[Cell], width: usize, count: usize, split_from: usize) -> Box<[Split]> {
    let mut out = vec![Split::Definitions; width];
    if count < split_from {
        return out.into();
    }
    let most = count / split_from.div_ceil(BUCKET_PART);
    let distinct = |column: usize| {
        let mut seen: FxHashSet<Cell> = FxHashSet::default();
        for tuple in tuples.chunks_exact(width) {
            seen.insert(tuple[column]);
            if seen.len() > most {
                break;
            }
        }
        seen.len()
    };
    let mut few: Vec<(usize, usize)> = (0..width)
        .map(|column| (distinct(column), column))
        .filter(|(values, _)| *values > 1 && *values <= most)
        .collect();
    few.sort_unstable();
    let mut buckets = 1;
    for (values, column) in few {
        if buckets * values > most {
            break;
        }
        buckets *= values;
        out[column] = Split::Values;
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64) -> Cell {
        Cell::small_int(value).unwrap()
    }

    #[test]
    fn definitions_and_few_values_tell_buckets_apart() {
        let mut tuples = Vec::new();
        for group in 0..5000i64 {
            let start = if group % 2 == 0 {
                Cell::expr(1)
            } else {
                int(1)
            };
            tuples.extend([int(group), int(group % 3), start]);
        }
        let mut buckets = Buckets::new(&tuples[..3 * 4998], 3, 4998, 2048);
        assert_eq!(buckets.list().len(), 6);
        buckets.extend(&tuples, 3, 5000);
        let mut members: Vec<u32> = Vec::new();
        for bucket in buckets.list() {
            assert!(bucket.fixed[0].is_none());
            assert!(bucket.fixed[1].is_some() && bucket.fixed[2].is_some());
            let cell = |group: u32| tuples[group as usize * 3];
            let integers = bucket.integers(0, cell).unwrap();
            assert!(
                integers
                    .iter()
                    .zip(&bucket.members)
                    .all(|(a, b)| *a == i64::from(*b))
            );
            assert!(
                bucket
                    .integers(2, |group| tuples[group as usize * 3 + 2])
                    .is_none()
                    == (bucket.fixed[2] == Some(Cell::expr(1)))
            );
            members.extend(&bucket.members);
        }
        members.sort_unstable();
        assert!(members.iter().copied().eq(0..5000));
    }

    #[test]
    fn one_value_in_all_groups_is_fixed_until_another_comes() {
        let tuples = [int(1), int(5), int(2), int(5), int(3), int(6)];
        let mut buckets = Buckets::new(&tuples[..4], 2, 2, 2048);
        assert_eq!(buckets.list()[0].fixed[1], Some(int(5)));
        buckets.extend(&tuples, 2, 3);
        assert_eq!(buckets.list()[0].fixed[1], None);
    }
}
