//! Putting ads into rows, changing and removing them.

use classad::Name;

use crate::cell::Cell;
use crate::column::CHUNK_ROWS;
use crate::log::WHOLE_ROW;
use crate::table::{AdTable, ColumnId, Row, RowInfo};

impl AdTable {
    /// Replaces (or makes) the ad of `key` by these cells. Returns the row and whether it is new.
    pub(crate) fn put_row(
        &mut self,
        key: &[u8],
        cells: &[(ColumnId, Cell)],
        heard_at: f64,
    ) -> (Row, bool) {
        let (row, new) = self.open_row(key, heard_at);
        self.operation += 1;
        let (operation, version) = (self.operation, self.version);
        let others = self.others(row);
        for (id, cell) in cells {
            self.touched[*id as usize] = operation;
            if self.put_cell(row, *id, *cell, others) && !new {
                self.log.cell(row, *id);
            }
        }
        for id in &self.common {
            let at = *id as usize;
            if self.touched[at] != operation
                && self.columns[at].set(row as usize, Cell::MISSING, others)
            {
                self.columns[at].version = version;
                if !new {
                    self.log.cell(row, *id);
                }
            }
        }
        let gone = |id: &ColumnId| self.touched[*id as usize] != operation;
        let gone: Vec<ColumnId> = self
            .rare_columns(row)
            .iter()
            .copied()
            .filter(gone)
            .collect();
        for id in gone {
            self.put_rare(row, id, Cell::MISSING);
            if !new {
                self.log.cell(row, id);
            }
        }
        if new {
            self.log.cell(row, WHOLE_ROW);
        }
        if let Some(gone) = self.respelled.remove(&row) {
            for (id, _) in gone {
                self.log.cell(row, id);
            }
        }
        self.close_row();
        (row, new)
    }

    /// Writes a cell; true if the value changed.
    #[inline]
    fn put_cell(&mut self, row: Row, id: ColumnId, cell: Cell, others: bool) -> bool {
        let column = &mut self.columns[id as usize];
        if column.is_rare() {
            return self.put_rare(row, id, cell);
        }
        let changed = column.set(row as usize, cell, others);
        if changed {
            column.version = self.version;
        }
        changed
    }

    /// Writes some cells of an ad that is there. A missing cell takes the attribute out.
    pub(crate) fn patch_row(&mut self, row: Row, cells: &[(ColumnId, Cell)], heard_at: f64) {
        self.version += 1;
        self.log.begin(self.version);
        let info = &mut self.rows[row as usize];
        info.version = self.version;
        info.heard_at = heard_at;
        let others = self.others(row);
        for (id, cell) in cells {
            if self.put_cell(row, *id, *cell, others) {
                self.log.cell(row, *id);
            }
        }
        if !self.respelled.is_empty() {
            for (id, _) in cells.iter().filter(|change| change.1.is_missing()) {
                self.unspell(row, *id);
            }
        }
        self.close_row();
    }

    /// Writes cells of rows that the running operation has just made: neither version nor log move.
    pub(crate) fn write_cells(&mut self, row: Row, cells: &[(ColumnId, Cell)]) {
        let others = self.others(row);
        for (id, cell) in cells {
            self.put_cell(row, *id, *cell, others);
        }
    }

    /// Notes that a row's ad spells a name otherwise than the column does (or as it does).
    pub(crate) fn spell(&mut self, row: Row, id: ColumnId, name: &Name) {
        if self.names[id as usize].same_spelling(name) {
            self.unspell(row, id);
        } else {
            self.unspell(row, id);
            self.log.cell(row, id);
            self.respelled
                .entry(row)
                .or_default()
                .push((id, name.clone()));
        }
    }

    fn unspell(&mut self, row: Row, id: ColumnId) {
        if let Some(all) = self.respelled.get_mut(&row) {
            let before = all.len();
            all.retain(|entry| entry.0 != id);
            if all.len() != before {
                self.log.cell(row, id);
            }
            if all.is_empty() {
                self.respelled.remove(&row);
            }
        }
    }

    /// Whether another row of this row's chunk holds an ad.
    fn others(&self, row: Row) -> bool {
        self.live_in_chunk[row as usize / CHUNK_ROWS] > 1
    }

    fn open_row(&mut self, key: &[u8], heard_at: f64) -> (Row, bool) {
        self.version += 1;
        self.log.begin(self.version);
        let key = self.strings.intern(key);
        let info = RowInfo {
            version: self.version,
            heard_at,
            key,
        };
        if let Some(row) = self.by_key.get(&key) {
            self.rows[*row as usize] = info;
            return (*row, false);
        }
        (self.new_row(info), true)
    }

    fn new_row(&mut self, info: RowInfo) -> Row {
        let row = match self.free.pop() {
            Some(row) => {
                self.rows[row as usize] = info;
                row
            }
            None => {
                self.rows.push(info);
                self.live.resize(self.rows.len());
                if self.live_in_chunk.len() * CHUNK_ROWS < self.rows.len() {
                    self.live_in_chunk.push(0);
                }
                (self.rows.len() - 1) as Row
            }
        };
        self.live.set(row as usize, true);
        self.live_in_chunk[row as usize / CHUNK_ROWS] += 1;
        self.by_key.insert(info.key, row);
        row
    }

    #[inline]
    fn close_row(&mut self) {
        if self.log.is_long() {
            let rows = self.rows.len();
            self.log
                .trim((rows * 16).max(1 << 16), (rows * 2).max(1 << 14));
        }
        if !self.collect_later {
            self.collect_if_due();
        }
    }

    fn collect_if_due(&mut self) {
        let texts = self.strings.len() + self.exprs.texts.len() + self.bigs.len();
        if texts > self.collect_at || self.has_unused_names() {
            self.collect();
        }
    }

    /// Runs `work` with ids of texts kept, whether an ad has them or not.
    pub(crate) fn keeping_texts<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.collect_later = true;
        let done = work(self);
        self.collect_later = false;
        self.collect_if_due();
        done
    }

    /// Removes the ad of a key; false if there is none.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some(row) = self.row_of(key) else {
            return false;
        };
        self.remove_row(row);
        true
    }

    /// Removes the ad of a row that holds one.
    pub fn remove_row(&mut self, row: Row) {
        self.version += 1;
        let key = self.rows[row as usize].key;
        self.log.removal(self.version, self.strings.get(key));
        self.by_key.remove(&key);
        self.live.set(row as usize, false);
        self.live_in_chunk[row as usize / CHUNK_ROWS] -= 1;
        self.free.push(row);
        for id in self.rare_columns(row).to_vec() {
            self.put_rare(row, id, Cell::MISSING);
        }
        if !self.respelled.is_empty() {
            self.respelled.remove(&row);
        }
        self.close_row();
    }

    /// Makes `keys.len()` ads that are `base` each, in rows of ascending index, and returns the rows.
    /// Keys that are there already are replaced. Far cheaper than one ad after the other.
    pub(crate) fn put_copies(
        &mut self,
        keys: &[&[u8]],
        base: &[(ColumnId, Cell)],
        heard_at: f64,
    ) -> Vec<Row> {
        let known: Vec<Option<Row>> = keys
            .iter()
            .map(|key| {
                let known = self.row_of(key).is_some();
                known.then(|| {
                    let row = self.put_row(key, base, heard_at).0;
                    self.log.cell(row, WHOLE_ROW);
                    row
                })
            })
            .collect();
        let mut out = Vec::with_capacity(keys.len());
        let first = self.rows.len();
        self.strings.reserve(keys.len());
        self.by_key.reserve(keys.len());
        for (key, known) in keys.iter().zip(known) {
            if let Some(row) = known {
                out.push(row);
                continue;
            }
            let key = self.strings.intern(key);
            if let Some(row) = self.by_key.get(&key) {
                out.push(*row);
                continue;
            }
            self.version += 1;
            self.log.begin(self.version);
            let info = RowInfo {
                version: self.version,
                heard_at,
                key,
            };
            let row = self.rows.len() as Row;
            self.rows.push(info);
            self.by_key.insert(key, row);
            self.log.cell(row, WHOLE_ROW);
            out.push(row);
        }
        let end = self.rows.len();
        if end > first {
            self.fill_rows(first, end, base);
        }
        self.close_row();
        out
    }

    /// Writes `base` into fresh rows at the end of the table.
    fn fill_rows(&mut self, first: usize, end: usize, base: &[(ColumnId, Cell)]) {
        self.live.resize(end);
        self.live_in_chunk.resize(end.div_ceil(CHUNK_ROWS), 0);
        let before = self.live_in_chunk.clone();
        for row in first..end {
            self.live.set(row, true);
            self.live_in_chunk[row / CHUNK_ROWS] += 1;
        }
        self.operation += 1;
        for (id, cell) in base {
            let at = *id as usize;
            self.touched[at] = self.operation;
            self.make_common(*id);
            self.columns[at].fill(first, end, *cell, |chunk| before[chunk] == 0);
            self.columns[at].version = self.version;
        }
        for id in &self.common {
            let at = *id as usize;
            if self.touched[at] != self.operation {
                self.columns[at].fill(first, end, Cell::MISSING, |chunk| before[chunk] == 0);
                self.columns[at].version = self.version;
            }
        }
    }
}
