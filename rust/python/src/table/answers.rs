//! What tables answer, as Python objects.

use ::classad::Value;
use ::columns::{AdTable, Row, Signatures, Values};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::convert::text;
use crate::classad::convert::to_python;

/// The value of an attribute; none without the ad.
pub(super) fn evaluated(table: &AdTable, key: &str, name: &str) -> Option<Value> {
    let row = table.row_of(key.as_bytes())?;
    let Some(id) = table.column_named(name) else {
        return Some(Value::Undefined);
    };
    let cell = table.cell(row, id);
    if cell.expr_id().is_none() {
        return Some(table.cell_value(cell));
    }
    let ad = table.ad(row);
    let context = ::classad::Context {
        my: Some(&ad),
        ..::classad::Context::default()
    };
    Some(::classad::evaluate(&table.cell_expr(cell)?, &context))
}

/// Lists of the values of rows, one a column; equal values are one object.
pub(super) fn values_of<'py>(
    py: Python<'py>,
    rows: &[Row],
    columns: &[Values],
) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for values in columns {
        let mut made: Vec<Option<Bound<'py, PyAny>>> = Vec::new();
        let column = PyList::empty(py);
        for row in rows {
            let group = values.groups().group(*row as usize);
            if made.len() <= group {
                made.resize(group + 1, None);
            }
            if made[group].is_none() {
                made[group] = Some(to_python(py, values.get(*row))?);
            }
            column.append(made[group].as_ref())?;
        }
        out.append(column)?;
    }
    Ok(out)
}

/// A tuple of values and their count, for each combination that occurs.
pub(super) fn counts_of<'py>(
    py: Python<'py>,
    counts: &[(Vec<Value>, u64)],
) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for (values, count) in counts {
        let mut items = values
            .iter()
            .map(|value| to_python(py, value))
            .collect::<PyResult<Vec<_>>>()?;
        items.push(count.into_pyobject(py)?.into_any());
        out.append(PyTuple::new(py, items)?)?;
    }
    Ok(out)
}

/// Numbers of signatures by key, their texts, and what they mention.
pub(super) fn signatures_of(found: Signatures) -> (Vec<Option<u32>>, Vec<String>, Vec<String>) {
    let texts = found.texts.iter().map(|bytes| text(bytes)).collect();
    let mentioned = found
        .mentioned
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect();
    (found.of, texts, mentioned)
}
