//! Keys of many rows in one piece of memory: an outcome names a slot for every match.

use columns::{AdTable, Row};

/// Names, one after the other.
#[derive(Default)]
pub(crate) struct Keys {
    text: String,
    ends: Vec<usize>,
}

impl Keys {
    /// The keys of rows of a table.
    pub fn of(table: &AdTable, rows: impl ExactSizeIterator<Item = Row>) -> Self {
        let mut out = Self::default();
        out.ends.reserve(rows.len());
        for row in rows {
            match std::str::from_utf8(table.key(row)) {
                Ok(key) => out.text.push_str(key),
                Err(_) => out.text.push_str(&String::from_utf8_lossy(table.key(row))),
            }
            out.ends.push(out.text.len());
        }
        out
    }

    /// The key at a place.
    pub fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|at| self.get(at))
    }
}
