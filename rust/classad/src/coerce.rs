//! Conversions between kinds of values that several functions share.

use crate::number::strtod;
use crate::ops::{real_to_i32, real_to_i64};
use crate::print::unparse_value;
use crate::time;
use crate::value::{Str, Value};

/// A value as a real, where the language converts one: undefined or error otherwise.
#[must_use]
pub fn to_real(value: &Value) -> Value {
    match value {
        Value::Undefined => Value::Undefined,
        Value::Bool(b) => Value::Real(f64::from(u8::from(*b))),
        Value::Int(i) => Value::Real(*i as f64),
        Value::Real(_) => value.clone(),
        Value::Str(s) => match strtod(s.as_bytes()) {
            (_, 0) => Value::Error,
            (r, _) => Value::Real(r),
        },
        Value::AbsTime(t) => Value::Real(t.secs as f64),
        Value::RelTime(r) => Value::Real(f64::from(real_to_i32(*r))),
        Value::Error | Value::List(_) | Value::Ad(_) => Value::Error,
    }
}

/// The real a value converts to.
#[must_use]
pub fn real(value: &Value) -> Option<f64> {
    match to_real(value) {
        Value::Real(r) => Some(r),
        _ => None,
    }
}

/// A value as an integer, where the language converts one.
#[must_use]
pub fn to_int(value: &Value) -> Value {
    match value {
        Value::Int(_) => value.clone(),
        Value::Real(r) => Value::Int(real_to_i64(*r)),
        Value::AbsTime(t) => Value::Int(t.secs),
        other => match to_real(other) {
            Value::Real(r) => Value::Int(real_to_i64(r)),
            exceptional => exceptional,
        },
    }
}

/// A value as text; `None` for undefined and error.
#[must_use]
pub fn to_text(value: &Value) -> Option<Str> {
    Some(match value {
        Value::Undefined | Value::Error => return None,
        Value::Str(s) => s.clone(),
        Value::AbsTime(t) => {
            let mut out = Vec::new();
            time::push_abs(&mut out, *t);
            out.into()
        }
        Value::RelTime(r) => {
            let mut out = Vec::new();
            time::push_rel(&mut out, f64::from(real_to_i32(*r)));
            out.into()
        }
        other => unparse_value(other).into(),
    })
}

/// What comparing or adding does to its operands before it starts: both become of one numeric kind.
pub fn promote(a: &mut Value, b: &mut Value) {
    let number = |v: &Value| matches!(v, Value::Bool(_) | Value::Int(_) | Value::Real(_));
    if !number(a) || !number(b) {
        return;
    }
    for v in [&mut *a, &mut *b] {
        if let Value::Bool(flag) = v {
            *v = Value::Int(i64::from(*flag));
        }
    }
    match (&*a, &*b) {
        (Value::Int(i), Value::Real(_)) => *a = Value::Real(*i as f64),
        (Value::Real(_), Value::Int(i)) => *b = Value::Real(*i as f64),
        _ => {}
    }
}
