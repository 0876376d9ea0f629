//! Questions, and answers in pieces.

use ::classad::Name;
use ::columns::{AdTable, EvalSettings, Query, Row, Shown};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::PyAdTable;
use super::convert::{ad_from_python, constraint_from_python, names};

/// How a question is asked from Python.
#[derive(FromPyObject)]
pub(super) struct Asked {
    #[pyo3(item)]
    constraint: Option<Py<PyAny>>,
    #[pyo3(item)]
    projection: Option<Vec<String>>,
    #[pyo3(item)]
    limit: Option<usize>,
    #[pyo3(item)]
    target: Option<Py<PyAny>>,
    #[pyo3(item)]
    now: i64,
    #[pyo3(item, default)]
    rows: Option<(usize, usize)>,
    #[pyo3(item, default)]
    alone: bool,
}

impl Asked {
    pub(super) fn query(&self, py: Python<'_>) -> PyResult<Query> {
        Ok(Query {
            constraint: match &self.constraint {
                None => None,
                Some(given) => constraint_from_python(given.bind(py))?,
            },
            target: match &self.target {
                None => None,
                Some(given) => Some((*ad_from_python(given.bind(py))?).clone()),
            },
            projection: self.projection.clone().map(names),
            alone: self.alone,
            limit: self.limit,
            rows: self.rows.map(|(first, end)| first..end),
            settings: EvalSettings {
                now: self.now,
                ..EvalSettings::default()
            },
        })
    }
}

/// In what form rows are wanted.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Pack,
    Keyed,
    Long,
    Json,
}

impl Form {
    pub(super) fn parse(form: &str) -> PyResult<Self> {
        Ok(match form {
            "pack" => Form::Pack,
            "keyed" => Form::Keyed,
            "long" => Form::Long,
            "json" => Form::Json,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "form {form:?} is none of pack, keyed, long, json"
                )));
            }
        })
    }

    pub(super) fn write(self, table: &AdTable, rows: &[Row], shown: &Shown) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Form::Pack => return table.pack_rows(rows, shown, false),
            Form::Keyed => return table.pack_rows(rows, shown, true),
            Form::Long => table.long_text(rows, shown, &mut out),
            Form::Json => table.json_text(rows, shown, &mut out),
        }
        out
    }
}

/// Pieces of an answer, made as they are asked for.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct Chunks {
    pub(super) table: Py<PyAdTable>,
    pub(super) rows: Vec<(Row, u32)>,
    pub(super) projection: Option<Vec<Name>>,
    pub(super) alone: bool,
    pub(super) form: Form,
    pub(super) chunk_rows: usize,
    pub(super) next: std::sync::atomic::AtomicUsize,
    /// How many ads the question matched.
    #[pyo3(get)]
    pub(super) total: usize,
}

#[pymethods]
impl Chunks {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        use std::sync::atomic::Ordering;
        let start = self.next.fetch_add(self.chunk_rows, Ordering::Relaxed);
        let end = self.rows.len().min(start.saturating_add(self.chunk_rows));
        if start >= end {
            return None;
        }
        let table = self.table.get();
        let bytes = py.detach(|| {
            let table = table.read();
            // An ad that went away meanwhile is left out; a changed one is shown as it is now.
            let still = |entry: &&(Row, u32)| table.key_id(entry.0) == Some(entry.1);
            let rows: Vec<Row> = self.rows[start..end]
                .iter()
                .filter(still)
                .map(|entry| entry.0)
                .collect();
            let shown = table.projected(self.projection.as_deref(), self.alone);
            self.form.write(&table, &rows, &shown)
        });
        Some(PyBytes::new(py, &bytes))
    }
}
