//! What changed since a version: a bounded log of changed cells and removed rows.

use std::collections::VecDeque;

/// In the column place of a log entry: the row is new or was replaced whole.
pub(crate) const WHOLE_ROW: u32 = u32::MAX;

/// Changed cells and removals in order of version. Oldest entries are dropped when it grows too long.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    cells: VecDeque<(u32, u32)>,
    /// (version, position of its first cell), positions counted from the first ever.
    marks: VecDeque<(u64, u64)>,
    dropped: u64,
    /// Changes after this version are all in the log.
    pub floor: u64,
    removed: VecDeque<(u64, Box<[u8]>)>,
    /// Removals after this version are all known.
    pub removed_floor: u64,
}

impl ChangeLog {
    /// Starts the entries of a version.
    #[inline]
    pub fn begin(&mut self, version: u64) {
        self.marks
            .push_back((version, self.dropped + self.cells.len() as u64));
    }

    /// Notes a changed cell of the version begun last.
    #[inline]
    pub fn cell(&mut self, row: u32, column: u32) {
        self.cells.push_back((row, column));
    }

    /// Notes a removal.
    pub fn removal(&mut self, version: u64, key: &[u8]) {
        self.removed.push_back((version, key.into()));
    }

    /// Whether it is time to look at the bounds.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.cells.len() > 1 << 16 || self.marks.len() > 1 << 16 || self.removed.len() > 1 << 14
    }

    /// Drops the oldest entries down to the bounds.
    pub fn trim(&mut self, cells_max: usize, removed_max: usize) {
        while self.cells.len() > cells_max || self.marks.len() > cells_max {
            let Some((version, _)) = self.marks.pop_front() else {
                break;
            };
            let end = self
                .marks
                .front()
                .map_or(self.dropped + self.cells.len() as u64, |mark| mark.1);
            self.cells.drain(..(end - self.dropped) as usize);
            self.dropped = end;
            self.floor = version;
        }
        while self.removed.len() > removed_max {
            if let Some((version, _)) = self.removed.pop_front() {
                self.removed_floor = version;
            }
        }
    }

    /// Forgets everything up to `version`.
    pub fn reset(&mut self, version: u64) {
        *self = ChangeLog {
            floor: version,
            removed_floor: version,
            ..ChangeLog::default()
        };
    }

    /// Changed (row, column) pairs after `version`; none if the log does not reach back so far.
    pub fn cells_since(&self, version: u64) -> Option<impl Iterator<Item = (u32, u32)> + '_> {
        if version < self.floor {
            return None;
        }
        let first = self.marks.partition_point(|mark| mark.0 <= version);
        let start = self
            .marks
            .get(first)
            .map_or(self.cells.len(), |mark| (mark.1 - self.dropped) as usize);
        Some(self.cells.range(start..).copied())
    }

    /// Calls `seen` for the columns of all changes that are in the log.
    pub fn for_each_column(&self, mut seen: impl FnMut(u32)) {
        self.cells.iter().for_each(|cell| seen(cell.1));
    }

    /// Keys removed after `version`; none if the log does not reach back so far.
    pub fn removed_since(&self, version: u64) -> Option<impl Iterator<Item = &[u8]> + '_> {
        if version < self.removed_floor {
            return None;
        }
        let first = self.removed.partition_point(|entry| entry.0 <= version);
        Some(self.removed.range(first..).map(|entry| &*entry.1))
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.cells.capacity() * 8
            + self.marks.capacity() * 16
            + self.removed.iter().map(|r| r.1.len() + 32).sum::<usize>()
    }
}
