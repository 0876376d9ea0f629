//! The knob table and the templates, as Python sees them.

use ::config::{knobs, templates};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// One row of the knob table.
fn knob_dict<'py>(py: Python<'py>, knob: &knobs::Knob) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", knob.name)?;
    row.set_item("type", knob.kind.name())?;
    row.set_item("lowest", knob.lowest)?;
    row.set_item("highest", knob.highest)?;
    row.set_item("default", knob.default.as_deref())?;
    row.set_item("implied", knob.implied)?;
    row.set_item("in_reference", knob.in_reference)?;
    row.set_item("in_table", knob.reference_kind.is_some())?;
    row.set_item("family", knob.family)?;
    row.set_item("per_slot", knob.per_slot)?;
    row.set_item("per_universe", knob.per_universe)?;
    row.set_item("used", knob.used.is_some())?;
    row.set_item("unit", knob.used.as_ref().map_or("", |used| used.unit))?;
    row.set_item(
        "daemons",
        knob.used.as_ref().map_or("", |used| used.daemons),
    )?;
    row.set_item(
        "applies",
        knob.used.as_ref().map_or("", |used| used.applies.name()),
    )?;
    row.set_item(
        "description",
        knob.used.as_ref().map_or("", |used| used.description),
    )?;
    Ok(row)
}

/// The knob table.
#[pyfunction]
fn knob_table(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    knobs::all()
        .iter()
        .map(|knob| knob_dict(py, knob))
        .collect()
}

/// The knob of a name, with or without a prefix, or None.
#[pyfunction]
fn find_knob<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    knobs::find(name)
        .map(|knob| knob_dict(py, knob))
        .transpose()
}

/// Known knobs with names close to a name.
#[pyfunction]
fn similar_knobs(name: &str) -> Vec<&'static str> {
    knobs::similar(name)
}

/// All templates: (category, name, text).
#[pyfunction]
fn config_templates() -> Vec<(&'static str, &'static str, String)> {
    templates::all()
        .iter()
        .map(|t| (t.category, t.name, t.text.clone()))
        .collect()
}

/// Adds the names of this file to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(knob_table, module)?)?;
    module.add_function(wrap_pyfunction!(find_knob, module)?)?;
    module.add_function(wrap_pyfunction!(similar_knobs, module)?)?;
    module.add_function(wrap_pyfunction!(config_templates, module)?)?;
    Ok(())
}
