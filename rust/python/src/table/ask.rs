//! Questions, and answers in pieces.

use std::sync::PoisonError;

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

    /// The first rows in this form until there are `most` bytes, and how many rows these are.
    pub(super) fn write(
        self,
        table: &AdTable,
        rows: &[Row],
        shown: &Shown,
        most: usize,
    ) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        let written = match self {
            Form::Pack => return table.pack_some(rows, shown, false, most),
            Form::Keyed => return table.pack_some(rows, shown, true, most),
            Form::Long => table.long_text(rows, shown, most, &mut out),
            Form::Json => table.json_text(rows, shown, most, &mut out),
        };
        (out, written)
    }
}

/// Bytes of a piece, up to the end of the ad that reaches them: ads may have a megabyte each.
const PIECE_MOST: usize = 1 << 20;

/// Pieces of an answer, made as they are asked for.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct Chunks {
    pub(super) table: Py<PyAdTable>,
    pub(super) rows: Vec<(Row, u32)>,
    pub(super) projection: Option<Vec<Name>>,
    pub(super) alone: bool,
    pub(super) form: Form,
    pub(super) chunk_rows: usize,
    /// Rows that are written.
    pub(super) next: std::sync::Mutex<usize>,
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
        let table = self.table.get();
        let bytes = py.detach(|| {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let end = self.rows.len().min(next.saturating_add(self.chunk_rows));
            if *next >= end {
                return None;
            }
            let table = table.read();
            // An ad that went away meanwhile is left out; a changed one is shown as it is now.
            let still: Vec<(usize, Row)> = (*next..end)
                .filter(|at| table.key_id(self.rows[*at].0) == Some(self.rows[*at].1))
                .map(|at| (at, self.rows[at].0))
                .collect();
            let rows: Vec<Row> = still.iter().map(|entry| entry.1).collect();
            let shown = table.projected(self.projection.as_deref(), self.alone);
            let (bytes, written) = self.form.write(&table, &rows, &shown, PIECE_MOST);
            *next = still.get(written).map_or(end, |entry| entry.0);
            Some(bytes)
        })?;
        Some(PyBytes::new(py, &bytes))
    }
}
