//! Questions about a table: which rows, which of their attributes, how many, in what form.

use std::ops::Range;

use classad::{Ad, Expr, Name, Value};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::cell::Cell;
use crate::error::TableError;
use crate::matcher::{EvalSettings, Matcher, Owner};
use crate::pack::{PackHeader, PackWriter};
use crate::results::Values;
use crate::shown::Shown;
use crate::table::{AdTable, Row};

/// What is asked of a table.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only ads for which this is true (with the ad as MY); all without one.
    pub constraint: Option<Expr>,
    /// The ad that TARGET means in the constraint.
    pub target: Option<Ad>,
    /// Attributes wanted; whole ads without it.
    pub projection: Option<Vec<Name>>,
    /// The projection as it is: not what its expressions read.
    pub alone: bool,
    /// At most so many ads.
    pub limit: Option<usize>,
    /// Only ads in these rows, and no work for others: a question may be asked piece by piece.
    pub rows: Option<Range<usize>>,
    /// Time and rules for the evaluation.
    pub settings: EvalSettings,
}

/// Parses a constraint; an empty one is none.
///
/// # Errors
/// [`TableError::BadQuery`] with the parser's words.
pub fn parse_constraint(text: &str) -> Result<Option<Expr>, TableError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    classad::parse_expr(text.as_bytes(), classad::Syntax::NORMAL)
        .map(Some)
        .map_err(|error| {
            TableError::BadQuery(format!("constraint: {}", error.render(text.as_bytes())))
        })
}

impl AdTable {
    /// The rows that a query asks for, its limit not applied.
    pub fn matching(&self, query: &Query) -> Bitmap {
        let rows = self.asked_about(query);
        let within = self.live().within(&rows);
        match &query.constraint {
            None => within,
            Some(expr) => {
                let target = query.target.as_ref();
                self.matcher_of(query)
                    .those_where(self, expr, target, within)
            }
        }
    }

    /// The rows that a query is about.
    fn asked_about(&self, query: &Query) -> Range<usize> {
        let end = self.row_end();
        let rows = query.rows.as_ref();
        rows.map_or(0..end, |rows| rows.start.min(end)..rows.end.min(end))
    }

    /// A matcher for a query alone.
    fn matcher_of(&self, query: &Query) -> Matcher {
        let mut matcher = Matcher::new(query.settings).within(self.asked_about(query));
        matcher.refresh(self, query.settings);
        matcher
    }

    /// The rows that a query asks for, at most its limit.
    pub fn select(&self, query: &Query) -> Vec<Row> {
        let rows = self.matching(query);
        let limit = query.limit.unwrap_or(usize::MAX);
        rows.iter().take(limit).map(|row| row as Row).collect()
    }

    /// Rows as a batch of ads, with their keys if `keys`.
    pub fn pack_rows(&self, rows: &[Row], shown: &Shown, keys: bool) -> Vec<u8> {
        self.pack_some(rows, shown, keys, usize::MAX).0
    }

    /// As [`Self::pack_rows`], of the first rows until there are `most` bytes, and how many rows these are.
    pub fn pack_some(
        &self,
        rows: &[Row],
        shown: &Shown,
        keys: bool,
        most: usize,
    ) -> (Vec<u8>, usize) {
        let header = PackHeader {
            to_version: self.version(),
            ..PackHeader::default()
        };
        let mut out = PackWriter::new(header);
        for (at, row) in rows.iter().enumerate() {
            if at > 0 && out.len() >= most {
                return (out.finish(), at);
            }
            out.row(self, *row, shown, keys);
        }
        (out.finish(), rows.len())
    }

    /// Rows as old-syntax text: a line an attribute, a blank line after each ad.
    ///
    /// Of rows until there are `most` bytes; returns how many rows these are.
    pub fn long_text(&self, rows: &[Row], shown: &Shown, most: usize, out: &mut Vec<u8>) -> usize {
        let mut texts = CellTexts::new(self, true);
        for (at, row) in rows.iter().enumerate() {
            if at > 0 && out.len() >= most {
                return at;
            }
            let respelled = self.respelled.contains_key(row);
            self.each_shown(*row, shown, |_, id, cell| {
                let name = if respelled {
                    self.spelling(*row, id)
                } else {
                    self.column_name(id)
                };
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b" = ");
                texts.write(cell, out);
                out.push(b'\n');
            });
            out.push(b'\n');
        }
        rows.len()
    }

    /// Rows as JSON objects with commas between; the caller writes the brackets.
    ///
    /// Of rows until there are `most` bytes; returns how many rows these are.
    pub fn json_text(&self, rows: &[Row], shown: &Shown, most: usize, out: &mut Vec<u8>) -> usize {
        let names: Vec<Vec<u8>> = shown
            .columns()
            .iter()
            .map(|id| {
                let mut name = Vec::new();
                json_string(self.column_name(*id).as_bytes(), &mut name);
                name
            })
            .collect();
        let mut texts = CellTexts::new(self, false);
        for (at, row) in rows.iter().enumerate() {
            if at > 0 && out.len() >= most {
                return at;
            }
            out.extend_from_slice(if at == 0 { b"{" } else { b",\n{" });
            let respelled = self.respelled.contains_key(row);
            let mut first = true;
            self.each_shown(*row, shown, |place, id, cell| {
                out.extend_from_slice(if first { b"\n  " } else { b",\n  " });
                first = false;
                match place {
                    Some(place) if !respelled => out.extend_from_slice(&names[place]),
                    _ => json_string(self.spelling(*row, id).as_bytes(), out),
                }
                out.extend_from_slice(b": ");
                texts.write(cell, out);
            });
            out.extend_from_slice(b"\n}");
        }
        rows.len()
    }

    /// Values of attributes or expressions for the rows of a query: one column a name.
    ///
    /// # Errors
    /// [`TableError::BadQuery`] for a name that is not an expression.
    pub fn evaluate_columns(
        &self,
        names: &[String],
        query: &Query,
    ) -> Result<Vec<Values>, TableError> {
        let matcher = self.matcher_of(query);
        names
            .iter()
            .map(|name| {
                let expr = classad::parse_expr(name.as_bytes(), classad::Syntax::NORMAL)
                    .map_err(|error| TableError::BadQuery(format!("{name}: {error}")))?;
                Ok(matcher.values(self, &expr, Owner::Slot, query.target.as_ref()))
            })
            .collect()
    }

    /// How many rows of a query there are for each tuple of values of some attributes, in order of
    /// first appearance.
    ///
    /// # Errors
    /// [`TableError::BadQuery`] for a name that is not an expression.
    pub fn count_by(
        &self,
        names: &[String],
        query: &Query,
    ) -> Result<Vec<(Vec<Value>, u64)>, TableError> {
        let columns = self.evaluate_columns(names, query)?;
        let rows = self.select(query);
        let mut by_groups: FxHashMap<Vec<usize>, u64> = FxHashMap::default();
        let mut order: Vec<Vec<usize>> = Vec::new();
        let mut key = Vec::with_capacity(columns.len());
        for row in rows {
            key.clear();
            key.extend(
                columns
                    .iter()
                    .map(|values| values.groups().group(row as usize)),
            );
            match by_groups.get_mut(&key) {
                Some(count) => *count += 1,
                None => {
                    by_groups.insert(key.clone(), 1);
                    order.push(key.clone());
                }
            }
        }
        // Different groups may have equal values: join them by the values' texts.
        let mut places: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
        let mut out: Vec<(Vec<Value>, u64)> = Vec::new();
        for key in order {
            let values: Vec<Value> = key
                .iter()
                .zip(&columns)
                .map(|(group, values)| values.by_group[*group].clone())
                .collect();
            let mut text = Vec::new();
            for value in &values {
                text.extend_from_slice(&classad::print::unparse_value(value));
                text.push(0);
            }
            let count = by_groups[&key];
            match places.get(&text) {
                Some(at) => out[*at].1 += count,
                None => {
                    places.insert(text, out.len());
                    out.push((values, count));
                }
            }
        }
        Ok(out)
    }
}

/// Texts of cells, those of expressions and reals made once.
struct CellTexts<'a> {
    table: &'a AdTable,
    old: bool,
    known: FxHashMap<Cell, Box<[u8]>>,
}

/// Texts remembered while a listing is written.
const TEXTS_MAX: usize = 10_000;

impl<'a> CellTexts<'a> {
    fn new(table: &'a AdTable, old: bool) -> Self {
        CellTexts {
            table,
            old,
            known: FxHashMap::default(),
        }
    }

    fn write(&mut self, cell: Cell, out: &mut Vec<u8>) {
        if let Some(value) = cell.as_small_int() {
            push_int(value, out);
            return;
        }
        if let Some(text) = self.known.get(&cell) {
            out.extend_from_slice(text);
            return;
        }
        let start = out.len();
        self.write_new(cell, out);
        if cell.str_id().is_none() && self.known.len() < TEXTS_MAX {
            self.known.insert(cell, out[start..].into());
        }
    }

    fn write_new(&self, cell: Cell, out: &mut Vec<u8>) {
        if let Some(id) = cell.str_id() {
            let text = self.table.strings().get(id);
            if self.old {
                old_string(text, out);
            } else {
                json_string(text, out);
            }
            return;
        }
        let Some(expr) = self.table.cell_expr(cell) else {
            return;
        };
        if self.old {
            out.extend_from_slice(&old_text(&expr));
        } else {
            json_expr(&expr, out);
        }
    }
}

fn old_text(expr: &Expr) -> Vec<u8> {
    let style = classad::print::Style {
        old: true,
        ..classad::print::Style::default()
    };
    classad::print::unparse_styled(expr, style)
}

fn old_string(text: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr(b'"', text).is_none() && text.is_ascii() {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
    } else {
        out.extend_from_slice(&old_text(&Expr::Lit(Value::Str(text.into()))));
    }
}

fn push_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut left = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// A JSON string; bytes that are no UTF-8 become replacement characters.
fn json_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in String::from_utf8_lossy(text).bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7F => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// An attribute in HTCondor's JSON: literals as themselves, expressions as marked strings.
fn json_expr(expr: &Expr, out: &mut Vec<u8>) {
    match expr {
        Expr::Lit(Value::Undefined) => out.extend_from_slice(b"null"),
        Expr::Lit(Value::Bool(value)) => {
            out.extend_from_slice(if *value { b"true" } else { b"false" })
        }
        Expr::Lit(Value::Int(value)) => push_int(*value, out),
        Expr::Lit(Value::Real(value)) if value.is_finite() => {
            out.extend_from_slice(&old_text(expr))
        }
        Expr::Lit(Value::Str(text)) => json_string(text.as_bytes(), out),
        Expr::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                json_expr(item, out);
            }
            out.push(b']');
        }
        Expr::Ad(ad) => {
            out.push(b'{');
            for (at, (name, item)) in ad.sorted().into_iter().enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                json_string(name.as_bytes(), out);
                out.extend_from_slice(b": ");
                json_expr(item, out);
            }
            out.push(b'}');
        }
        other => {
            let mut text = b"/Expr(".to_vec();
            text.extend_from_slice(&classad::print::unparse(other));
            text.extend_from_slice(b")/");
            let mut quoted = Vec::new();
            json_string(&text, &mut quoted);
            // HTCondor writes the marks as "\/Expr(...)\/".
            out.extend_from_slice(b"\"\\/");
            out.extend_from_slice(&quoted[2..quoted.len() - 2]);
            out.extend_from_slice(b"\\/\"");
        }
    }
}
