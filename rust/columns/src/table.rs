//! The table: ads by key, one column an attribute.

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

/// Attribute names a table may have; a hostile sender cannot make more.
const COLUMNS_MAX: usize = 20_000;
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
            // What was made of one table must not pass for what another one needs.
            epoch: new_epoch(),
            ..AdTable::default()
        }
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

    /// Number of columns.
    pub fn column_count(&self) -> usize {
        self.columns.len()
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
        if self.columns.len() >= COLUMNS_MAX {
            return Err(TableError::TooManyAttributes(COLUMNS_MAX));
        }
        let id = self.columns.len() as ColumnId;
        self.columns.push(Column::new());
        self.touched.push(0);
        self.names.push(name.clone());
        self.by_name.insert(name.clone(), id);
        self.by_spelling.insert(name.as_bytes().into(), id);
        Ok(id)
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
        *self = AdTable::new();
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

    /// Drops strings and expressions that no ad uses; ids of the others stay.
    pub fn collect(&mut self) {
        let mut strings = vec![false; self.strings.id_end() as usize];
        let mut exprs = vec![false; self.exprs.id_end() as usize];
        let mut bigs = vec![false; self.bigs.id_end() as usize];
        for column in &self.columns {
            for chunk in column.chunks() {
                chunk.for_each_value(|cell| match cell.kind() {
                    CellKind::Str(id) => strings[id as usize] = true,
                    CellKind::Expr(id) => exprs[id as usize] = true,
                    CellKind::BigInt(id) => bigs[id as usize] = true,
                    _ => {}
                });
            }
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
            + self.rows.capacity() * size_of::<RowInfo>()
            + self.by_key.capacity() * 9
            + self.strings.heap_bytes()
            + self.exprs.texts.heap_bytes()
            + self.exprs.exprs.capacity() * size_of::<Option<classad::Expr>>()
            + self.live.heap_bytes()
            + self.log.heap_bytes()
    }
}
