//! Batches into and out of a table: what senders send, what subscribers get.

use classad::Name;

use crate::cell::{Cell, CellKind};
use crate::error::TableError;
use crate::pack::{OP_DELTA, OP_FULL, OP_PLAIN, OP_REMOVE, PackHeader, tag};
use crate::table::{AdTable, ColumnId, Row};
use crate::unpack::Reader;

/// The last 128 updates, a bit for each that was lost.
const NOTHING_LOST: &[u8] = b"0x00000000000000000000000000000000";

/// How many keys a report names: enough for a line of a log.
const KEYS_MOST: usize = 100;

/// What a batch did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplyReport {
    /// Ads that are new.
    pub inserted: usize,
    /// Ads replaced or changed.
    pub updated: usize,
    /// Ads removed.
    pub removed: usize,
    /// Keys of the first [`KEYS_MOST`] ads that are new and that were removed, where notes are taken.
    pub new_keys: Vec<Vec<u8>>,
    /// See `new_keys`.
    pub removed_keys: Vec<Vec<u8>>,
    /// Keys of deltas for which there is no ad here: the sender must send the whole ad.
    pub unknown: Vec<Vec<u8>>,
    /// Keys of ads that were refused, and why.
    pub refused: Vec<(Vec<u8>, String)>,
    /// The versions that the batch spoke of.
    pub header: PackHeader,
}

/// What a table notes in the ads that it is sent, as the collector does.
#[derive(Clone, Debug)]
pub struct Notes {
    /// Integer attribute for the time of receipt (`LastHeardFrom`).
    pub heard: Name,
    /// Whether updates are counted: `UpdatesTotal`, `UpdatesSequenced`, `UpdatesLost`, `UpdatesHistory`.
    pub counts: bool,
}

/// The notes of one batch in terms of the table.
struct Noted {
    fixed: Vec<(ColumnId, Cell)>,
    /// Columns of the total and of those that followed another.
    counts: Option<(ColumnId, ColumnId)>,
}

/// What a batch defines as it goes on, in terms of the table.
#[derive(Default)]
struct Dictionaries {
    names: Vec<ColumnId>,
    /// Spellings that are not the column's.
    respelled: Vec<(ColumnId, usize, Name)>,
    strings: Vec<Cell>,
    /// None: the expression does not parse.
    exprs: Vec<Result<Cell, TableError>>,
}

impl AdTable {
    /// Applies a batch. `heard_at` is the time of receipt; `notes` says what shall be noted in every
    /// ad touched.
    ///
    /// Ads with an expression that does not parse are refused one by one; broken bytes end the batch,
    /// with what came before applied.
    ///
    /// # Errors
    /// [`TableError::BadPack`], [`TableError::PackVersion`], [`TableError::TooManyAttributes`].
    pub fn apply(
        &mut self,
        bytes: &[u8],
        heard_at: f64,
        notes: Option<&Notes>,
    ) -> Result<ApplyReport, TableError> {
        let (reader, header) = Reader::new(bytes)?;
        if header.reset {
            self.clear();
        }
        self.keeping_texts(|table| table.apply_operations(reader, header, heard_at, notes))
    }

    fn apply_operations(
        &mut self,
        mut reader: Reader<'_>,
        header: PackHeader,
        heard_at: f64,
        notes: Option<&Notes>,
    ) -> Result<ApplyReport, TableError> {
        let mut report = ApplyReport {
            header,
            ..ApplyReport::default()
        };
        let notes = match notes {
            Some(notes) => Some(self.prepare(notes, heard_at)?),
            None => None,
        };
        let mut words = Dictionaries::default();
        let mut cells = Vec::with_capacity(256);
        while !reader.at_end() {
            let operation = reader.byte()?;
            let key = match operation {
                OP_FULL | OP_DELTA | OP_REMOVE => reader.bytes()?,
                OP_PLAIN => b"",
                _ => return Err(reader.bad("unknown operation")),
            };
            if operation == OP_REMOVE {
                if self.remove(key) {
                    report.removed += 1;
                    if notes.is_some() && report.removed_keys.len() < KEYS_MOST {
                        report.removed_keys.push(key.to_vec());
                    }
                }
                continue;
            }
            cells.clear();
            let spelled = self.read_cells(&mut reader, &mut words, &mut cells);
            let spelled = match spelled {
                Ok(spelled) => spelled,
                Err(TableError::BadExpression { name, error }) => {
                    report
                        .refused
                        .push((key.to_vec(), format!("attribute {name}: {error}")));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(notes) = &notes {
                self.note(notes, key, &mut cells);
            }
            let known = report.inserted;
            self.apply_one(operation, key, &cells, heard_at, &spelled, &mut report);
            if report.inserted > known && notes.is_some() && report.new_keys.len() < KEYS_MOST {
                report.new_keys.push(key.to_vec());
            }
        }
        Ok(report)
    }

    fn prepare(&mut self, notes: &Notes, heard_at: f64) -> Result<Noted, TableError> {
        let heard = self.int_cell(heard_at as i64);
        let mut noted = Noted {
            fixed: vec![(self.ensure_column(&notes.heard)?, heard)],
            counts: None,
        };
        if notes.counts {
            // Streams lose nothing: a break is followed by whole ads.
            let (none, history) = (self.int_cell(0), self.str_cell(NOTHING_LOST));
            let lost = self.ensure_column(&Name::from("UpdatesLost"))?;
            let bits = self.ensure_column(&Name::from("UpdatesHistory"))?;
            noted.fixed.extend([(lost, none), (bits, history)]);
            let total = self.ensure_column(&Name::from("UpdatesTotal"))?;
            let sequenced = self.ensure_column(&Name::from("UpdatesSequenced"))?;
            noted.counts = Some((total, sequenced));
        }
        Ok(noted)
    }

    /// Adds to the cells of one operation what shall be noted.
    fn note(&mut self, noted: &Noted, key: &[u8], cells: &mut Vec<(ColumnId, Cell)>) {
        cells.extend_from_slice(&noted.fixed);
        let Some((total, sequenced)) = noted.counts else {
            return;
        };
        let before = match self.row_of(key).map(|row| self.cell(row, total).kind()) {
            Some(CellKind::Int(count)) => count,
            _ => 0,
        };
        let total_cell = self.int_cell(before + 1);
        let sequenced_cell = self.int_cell(before);
        cells.extend([(total, total_cell), (sequenced, sequenced_cell)]);
    }

    fn apply_one(
        &mut self,
        operation: u8,
        key: &[u8],
        cells: &[(ColumnId, Cell)],
        heard_at: f64,
        spelled: &[(ColumnId, Name)],
        report: &mut ApplyReport,
    ) {
        let row = match operation {
            OP_FULL => {
                let (row, new) = self.put_row(key, cells, heard_at);
                if new {
                    report.inserted += 1;
                } else {
                    report.updated += 1;
                }
                row
            }
            OP_DELTA => {
                let Some(row) = self.row_of(key) else {
                    report.unknown.push(key.to_vec());
                    return;
                };
                self.patch_row(row, cells, heard_at);
                report.updated += 1;
                row
            }
            _ => {
                report
                    .refused
                    .push((Vec::new(), "the ad has no key".into()));
                return;
            }
        };
        for (id, name) in spelled {
            self.spell(row, *id, name);
        }
    }

    /// Reads the attributes of one operation. Gives the names that are spelled otherwise than their
    /// column. On a bad expression the rest of the operation is still read.
    fn read_cells(
        &mut self,
        reader: &mut Reader<'_>,
        words: &mut Dictionaries,
        cells: &mut Vec<(ColumnId, Cell)>,
    ) -> Result<Vec<(ColumnId, Name)>, TableError> {
        let count = reader.count()?;
        let mut spelled = Vec::new();
        let mut refused = None;
        for _ in 0..count {
            let number = reader.varint()? as usize;
            let place = if number == 0 {
                let spelling = reader.bytes()?;
                let id = match self.by_spelling.get(spelling) {
                    Some(id) => *id,
                    None => {
                        let name = Name::new(spelling);
                        let id = self.ensure_column(&name)?;
                        if !self.column_name(id).same_spelling(&name) {
                            words.respelled.push((id, words.names.len(), name));
                        }
                        id
                    }
                };
                words.names.push(id);
                words.names.len() - 1
            } else {
                number - 1
            };
            let Some(id) = words.names.get(place).copied() else {
                return Err(reader.bad("no such name"));
            };
            if !words.respelled.is_empty()
                && let Some((_, _, name)) = words.respelled.iter().find(|entry| entry.1 == place)
            {
                spelled.push((id, name.clone()));
            } else if self.respelled_anywhere() {
                spelled.push((id, self.column_name(id).clone()));
            }
            match self.read_cell(reader, words) {
                Ok(cell) => cells.push((id, cell)),
                Err(TableError::BadExpression { error, .. }) => {
                    let name = self.column_name(id).to_text().into_owned();
                    refused = Some(TableError::BadExpression { name, error });
                }
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(spelled), Err)
    }

    #[inline]
    fn read_cell(
        &mut self,
        reader: &mut Reader<'_>,
        words: &mut Dictionaries,
    ) -> Result<Cell, TableError> {
        Ok(match reader.byte()? {
            tag::UNSET => Cell::MISSING,
            tag::UNDEFINED => Cell::UNDEFINED,
            tag::ERROR => Cell::ERROR,
            tag::FALSE => Cell::FALSE,
            tag::TRUE => Cell::TRUE,
            tag::INT => {
                let value = reader.int()?;
                self.int_cell(value)
            }
            tag::REAL => Cell::real(reader.real()?),
            tag::STR_NEW => {
                let cell = self.str_cell(reader.bytes()?);
                words.strings.push(cell);
                cell
            }
            tag::STR_REF => reader.pick(&words.strings)?,
            tag::EXPR_NEW => {
                let cell = self.text_cell(reader.bytes()?);
                words.exprs.push(cell.clone());
                cell?
            }
            tag::EXPR_REF => reader.pick(&words.exprs)??,
            _ => return Err(reader.bad("unknown tag")),
        })
    }

    /// Writes the deltas of a batch (one for each of `rows`, in order) over rows made from a template.
    ///
    /// # Errors
    /// [`TableError::BadPack`] also when the batch has not as many deltas as there are rows;
    /// [`TableError::BadExpression`] when a value does not parse.
    pub(crate) fn apply_in_order(&mut self, rows: &[Row], bytes: &[u8]) -> Result<(), TableError> {
        let (mut reader, _) = Reader::new(bytes)?;
        let mut words = Dictionaries::default();
        let mut cells = Vec::new();
        for row in rows {
            if reader.at_end() {
                return Err(reader.bad("fewer deltas than ads"));
            }
            match reader.byte()? {
                OP_FULL | OP_DELTA => {
                    reader.bytes()?;
                }
                OP_PLAIN => {}
                _ => return Err(reader.bad("not a delta")),
            }
            cells.clear();
            let spelled = self.read_cells(&mut reader, &mut words, &mut cells)?;
            self.write_cells(*row, &cells);
            for (id, name) in &spelled {
                self.spell(*row, *id, name);
            }
        }
        if reader.at_end() {
            Ok(())
        } else {
            Err(reader.bad("more deltas than ads"))
        }
    }

    fn respelled_anywhere(&self) -> bool {
        !self.respelled.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::PackWriter;
    use classad::{Ad, Expr, Value};

    #[test]
    fn a_text_named_again_in_a_batch_is_still_there() {
        let mut pack = PackWriter::new(PackHeader::default());
        let ad = |text: &str| -> Ad {
            [(Name::from("A"), Expr::Lit(Value::from(text)))]
                .into_iter()
                .collect()
        };
        pack.upsert(b"one", &ad("first"));
        for number in 0..100_000 {
            pack.upsert(b"one", &ad(&format!("text {number}")));
        }
        pack.upsert(b"two", &ad("first"));
        let mut table = AdTable::new();
        table.apply(&pack.finish(), 0.0, None).unwrap();
        assert_eq!(table.get(b"two"), Some(ad("first")));
        assert!(
            table.strings().len() < 10,
            "unused texts are collected after the batch"
        );
    }
}
