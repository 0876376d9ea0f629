//! Columns of a table as plain typed vectors, for data frames.

use classad::{Expr, Name, Value};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::matcher::{Matcher, Owner};
use crate::query::Query;
use crate::table::{AdTable, ColumnId, Row};

/// The values of one attribute, in the narrowest type that holds them all.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// No value at all.
    Nothing,
    /// Booleans.
    Bool(Bitmap),
    /// Integers.
    Int(Vec<i64>),
    /// Numbers, some of them reals.
    Real(Vec<f64>),
    /// Texts: a code a row and the texts. Values of other types appear as text where types are mixed.
    Text(Vec<u32>, Vec<String>),
}

/// An attribute of the rows of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedColumn {
    /// The attribute's name.
    pub name: String,
    /// Its values; what stands where there is none is not defined.
    pub series: Series,
    /// Rows that have a value: not those where it is missing, undefined or error.
    pub valid: Bitmap,
}

impl AdTable {
    /// The attributes asked for as typed vectors; one whose definition is an expression is evaluated,
    /// or shown as text if not `evaluate`.
    pub fn export(&self, query: &Query, evaluate: bool) -> (Vec<ExportedColumn>, usize) {
        let rows = self.select(query);
        let mut matcher = Matcher::new(query.settings);
        matcher.refresh(self, query.settings);
        let columns = self.shown_columns(query.projection.as_deref());
        let columns = columns
            .into_iter()
            .map(|id| self.export_column(id, &rows, &matcher, query, evaluate));
        (columns.collect(), rows.len())
    }

    fn export_column(
        &self,
        id: ColumnId,
        rows: &[Row],
        matcher: &Matcher,
        query: &Query,
        evaluate: bool,
    ) -> ExportedColumn {
        let name = self.column_name(id);
        let (groups, by_group) = if evaluate {
            let own = Expr::select(Expr::attr("MY"), name.clone());
            let values = matcher.values(self, &own, Owner::Slot, query.target.as_ref());
            (values.groups, values.by_group)
        } else {
            let groups = matcher.groups(self, &[Name::clone(name)]);
            let literal = |group| {
                let cell = groups.tuple(group)[0];
                match cell.expr_id() {
                    Some(text) => Value::str(self.exprs().text(text)),
                    None => self.cell_value(cell),
                }
            };
            let by_group = (0..groups.count()).map(literal).collect();
            (groups, by_group)
        };
        let codes: Vec<u32> = rows
            .iter()
            .map(|row| groups.group(*row as usize) as u32)
            .collect();
        exported(name.to_text().into_owned(), &codes, &by_group)
    }
}

/// The narrowest series for values given by code.
fn exported(name: String, codes: &[u32], by_code: &[Value]) -> ExportedColumn {
    let mut used = vec![false; by_code.len()];
    codes.iter().for_each(|code| used[*code as usize] = true);
    let values = || {
        by_code
            .iter()
            .zip(&used)
            .filter(|entry| *entry.1)
            .map(|entry| entry.0)
    };
    let all =
        |wanted: fn(&Value) -> bool| values().filter(|value| !value.is_exceptional()).all(wanted);
    let valid = codes
        .iter()
        .map(|code| !by_code[*code as usize].is_exceptional())
        .collect();
    let series = if values().all(Value::is_exceptional) {
        Series::Nothing
    } else if all(|value| matches!(value, Value::Bool(_))) {
        Series::Bool(
            codes
                .iter()
                .map(|code| by_code[*code as usize].is_true())
                .collect(),
        )
    } else if all(|value| matches!(value, Value::Int(_))) {
        let int = |code: &u32| match by_code[*code as usize] {
            Value::Int(value) => value,
            _ => 0,
        };
        Series::Int(codes.iter().map(int).collect())
    } else if all(|value| matches!(value, Value::Int(_) | Value::Real(_))) {
        Series::Real(
            codes
                .iter()
                .map(|code| by_code[*code as usize].as_number().unwrap_or(0.0))
                .collect(),
        )
    } else {
        texts(codes, by_code, &used)
    };
    ExportedColumn {
        name,
        series,
        valid,
    }
}

fn texts(codes: &[u32], by_code: &[Value], used: &[bool]) -> Series {
    let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
    let mut dictionary: Vec<String> = Vec::new();
    let mut map = vec![0u32; by_code.len()];
    for (code, value) in by_code.iter().enumerate() {
        if !used[code] || value.is_exceptional() {
            continue;
        }
        let text = match value {
            Value::Str(text) => text.to_text().into_owned(),
            other => String::from_utf8_lossy(&classad::print::unparse_value(other)).into_owned(),
        };
        map[code] = *numbers.entry(text).or_insert_with_key(|text| {
            dictionary.push(text.clone());
            (dictionary.len() - 1) as u32
        });
    }
    Series::Text(
        codes.iter().map(|code| map[*code as usize]).collect(),
        dictionary,
    )
}
