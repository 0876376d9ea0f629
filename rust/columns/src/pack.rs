//! The wire form of ads: a batch of whole ads, deltas and removals.
//!
//! ```text
//! "SWP" version:u8 flags:u8 from:varint to:varint operation*
//! operation: 1 key n attribute*   the ad of key is this
//!            2 key n attribute*   these attributes of the ad changed (tag 0: taken out)
//!            3 key                the ad is gone
//!            4 n attribute*       an ad without key
//! key:       length:varint bytes
//! attribute: name tag:u8 value
//! name:      0 length bytes (becomes name number 1, 2, ...) | number:varint
//! value:     by tag, see `Tag`; a string or expression seen before is a number
//! ```
//! Dictionaries grow as the batch goes on, so writing and reading are one pass. Every count is checked
//! against the bytes that are left: a hostile batch yields an error, and memory in proportion to its size.

use classad::{Ad, Expr, Name, Str, Value};
use rustc_hash::FxHashMap;

use crate::ads::canonical_text;
use crate::cell::{Cell, CellKind};
use crate::shown::Shown;
use crate::table::{AdTable, ColumnId, Row};

pub(crate) const MAGIC: &[u8; 3] = b"SWP";
/// The format this program writes and reads.
pub const PACK_VERSION: u8 = 1;
pub(crate) const FLAG_RESET: u8 = 1;

pub(crate) const OP_FULL: u8 = 1;
pub(crate) const OP_DELTA: u8 = 2;
pub(crate) const OP_REMOVE: u8 = 3;
pub(crate) const OP_PLAIN: u8 = 4;

/// Tags of values.
pub(crate) mod tag {
    pub const UNSET: u8 = 0;
    pub const UNDEFINED: u8 = 1;
    pub const ERROR: u8 = 2;
    pub const FALSE: u8 = 3;
    pub const TRUE: u8 = 4;
    /// Zigzag varint.
    pub const INT: u8 = 5;
    /// Eight bytes, little end first.
    pub const REAL: u8 = 6;
    pub const STR_NEW: u8 = 7;
    pub const STR_REF: u8 = 8;
    pub const EXPR_NEW: u8 = 9;
    pub const EXPR_REF: u8 = 10;
}

/// Versions that a batch speaks of: it takes a mirror from one version of a table to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackHeader {
    /// Version of the mirror that this batch applies to; 0 if that does not matter.
    pub from_version: u64,
    /// Version of the mirror afterwards.
    pub to_version: u64,
    /// The receiver forgets what it has first.
    pub reset: bool,
}

/// Writes a batch.
#[derive(Debug)]
pub struct PackWriter {
    out: Vec<u8>,
    /// Numbers of names as first spelled, and of other spellings.
    names: FxHashMap<Name, u32>,
    respelled: Vec<(Name, u32)>,
    name_count: u32,
    strings: FxHashMap<Str, u32>,
    string_count: u32,
    exprs: FxHashMap<Box<[u8]>, u32>,
    expr_count: u32,
    /// Numbers of a table's strings, expressions and columns in this batch, 0 for not yet.
    table_strings: Vec<u32>,
    table_exprs: Vec<u32>,
    table_names: Vec<u32>,
    operations: usize,
}

impl PackWriter {
    /// A batch with a header.
    pub fn new(header: PackHeader) -> Self {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(MAGIC);
        out.push(PACK_VERSION);
        out.push(if header.reset { FLAG_RESET } else { 0 });
        put_varint(&mut out, header.from_version);
        put_varint(&mut out, header.to_version);
        PackWriter {
            out,
            names: FxHashMap::default(),
            respelled: Vec::new(),
            name_count: 0,
            strings: FxHashMap::default(),
            string_count: 0,
            exprs: FxHashMap::default(),
            expr_count: 0,
            table_strings: Vec::new(),
            table_exprs: Vec::new(),
            table_names: Vec::new(),
            operations: 0,
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the batch has no operation.
    pub fn is_empty(&self) -> bool {
        self.operations == 0
    }

    /// Number of operations.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// The finished batch.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    fn key(&mut self, operation: u8, key: &[u8]) {
        self.operations += 1;
        self.out.push(operation);
        put_bytes(&mut self.out, key);
    }

    /// The ad of `key` is `ad`.
    pub fn upsert(&mut self, key: &[u8], ad: &Ad) {
        self.key(OP_FULL, key);
        self.attributes(ad, &[]);
    }

    /// An ad without key.
    pub fn ad(&mut self, ad: &Ad) {
        self.operations += 1;
        self.out.push(OP_PLAIN);
        self.attributes(ad, &[]);
    }

    /// Attributes of the ad of `key` changed, others are gone.
    pub fn update(&mut self, key: &[u8], changed: &Ad, removed: &[Name]) {
        self.key(OP_DELTA, key);
        self.attributes(changed, removed);
    }

    /// The ad of `key` is gone.
    pub fn remove(&mut self, key: &[u8]) {
        self.key(OP_REMOVE, key);
    }

    fn attributes(&mut self, ad: &Ad, removed: &[Name]) {
        put_varint(&mut self.out, (ad.len() + removed.len()) as u64);
        for (name, expr) in ad.iter() {
            self.name(name);
            self.value(expr);
        }
        for name in removed {
            self.name(name);
            self.out.push(tag::UNSET);
        }
    }

    fn name(&mut self, name: &Name) {
        if let Some(number) = self.number_of(name) {
            put_varint(&mut self.out, u64::from(number));
            return;
        }
        self.name_count += 1;
        if self.names.contains_key(name) {
            self.respelled.push((name.clone(), self.name_count));
        } else {
            self.names.insert(name.clone(), self.name_count);
        }
        self.out.push(0);
        put_bytes(&mut self.out, name.as_bytes());
    }

    /// The number of a name spelled so.
    fn number_of(&self, name: &Name) -> Option<u32> {
        let (known, number) = self.names.get_key_value(name)?;
        if known.same_spelling(name) {
            return Some(*number);
        }
        let other = self
            .respelled
            .iter()
            .find(|entry| entry.0.same_spelling(name))?;
        Some(other.1)
    }

    fn value(&mut self, expr: &Expr) {
        match expr {
            Expr::Lit(Value::Undefined) => self.out.push(tag::UNDEFINED),
            Expr::Lit(Value::Error) => self.out.push(tag::ERROR),
            Expr::Lit(Value::Bool(value)) => {
                self.out.push(if *value { tag::TRUE } else { tag::FALSE })
            }
            Expr::Lit(Value::Int(value)) => self.int(*value),
            Expr::Lit(Value::Real(value)) => self.real(*value),
            Expr::Lit(Value::Str(text)) => {
                if let Some(number) = self.strings.get(text) {
                    self.out.push(tag::STR_REF);
                    put_varint(&mut self.out, u64::from(*number));
                } else {
                    self.new_string(text.as_bytes());
                    self.strings.insert(text.clone(), self.string_count);
                }
            }
            other => {
                let text = canonical_text(other);
                if let Some(number) = self.exprs.get(&*text) {
                    self.out.push(tag::EXPR_REF);
                    put_varint(&mut self.out, u64::from(*number));
                } else {
                    self.new_expr(&text);
                    self.exprs.insert(text.into(), self.expr_count);
                }
            }
        }
    }

    fn int(&mut self, value: i64) {
        self.out.push(tag::INT);
        put_varint(&mut self.out, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn real(&mut self, value: f64) {
        self.out.push(tag::REAL);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn new_string(&mut self, text: &[u8]) {
        self.string_count += 1;
        self.out.push(tag::STR_NEW);
        put_bytes(&mut self.out, text);
    }

    fn new_expr(&mut self, text: &[u8]) {
        self.expr_count += 1;
        self.out.push(tag::EXPR_NEW);
        put_bytes(&mut self.out, text);
    }

    // ---- straight from a table ----

    /// A row of a table, whole or projected; `key` says whether its key goes along. Writes from
    /// tables and of ads must not be mixed in one batch.
    pub fn row(&mut self, table: &AdTable, row: Row, shown: &Shown, key: bool) {
        if key {
            self.key(OP_FULL, table.key(row));
        } else {
            self.operations += 1;
            self.out.push(OP_PLAIN);
        }
        let mut found: Vec<(ColumnId, Cell)> = Vec::with_capacity(shown.columns().len());
        table.each_shown(row, shown, |_, id, cell| found.push((id, cell)));
        self.cells(table, row, found);
    }

    /// Some attributes of a row as a delta; missing ones are taken out at the receiver.
    pub fn row_delta(&mut self, table: &AdTable, row: Row, columns: &[ColumnId]) {
        self.key(OP_DELTA, table.key(row));
        let cell = |id: &ColumnId| (*id, table.cell(row, *id));
        self.cells(table, row, columns.iter().map(cell).collect());
    }

    fn cells(&mut self, table: &AdTable, row: Row, found: Vec<(ColumnId, Cell)>) {
        put_varint(&mut self.out, found.len() as u64);
        let respelled = table.respelled.contains_key(&row);
        for (id, cell) in found {
            if respelled {
                self.name(&table.spelling(row, id).clone());
            } else {
                self.table_name(table, id);
            }
            self.cell(table, cell);
        }
    }

    fn table_name(&mut self, table: &AdTable, id: ColumnId) {
        let at = id as usize;
        if self.table_names.len() <= at {
            self.table_names.resize(table.column_count(), 0);
        }
        if self.table_names[at] == 0 {
            self.name(table.column_name(id));
            self.table_names[at] = self.number_of(table.column_name(id)).unwrap_or(0);
            return;
        }
        put_varint(&mut self.out, u64::from(self.table_names[at]));
    }

    #[inline]
    fn cell(&mut self, table: &AdTable, cell: Cell) {
        match cell.kind() {
            CellKind::Missing => self.out.push(tag::UNSET),
            CellKind::Undefined => self.out.push(tag::UNDEFINED),
            CellKind::Error => self.out.push(tag::ERROR),
            CellKind::Bool(value) => self.out.push(if value { tag::TRUE } else { tag::FALSE }),
            CellKind::Int(value) => self.int(value),
            CellKind::BigInt(id) => self.int(table.big(id)),
            CellKind::Real(value) => self.real(value),
            CellKind::Str(id) => {
                let at = id as usize;
                if self.table_strings.len() <= at {
                    self.table_strings
                        .resize(table.strings().id_end() as usize, 0);
                }
                if self.table_strings[at] == 0 {
                    self.new_string(table.strings().get(id));
                    self.table_strings[at] = self.string_count;
                } else {
                    self.out.push(tag::STR_REF);
                    put_varint(&mut self.out, u64::from(self.table_strings[at]));
                }
            }
            CellKind::Expr(id) => {
                let at = id as usize;
                if self.table_exprs.len() <= at {
                    self.table_exprs.resize(table.exprs().id_end() as usize, 0);
                }
                if self.table_exprs[at] == 0 {
                    self.new_expr(table.exprs().text(id));
                    self.table_exprs[at] = self.expr_count;
                } else {
                    self.out.push(tag::EXPR_REF);
                    put_varint(&mut self.out, u64::from(self.table_exprs[at]));
                }
            }
        }
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
