//! Clauses of a job's Requirements with their counts, for Python.

use ::classad::{Ad, Expr};
use ::columns::{AdTable, ClauseCount, EvalSettings, Hint, Matcher, Nearest, Relation};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::classad::convert::to_python;

/// A list of dicts: clause, passes, without, hint (None, or a dict).
pub(crate) fn clause_rows<'py>(
    py: Python<'py>,
    clauses: &[ClauseCount],
) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for clause in clauses {
        let row = PyDict::new(py);
        row.set_item("clause", &clause.text)?;
        row.set_item("passes", clause.passes)?;
        row.set_item("without", clause.without)?;
        let hint = clause.hint.as_ref().map(|hint| hint_row(py, hint));
        row.set_item("hint", hint.transpose()?)?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn hint_row<'py>(py: Python<'py>, hint: &Hint) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("attribute", hint.attribute.to_text().into_owned())?;
    row.set_item("wanted", value_of(py, &hint.wanted)?)?;
    let asked = hint.asked.as_ref().map(|name| name.to_text().into_owned());
    row.set_item("job_attribute", asked)?;
    let relation = match hint.relation {
        Relation::Largest => "largest",
        Relation::Smallest => "smallest",
        Relation::Closest => "closest",
    };
    row.set_item("relation", relation)?;
    row.set_item("strict", hint.strict)?;
    row.set_item("known", hint.known)?;
    let nearest = |found: &Option<Nearest>| -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(found) = found else { return Ok(None) };
        let row = PyDict::new(py);
        row.set_item("value", value_of(py, &found.value)?)?;
        row.set_item("slots", found.rows)?;
        Ok(Some(row))
    };
    row.set_item("nearest", nearest(&hint.nearest)?)?;
    row.set_item("among_rest", nearest(&hint.among_rest)?)?;
    Ok(row)
}

fn value_of<'py>(py: Python<'py>, literal: &Expr) -> PyResult<Option<Bound<'py, PyAny>>> {
    match literal {
        Expr::Lit(value) => to_python(py, value).map(Some),
        _ => Ok(None),
    }
}

/// The clauses of a job's Requirements over all ads of a table.
pub(super) fn counted(table: &AdTable, job: &Ad, now: i64) -> Vec<ClauseCount> {
    let settings = EvalSettings {
        now,
        ..EvalSettings::default()
    };
    let mut matcher = Matcher::new(settings);
    matcher.refresh(table, settings);
    matcher.clause_counts(table, job)
}
