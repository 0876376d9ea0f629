//! Tests and conversions of kinds: `isString`, `int`, `string`, ...

use super::Env;
use crate::coerce;
use crate::value::{Kind, Value};

macro_rules! kind_test {
    ($($name:ident: $kind:ident),* $(,)?) => {
        $(pub(super) fn $name(args: &[Value], _: &Env) -> Value {
            Value::Bool(args[0].kind() == Kind::$kind)
        })*
    };
}
kind_test! {
    is_undefined: Undefined,
    is_error: Error,
    is_string: String,
    is_integer: Integer,
    is_real: Real,
    is_list: List,
    is_classad: ClassAd,
    is_boolean: Boolean,
    is_abstime: AbsTime,
    is_reltime: RelTime,
}

pub(super) fn int(args: &[Value], _: &Env) -> Value {
    coerce::to_int(&args[0])
}

pub(super) fn real(args: &[Value], _: &Env) -> Value {
    coerce::to_real(&args[0])
}

pub(super) fn string(args: &[Value], _: &Env) -> Value {
    match coerce::to_text(&args[0]) {
        Some(text) => Value::Str(text),
        None => args[0].clone(),
    }
}

pub(super) fn bool(args: &[Value], _: &Env) -> Value {
    match &args[0] {
        Value::Undefined => Value::Undefined,
        Value::Str(s) if s.as_bytes().eq_ignore_ascii_case(b"true") => Value::Bool(true),
        Value::Str(s) if s.as_bytes().eq_ignore_ascii_case(b"false") => Value::Bool(false),
        Value::Str(_) => Value::Undefined,
        Value::RelTime(r) => Value::Bool(crate::ops::real_to_i32(*r) != 0),
        other => other.truth().map_or(Value::Error, Value::Bool),
    }
}
