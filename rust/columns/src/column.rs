//! One attribute over all rows.
//!
//! Rows come in chunks of 1024. A chunk whose live rows all hold one value is that value alone; one
//! with few values is a byte a row and a small dictionary; else it is a word a row. Rows that hold no
//! ad are "do not care": whoever puts an ad into a row writes every column of it.
//!
//! A *rare* column, of an attribute that few rows have, is the list of those rows instead. Which columns are rare is the
//! table's to say ([`crate::table`]): it knows of each row what rare attributes it has.

use std::ops::Range;

use crate::cell::Cell;

/// Rows of a chunk.
pub const CHUNK_ROWS: usize = 1024;
/// Values a coded chunk may have before it becomes dense.
const CODED_MAX: usize = 64;

/// The values of up to [`CHUNK_ROWS`] rows.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Every live row has this value.
    Const(Cell),
    /// `dict[codes[row]]`; rows past the end of `codes` hold no ad.
    Coded {
        /// The distinct values (some may be unused).
        dict: Vec<Cell>,
        /// One code a row.
        codes: Vec<u8>,
    },
    /// A word a row; rows past the end hold no ad.
    Dense(Vec<Cell>),
}

impl Chunk {
    /// The value of a row of this chunk.
    #[inline]
    pub fn get(&self, at: usize) -> Cell {
        match self {
            Chunk::Const(cell) => *cell,
            Chunk::Coded { dict, codes } => codes
                .get(at)
                .map_or(Cell::MISSING, |code| dict[usize::from(*code)]),
            Chunk::Dense(cells) => cells.get(at).copied().unwrap_or(Cell::MISSING),
        }
    }

    /// Writes a row; `others` says whether another row of the chunk holds an ad. Returns whether the
    /// value changed.
    fn set(&mut self, at: usize, cell: Cell, others: bool) -> bool {
        match self {
            Chunk::Const(old) => {
                if *old == cell {
                    return false;
                }
                if others {
                    let mut codes = vec![0; at + 1];
                    codes[at] = 1;
                    let dict = vec![*old, cell];
                    // Rows past the end would read as missing: they must keep the old value.
                    if !old.is_missing() {
                        codes.resize(CHUNK_ROWS, 0);
                    }
                    *self = Chunk::Coded { dict, codes };
                } else {
                    *old = cell;
                }
                true
            }
            Chunk::Coded { dict, codes } => {
                if at >= codes.len() {
                    if cell.is_missing() {
                        return false;
                    }
                    let fill = Self::missing_code(dict);
                    let Some(fill) = fill else {
                        self.make_dense();
                        return self.set(at, cell, others);
                    };
                    codes.resize(at + 1, fill);
                }
                if dict[usize::from(codes[at])] == cell {
                    return false;
                }
                match dict.iter().position(|known| *known == cell) {
                    Some(code) => codes[at] = code as u8,
                    None if dict.len() < CODED_MAX => {
                        codes[at] = dict.len() as u8;
                        dict.push(cell);
                    }
                    None => {
                        self.drop_unused();
                        if matches!(self, Chunk::Coded { dict, .. } if dict.len() > CODED_MAX * 3 / 4)
                        {
                            self.make_dense();
                        }
                        self.set(at, cell, others);
                    }
                }
                true
            }
            Chunk::Dense(cells) => {
                if at >= cells.len() {
                    if cell.is_missing() {
                        return false;
                    }
                    cells.resize(at + 1, Cell::MISSING);
                }
                if cells[at] == cell {
                    return false;
                }
                cells[at] = cell;
                true
            }
        }
    }

    /// The code of "missing", made if there is room.
    fn missing_code(dict: &mut Vec<Cell>) -> Option<u8> {
        if let Some(code) = dict.iter().position(|cell| cell.is_missing()) {
            return Some(code as u8);
        }
        if dict.len() >= CODED_MAX {
            return None;
        }
        dict.push(Cell::MISSING);
        Some((dict.len() - 1) as u8)
    }

    /// Forgets dictionary entries that no row uses.
    fn drop_unused(&mut self) {
        let Chunk::Coded { dict, codes } = self else {
            return;
        };
        let mut used = [false; 256];
        for code in codes.iter() {
            used[usize::from(*code)] = true;
        }
        let mut renumber = [0u8; 256];
        let mut kept = Vec::new();
        for (code, cell) in dict.iter().enumerate() {
            if used[code] {
                renumber[code] = kept.len() as u8;
                kept.push(*cell);
            }
        }
        for code in codes.iter_mut() {
            *code = renumber[usize::from(*code)];
        }
        *dict = kept;
    }

    fn make_dense(&mut self) {
        if let Chunk::Coded { dict, codes } = self {
            let cells = codes.iter().map(|code| dict[usize::from(*code)]).collect();
            *self = Chunk::Dense(cells);
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Chunk::Const(_) => 0,
            Chunk::Coded { dict, codes } => dict.capacity() * 8 + codes.capacity(),
            Chunk::Dense(cells) => cells.capacity() * 8,
        }
    }

    /// Calls `seen` for every value that the chunk may hold.
    pub(crate) fn for_each_value(&self, mut seen: impl FnMut(Cell)) {
        match self {
            Chunk::Const(cell) => seen(*cell),
            Chunk::Coded { dict, .. } => dict.iter().copied().for_each(seen),
            Chunk::Dense(cells) => cells.iter().copied().for_each(seen),
        }
    }
}

/// One attribute over all rows, with the version of its last change.
#[derive(Clone, Debug)]
pub struct Column {
    chunks: Vec<Chunk>,
    /// The rows that have the attribute, ascending, of a rare column; there are no chunks then.
    rare: Option<Vec<(u32, Cell)>>,
    /// Table version of the last change of any cell.
    pub version: u64,
}

impl Column {
    /// A column in which every row lacks the attribute.
    pub fn new() -> Self {
        Column {
            chunks: Vec::new(),
            rare: None,
            version: 0,
        }
    }

    /// A rare column that no row has.
    pub(crate) fn new_rare() -> Self {
        Column {
            rare: Some(Vec::new()),
            ..Column::new()
        }
    }

    /// The rows that have the attribute, ascending, if it is a rare one.
    pub fn rare_rows(&self) -> Option<&[(u32, Cell)]> {
        self.rare.as_deref()
    }

    /// Whether it is a rare column.
    #[inline]
    pub(crate) fn is_rare(&self) -> bool {
        self.rare.is_some()
    }

    /// Writes a row of a rare column; gives what was there.
    pub(crate) fn set_rare(&mut self, row: u32, cell: Cell) -> Cell {
        let Some(rows) = &mut self.rare else {
            return Cell::MISSING;
        };
        match rows.binary_search_by_key(&row, |entry| entry.0) {
            Ok(at) if cell.is_missing() => rows.remove(at).1,
            Ok(at) => std::mem::replace(&mut rows[at].1, cell),
            Err(at) => {
                if !cell.is_missing() {
                    rows.insert(at, (row, cell));
                }
                Cell::MISSING
            }
        }
    }

    /// Makes a rare column an ordinary one; gives the rows that have the attribute.
    pub(crate) fn make_common(&mut self) -> Vec<(u32, Cell)> {
        let rows = self.rare.take().unwrap_or_default();
        for (row, cell) in &rows {
            self.set(*row as usize, *cell, true);
        }
        rows
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> Cell {
        match self.chunks.get(row / CHUNK_ROWS) {
            Some(chunk) => chunk.get(row % CHUNK_ROWS),
            None => self.get_rare(row),
        }
    }

    fn get_rare(&self, row: usize) -> Cell {
        let rows = self.rare.as_deref().unwrap_or_default();
        let found = rows.binary_search_by_key(&(row as u32), |entry| entry.0);
        found.map_or(Cell::MISSING, |at| rows[at].1)
    }

    /// Writes a row; `others` says whether another row of its chunk holds an ad. Returns whether the
    /// value changed.
    #[inline]
    pub fn set(&mut self, row: usize, cell: Cell, others: bool) -> bool {
        let chunk = row / CHUNK_ROWS;
        if chunk >= self.chunks.len() {
            if cell.is_missing() {
                return false;
            }
            self.chunks.resize(chunk + 1, Chunk::Const(Cell::MISSING));
        }
        self.chunks[chunk].set(row % CHUNK_ROWS, cell, others)
    }

    /// Writes one value into `from..to`; `whole` tells for a chunk whether it has no other live row.
    pub(crate) fn fill(
        &mut self,
        from: usize,
        to: usize,
        cell: Cell,
        mut whole: impl FnMut(usize) -> bool,
    ) {
        let mut at = from;
        while at < to {
            let chunk = at / CHUNK_ROWS;
            let end = to.min((chunk + 1) * CHUNK_ROWS);
            if chunk >= self.chunks.len() {
                if cell.is_missing() {
                    return;
                }
                self.chunks.resize(chunk + 1, Chunk::Const(Cell::MISSING));
            }
            if whole(chunk) {
                self.chunks[chunk] = Chunk::Const(cell);
            } else if !matches!(self.chunks[chunk], Chunk::Const(old) if old == cell) {
                for row in at..end {
                    self.chunks[chunk].set(row % CHUNK_ROWS, cell, true);
                }
            }
            at = end;
        }
    }

    /// Calls `seen` for every value that the column may hold in `rows` or, if it is rare, in any row; values that
    /// follow one another may be equal, and rows of the same chunks may be among them.
    pub fn for_each_value(&self, rows: &Range<usize>, mut seen: impl FnMut(Cell)) {
        for chunk in self.chunks_of(rows) {
            chunk.for_each_value(&mut seen);
        }
        if let Some(rows) = &self.rare {
            seen(Cell::MISSING);
            rows.iter().for_each(|entry| seen(entry.1));
        }
    }

    /// The chunk with this index, of a column that is not rare.
    pub fn chunk(&self, index: usize) -> &Chunk {
        static ABSENT: Chunk = Chunk::Const(Cell::MISSING);
        self.chunks.get(index).unwrap_or(&ABSENT)
    }

    /// The chunks that there are of some rows.
    fn chunks_of(&self, rows: &Range<usize>) -> &[Chunk] {
        let end = rows.end.div_ceil(CHUNK_ROWS).min(self.chunks.len());
        &self.chunks[(rows.start / CHUNK_ROWS).min(end)..end]
    }

    /// At most so many different values are in `rows` of the column. What bounds it: the chunks are looked at, not the rows.
    pub(crate) fn distinct_at_most(&self, rows: &Range<usize>) -> usize {
        if let Some(rows) = &self.rare {
            return rows.len() + 1;
        }
        let mut seen = rustc_hash::FxHashSet::default();
        if self.chunks.len() * CHUNK_ROWS < rows.end {
            seen.insert(Cell::MISSING);
        }
        let mut more = 0;
        for chunk in self.chunks_of(rows) {
            match chunk {
                Chunk::Const(cell) => {
                    seen.insert(*cell);
                }
                Chunk::Coded { dict, .. } => seen.extend(dict),
                Chunk::Dense(cells) => more += cells.len(),
            }
        }
        seen.len() + more
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
            + self.rare.as_ref().map_or(0, Vec::capacity) * size_of::<(u32, Cell)>()
            + self.chunks.iter().map(Chunk::heap_bytes).sum::<usize>()
    }
}

impl Default for Column {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64) -> Cell {
        Cell::small_int(value).unwrap()
    }

    #[test]
    fn one_value_everywhere_costs_nothing() {
        let mut column = Column::new();
        for row in 0..3000 {
            column.set(row, int(5), row % CHUNK_ROWS != 0);
        }
        assert!(column.heap_bytes() < 300);
        assert_eq!(column.get(2999), int(5));
    }

    #[test]
    fn a_rare_column_becomes_an_ordinary_one() {
        let mut column = Column::new_rare();
        for row in [5000, 3, 1024] {
            assert!(column.set_rare(row, int(i64::from(row))).is_missing());
        }
        assert_eq!(column.set_rare(3, int(4)), int(3));
        assert_eq!(column.set_rare(1024, Cell::MISSING), int(1024));
        assert!(column.heap_bytes() < 100);
        for rare in [true, false] {
            assert_eq!(column.is_rare(), rare);
            for row in 0..6000 {
                let value = match row {
                    3 => int(4),
                    5000 => int(5000),
                    _ => Cell::MISSING,
                };
                assert_eq!(column.get(row), value);
            }
            column.make_common();
        }
    }

    #[test]
    fn a_chunk_goes_from_constant_to_coded_to_dense_and_keeps_every_value() {
        let mut column = Column::new();
        let mut model = vec![Cell::MISSING; 2000];
        for (step, row) in (0..2000).enumerate() {
            let cell = if step % 7 == 0 {
                Cell::MISSING
            } else {
                int(step as i64 % 3)
            };
            column.set(row, cell, row % CHUNK_ROWS != 0);
            model[row] = cell;
        }
        for step in 0..20_000usize {
            let row = step * 7919 % 2000;
            let cell = int((step / 50) as i64);
            assert_eq!(column.set(row, cell, true), model[row] != cell);
            model[row] = cell;
            if step % 500 == 0 {
                assert!((0..2000).all(|row| column.get(row) == model[row]));
            }
        }
        assert!((0..2000).all(|row| column.get(row) == model[row]));
    }
}
