//! Values in the registers of a program, and the operators on them.
//!
//! Operators and functions are those of the `classad` crate; comparisons and logic of simple values have
//! short cuts here, which the tests hold against them.

use std::cmp::Ordering;

use classad::builtins::{Body, Builtin};
use classad::{BinaryOp, Evaluator, Expr, UnaryOp, Value};
use classad::{allowance, ops};
use smallvec::SmallVec;

use crate::cell::{Cell, CellKind, StrId};
use crate::settings::EvalSettings;
use crate::table::AdTable;

/// Strings made on the way that are longer than this go to the plain evaluator, which counts bytes.
const MADE_MAX: usize = 1 << 12;
/// Bytes of two texts that are compared in a step.
const COMPARED_A_STEP: usize = 256;

/// A value in a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Val {
    Undefined,
    Error,
    Bool(bool),
    Int(i64),
    Real(f64),
    /// A string of the table.
    Str(StrId),
    /// A value that fits no register, by its place in a list: a string that the table does not have, a list of values, a
    /// time.
    Other(u32),
    /// Not computed here: ask the plain evaluator.
    Unknown,
}

impl Val {
    /// A value as it stands in a register; none for values that registers do not hold.
    pub fn of(table: &AdTable, others: &mut Vec<Value>, value: &Value) -> Option<Val> {
        Some(match value {
            Value::Undefined => Val::Undefined,
            Value::Error => Val::Error,
            Value::Bool(value) => Val::Bool(*value),
            Value::Int(value) => Val::Int(*value),
            Value::Real(value) => Val::Real(*value),
            Value::Str(text) => match table.strings().find(text.as_bytes()) {
                Some(id) => Val::Str(id),
                None => {
                    others.push(value.clone());
                    Val::Other((others.len() - 1) as u32)
                }
            },
            Value::List(list) if !list.items.iter().all(is_literal) => return None,
            Value::AbsTime(_) | Value::RelTime(_) | Value::List(_) => {
                others.push(value.clone());
                Val::Other((others.len() - 1) as u32)
            }
            Value::Ad(_) => return None,
        })
    }

    pub fn of_cell(table: &AdTable, cell: Cell) -> Val {
        match cell.kind() {
            CellKind::Missing | CellKind::Undefined => Val::Undefined,
            CellKind::Error => Val::Error,
            CellKind::Bool(value) => Val::Bool(value),
            CellKind::Int(value) => Val::Int(value),
            CellKind::BigInt(id) => Val::Int(table.big(id)),
            CellKind::Real(value) => Val::Real(value),
            CellKind::Str(id) => Val::Str(id),
            CellKind::Expr(_) => Val::Unknown,
        }
    }

    /// The value; undefined for `Unknown`, which no one asks about.
    pub fn value(self, table: &AdTable, others: &[Value]) -> Value {
        match self {
            Val::Undefined | Val::Unknown => Value::Undefined,
            Val::Error => Value::Error,
            Val::Bool(value) => Value::Bool(value),
            Val::Int(value) => Value::Int(value),
            Val::Real(value) => Value::Real(value),
            Val::Str(id) => Value::Str(table.strings().get(id).into()),
            Val::Other(at) => others[at as usize].clone(),
        }
    }

    /// The truth value of a boolean or number.
    pub fn truth(self) -> Option<bool> {
        match self {
            Val::Bool(value) => Some(value),
            Val::Int(value) => Some(value != 0),
            Val::Real(value) => Some(value != 0.0),
            _ => None,
        }
    }

    /// Whether it decides `&&` or `||` from the left.
    pub fn decides(self, op: BinaryOp) -> bool {
        self == Val::Error || self.truth() == Some(op == BinaryOp::Or)
    }

    fn text<'a>(self, table: &'a AdTable, others: &'a [Value]) -> Option<&'a [u8]> {
        match self {
            Val::Str(id) => Some(table.strings().get(id)),
            Val::Other(at) => others[at as usize].as_str(),
            _ => None,
        }
    }
}

/// Whether an item of a list means the same wherever it is evaluated, and comes out as it is written.
pub(crate) fn is_literal(item: &Expr) -> bool {
    matches!(item, Expr::Lit(value) if !matches!(value, Value::RelTime(_) | Value::List(_) | Value::Ad(_)))
}

/// `op a`; none if registers do not hold the result.
pub(crate) fn apply_unary(
    table: &AdTable,
    others: &mut Vec<Value>,
    op: UnaryOp,
    a: Val,
) -> Option<Val> {
    match (op, a) {
        (_, Val::Unknown) => Some(Val::Unknown),
        (UnaryOp::Not, Val::Bool(value)) => Some(Val::Bool(!value)),
        _ => {
            let value = ops::unary(op, &a.value(table, others));
            Val::of(table, others, &value)
        }
    }
}

/// Counts comparing two texts.
#[inline]
fn compared(x: &[u8], y: &[u8]) {
    let length = x.len().min(y.len());
    if length >= COMPARED_A_STEP {
        allowance::charge((length / COMPARED_A_STEP) as i64);
    }
}

pub(crate) fn ordered(op: BinaryOp, order: Ordering) -> Val {
    Val::Bool(match op {
        BinaryOp::Lt => order.is_lt(),
        BinaryOp::Le => order.is_le(),
        BinaryOp::Eq => order.is_eq(),
        BinaryOp::Ne => order.is_ne(),
        BinaryOp::Ge => order.is_ge(),
        _ => order.is_gt(),
    })
}

/// `a op b`; none if registers do not hold the result.
#[inline]
pub(crate) fn apply_binary(
    table: &AdTable,
    others: &mut Vec<Value>,
    op: BinaryOp,
    a: Val,
    b: Val,
) -> Option<Val> {
    if matches!(op, BinaryOp::And | BinaryOp::Or) {
        if let (Val::Bool(x), Val::Bool(y)) = (a, b) {
            return Some(Val::Bool(if op == BinaryOp::And { x && y } else { x || y }));
        }
        if a.decides(op) {
            return Some(if a == Val::Error {
                a
            } else {
                Val::Bool(op == BinaryOp::Or)
            });
        }
    }
    if a == Val::Unknown || b == Val::Unknown {
        return Some(Val::Unknown);
    }
    match op {
        BinaryOp::And | BinaryOp::Or => {}
        BinaryOp::Is | BinaryOp::Isnt => {
            if let (Some(x), Some(y)) = (a.text(table, others), b.text(table, others)) {
                compared(x, y);
                return Some(Val::Bool((x == y) == (op == BinaryOp::Is)));
            }
            let plain = |value| !matches!(value, Val::Str(_) | Val::Other(_));
            if plain(a) != plain(b) {
                return Some(Val::Bool(op == BinaryOp::Isnt));
            }
        }
        _ if op.is_comparison() => {
            if let (Val::Int(x), Val::Int(y)) = (a, b) {
                return Some(ordered(op, x.cmp(&y)));
            }
            if let (Some(x), Some(y)) = (a.text(table, others), b.text(table, others)) {
                compared(x, y);
                return Some(ordered(op, ops::compare_nocase(x, y)));
            }
            if a == Val::Undefined && b != Val::Error || b == Val::Undefined && a != Val::Error {
                return Some(Val::Undefined);
            }
        }
        _ => {}
    }
    let value = ops::binary(op, &a.value(table, others), &b.value(table, others));
    Val::of(table, others, &value)
}

/// Whether a function may be called with values: it looks at nothing but those of its arguments.
pub(crate) fn by_value(builtin: Builtin) -> bool {
    /// Functions of values that depend on the time or the host besides.
    const OF_MORE: [&str; 4] = ["formatTime", "absTime", "userMap", "userHome"];
    let spec = builtin.spec();
    !matches!(spec.body, Body::Scoped(_)) || spec.steady || OF_MORE.contains(&spec.name)
}

/// A function of values; `Unknown` where the plain evaluator must be asked.
pub(crate) fn apply_call(
    table: &AdTable,
    others: &mut Vec<Value>,
    builtin: Builtin,
    args: &[Val],
    settings: &EvalSettings,
) -> Option<Val> {
    if args.contains(&Val::Unknown) {
        return Some(Val::Unknown);
    }
    let result = match builtin.spec().body {
        Body::Pure(function) => {
            let values: SmallVec<[Value; 4]> =
                args.iter().map(|arg| arg.value(table, others)).collect();
            function(&values, &settings.env())
        }
        Body::Linear(_) | Body::Counted(_) => {
            let values: SmallVec<[Value; 4]> =
                args.iter().map(|arg| arg.value(table, others)).collect();
            let mut evaluator = Evaluator::new(settings.context(None, None));
            match evaluator.of_values(builtin, &values) {
                Some(Ok(value)) => value,
                Some(Err(_)) | None => return Some(Val::Unknown),
            }
        }
        Body::Scoped(_) => {
            let values: Option<SmallVec<[Expr; 4]>> = args
                .iter()
                .map(|arg| as_argument(arg.value(table, others)))
                .collect();
            let mut evaluator = Evaluator::new(settings.context(None, None));
            match values.map(|values| evaluator.apply(builtin, &values)) {
                Some(Ok(value)) => value,
                // Broken off, as the whole expression is to be; or not to be said so.
                Some(Err(_)) | None => return Some(Val::Unknown),
            }
        }
    };
    if result.as_str().is_some_and(|text| text.len() > MADE_MAX) {
        return Some(Val::Unknown);
    }
    Some(Val::of(table, others, &result).unwrap_or(Val::Unknown))
}

/// A value as an expression that has it.
fn as_argument(value: Value) -> Option<Expr> {
    match value {
        // Evaluating it gives a real.
        Value::RelTime(_) => None,
        value => Some(Expr::Lit(value)),
    }
}

/// `{ a, b }` for functions of its items.
pub(crate) fn list_of(table: &AdTable, others: &mut Vec<Value>, items: &[Val]) -> Option<Val> {
    if items.contains(&Val::Unknown) {
        return Some(Val::Unknown);
    }
    let items: Vec<Expr> = items
        .iter()
        .map(|item| Expr::Lit(item.value(table, others)))
        .collect();
    if !items.iter().all(is_literal) {
        return Some(Val::Unknown);
    }
    others.push(Value::list(items));
    Some(Val::Other((others.len() - 1) as u32))
}

/// `base[index]`
pub(crate) fn subscript(
    table: &AdTable,
    others: &mut Vec<Value>,
    base: Val,
    index: Val,
) -> Option<Val> {
    if base == Val::Unknown || index == Val::Unknown {
        return Some(Val::Unknown);
    }
    let item = match base {
        Val::Other(at) => match (&others[at as usize], index) {
            (Value::List(list), Val::Int(place)) => {
                let place = usize::try_from(place as i32).ok();
                place.and_then(|place| list.items.get(place)).cloned()
            }
            _ => None,
        },
        _ => None,
    };
    let value = match (base, index, item) {
        (Val::Error, ..) | (_, Val::Error, _) => Value::Error,
        (Val::Undefined, ..) | (_, Val::Undefined, _) => Value::Undefined,
        (_, _, Some(Expr::Lit(value))) => value,
        _ => Value::Error,
    };
    Val::of(table, others, &value)
}

/// `cond ? then : other`
pub(crate) fn select(cond: Val, then: Val, other: Val) -> Val {
    match (cond, cond.truth()) {
        (Val::Unknown | Val::Undefined | Val::Error, _) => cond,
        (_, Some(true)) => then,
        (_, Some(false)) => other,
        // Neither is chosen, but either may break the evaluation off.
        (_, None) if then == Val::Unknown || other == Val::Unknown => Val::Unknown,
        (_, None) => Val::Error,
    }
}

/// `first ?: second`
pub(crate) fn elvis(first: Val, second: Val) -> Val {
    if first == Val::Undefined {
        second
    } else {
        first
    }
}
