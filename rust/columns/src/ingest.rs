//! Ad text (`Name = expression` lines) straight into a table.
//!
//! Ads of one kind have the same attributes in the same order, and mostly the same values. Each line is
//! first compared with the line in the same place of the ads before: equal lines cost a comparison. Where
//! only the value differs (or the ad lacks attributes that others have), plain literals are read in place, and texts of expressions that were seen
//! before are looked up. Everything else goes to the parser of the `classad` crate, whose rules these are.

use classad::Name;
use classad::formats::old::parse_line;
use memchr::memchr;
use rustc_hash::FxHashMap;

use crate::cell::Cell;
use crate::error::TableError;
use crate::table::{AdTable, ColumnId};

/// Texts of expressions that are remembered.
const VALUES_MAX: usize = 20_000;

/// Different beginnings of lines that are remembered.
const PLACES_MAX: usize = 10_000;
/// How many attributes an ad may lack in a row without the reader losing its place.
const AHEAD: usize = 64;

/// What the key of an ad is.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyRule {
    /// The string in this attribute.
    Attribute(Name),
    /// `ClusterId.ProcId`
    Job,
    /// The number of the ad in the text, from 0.
    Number,
}

/// What a text held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Ads read.
    pub ads: usize,
    /// Lines read.
    pub lines: usize,
    /// Ads without their key attribute, left out.
    pub keyless: usize,
    /// Bad lines passed over (lenient reading only).
    pub bad_lines: usize,
}

/// The line in some place of the ad before.
#[derive(Debug)]
struct Place {
    line: Vec<u8>,
    /// Length of the part before the value.
    head: usize,
    column: ColumnId,
    name: Name,
    respelled: bool,
    cell: Cell,
}

/// Reads ads from text that comes in pieces.
#[derive(Debug)]
pub struct TextLoader {
    key: KeyRule,
    lenient: bool,
    heard_at: f64,
    carry: Vec<u8>,
    places: Vec<Place>,
    /// Places by the part of their line before the value.
    by_head: FxHashMap<Box<[u8]>, usize>,
    values: FxHashMap<Box<[u8]>, Cell>,
    epoch: u64,
    cells: Vec<(ColumnId, Cell)>,
    spelled: Vec<(ColumnId, Name)>,
    /// Passing over the rest of an ad with a bad line.
    skipping: bool,
    place: usize,
    report: LoadReport,
}

impl TextLoader {
    /// A loader at the beginning of a text. `lenient`: a bad line ends its ad, and the lines up to the
    /// next separator are passed over, as HTCondor does.
    pub fn new(key: KeyRule, lenient: bool, heard_at: f64) -> Self {
        TextLoader {
            key,
            lenient,
            heard_at,
            carry: Vec::new(),
            places: Vec::new(),
            by_head: FxHashMap::default(),
            values: FxHashMap::default(),
            epoch: u64::MAX,
            cells: Vec::new(),
            spelled: Vec::new(),
            skipping: false,
            place: 0,
            report: LoadReport::default(),
        }
    }

    /// Reads a piece of text; a line may go on in the next piece.
    ///
    /// # Errors
    /// [`TableError::BadLine`] unless lenient; [`TableError::TooManyAttributes`].
    pub fn feed(&mut self, table: &mut AdTable, mut text: &[u8]) -> Result<(), TableError> {
        if !self.carry.is_empty() {
            let Some(end) = memchr(b'\n', text) else {
                self.carry.extend_from_slice(text);
                return Ok(());
            };
            let mut line = std::mem::take(&mut self.carry);
            line.extend_from_slice(&text[..=end]);
            self.lines(table, &line)?;
            text = &text[end + 1..];
        }
        let whole = memchr::memrchr(b'\n', text).map_or(0, |end| end + 1);
        self.lines(table, &text[..whole])?;
        self.carry.extend_from_slice(&text[whole..]);
        Ok(())
    }

    /// Ends the text; gives what it held.
    ///
    /// # Errors
    /// As [`TextLoader::feed`].
    pub fn finish(mut self, table: &mut AdTable) -> Result<LoadReport, TableError> {
        if !self.carry.is_empty() {
            let mut line = std::mem::take(&mut self.carry);
            line.push(b'\n');
            self.lines(table, &line)?;
        }
        self.end_ad(table);
        Ok(self.report)
    }

    /// Reads whole lines.
    fn lines(&mut self, table: &mut AdTable, text: &[u8]) -> Result<(), TableError> {
        let mut at = 0;
        while at < text.len() {
            if self.epoch != table.epoch() {
                self.places.clear();
                self.by_head.clear();
                self.place = 0;
                self.values.clear();
                self.epoch = table.epoch();
            }
            if let Some(known) = self.places.get(self.place)
                && !self.skipping
            {
                let end = at + known.line.len();
                if text.get(end) == Some(&b'\n') && text[at..end] == *known.line {
                    self.cells.push((known.column, known.cell));
                    if known.respelled {
                        self.spelled.push((known.column, known.name.clone()));
                    }
                    self.place += 1;
                    self.report.lines += 1;
                    at = end + 1;
                    continue;
                }
            }
            let end = memchr(b'\n', &text[at..]).map_or(text.len(), |len| at + len);
            let line = &text[at..end];
            at = end + 1;
            self.report.lines += 1;
            self.line(table, line.strip_suffix(b"\r").unwrap_or(line))?;
        }
        Ok(())
    }

    fn line(&mut self, table: &mut AdTable, line: &[u8]) -> Result<(), TableError> {
        match line.iter().find(|byte| !is_space(**byte)) {
            None => {
                self.end_ad(table);
                return Ok(());
            }
            Some(b'#') => return Ok(()),
            Some(b'-' | b'*') if line.starts_with(b"-----") || line.starts_with(b"***") => {
                self.end_ad(table);
                return Ok(());
            }
            _ => {}
        }
        if self.skipping {
            return Ok(());
        }
        match self.attribute(table, line) {
            Err(TableError::BadLine { .. }) if self.lenient => {
                self.report.bad_lines += 1;
                self.skipping = true;
                Ok(())
            }
            done => done,
        }
    }

    fn attribute(&mut self, table: &mut AdTable, line: &[u8]) -> Result<(), TableError> {
        if let Some(place) = self.place_of(line) {
            let cell = self.value(table, line, self.places[place].head)?;
            let known = &mut self.places[place];
            known.cell = cell;
            known.line.clear();
            known.line.extend_from_slice(line);
            self.cells.push((known.column, cell));
            if known.respelled {
                self.spelled.push((known.column, known.name.clone()));
            }
            // An attribute that other ads lack stands far off: go on where the others do.
            if place >= self.place && place - self.place < AHEAD {
                self.place = place + 1;
            }
            return Ok(());
        }
        let (name, expr) = parse_line(line).map_err(|error| self.bad(&error.to_string()))?;
        let column = table.ensure_column(&name)?;
        let cell = table.expr_cell(&expr);
        let made = Place {
            head: head_length(line),
            line: line.to_vec(),
            column,
            respelled: !table.column_name(column).same_spelling(&name),
            name,
            cell,
        };
        self.cells.push((column, cell));
        if made.respelled {
            self.spelled.push((column, made.name.clone()));
        }
        if self.places.len() < PLACES_MAX {
            self.by_head
                .insert(line[..made.head].into(), self.places.len());
            if self.place == self.places.len() {
                self.place += 1;
            }
            self.places.push(made);
        }
        Ok(())
    }

    /// The place whose line begins as this one does.
    fn place_of(&self, line: &[u8]) -> Option<usize> {
        let begins = |place: &&Place| {
            line.len() > place.head && line[..place.head] == place.line[..place.head]
        };
        if self.places.get(self.place).as_ref().is_some_and(begins) {
            return Some(self.place);
        }
        let head = line
            .get(..head_length(line))
            .filter(|head| head.len() < line.len())?;
        self.by_head.get(head).copied()
    }

    /// The value of a line whose head is known.
    fn value(&mut self, table: &mut AdTable, line: &[u8], head: usize) -> Result<Cell, TableError> {
        let text = &line[head..];
        if let Some(cell) = plain_value(table, text) {
            return Ok(cell);
        }
        if let Some(cell) = self.values.get(text) {
            return Ok(*cell);
        }
        let (_, expr) = parse_line(line).map_err(|error| self.bad(&error.to_string()))?;
        let cell = table.expr_cell(&expr);
        if self.values.len() < VALUES_MAX {
            self.values.insert(text.into(), cell);
        }
        Ok(cell)
    }

    fn bad(&self, error: &str) -> TableError {
        TableError::BadLine {
            line: self.report.lines,
            error: error.to_owned(),
        }
    }

    fn end_ad(&mut self, table: &mut AdTable) {
        self.skipping = false;
        self.place = 0;
        if self.cells.is_empty() {
            return;
        }
        match self.ad_key(table) {
            Some(key) => {
                let row = table.put_row(&key, &self.cells, self.heard_at).0;
                for (column, name) in &self.spelled {
                    table.spell(row, *column, name);
                }
                self.report.ads += 1;
            }
            None => self.report.keyless += 1,
        }
        self.cells.clear();
        self.spelled.clear();
    }

    fn ad_key(&self, table: &AdTable) -> Option<Vec<u8>> {
        let cell_of = |name: &str| {
            let column = table.column_named(name)?;
            self.cells
                .iter()
                .rev()
                .find(|entry| entry.0 == column)
                .map(|entry| entry.1)
        };
        match &self.key {
            KeyRule::Attribute(name) => {
                let column = table.column_id(name)?;
                let cell = self.cells.iter().rev().find(|entry| entry.0 == column)?.1;
                Some(table.strings().get(cell.str_id()?).to_vec())
            }
            KeyRule::Job => {
                let cluster = table.cell_int(cell_of("ClusterId")?)?;
                let proc = cell_of("ProcId")
                    .and_then(|cell| table.cell_int(cell))
                    .unwrap_or(0);
                Some(format!("{cluster}.{proc}").into_bytes())
            }
            KeyRule::Number => Some(self.report.ads.to_string().into_bytes()),
        }
    }
}

/// Length of a line's part before its value.
fn head_length(line: &[u8]) -> usize {
    let equals = memchr(b'=', line).map_or(line.len(), |at| at + 1);
    equals
        + line[equals..]
            .iter()
            .take_while(|byte| **byte == b' ')
            .count()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0B..=b'\r')
}

/// A literal that needs no parser. Must agree with the `classad` crate: only forms that are beyond doubt.
fn plain_value(table: &mut AdTable, text: &[u8]) -> Option<Cell> {
    match *text.first()? {
        b'"' => {
            let inner = text.get(1..text.len() - 1)?;
            let closed = text.len() > 1 && text[text.len() - 1] == b'"';
            (closed && memchr::memchr3(b'"', b'\\', 0, inner).is_none())
                .then(|| table.str_cell(inner))
        }
        b'0'..=b'9' | b'-' => plain_number(table, text),
        b't' if text == b"true" => Some(Cell::TRUE),
        b'f' if text == b"false" => Some(Cell::FALSE),
        b'u' if text == b"undefined" => Some(Cell::UNDEFINED),
        _ => None,
    }
}

fn plain_number(table: &mut AdTable, text: &[u8]) -> Option<Cell> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if whole == 0 || whole > 18 || (digits[0] == b'0' && whole > 1) {
        return None;
    }
    if whole == digits.len() {
        let size = digits
            .iter()
            .fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        return Some(table.int_cell(if text[0] == b'-' { -size } else { size }));
    }
    let fraction = digits[whole..].strip_prefix(b".")?;
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(Cell::real(value))
}
