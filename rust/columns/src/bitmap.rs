//! A set of rows as one bit each.

use std::ops::Range;

/// A set of row indexes below `len`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// No row of `len`.
    pub fn empty(len: usize) -> Self {
        Bitmap {
            words: vec![0; len.div_ceil(64)],
            len,
        }
    }

    /// Every row of `len`.
    pub fn full(len: usize) -> Self {
        let mut out = Bitmap {
            words: vec![u64::MAX; len.div_ceil(64)],
            len,
        };
        out.clear_tail();
        out
    }

    fn clear_tail(&mut self) {
        let used = self.len % 64;
        if used != 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << used) - 1;
        }
    }

    /// Number of rows that could be in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row could be in the set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no row is in the set.
    pub fn is_clear(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Grows (new rows absent) or shrinks.
    pub fn resize(&mut self, len: usize) {
        self.words.resize(len.div_ceil(64), 0);
        self.len = len;
        self.clear_tail();
    }

    /// Whether `row` is in the set; rows beyond the end are not.
    #[inline]
    pub fn get(&self, row: usize) -> bool {
        row < self.len && self.words[row / 64] >> (row % 64) & 1 != 0
    }

    /// Puts `row` in or out.
    #[inline]
    pub fn set(&mut self, row: usize, value: bool) {
        debug_assert!(row < self.len);
        let bit = 1 << (row % 64);
        if value {
            self.words[row / 64] |= bit;
        } else {
            self.words[row / 64] &= !bit;
        }
    }

    /// Number of rows in the set.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Number of rows in both sets.
    pub fn count_and(&self, other: &Bitmap) -> usize {
        let pairs = self.words.iter().zip(&other.words);
        pairs.map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// Keeps the rows that are also in `other`.
    pub fn and(&mut self, other: &Bitmap) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Drops the rows that are in `other`.
    pub fn and_not(&mut self, other: &Bitmap) {
        for (word, drop) in self.words.iter_mut().zip(&other.words) {
            *word &= !drop;
        }
    }

    /// Adds the rows of `other`.
    pub fn or(&mut self, other: &Bitmap) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.clear_tail();
    }

    /// Adds the rows that are in both `a` and `b`.
    pub fn or_and(&mut self, a: &Bitmap, b: &Bitmap) {
        for ((word, x), y) in self.words.iter_mut().zip(&a.words).zip(&b.words) {
            *word |= x & y;
        }
    }

    /// Those of `rows` that are in the set, in a set of the same length.
    pub fn within(&self, rows: &Range<usize>) -> Bitmap {
        let mut out = Bitmap::empty(self.len);
        let end = rows.end.min(self.len);
        if rows.start >= end {
            return out;
        }
        let (first, last) = (rows.start / 64, (end - 1) / 64);
        out.words[first..=last].copy_from_slice(&self.words[first..=last]);
        out.words[first] &= u64::MAX << (rows.start % 64);
        out.words[last] &= u64::MAX >> (63 - (end - 1) % 64);
        out
    }

    /// The rows in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// The 64-row words, lowest rows first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The words, to be filled by a kernel; bits past the end must stay zero.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

impl FromIterator<bool> for Bitmap {
    fn from_iter<T: IntoIterator<Item = bool>>(iter: T) -> Self {
        let mut out = Bitmap::default();
        for value in iter {
            if out.len % 64 == 0 {
                out.words.push(0);
            }
            if value {
                *out.words.last_mut().expect("a word was pushed") |= 1 << (out.len % 64);
            }
            out.len += 1;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_agree_with_vectors_of_booleans() {
        let a: Vec<bool> = (0..150).map(|i| i % 3 == 0).collect();
        let b: Vec<bool> = (0..150).map(|i| i % 5 != 0).collect();
        let (x, y): (Bitmap, Bitmap) = (a.iter().copied().collect(), b.iter().copied().collect());
        let mut and = x.clone();
        and.and(&y);
        let mut or = x.clone();
        or.or(&y);
        let mut minus = x.clone();
        minus.and_not(&y);
        for row in 0..150 {
            assert_eq!(and.get(row), a[row] && b[row]);
            assert_eq!(or.get(row), a[row] || b[row]);
            assert_eq!(minus.get(row), a[row] && !b[row]);
        }
        assert_eq!(x.iter().count(), x.count());
        assert_eq!(x.count_and(&y), and.count());
        assert_eq!(Bitmap::full(150).count(), 150);
        for rows in [
            0..0,
            0..150,
            3..64,
            64..65,
            70..149,
            100..400,
            149..150,
            150..200,
        ] {
            let some: Vec<usize> = x.iter().filter(|row| rows.contains(row)).collect();
            assert_eq!(x.within(&rows).iter().collect::<Vec<_>>(), some);
        }
    }
}
