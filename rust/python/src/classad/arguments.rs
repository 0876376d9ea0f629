//! Argument lists, for Python.

use super::convert::{text as python_text, with_bytes};
use ::classad::arguments::split_v2;
use pyo3::prelude::*;

/// The words of version 2; or none, and where a quote without its end begins, in bytes.
#[pyfunction]
pub fn split_arguments<'py>(
    text: &Bound<'py, PyAny>,
) -> PyResult<(Vec<Bound<'py, PyAny>>, Option<usize>)> {
    match with_bytes(text, split_v2)? {
        Ok(words) => {
            let words = words.iter().map(|word| python_text(text.py(), word));
            Ok((words.collect::<PyResult<_>>()?, None))
        }
        Err(open) => Ok((Vec::new(), Some(open.0))),
    }
}
