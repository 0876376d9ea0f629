//! Batches out of a table: what subscribers get.

use crate::log::WHOLE_ROW;
use crate::pack::{PackHeader, PackWriter};
use crate::table::{AdTable, ColumnId, Row};

impl AdTable {
    /// A batch that takes a mirror of this table from `version` to now: removals, then whole ads and
    /// deltas. When the log does not reach back so far the batch starts the mirror anew.
    pub fn changes_since(&self, version: u64) -> Vec<u8> {
        let header = PackHeader {
            from_version: version,
            to_version: self.version(),
            reset: false,
        };
        let Some(removed) = self.log.removed_since(version) else {
            return self.whole(PackHeader {
                reset: true,
                ..header
            });
        };
        let mut out = PackWriter::new(header);
        for key in removed {
            if self.row_of(key).is_none() {
                out.remove(key);
            }
        }
        let all = self.all_attributes();
        let Some(cells) = self.log.cells_since(version) else {
            for row in self
                .rows()
                .filter(|row| self.row_info(*row).version > version)
            {
                out.row(self, row, &all, true);
            }
            return out.finish();
        };
        let mut changed: Vec<(Row, ColumnId)> = cells.collect();
        changed.sort_unstable();
        changed.dedup();
        for group in changed.chunk_by(|a, b| a.0 == b.0) {
            let row = group[0].0;
            if !self.live.get(row as usize) {
                continue;
            }
            // WHOLE_ROW sorts last.
            if group[group.len() - 1].1 == WHOLE_ROW {
                out.row(self, row, &all, true);
            } else {
                let columns: Vec<ColumnId> = group.iter().map(|change| change.1).collect();
                out.row_delta(self, row, &columns);
            }
        }
        out.finish()
    }

    /// The whole table as a batch with its keys.
    pub fn whole(&self, header: PackHeader) -> Vec<u8> {
        let all = self.all_attributes();
        let mut out = PackWriter::new(header);
        for row in self.rows() {
            out.row(self, row, &all, true);
        }
        out.finish()
    }
}
