//! Rows in the order of what an expression says of them, a page at a time.
//!
//! The place of a row is a string of bytes: of two rows the one with the lesser bytes comes first. So answers to parts of
//! a question are merged by their bytes alone, and the place of a page's last row says where the next one begins, even
//! when that row has gone.

use std::collections::BinaryHeap;

use classad::Value;

use crate::error::TableError;
use crate::query::Query;
use crate::table::{AdTable, Row};

/// Bytes of a string that count for its place; longer ones that begin alike are in the order of their keys.
const TEXT_MAX: usize = 64;

/// An order of rows: by the values of an expression, then by key. Numbers come before texts, and rows without either
/// last, whichever the direction.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The expression; empty for the order of keys alone.
    pub by: String,
    /// The largest first, and by keys alone the last. Rows with values that are alike are in the
    /// order of their keys all the same.
    pub descending: bool,
    /// Only rows behind this place.
    pub after: Option<Vec<u8>>,
}

impl AdTable {
    /// The first rows of a query, as many as its limit allows, each with its place.
    ///
    /// # Errors
    /// [`TableError::BadQuery`] for an order by what is not an expression.
    pub fn firsts(&self, order: &Order, query: &Query) -> Result<Vec<(Vec<u8>, Row)>, TableError> {
        let rows = self.matching(query);
        // Plain values are read as they are. Expressions are evaluated by groups of rows that are alike: of values that
        // differ from row to row that would be many.
        let column = self.column_named(&order.by);
        let is_plain = column.is_some_and(|id| {
            rows.iter()
                .all(|row| self.cell(row as Row, id).expr_id().is_none())
        });
        let values = if order.by.is_empty() || is_plain {
            None
        } else {
            self.evaluate_columns(std::slice::from_ref(&order.by), query)?
                .pop()
        };
        let turns_keys = order.by.is_empty() && order.descending;
        // However many rows there are, no more places are kept than a page has.
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut found: BinaryHeap<(Vec<u8>, Row)> = BinaryHeap::new();
        for row in rows.iter() {
            let mut place = Vec::with_capacity(26);
            if let Some(values) = &values {
                push_value(values.get(row as Row), order.descending, &mut place);
            } else if let Some(id) = column {
                let value = self.cell_value(self.cell(row as Row, id));
                push_value(&value, order.descending, &mut place);
            }
            push_key(self.key(row as Row), turns_keys, &mut place);
            if order.after.as_ref().is_some_and(|after| place <= *after) {
                continue;
            }
            found.push((place, row as Row));
            if found.len() > limit {
                found.pop();
            }
        }
        Ok(found.into_sorted_vec())
    }
}

fn push_value(value: &Value, descending: bool, place: &mut Vec<u8>) {
    let number = match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        #[allow(clippy::cast_precision_loss)] // what is alike then is in the order of keys
        Value::Int(value) => Some(*value as f64),
        Value::Real(value) | Value::RelTime(value) => Some(*value),
        #[allow(clippy::cast_precision_loss)]
        Value::AbsTime(value) => Some(value.secs as f64),
        _ => None,
    };
    let turn = if descending { 0xff } else { 0 };
    match (number, value) {
        (Some(number), _) if !number.is_nan() => {
            place.push(0);
            let bits = (number + 0.0).to_bits(); // zero has one sign
            let ordered = if bits >> 63 == 1 {
                !bits
            } else {
                bits | 1 << 63
            };
            place.extend(ordered.to_be_bytes().map(|byte| byte ^ turn));
        }
        (_, Value::Str(text)) => {
            place.push(1);
            // A text ends with a byte that is less than all of it: a shorter one comes first.
            let bytes = text.as_bytes().iter().take(TEXT_MAX);
            place.extend(bytes.map(|byte| byte.to_ascii_lowercase().max(1) ^ turn));
            place.push(turn);
        }
        _ => place.push(2),
    }
}

/// Keys such as `12.3` are in the order of their numbers, and come before others.
fn push_key(key: &[u8], descending: bool, place: &mut Vec<u8>) {
    let turn = if descending { 0xff } else { 0 };
    let numbers = std::str::from_utf8(key)
        .ok()
        .and_then(|text| text.split_once('.'))
        .and_then(|(head, tail)| Some((head.parse::<u64>().ok()?, tail.parse::<u64>().ok()?)));
    match numbers {
        Some((head, tail)) => {
            place.push(0);
            let ids = [head, tail];
            place.extend(
                ids.iter()
                    .flat_map(|id| id.to_be_bytes())
                    .map(|byte| byte ^ turn),
            );
        }
        None => {
            place.push(1);
            place.extend(key.iter().map(|byte| byte ^ turn));
        }
    }
}
