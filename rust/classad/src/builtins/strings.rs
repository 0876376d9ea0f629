//! Functions of strings and versions.

use super::Env;
use crate::coerce::to_text;
use crate::eval::{COPIED_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::ops::compare_nocase;
use crate::value::{Scope, Value};
use std::cmp::Ordering;

pub(super) fn strcat(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut out = Vec::new();
    for arg in args {
        let value = argument(e, arg, frame)?;
        if matches!(value, Value::Undefined) {
            return Ok(Value::Undefined);
        }
        let Some(text) = e.text_of(&value)? else {
            return Ok(Value::Error);
        };
        let length = text.as_bytes().len();
        e.charge(length / COPIED_A_STEP, length)?;
        out.extend_from_slice(text.as_bytes());
    }
    Ok(Value::Str(out.into()))
}

/// An argument, evaluated one level deeper.
fn argument(e: &mut Evaluator<'_>, arg: &Expr, frame: Frame) -> Outcome {
    if e.depth <= 0 {
        return Err(EvalAborted);
    }
    e.depth -= 1;
    let value = e.eval_in(arg, frame);
    e.depth += 1;
    value
}

/// `join(separator, a, b, ...)`, `join(separator, list)` or `join(list)`.
pub(super) fn join(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut list = None;
    if matches!(args.len(), 1 | 2)
        && let Ok(Value::List(items)) = argument(e, &args[args.len() - 1], frame)
    {
        list = Some(items);
    }
    let mut joiner = Joiner::default();
    let separator = match (&list, args.len()) {
        (_, 0) => return Ok(Value::str("")),
        (Some(_), 1) => Value::str(""),
        _ => argument(e, &args[0], frame)?,
    };
    e.charge_texts(std::slice::from_ref(&separator))?;
    if let Some(error) = joiner.set_separator(&separator) {
        return Ok(error);
    }
    let (items, nest): (&[Expr], Scope) = match &list {
        Some(list) => (&list.items, list.scope),
        None => (&args[1..], frame.nest),
    };
    for item in items {
        let value = argument(e, item, Frame { nest })?;
        if !matches!(value, Value::Str(_)) {
            e.charge_texts(std::slice::from_ref(&value))?;
        }
        if !joiner.add(&value) {
            return Ok(Value::Error);
        }
        e.charge(joiner.added / COPIED_A_STEP, joiner.added)?;
    }
    Ok(joiner.finish())
}

#[derive(Default)]
struct Joiner {
    separator: Vec<u8>,
    out: Vec<u8>,
    undefined: bool,
    defined: bool,
    added: usize,
}

impl Joiner {
    fn set_separator(&mut self, value: &Value) -> Option<Value> {
        match value {
            Value::Undefined => self.undefined = true,
            other => match to_text(other) {
                Some(text) => self.separator = text.as_bytes().to_vec(),
                None => return Some(Value::Error),
            },
        }
        None
    }

    fn add(&mut self, value: &Value) -> bool {
        let before = self.out.len();
        match (value, to_text(value)) {
            (Value::Undefined, _) => self.undefined = true,
            (_, None) => return false,
            (_, Some(text)) => {
                // A separator only after text that is not empty.
                if !self.out.is_empty() {
                    self.out.extend_from_slice(&self.separator);
                }
                self.out.extend_from_slice(text.as_bytes());
                self.defined = true;
            }
        }
        self.added = self.out.len() - before;
        true
    }

    fn finish(self) -> Value {
        if self.undefined && !self.defined {
            Value::Undefined
        } else {
            Value::Str(self.out.into())
        }
    }
}

pub(super) fn to_upper(args: &[Value], _: &Env) -> Value {
    change_case(args, <[u8]>::to_ascii_uppercase)
}

pub(super) fn to_lower(args: &[Value], _: &Env) -> Value {
    change_case(args, <[u8]>::to_ascii_lowercase)
}

fn change_case(args: &[Value], change: fn(&[u8]) -> Vec<u8>) -> Value {
    match to_text(&args[0]) {
        Some(text) => Value::Str(change(text.as_bytes()).into()),
        None => args[0].clone(),
    }
}

/// `substr(text, offset [, length])`, negative numbers counting from the end.
pub(super) fn substr(args: &[Value], _: &Env) -> Value {
    if args.iter().any(|v| matches!(v, Value::Undefined)) {
        return Value::Undefined;
    }
    let (Some(text), Value::Int(offset)) = (args[0].as_str(), &args[1]) else {
        return Value::Error;
    };
    let size = text.len() as i64;
    // Offsets and lengths are cut to 32 bits.
    let mut offset = i64::from(*offset as i32);
    if offset < 0 {
        offset = (size + offset).max(0);
    }
    offset = offset.min(size);
    let length = match args.get(2) {
        None => size - offset,
        Some(Value::Int(n)) => match i64::from(*n as i32) {
            0 => 0,
            n if n < 0 => (size - offset + n).max(0),
            n => n.min(size - offset),
        },
        Some(_) => return Value::Error,
    };
    Value::Str(text[offset as usize..(offset + length) as usize].into())
}

/// Both arguments as text, or what undefined and error ones make of the result.
fn two_texts(args: &[Value]) -> Result<[crate::value::Str; 2], Value> {
    if args.iter().any(|v| matches!(v, Value::Undefined)) {
        return Err(Value::Undefined);
    }
    match (to_text(&args[0]), to_text(&args[1])) {
        (Some(a), Some(b)) => Ok([a, b]),
        _ => Err(Value::Error),
    }
}

fn order(args: &[Value], compare: fn(&[u8], &[u8]) -> Ordering) -> Value {
    match two_texts(args) {
        Ok([a, b]) => Value::Int(compare(a.as_bytes(), b.as_bytes()) as i64),
        Err(value) => value,
    }
}

pub(super) fn strcmp(args: &[Value], _: &Env) -> Value {
    order(args, Ord::cmp)
}

pub(super) fn stricmp(args: &[Value], _: &Env) -> Value {
    order(args, compare_nocase)
}

/// Compares as `strverscmp` does: runs of digits as numbers, those with leading zeros as fractions.
/// The size of the result is a difference of bytes or lengths, not only -1, 0 or 1.
#[must_use]
pub fn natural_order(a: &[u8], b: &[u8]) -> i64 {
    let at = |s: &[u8], i: usize| s.get(i).copied().unwrap_or(0);
    let digit = |s: &[u8], i: usize| at(s, i).is_ascii_digit();
    let mut i = 0;
    while i < a.len() && at(a, i) == at(b, i) {
        i += 1;
    }
    if at(a, i) == at(b, i) {
        return 0;
    }
    let difference = i64::from(at(a, i) as i8) - i64::from(at(b, i) as i8);
    let mut start = i;
    while start > 0 && digit(a, start - 1) {
        start -= 1;
    }
    if start == i && (!digit(a, i) || !digit(b, i)) {
        return difference;
    }
    let zeros = |s: &[u8]| {
        let mut end = start;
        while at(s, end) == b'0' {
            end += 1;
        }
        if end > start && !digit(s, end) {
            end -= 1;
        }
        (end - start) as i64
    };
    let (zeros_a, zeros_b) = (zeros(a), zeros(b));
    if zeros_a != zeros_b {
        return zeros_b - zeros_a;
    }
    if zeros_a > 0 {
        return difference;
    }
    let length = |s: &[u8]| {
        let mut end = start;
        while digit(s, end) {
            end += 1;
        }
        end as i64
    };
    let (length_a, length_b) = (length(a), length(b));
    if length_a == length_b {
        difference
    } else {
        length_a - length_b
    }
}

fn versions(args: &[Value], result: impl FnOnce(i64) -> Value) -> Value {
    match two_texts(args) {
        Ok([a, b]) => result(natural_order(a.as_bytes(), b.as_bytes())),
        Err(value) => value,
    }
}

pub(super) fn versioncmp(args: &[Value], _: &Env) -> Value {
    versions(args, Value::Int)
}
pub(super) fn version_le(args: &[Value], _: &Env) -> Value {
    versions(args, |r| Value::Bool(r <= 0))
}
pub(super) fn version_lt(args: &[Value], _: &Env) -> Value {
    versions(args, |r| Value::Bool(r < 0))
}
pub(super) fn version_ge(args: &[Value], _: &Env) -> Value {
    versions(args, |r| Value::Bool(r >= 0))
}
pub(super) fn version_gt(args: &[Value], _: &Env) -> Value {
    versions(args, |r| Value::Bool(r > 0))
}
pub(super) fn version_eq(args: &[Value], _: &Env) -> Value {
    versions(args, |r| Value::Bool(r == 0))
}

pub(super) fn version_in_range(args: &[Value], _: &Env) -> Value {
    if matches!(args[1], Value::Undefined) || matches!(args[2], Value::Undefined) {
        return Value::Undefined;
    }
    let (Some(test), Some(min), Some(max)) =
        (to_text(&args[0]), to_text(&args[1]), to_text(&args[2]))
    else {
        return Value::Error;
    };
    let (test, min, max) = (test.as_bytes(), min.as_bytes(), max.as_bytes());
    Value::Bool(natural_order(min, test) <= 0 && natural_order(test, max) <= 0)
}

/// `interval(seconds)`: `1+02:03:04`, leading parts left off.
pub(super) fn interval(args: &[Value], _: &Env) -> Value {
    let Value::Int(seconds) = crate::coerce::to_int(&args[0]) else {
        return Value::Error;
    };
    let total = seconds as i32;
    let (days, rest) = (total / 86_400, total % 86_400);
    let (hours, rest) = (rest / 3600, rest % 3600);
    let (minutes, seconds) = (rest / 60, rest % 60);
    let (h, m, s) = (hours.abs(), minutes.abs(), seconds.abs());
    Value::Str(
        if days != 0 {
            format!("{days}+{h:02}:{m:02}:{s:02}")
        } else if hours != 0 {
            format!("{hours}:{m:02}:{s:02}")
        } else if minutes != 0 {
            format!("{minutes}:{s:02}")
        } else {
            format!("{seconds}")
        }
        .into(),
    )
}
