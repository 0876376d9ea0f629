//! What batches and texts did to a table, and the reader of text in pieces.

use ::classad::Name;
use ::columns::{KeyRule, TextLoader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::PyAdTable;
use super::convert::{refused, text};

/// What a batch did to a table.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub(crate) struct ApplyReport {
    /// Ads that are new.
    inserted: usize,
    /// Ads replaced or changed.
    updated: usize,
    /// Ads removed.
    removed: usize,
    /// Keys of the first hundred ads that are new, where receipt is stamped.
    new_keys: Vec<String>,
    /// Keys of the first hundred ads that were removed, where receipt is stamped.
    removed_keys: Vec<String>,
    /// Keys of deltas without an ad here: the sender must send the whole ad.
    unknown: Vec<String>,
    /// (key, reason) of ads that were refused.
    refused: Vec<(String, String)>,
    /// Version of the sender's table after this batch.
    to_version: u64,
    /// Whether the batch replaced everything.
    reset: bool,
}

#[pymethods]
impl ApplyReport {
    fn __repr__(&self) -> String {
        format!(
            "ApplyReport(inserted={}, updated={}, removed={}, unknown={}, refused={})",
            self.inserted,
            self.updated,
            self.removed,
            self.unknown.len(),
            self.refused.len()
        )
    }
}

impl From<::columns::ApplyReport> for ApplyReport {
    fn from(report: ::columns::ApplyReport) -> Self {
        ApplyReport {
            inserted: report.inserted,
            updated: report.updated,
            removed: report.removed,
            new_keys: report.new_keys.iter().map(|key| text(key)).collect(),
            removed_keys: report.removed_keys.iter().map(|key| text(key)).collect(),
            unknown: report.unknown.iter().map(|key| text(key)).collect(),
            refused: report
                .refused
                .into_iter()
                .map(|(key, why)| (text(&key), why))
                .collect(),
            to_version: report.header.to_version,
            reset: report.header.reset,
        }
    }
}

/// What a text held.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub(crate) struct LoadReport {
    /// Ads read.
    ads: usize,
    /// Lines read.
    lines: usize,
    /// Ads without their key attribute, left out.
    keyless: usize,
    /// Bad lines passed over.
    bad_lines: usize,
}

impl From<::columns::LoadReport> for LoadReport {
    fn from(report: ::columns::LoadReport) -> Self {
        LoadReport {
            ads: report.ads,
            lines: report.lines,
            keyless: report.keyless,
            bad_lines: report.bad_lines,
        }
    }
}

pub(super) fn key_rule(key: &str) -> KeyRule {
    match key {
        "job" => KeyRule::Job,
        "number" => KeyRule::Number,
        name => KeyRule::Attribute(Name::from(name)),
    }
}

/// Reads text that comes in pieces into a table.
#[pyclass(name = "TextLoader", module = "slotwise._native")]
pub(crate) struct PyTextLoader {
    pub(super) table: Py<PyAdTable>,
    pub(super) loader: Option<TextLoader>,
}

#[pymethods]
impl PyTextLoader {
    fn feed(&mut self, py: Python<'_>, text: &[u8]) -> PyResult<()> {
        let Some(loader) = self.loader.as_mut() else {
            return Err(PyValueError::new_err("the text has ended"));
        };
        let table = self.table.get();
        let done = py.detach(|| loader.feed(&mut table.write(), text));
        done.map_err(|error| refused(py, &error))
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<LoadReport> {
        let Some(loader) = self.loader.take() else {
            return Err(PyValueError::new_err("the text has ended"));
        };
        let table = self.table.get();
        let done = py.detach(|| loader.finish(&mut table.write()));
        done.map(LoadReport::from)
            .map_err(|error| refused(py, &error))
    }
}
