//! One call per case of the conformance commands: texts in, plain results out.

use super::convert::{now, text, with_bytes};
use ::classad::print::unparse_value;
use ::classad::{Ad, Context, Syntax, Value, parse_ad, parse_expr, try_evaluate};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

fn ad_of(source: Option<&Bound<'_, PyAny>>, syntax: Syntax) -> PyResult<Option<Option<Ad>>> {
    match source {
        None => Ok(Some(None)),
        Some(source) => with_bytes(source, |bytes| {
            parse_ad(bytes, syntax).ok().map(|(ad, _)| Some(ad))
        }),
    }
}

/// Evaluates ``expr`` in ``my`` with ``target``, all texts. Gives the kind of the result and its value, or
/// None for a text that does not parse. The kind of an evaluation that broke off is ``"raised"``.
#[pyfunction]
#[pyo3(signature = (expr, my=None, target=None, *, strict=false, now_s=None))]
pub fn evaluate_text<'py>(
    expr: &Bound<'py, PyAny>,
    my: Option<&Bound<'py, PyAny>>,
    target: Option<&Bound<'py, PyAny>>,
    strict: bool,
    now_s: Option<i64>,
) -> PyResult<Option<(&'static str, Bound<'py, PyAny>)>> {
    let py = expr.py();
    let syntax = Syntax {
        strict,
        ..Syntax::NORMAL
    };
    let (Some(my), Some(target)) = (ad_of(my, syntax)?, ad_of(target, syntax)?) else {
        return Ok(None);
    };
    let Some(parsed) = with_bytes(expr, |bytes| parse_expr(bytes, syntax).ok())? else {
        return Ok(None);
    };
    let now = now_s.unwrap_or_else(now);
    let my = my.unwrap_or_default();
    let context = Context {
        my: Some(&my),
        target: target.as_ref(),
        now,
        seed: now as u64,
        strict,
        ..Context::default()
    };
    let Ok(value) = try_evaluate(&parsed, &context) else {
        return Ok(Some(("raised", text(py, b"error")?)));
    };
    let kind = value.kind().name();
    let shown = match &value {
        Value::Real(r) | Value::RelTime(r) => PyFloat::new(py, *r).into_any(),
        Value::Str(s) => text(py, s.as_bytes())?,
        other => text(py, &unparse_value(other))?,
    };
    Ok(Some((kind, shown)))
}
