//! The table: ads by key, one column an attribute.
//!
//! The first names of a table have ordinary columns. A name that comes when there are many already is *rare*: its column
//! is the list of the rows that have it, and the table knows of each row what rare attributes it has, so that they cost in
//! proportion to the rows that have them. When more than a few rows have it, it becomes an ordinary column. So a pool in
//! which every GPU is an attribute of its own has as many columns to go through for an ad as any other.

use std::sync::atomic::{AtomicU64, Ordering};

use classad::Name;
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::cell::{Cell, CellKind};
use crate::column::Column;
use crate::error::TableError;
use crate::log::ChangeLog;
use crate::text_pool::TextPool;

/// Index of a column; stays valid for the life of the table.
pub type ColumnId = u32;
/// Index of a row; stays valid until the ad is removed.
pub type Row = u32;

/// Ordinary columns a table may have; further attributes stay rare.
const COMMON_MAX: usize = 20_000;
/// Ordinary columns from which on new names are rare at first.
const RARE_FROM: usize = 512;
/// Rows that may have a rare attribute.
const RARE_ROWS: usize = 32;
/// Bytes that all attribute names may take; a hostile sender cannot make more.
const NAME_BYTES_MAX: usize = 512 << 20;
/// Bytes a name takes besides its letters, which are held three times.
const NAME_BYTES: usize = 256;
/// Names from which on those that no ad has are looked for.
const UNUSED_FROM: usize = 1 << 14;
/// Strings that a table holds before it first looks for unused ones.
const COLLECT_MIN: usize = 1 << 16;

/// Tables made so far.
static TABLES: AtomicU64 = AtomicU64::new(0);

fn new_epoch() -> u64 {
    TABLES.fetch_add(1, Ordering::Relaxed) << 32
}

/// What is known of a row besides its attributes.
#[derive(Clone, Copy, Debug)]
pub struct RowInfo {
    /// Table version of its last change.
    pub version: u64,
    /// When the last update of it was received, seconds since the epoch as given by the caller.
    pub heard_at: f64,
    pub(crate) key: u32,
}

/// Distinct expressions, by canonical text.
#[derive(Clone, Debug, Default)]
pub struct ExprPool {
    pub(crate) texts: TextPool,
    pub(crate) exprs: Vec<Option<classad::Expr>>,
}

impl ExprPool {
    /// The expression with this id.
    #[inline]
    pub fn get(&self, id: u32) -> &classad::Expr {
        static HOLE: classad::Expr = classad::Expr::Lit(classad::Value::Undefined);
        self.exprs[id as usize].as_ref().unwrap_or(&HOLE)
    }

    /// Its canonical text.
    #[inline]
    pub fn text(&self, id: u32) -> &[u8] {
        self.texts.get(id)
    }

    /// One past the largest id.
    pub fn id_end(&self) -> u32 {
        self.texts.id_end()
    }

    pub(crate) fn put(&mut self, text: &[u8], expr: classad::Expr) -> u32 {
        let id = self.texts.intern(text);
        if self.exprs.len() <= id as usize {
            self.exprs.resize(id as usize + 1, None);
        }
        self.exprs[id as usize].get_or_insert(expr);
        id
    }
}

/// Ads by key in typed columns. See the crate text.
#[derive(Clone, Debug, Default)]
pub struct AdTable {
    pub(crate) names: Vec<Name>,
    pub(crate) by_name: FxHashMap<Name, ColumnId>,
    /// Columns by their name as first spelled.
    pub(crate) by_spelling: FxHashMap<Box<[u8]>, ColumnId>,
    pub(crate) columns: Vec<Column>,
    /// Ordinary columns, ascending.
    pub(crate) common: Vec<ColumnId>,
    /// Rare columns of the rows that have some, ascending.
    pub(crate) rare_of: FxHashMap<Row, Vec<ColumnId>>,
    rare_from: usize,
    rare_rows: usize,
    /// Columns whose name was dropped.
    unnamed: Vec<ColumnId>,
    name_bytes: usize,
    name_bytes_max: usize,
    unused_from: usize,
    /// Cells whose attribute name is spelled otherwise than the column's.
    pub(crate) respelled: FxHashMap<Row, Vec<(ColumnId, Name)>>,
    pub(crate) rows: Vec<RowInfo>,
    pub(crate) by_key: FxHashMap<u32, Row>,
    pub(crate) live: Bitmap,
    pub(crate) free: Vec<Row>,
    pub(crate) live_in_chunk: Vec<u16>,
    pub(crate) strings: TextPool,
    pub(crate) exprs: ExprPool,
    pub(crate) bigs: TextPool,
    pub(crate) version: u64,
    /// Its own in every table; counts collections of unused strings: ids may mean something else afterwards.
    epoch: u64,
    pub(crate) collect_at: usize,
    /// A batch is being applied: it may name strings again that no ad has just now.
    pub(crate) collect_later: bool,
    pub(crate) log: ChangeLog,
    /// Scratch: per column the row operation that wrote it last.
    pub(crate) touched: Vec<u64>,
    pub(crate) operation: u64,
}

impl AdTable {
    /// An empty table.
    pub fn new() -> Self {
        AdTable {
            collect_at: COLLECT_MIN,
            rare_from: RARE_FROM,
            rare_rows: RARE_ROWS,
            name_bytes_max: NAME_BYTES_MAX,
            unused_from: UNUSED_FROM,
            // What was made of one table must not pass for what another one needs.
            epoch: new_epoch(),
            ..AdTable::default()
        }
    }

    /// The table with attributes rare from so many ordinary columns on and for so many rows. For tests; the answers are
    /// the same.
    #[must_use]
    pub fn with_rare_from(mut self, columns: usize, rows: usize) -> Self {
        (self.rare_from, self.rare_rows) = (columns, rows);
        self
    }

    /// The table with room for so many bytes of names, and with unused ones looked for from so many rare attributes on.
    /// For tests.
    #[must_use]
    pub fn with_name_bytes(mut self, bytes: usize, unused_from: usize) -> Self {
        (self.name_bytes_max, self.unused_from) = (bytes, unused_from);
        self
    }

    pub(crate) fn take_new_epoch(&mut self) {
        self.epoch = new_epoch();
    }

    /// Number of ads.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no ad.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// One past the largest row in use; every bitmap over the table has this length.
    pub fn row_end(&self) -> usize {
        self.rows.len()
    }

    /// The rows that hold an ad.
    pub fn live(&self) -> &Bitmap {
        &self.live
    }

    /// Counts changes: greater after every change of any ad.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes when ids of strings and expressions may have changed their meaning, and differs between
    /// tables: caches that hold cells, ids or rows must be dropped then.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The row of a key.
    pub fn row_of(&self, key: &[u8]) -> Option<Row> {
        self.by_key.get(&self.strings.find(key)?).copied()
    }

    /// The key of a row that holds an ad.
    pub fn key(&self, row: Row) -> &[u8] {
        self.strings.get(self.rows[row as usize].key)
    }

    /// What is known of a row.
    pub fn row_info(&self, row: Row) -> &RowInfo {
        &self.rows[row as usize]
    }

    /// Rows in the order of their index.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.live.iter().map(|row| row as Row)
    }

    /// The column of an attribute, whatever the case of its letters.
    pub fn column_id(&self, name: &Name) -> Option<ColumnId> {
        self.by_name.get(name).copied()
    }

    /// The column of an attribute by text.
    pub fn column_named(&self, name: &str) -> Option<ColumnId> {
        self.column_id(&Name::from(name))
    }

    /// A column.
    #[inline]
    pub fn column(&self, id: ColumnId) -> &Column {
        &self.columns[id as usize]
    }

    /// One past the largest column.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The columns of all names there are, ascending.
    pub fn column_ids(&self) -> impl Iterator<Item = ColumnId> + '_ {
        let named = |id: &ColumnId| self.unnamed.is_empty() || !self.is_unnamed(*id);
        (0..self.columns.len() as ColumnId).filter(named)
    }

    /// A column without a name has the one that nothing else has.
    fn is_unnamed(&self, id: ColumnId) -> bool {
        self.names[id as usize].as_bytes().is_empty()
            && self.by_name.get(&self.names[id as usize]) != Some(&id)
    }

    /// Ordinary columns, ascending: those that many rows have, or the first there were.
    pub fn common_columns(&self) -> &[ColumnId] {
        &self.common
    }

    /// The columns of the rare attributes that a row has, ascending.
    #[inline]
    pub fn rare_columns(&self, row: Row) -> &[ColumnId] {
        if self.rare_of.is_empty() {
            return &[];
        }
        self.rare_of.get(&row).map_or(&[], Vec::as_slice)
    }

    /// Calls `seen` for each attribute that a row has, in the order of columns.
    pub(crate) fn for_each_cell(&self, row: Row, mut seen: impl FnMut(ColumnId, Cell)) {
        let mut rare = self.rare_columns(row).iter().peekable();
        for id in &self.common {
            while let Some(id) = rare.next_if(|other| *other < id) {
                seen(*id, self.cell(row, *id));
            }
            let cell = self.cell(row, *id);
            if !cell.is_missing() {
                seen(*id, cell);
            }
        }
        for id in rare {
            seen(*id, self.cell(row, *id));
        }
    }

    /// The name of a column as first spelled.
    pub fn column_name(&self, id: ColumnId) -> &Name {
        &self.names[id as usize]
    }

    /// The attribute's name as spelled in this row's ad.
    pub fn spelling(&self, row: Row, id: ColumnId) -> &Name {
        if self.respelled.is_empty() {
            return &self.names[id as usize];
        }
        let other = self
            .respelled
            .get(&row)
            .and_then(|all| all.iter().find(|entry| entry.0 == id));
        other.map_or(&self.names[id as usize], |entry| &entry.1)
    }

    /// One value.
    #[inline]
    pub fn cell(&self, row: Row, id: ColumnId) -> Cell {
        self.columns[id as usize].get(row as usize)
    }

    /// The string pool.
    pub fn strings(&self) -> &TextPool {
        &self.strings
    }

    /// The expression pool.
    pub fn exprs(&self) -> &ExprPool {
        &self.exprs
    }

    /// The integer in a cell, if it holds one.
    #[inline]
    pub fn cell_int(&self, cell: Cell) -> Option<i64> {
        match cell.kind() {
            CellKind::Int(value) => Some(value),
            CellKind::BigInt(id) => Some(self.big(id)),
            _ => None,
        }
    }

    pub(crate) fn big(&self, id: u32) -> i64 {
        i64::from_le_bytes(self.bigs.get(id).try_into().unwrap_or([0; 8]))
    }

    /// An integer as a cell of this table.
    #[inline]
    pub fn int_cell(&mut self, value: i64) -> Cell {
        Cell::small_int(value).unwrap_or_else(|| Cell::big(self.bigs.intern(&value.to_le_bytes())))
    }

    /// A string as a cell of this table.
    #[inline]
    pub fn str_cell(&mut self, text: &[u8]) -> Cell {
        Cell::str(self.strings.intern(text))
    }

    /// The column of an attribute, made if it is new.
    ///
    /// # Errors
    /// [`TableError::TooManyAttributes`] when the table has its fill of names.
    pub fn ensure_column(&mut self, name: &Name) -> Result<ColumnId, TableError> {
        if let Some(id) = self.by_name.get(name) {
            return Ok(*id);
        }
        let bytes = name_bytes(name);
        if self.name_bytes + bytes > self.name_bytes_max {
            return Err(TableError::TooManyAttributes(self.name_bytes_max));
        }
        self.name_bytes += bytes;
        let id = match self.unnamed.pop() {
            Some(id) => id,
            None => {
                self.columns.push(Column::new());
                self.touched.push(0);
                self.names.push(name.clone());
                (self.columns.len() - 1) as ColumnId
            }
        };
        let rare = self.common.len() >= self.rare_from;
        self.columns[id as usize] = if rare {
            Column::new_rare()
        } else {
            self.add_common(id);
            Column::new()
        };
        self.names[id as usize] = name.clone();
        self.by_name.insert(name.clone(), id);
        self.by_spelling.insert(name.as_bytes().into(), id);
        Ok(id)
    }

    pub(crate) fn add_common(&mut self, id: ColumnId) {
        let at = self.common.partition_point(|other| *other < id);
        self.common.insert(at, id);
    }

    /// Makes a column an ordinary one if it is rare.
    pub(crate) fn make_common(&mut self, id: ColumnId) {
        let column = &mut self.columns[id as usize];
        if !column.is_rare() {
            return;
        }
        for (row, _) in column.make_common() {
            self.forget_rare(row, id);
        }
        self.add_common(id);
    }

    fn forget_rare(&mut self, row: Row, id: ColumnId) {
        if let Some(all) = self.rare_of.get_mut(&row) {
            all.retain(|other| *other != id);
            if all.is_empty() {
                self.rare_of.remove(&row);
            }
        }
    }

    /// Writes a cell of a rare column; true if the value changed.
    pub(crate) fn put_rare(&mut self, row: Row, id: ColumnId, cell: Cell) -> bool {
        let column = &mut self.columns[id as usize];
        let before = column.set_rare(row, cell);
        if before == cell {
            return false;
        }
        column.version = self.version;
        let crowded = column
            .rare_rows()
            .is_some_and(|rows| rows.len() > self.rare_rows);
        if cell.is_missing() {
            self.forget_rare(row, id);
        } else if before.is_missing() {
            let all = self.rare_of.entry(row).or_default();
            let at = all.partition_point(|other| *other < id);
            all.insert(at, id);
        }
        if crowded && self.common.len() < COMMON_MAX {
            self.make_common(id);
        }
        true
    }

    /// Names that no ad has are worth looking for.
    pub(crate) fn has_unused_names(&self) -> bool {
        self.columns.len() - self.unnamed.len() > self.common.len() + self.unused_from
    }

    /// Drops the names of rare attributes that no ad has any more, unless somebody has still to be told so.
    fn drop_unused_names(&mut self) {
        let mut used = vec![false; self.columns.len()];
        for id in self.common.iter().chain(&self.unnamed).copied() {
            used[id as usize] = true;
        }
        self.log.for_each_column(|id| {
            if let Some(used) = used.get_mut(id as usize) {
                *used = true;
            }
        });
        for (id, used) in used.iter().enumerate() {
            let rows = self.columns[id].rare_rows();
            if *used || rows.is_none_or(|rows| !rows.is_empty()) {
                continue;
            }
            let name = std::mem::replace(&mut self.names[id], Name::new(b""));
            self.name_bytes -= name_bytes(&name);
            self.by_name.remove(&name);
            self.by_spelling.remove(name.as_bytes());
            self.unnamed.push(id as ColumnId);
        }
        let left = self.columns.len() - self.unnamed.len() - self.common.len();
        if self.unused_from > 0 {
            // In time before there is no room.
            let most = self.name_bytes_max / (2 * NAME_BYTES);
            self.unused_from = (left * 2).max(UNUSED_FROM).min((left + most) / 2 + 1);
        }
    }

    /// The id of a row's key in the string pool: tells whether a row remembered from before still holds
    /// the ad of the same key.
    pub fn key_id(&self, row: Row) -> Option<u32> {
        self.live
            .get(row as usize)
            .then(|| self.rows[row as usize].key)
    }

    /// Removes every ad. The version goes on; subscribers are told to start anew.
    pub fn clear(&mut self) {
        let version = self.version + 1;
        let epoch = self.epoch + 1;
        *self = AdTable {
            rare_from: self.rare_from,
            rare_rows: self.rare_rows,
            name_bytes_max: self.name_bytes_max,
            unused_from: self.unused_from.min(UNUSED_FROM),
            ..AdTable::new()
        };
        self.version = version;
        self.epoch = epoch;
        self.log.reset(version);
    }

    /// Keys removed because nothing was heard of them for their lifetime: the integer attribute
    /// `lifetime` of the ad, else `default_s` seconds.
    pub fn expire(&mut self, now: f64, lifetime: &Name, default_s: f64) -> Vec<Vec<u8>> {
        let column = self.column_id(lifetime);
        let stale: Vec<Row> = self
            .rows()
            .filter(|row| {
                let given = column.and_then(|id| self.cell_int(self.cell(*row, id)));
                let life = given.map_or(default_s, |seconds| seconds as f64);
                self.rows[*row as usize].heard_at + life < now
            })
            .collect();
        let keys = stale.iter().map(|row| self.key(*row).to_vec()).collect();
        for row in stale {
            self.remove_row(row);
        }
        keys
    }

    /// Drops strings, expressions and names of rare attributes that no ad uses; ids of the others stay.
    pub fn collect(&mut self) {
        self.drop_unused_names();
        let mut strings = vec![false; self.strings.id_end() as usize];
        let mut exprs = vec![false; self.exprs.id_end() as usize];
        let mut bigs = vec![false; self.bigs.id_end() as usize];
        let rows = 0..self.row_end();
        for column in &self.columns {
            column.for_each_value(&rows, |cell| match cell.kind() {
                CellKind::Str(id) => strings[id as usize] = true,
                CellKind::Expr(id) => exprs[id as usize] = true,
                CellKind::BigInt(id) => bigs[id as usize] = true,
                _ => {}
            });
        }
        for row in self.live.iter() {
            strings[self.rows[row].key as usize] = true;
        }
        self.strings.retain(&strings);
        self.exprs.texts.retain(&exprs);
        for (id, expr) in self.exprs.exprs.iter_mut().enumerate() {
            if !exprs[id] {
                *expr = None;
            }
        }
        self.bigs.retain(&bigs);
        let kept = self.strings.len() + self.exprs.texts.len() + self.bigs.len();
        self.collect_at = (kept * 2).max(COLLECT_MIN);
        self.epoch += 1;
    }

    /// Bytes held by the table.
    pub fn heap_bytes(&self) -> usize {
        self.columns.iter().map(Column::heap_bytes).sum::<usize>()
            + self.columns.capacity() * size_of::<Column>()
            + self.name_bytes
            + self.rare_of.capacity() * 40
            + self.rare_of.values().map(Vec::capacity).sum::<usize>() * 4
            + self.rows.capacity() * size_of::<RowInfo>()
            + self.by_key.capacity() * 9
            + self.strings.heap_bytes()
            + self.exprs.texts.heap_bytes()
            + self.exprs.exprs.capacity() * size_of::<Option<classad::Expr>>()
            + self.live.heap_bytes()
            + self.log.heap_bytes()
    }
}

/// Bytes that a name takes in a table.
fn name_bytes(name: &Name) -> usize {
    name.as_bytes().len() * 3 + NAME_BYTES
}
