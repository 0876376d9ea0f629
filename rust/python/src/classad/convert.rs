//! Values from and to Python, and the edge's clock.

use super::{PyAd, PyExpr};
use ::classad::{AbsTime, Ad, Expr, Name, ParseError, Value};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The values that Python has no counterpart for: UNDEFINED and ERROR. Both are false.
#[pyclass(frozen, name = "SpecialValue", module = "slotwise.classad")]
pub struct Special {
    error: bool,
}

#[pymethods]
impl Special {
    fn __repr__(&self) -> &'static str {
        if self.error { "ERROR" } else { "UNDEFINED" }
    }
    fn __bool__(&self) -> bool {
        false
    }
    fn __reduce__(&self) -> &'static str {
        self.__repr__()
    }
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

static UNDEFINED: PyOnceLock<Py<Special>> = PyOnceLock::new();
static ERROR: PyOnceLock<Py<Special>> = PyOnceLock::new();

/// The one UNDEFINED or ERROR.
pub fn special(py: Python<'_>, error: bool) -> PyResult<Py<Special>> {
    let cell = if error { &ERROR } else { &UNDEFINED };
    Ok(cell
        .get_or_try_init(py, || Py::new(py, Special { error }))?
        .clone_ref(py))
}

/// Seconds since the epoch by the kernel's cheap clock; who wants another time passes it.
pub fn now() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live local, which is all the call needs.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    if failed == 0 { time.tv_sec } else { 0 }
}

/// A seed for `random()`, another one each time.
pub fn next_seed(now: i64) -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) ^ (now as u64).rotate_left(32)
}

/// Seconds that this process's local time is east of UTC at a moment; looked up once a quarter of an hour.
pub fn utc_offset_s(now: i64) -> i32 {
    static KNOWN: AtomicI64 = AtomicI64::new(i64::MIN);
    let quarter = now.div_euclid(900);
    let known = KNOWN.load(Ordering::Relaxed);
    if known >> 20 == quarter {
        return (known & 0xF_FFFF) as i32 - 0x8_0000;
    }
    // SAFETY: an all-zero `tm` is valid, and both pointers are to live locals.
    let offset = unsafe {
        let mut broken_down: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const now, &raw mut broken_down).is_null() {
            return 0;
        }
        broken_down.tm_gmtoff as i32
    };
    KNOWN.store(
        quarter << 20 | i64::from(offset + 0x8_0000),
        Ordering::Relaxed,
    );
    offset
}

/// Bytes as a `str`; what is not UTF-8 comes as surrogates, and goes back unharmed.
pub fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}

/// The bytes of a `str` or `bytes`.
pub fn with_bytes<R>(value: &Bound<'_, PyAny>, use_it: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(text) = value.cast::<PyString>() {
        if let Ok(text) = text.to_str() {
            return Ok(use_it(text.as_bytes()));
        }
        let bytes = text.call_method1("encode", ("utf-8", "surrogateescape"))?;
        return Ok(use_it(bytes.cast::<PyBytes>()?.as_bytes()));
    }
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(use_it(bytes.as_bytes())),
        Err(_) => Err(PyTypeError::new_err(format!(
            "expected str, not {}",
            value.get_type().name()?
        ))),
    }
}

/// The attribute name a `str` is.
pub fn name(value: &Bound<'_, PyAny>) -> PyResult<Name> {
    with_bytes(value, Name::new)
}

/// Raises an `AdSyntaxError` that shows the place.
pub fn syntax_error(py: Python<'_>, error: &ParseError, source: &[u8]) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("slotwise.errors")?.getattr("AdSyntaxError")?;
        let (line, column) = error.line_column(source);
        let shown = ParseError {
            hint: "",
            ..error.clone()
        }
        .render(source);
        let keywords = PyDict::new(py);
        keywords.set_item("line", line)?;
        keywords.set_item("column", column)?;
        if !error.hint.is_empty() {
            keywords.set_item("hint", error.hint)?;
        }
        if source.len() < 4096 {
            keywords.set_item("source", text(py, source)?)?;
        }
        let raised = class.call((shown,), Some(&keywords))?;
        raised.setattr("parse_code", error.code.name())?;
        Ok(PyErr::from_value(raised))
    };
    make().unwrap_or_else(|error| error)
}

fn datetime<'py>(py: Python<'py>, time: AbsTime) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("datetime")?;
    let delta = module.getattr("timedelta")?.call1((0, time.offset_s))?;
    let zone = module.getattr("timezone")?.call1((delta,))?;
    module
        .getattr("datetime")?
        .call_method1("fromtimestamp", (time.secs, zone))
}

/// A value as Python sees it. Items of lists that are no literals stay expressions.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Undefined => special(py, false)?.into_bound(py).into_any(),
        Value::Error => special(py, true)?.into_bound(py).into_any(),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Int(i) => i.into_pyobject(py)?.into_any(),
        Value::Real(r) | Value::RelTime(r) => PyFloat::new(py, *r).into_any(),
        Value::Str(s) => text(py, s.as_bytes())?,
        Value::AbsTime(t) => datetime(py, *t)?,
        Value::List(list) => list_to_python(py, &list.items)?,
        Value::Ad(ad) => Bound::new(py, PyAd::of(ad.ad.clone()))?.into_any(),
    })
}

fn list_to_python<'py>(py: Python<'py>, items: &[Expr]) -> PyResult<Bound<'py, PyAny>> {
    let items = items
        .iter()
        .map(|item| expr_to_python(py, item))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, items)?.into_any())
}

/// A definition as Python sees it: literals as values, all else as an `ExprTree`.
pub fn expr_to_python<'py>(py: Python<'py>, expr: &Expr) -> PyResult<Bound<'py, PyAny>> {
    match expr {
        Expr::Lit(value) => to_python(py, value),
        Expr::List(items) => list_to_python(py, items),
        Expr::Ad(ad) => Ok(Bound::new(py, PyAd::of(ad.clone()))?.into_any()),
        other => Ok(Bound::new(py, PyExpr::of(other.clone()))?.into_any()),
    }
}

/// What a Python value is as an expression.
pub fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
    if let Ok(expr) = value.cast::<PyExpr>() {
        return Ok(expr.get().expr.clone());
    }
    if let Ok(b) = value.cast::<PyBool>() {
        return Ok(Expr::Lit(Value::Bool(b.is_true())));
    }
    if value.is_instance_of::<PyInt>() {
        let number: i64 = value
            .extract()
            .map_err(|_| PyOverflowError::new_err("ClassAd integers have 64 bits"))?;
        return Ok(Expr::Lit(Value::Int(number)));
    }
    if let Ok(r) = value.cast::<PyFloat>() {
        return Ok(Expr::Lit(Value::Real(r.value())));
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return with_bytes(value, |bytes| Expr::Lit(Value::Str(bytes.into())));
    }
    if value.is_none() {
        return Ok(Expr::Lit(Value::Undefined));
    }
    if let Ok(special) = value.cast::<Special>() {
        let error = special.get().error;
        return Ok(Expr::Lit(if error {
            Value::Error
        } else {
            Value::Undefined
        }));
    }
    if let Ok(ad) = value.cast::<PyAd>() {
        return Ok(Expr::Ad(ad.borrow().ad.clone()));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Expr::Ad(Arc::new(ad_from_dict(dict)?)));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut items = Vec::new();
        for item in value.try_iter()? {
            items.push(from_python(&item?)?);
        }
        return Ok(Expr::List(items.into()));
    }
    time_from_python(value)
}

fn time_from_python(value: &Bound<'_, PyAny>) -> PyResult<Expr> {
    let module = value.py().import("datetime")?;
    if value.is_instance(&module.getattr("datetime")?)? {
        let aware = if value.getattr("tzinfo")?.is_none() {
            value.call_method0("astimezone")?
        } else {
            value.clone()
        };
        let secs = aware.call_method0("timestamp")?.extract::<f64>()?.floor() as i64;
        let offset = aware
            .call_method0("utcoffset")?
            .call_method0("total_seconds")?;
        let offset_s = offset.extract::<f64>()? as i32;
        return Ok(Expr::Lit(Value::AbsTime(AbsTime { secs, offset_s })));
    }
    if value.is_instance(&module.getattr("timedelta")?)? {
        let secs = value.call_method0("total_seconds")?.extract()?;
        return Ok(Expr::Lit(Value::RelTime(secs)));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "a {kind} cannot be a ClassAd value"
    )))
}

/// The ad a `dict` is.
pub fn ad_from_dict(dict: &Bound<'_, PyDict>) -> PyResult<Ad> {
    let mut ad = Ad::with_capacity(dict.len());
    for (key, value) in dict.iter() {
        ad.insert(name(&key)?, from_python(&value)?);
    }
    Ok(ad)
}
