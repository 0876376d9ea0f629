//! What each operator does to values. Pure, and the only place these rules are written.
//!
//! Short circuits are the evaluator's ([`decided_by_left`]); everything else about an operator is here.

use crate::expr::{BinaryOp, UnaryOp};
use crate::value::{AbsTime, Value};
use std::cell::Cell;
use std::cmp::Ordering;

/// `op value`
#[must_use]
pub fn unary(op: UnaryOp, value: &Value) -> Value {
    match (op, value) {
        (_, Value::Error) => Value::Error,
        (_, Value::Undefined) => Value::Undefined,
        (UnaryOp::Plus, Value::Int(_) | Value::Real(_) | Value::RelTime(_)) => value.clone(),
        (UnaryOp::Minus, Value::Int(i)) => Value::Int(i.wrapping_neg()),
        (UnaryOp::Minus, Value::Real(r)) => Value::Real(-r),
        (UnaryOp::Minus, Value::RelTime(r)) => Value::RelTime(-r),
        (UnaryOp::BitNot, Value::Int(i)) => Value::Int(!i),
        (UnaryOp::Not, v) => v.truth().map_or(Value::Error, |b| Value::Bool(!b)),
        _ => Value::Error,
    }
}

/// The result of `left && right` or `left || right` when `left` alone decides it.
///
/// Error on the left decides both; only then, or when the left is false (`&&`) or true (`||`),
/// is the right side not looked at.
#[must_use]
#[inline]
pub fn decided_by_left(op: BinaryOp, left: &Value) -> Option<Value> {
    let stop = match op {
        BinaryOp::And => false,
        BinaryOp::Or => true,
        _ => return None,
    };
    match left {
        Value::Error => Some(Value::Error),
        v if v.truth() == Some(stop) => Some(Value::Bool(stop)),
        _ => None,
    }
}

/// `left op right`, both evaluated.
#[must_use]
pub fn binary(op: BinaryOp, left: &Value, right: &Value) -> Value {
    match op {
        BinaryOp::And | BinaryOp::Or => logical(op, left, right),
        BinaryOp::Is => identical(left, right),
        BinaryOp::Isnt => match identical(left, right) {
            Value::Bool(b) => Value::Bool(!b),
            other => other,
        },
        _ => match (left, right) {
            (Value::Error, _) | (_, Value::Error) => Value::Error,
            (Value::Undefined, _) | (_, Value::Undefined) => Value::Undefined,
            _ if op.is_comparison() => compare(op, left, right),
            _ => match op {
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
                    arithmetic(op, left, right)
                }
                _ => bitwise(op, left, right),
            },
        },
    }
}

fn logical(op: BinaryOp, left: &Value, right: &Value) -> Value {
    let stop = op == BinaryOp::Or;
    // A non-boolean on either side is an error even where the other side would decide.
    let side = |v: &Value| match v {
        Value::Undefined => Some(None),
        Value::Error => None,
        v => v.truth().map(Some),
    };
    if left.truth().is_none() && !left.is_exceptional() {
        return Value::Error;
    }
    if right.truth().is_none() && !right.is_exceptional() {
        return Value::Error;
    }
    match (side(left), side(right)) {
        (None, _) => Value::Error,
        (Some(Some(b)), _) if b == stop => Value::Bool(stop),
        (_, None) => Value::Error,
        (_, Some(Some(b))) if b == stop => Value::Bool(stop),
        (Some(Some(_)), Some(Some(_))) => Value::Bool(!stop),
        _ => Value::Undefined,
    }
}

fn identical(left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Undefined, Value::Undefined) | (Value::Error, Value::Error) => Value::Bool(true),
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(a == b),
        (Value::Int(a), Value::Int(b)) => Value::Bool(a == b),
        (Value::Real(a), Value::Real(b)) | (Value::RelTime(a), Value::RelTime(b)) => {
            Value::Bool(a == b)
        }
        (Value::Str(a), Value::Str(b)) => Value::Bool(a == b),
        (Value::AbsTime(a), Value::AbsTime(b)) => Value::Bool(a == b),
        // Written and made lists are different types to HTCondor; two of a kind do not compare.
        (Value::List(a), Value::List(b)) if a.made == b.made => Value::Error,
        (Value::Ad(a), Value::Ad(b)) if a.made == b.made => Value::Error,
        _ => Value::Bool(false),
    }
}

/// Orders two byte strings without ASCII case, as strcasecmp does.
#[must_use]
pub fn compare_nocase(a: &[u8], b: &[u8]) -> Ordering {
    let n = a.len().min(b.len());
    for (x, y) in a[..n].iter().zip(&b[..n]) {
        if x != y {
            let (x, y) = (x.to_ascii_lowercase(), y.to_ascii_lowercase());
            if x != y {
                return x.cmp(&y);
            }
        }
    }
    a.len().cmp(&b.len())
}

#[inline]
fn holds(op: BinaryOp, order: Ordering) -> Value {
    Value::Bool(match op {
        BinaryOp::Lt => order.is_lt(),
        BinaryOp::Le => order.is_le(),
        BinaryOp::Eq => order.is_eq(),
        BinaryOp::Ne => order.is_ne(),
        BinaryOp::Ge => order.is_ge(),
        _ => order.is_gt(),
    })
}

fn compare_reals(op: BinaryOp, a: f64, b: f64) -> Value {
    match a.partial_cmp(&b) {
        Some(order) => holds(op, order),
        // NaN: only != holds.
        None => Value::Bool(op == BinaryOp::Ne),
    }
}

fn compare(op: BinaryOp, left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => holds(op, a.cmp(b)),
        (Value::Str(a), Value::Str(b)) => {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            match op {
                BinaryOp::Eq => Value::Bool(a.eq_ignore_ascii_case(b)),
                BinaryOp::Ne => Value::Bool(!a.eq_ignore_ascii_case(b)),
                _ => holds(op, compare_nocase(a, b)),
            }
        }
        (Value::AbsTime(a), Value::AbsTime(b)) => holds(op, a.secs.cmp(&b.secs)),
        (Value::RelTime(a), Value::RelTime(b)) => compare_reals(op, *a, *b),
        (Value::Bool(_) | Value::Int(_), Value::Bool(_) | Value::Int(_)) => {
            holds(op, as_int(left).cmp(&as_int(right)))
        }
        _ => match (left.as_number(), right.as_number()) {
            (Some(a), Some(b)) => compare_reals(op, a, b),
            _ => {
                if matches!((left, right), (Value::Str(_), _) | (_, Value::Str(_))) {
                    FAULT.set("strings can only be compared to strings");
                }
                Value::Error
            }
        },
    }
}

thread_local! {
    static FAULT: Cell<&'static str> = const { Cell::new("") };
}

/// Why an operator last gave an error in this thread, in HTCondor's words, and forgets it; empty where nothing is known.
#[must_use]
pub fn take_fault() -> &'static str {
    FAULT.take()
}

fn as_int(v: &Value) -> i64 {
    match v {
        Value::Int(i) => *i,
        Value::Bool(b) => i64::from(*b),
        _ => 0,
    }
}

fn arithmetic(op: BinaryOp, left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Bool(_) | Value::Int(_), Value::Bool(_) | Value::Int(_)) => {
            integers(op, as_int(left), as_int(right))
        }
        (Value::AbsTime(_) | Value::RelTime(_), _) | (_, Value::AbsTime(_) | Value::RelTime(_)) => {
            times(op, left, right)
        }
        _ => match (left.as_number(), right.as_number()) {
            (Some(a), Some(b)) => reals(op, a, b),
            _ => Value::Error,
        },
    }
}

fn integers(op: BinaryOp, a: i64, b: i64) -> Value {
    match op {
        BinaryOp::Add => Value::Int(a.wrapping_add(b)),
        BinaryOp::Sub => Value::Int(a.wrapping_sub(b)),
        BinaryOp::Mul => Value::Int(a.wrapping_mul(b)),
        _ if b == 0 => Value::Error,
        // The one quotient that does not fit is cut off rather than wrapped.
        BinaryOp::Div => Value::Int(a.checked_div(b).unwrap_or(i64::MAX)),
        _ => Value::Int(a.wrapping_rem(b)),
    }
}

fn reals(op: BinaryOp, a: f64, b: f64) -> Value {
    let r = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        _ => return Value::Error,
    };
    // Positive infinity counts as overflow; negative infinity and NaN pass.
    if r == f64::INFINITY {
        Value::Error
    } else {
        Value::Real(r)
    }
}

/// A double cut to a 32-bit int the way x86-64 does it: out of range gives the smallest.
#[must_use]
pub fn real_to_i32(r: f64) -> i32 {
    if r > -2_147_483_649.0 && r < 2_147_483_648.0 {
        r as i32
    } else {
        i32::MIN
    }
}

/// A double cut to a 64-bit int the way x86-64 does it: out of range gives the smallest.
#[must_use]
pub fn real_to_i64(r: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&r) {
        r as i64
    } else {
        i64::MIN
    }
}

fn moved(t: AbsTime, by: i64) -> Value {
    Value::AbsTime(AbsTime {
        secs: t.secs.wrapping_add(by),
        offset_s: t.offset_s,
    })
}

fn times(op: BinaryOp, left: &Value, right: &Value) -> Value {
    use BinaryOp::{Add, Div, Mul, Sub};
    use Value::{AbsTime, Int, Real, RelTime};
    match (op, left, right) {
        (Add, AbsTime(t), RelTime(r)) | (Add, RelTime(r), AbsTime(t)) => {
            moved(*t, i64::from(real_to_i32(*r)))
        }
        (Add, RelTime(a), RelTime(b)) => RelTime(a + b),
        (Sub, AbsTime(a), AbsTime(b)) => RelTime(a.secs.wrapping_sub(b.secs) as f64),
        (Sub, AbsTime(t), RelTime(r)) => moved(*t, -i64::from(real_to_i32(*r))),
        (Sub, RelTime(a), RelTime(b)) => RelTime(a - b),
        (Mul, RelTime(r), Int(n)) | (Mul, Int(n), RelTime(r)) => RelTime(r * (*n as f64)),
        (Mul, RelTime(r), Real(n)) | (Mul, Real(n), RelTime(r)) => RelTime(r * n),
        (Div, RelTime(r), Int(n)) => RelTime(r / (*n as f64)),
        (Div, RelTime(r), Real(n)) => RelTime(r / n),
        _ => Value::Error,
    }
}

fn bitwise(op: BinaryOp, left: &Value, right: &Value) -> Value {
    let (Value::Int(a), Value::Int(b)) = (left, right) else {
        return Value::Error;
    };
    // Shift counts wrap at 64, as the processor takes them.
    let count = *b as u32 & 63;
    Value::Int(match op {
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::Shl => a.wrapping_shl(count),
        BinaryOp::Shr if *a >= 0 => a >> count,
        // A negative number shifts at most to -1, and not at all for a negative count.
        BinaryOp::Shr => a >> (*b).clamp(0, 63),
        BinaryOp::Ushr if *a >= 0 => a >> count,
        BinaryOp::Ushr => (((*a as u64) >> 1) as i64) >> ((*b as u32).wrapping_sub(1) & 63),
        _ => return Value::Error,
    })
}
