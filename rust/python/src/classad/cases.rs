//! One call per case of the conformance commands: texts in, plain results out.

use super::convert::{now, text, with_bytes};
use ::classad::formats::json::write_json;
use ::classad::formats::old::write_old;
use ::classad::formats::stream::{Format, read_as_reference};
use ::classad::print::{pretty_ad, unparse, unparse_ad, unparse_value};
use ::classad::{
    Ad, Context, Expr, Syntax, Value, parse_ad, parse_expr_as_reference, try_evaluate,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};

/// What `datetime` can say, in seconds since 1970.
const PYTHON_TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

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
    let Some(parsed) = with_bytes(expr, |bytes| parse_expr_as_reference(bytes, syntax).ok())?
    else {
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
    if !python_can_hold(&value) {
        return Ok(Some(("raised", text(py, b"error")?)));
    }
    let kind = value.kind().name();
    let shown = match &value {
        Value::Real(r) | Value::RelTime(r) => PyFloat::new(py, *r).into_any(),
        Value::Str(s) => text(py, s.as_bytes())?,
        other => text(py, &unparse_value(other))?,
    };
    Ok(Some((kind, shown)))
}

/// Whether HTCondor's Python gives a value: it raises where a time is outside the years 1 to 9999, a string no
/// UTF-8, or a list's literal one of these.
fn python_can_hold(value: &Value) -> bool {
    match value {
        Value::AbsTime(time) => PYTHON_TIMES.contains(&time.secs),
        Value::Str(s) => std::str::from_utf8(s.as_bytes()).is_ok(),
        Value::List(list) => list.items.iter().all(python_can_hold_item),
        _ => true,
    }
}

fn python_can_hold_item(item: &Expr) -> bool {
    match item {
        Expr::Lit(value) => python_can_hold(value),
        Expr::List(items) => items.iter().all(python_can_hold_item),
        _ => true,
    }
}

fn syntax(strict: bool) -> Syntax {
    Syntax {
        strict,
        ..Syntax::NORMAL
    }
}

/// The canonical text of an expression; None for a text that does not parse.
#[pyfunction]
#[pyo3(signature = (expr, *, strict=false))]
pub fn format_text<'py>(
    expr: &Bound<'py, PyAny>,
    strict: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let parsed = with_bytes(expr, |bytes| parse_expr_as_reference(bytes, syntax(strict)))?;
    parsed
        .ok()
        .map(|parsed| text(expr.py(), &unparse(&parsed)))
        .transpose()
}

/// The ads of a text as HTCondor reads them, each with its printed forms; None if it refuses the text.
/// ``format`` is ``new1`` (one new-syntax ad), ``new``, ``old``, ``auto``, ``json`` or ``xml``.
#[pyfunction]
#[pyo3(signature = (source, format, *, strict=false))]
pub fn read_ads_as_reference<'py>(
    source: &Bound<'py, PyAny>,
    format: &str,
    strict: bool,
) -> PyResult<Option<Vec<Bound<'py, PyDict>>>> {
    let py = source.py();
    let ads = with_bytes(source, |bytes| match format {
        "new1" => parse_ad(bytes, syntax(strict)).ok().map(|(ad, _)| vec![ad]),
        "auto" => read_as_reference(bytes, None, strict).ok(),
        _ => {
            let format = match format {
                "new" => Format::New,
                "json" => Format::Json,
                "xml" => Format::Xml,
                _ => Format::Old,
            };
            read_as_reference(bytes, Some(format), strict).ok()
        }
    })?;
    let Some(ads) = ads else { return Ok(None) };
    ads.iter()
        .map(|ad| printed(py, ad))
        .collect::<PyResult<Vec<_>>>()
        .map(Some)
}

fn printed<'py>(py: Python<'py>, ad: &Ad) -> PyResult<Bound<'py, PyDict>> {
    let attrs = PyDict::new(py);
    for (name, expr) in ad.sorted() {
        attrs.set_item(text(py, name.as_bytes())?, text(py, &unparse(expr))?)?;
    }
    let (mut old, mut json) = (Vec::new(), Vec::new());
    write_old(&mut old, ad);
    write_json(&mut json, ad, true);
    let out = PyDict::new(py);
    out.set_item("attrs", attrs)?;
    out.set_item("new", text(py, &unparse_ad(ad))?)?;
    out.set_item("old", text(py, &old)?)?;
    out.set_item("json", text(py, &json)?)?;
    out.set_item("pretty", text(py, &pretty_ad(ad))?)?;
    Ok(out)
}
