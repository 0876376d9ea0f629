//! Ads, constraints and errors across the boundary.

use std::sync::Arc;

use ::classad::{Ad, Expr, Name};
use ::columns::TableError;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::classad::convert::{from_python, syntax_error};
use crate::classad::{PyAd, PyExpr};

/// The Python exception for a refused batch, text or question.
pub(super) fn refused(py: Python<'_>, error: &TableError) -> PyErr {
    let class = match error {
        TableError::BadQuery(_) | TableError::BadExpression { .. } | TableError::BadLine { .. } => {
            "AdSyntaxError"
        }
        _ => "AdBatchError",
    };
    let made = py
        .import("slotwise.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((error.to_string(),)));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(_) => PyValueError::new_err(error.to_string()),
    }
}

/// The ad that a `ClassAd` or mapping is.
pub(super) fn ad_from_python(given: &Bound<'_, PyAny>) -> PyResult<Arc<Ad>> {
    if let Ok(ad) = given.cast::<PyAd>() {
        return Ok(ad.borrow().ad.clone());
    }
    match from_python(given)? {
        Expr::Ad(ad) => Ok(ad),
        _ => Err(PyTypeError::new_err(format!(
            "expected a ClassAd, not {}",
            given.get_type().name()?
        ))),
    }
}

pub(super) fn ad_to_python(py: Python<'_>, ad: Ad) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, PyAd::of(Arc::new(ad)))?.into_any())
}

/// The constraint that an `ExprTree` or a text is; None for an empty text.
pub(super) fn constraint_from_python(given: &Bound<'_, PyAny>) -> PyResult<Option<Expr>> {
    if let Ok(expr) = given.cast::<PyExpr>() {
        return Ok(Some(expr.get().expr.clone()));
    }
    let Ok(text) = given.cast::<PyString>() else {
        return Ok(Some(from_python(given)?));
    };
    let text = text.to_str()?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    ::classad::parse_expr(text.as_bytes(), ::classad::Syntax::NORMAL)
        .map(Some)
        .map_err(|error| syntax_error(given.py(), &error, text.as_bytes()))
}

pub(super) fn names(texts: Vec<String>) -> Vec<Name> {
    texts.iter().map(|text| Name::from(text.as_str())).collect()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
