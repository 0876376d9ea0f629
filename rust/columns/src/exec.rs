//! Running programs over tuples of column values.
//!
//! Operators and functions are those of the `classad` crate; comparisons, logic and arithmetic of plain
//! words have short cuts here, which the tests hold against them.

use std::cmp::Ordering;

use classad::builtins::{Body, Builtin, Env};
use classad::ops;
use classad::{BinaryOp, Context, Expr, UnaryOp, Value};

use crate::bitmap::Bitmap;
use crate::cell::{Cell, CellKind, StrId};
use crate::groups::Groups;
use crate::lower::{Op, Operand, Program};
use crate::table::AdTable;

/// Tuples computed at a time.
const LANES: usize = 256;
/// Strings made on the way that are longer than this go to the plain evaluator, which counts bytes.
const MADE_MAX: usize = 1 << 12;

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
    /// A string that the table does not have, by its place in a list.
    Other(u32),
    /// Not computed here: ask the plain evaluator.
    Unknown,
}

impl Val {
    /// A value as a word; none for values that registers do not hold.
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
            Value::AbsTime(_) | Value::RelTime(_) | Value::List(_) | Value::Ad(_) => return None,
        })
    }

    fn of_cell(table: &AdTable, cell: Cell) -> Val {
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

fn ordered(op: BinaryOp, order: Ordering) -> Val {
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
    if a == Val::Unknown || b == Val::Unknown {
        return Some(Val::Unknown);
    }
    match op {
        BinaryOp::And | BinaryOp::Or => {
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
        BinaryOp::Is | BinaryOp::Isnt => {
            if let (Some(x), Some(y)) = (a.text(table, others), b.text(table, others)) {
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

/// A function of values; `Unknown` where the plain evaluator must be asked.
pub(crate) fn apply_call(
    table: &AdTable,
    others: &mut Vec<Value>,
    builtin: Builtin,
    args: &[Val],
) -> Option<Val> {
    if args.contains(&Val::Unknown) {
        return Some(Val::Unknown);
    }
    let values: Vec<Value> = args.iter().map(|arg| arg.value(table, others)).collect();
    let result = match builtin.spec().body {
        // Only functions that do not ask for the time are lowered.
        Body::Pure(function) => function(&values, &Env::default()),
        Body::Scoped(_) => {
            let args = values.into_iter().map(Expr::Lit).collect();
            classad::evaluate(&Expr::call(builtin.spec().name, args), &Context::default())
        }
    };
    if result.as_str().is_some_and(|text| text.len() > MADE_MAX) {
        return Some(Val::Unknown);
    }
    Some(Val::of(table, others, &result).unwrap_or(Val::Unknown))
}

/// `cond ? then : other`
pub(crate) fn select(cond: Val, then: Val, other: Val) -> Val {
    match (cond, cond.truth()) {
        (Val::Unknown | Val::Undefined, _) => cond,
        (_, Some(true)) => then,
        (_, Some(false)) => other,
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

impl Program {
    /// The comparison, if the program is nothing but one of a column with an integer: as if the column
    /// stood on the left.
    pub fn column_against_integer(&self) -> Option<(BinaryOp, i64)> {
        let [Op::Load(0), Op::Binary(op, a, b)] = &*self.ops else {
            return None;
        };
        if !matches!(self.result, Operand::Reg(1)) {
            return None;
        }
        match (a, b) {
            (Operand::Reg(0), Operand::Const(Val::Int(number))) => {
                plain_comparison(*op).then_some((*op, *number))
            }
            (Operand::Const(Val::Int(number)), Operand::Reg(0)) => {
                let turned = match op {
                    BinaryOp::Lt => BinaryOp::Gt,
                    BinaryOp::Le => BinaryOp::Ge,
                    BinaryOp::Gt => BinaryOp::Lt,
                    BinaryOp::Ge => BinaryOp::Le,
                    same => *same,
                };
                plain_comparison(turned).then_some((turned, *number))
            }
            _ => None,
        }
    }
}

fn plain_comparison(op: BinaryOp) -> bool {
    op.is_comparison() && !matches!(op, BinaryOp::Is | BinaryOp::Isnt)
}

/// Bits of `first..` of `out`: whether the integer compares so.
pub(crate) fn compare_integers(
    op: BinaryOp,
    integers: &[i64],
    number: i64,
    first: usize,
    out: &mut Bitmap,
) {
    fn fill(integers: &[i64], first: usize, out: &mut Bitmap, holds: impl Fn(i64) -> bool) {
        let start = first / 64 * 64;
        for (word, values) in out.words_mut()[start / 64..]
            .iter_mut()
            .zip(integers[start..].chunks(64))
        {
            let mut bits = 0u64;
            for (at, value) in values.iter().enumerate() {
                bits |= u64::from(holds(*value)) << at;
            }
            *word = bits;
        }
    }
    match op {
        BinaryOp::Lt => fill(integers, first, out, |value| value < number),
        BinaryOp::Le => fill(integers, first, out, |value| value <= number),
        BinaryOp::Eq => fill(integers, first, out, |value| value == number),
        BinaryOp::Ne => fill(integers, first, out, |value| value != number),
        BinaryOp::Ge => fill(integers, first, out, |value| value >= number),
        _ => fill(integers, first, out, |value| value > number),
    }
}

/// Registers for a batch of tuples.
pub(crate) struct Machine<'a> {
    table: &'a AdTable,
    program: &'a Program,
    registers: Vec<[Val; LANES]>,
    others: Vec<Value>,
}

impl<'a> Machine<'a> {
    /// A machine for a program.
    pub fn new(table: &'a AdTable, program: &'a Program) -> Self {
        Machine {
            table,
            program,
            registers: vec![[Val::Undefined; LANES]; program.ops.len()],
            others: program.others.clone(),
        }
    }

    /// Computes the program for these groups. `give` gets none where the plain evaluator must be asked.
    pub fn run(
        &mut self,
        groups: &Groups,
        wanted: &[u32],
        mut give: impl FnMut(usize, Option<Value>),
    ) {
        for batch in wanted.chunks(LANES) {
            self.others.truncate(self.program.others.len());
            for at in 0..self.program.ops.len() {
                self.step(at, groups, batch);
            }
            for (lane, group) in batch.iter().enumerate() {
                let value = self.operand(self.program.result, lane);
                let known = (value != Val::Unknown).then(|| value.value(self.table, &self.others));
                give(*group as usize, known);
            }
        }
    }

    /// As `run`, for conditions: `give` gets whether the result is true, or none.
    pub fn run_truths(
        &mut self,
        groups: &Groups,
        first: usize,
        mut give: impl FnMut(usize, Option<bool>),
    ) {
        let mut batch = Vec::with_capacity(LANES);
        for start in (first..groups.count()).step_by(LANES) {
            batch.clear();
            batch.extend(start as u32..groups.count().min(start + LANES) as u32);
            self.others.truncate(self.program.others.len());
            for at in 0..self.program.ops.len() {
                self.step(at, groups, &batch);
            }
            for (lane, group) in batch.iter().enumerate() {
                let value = self.operand(self.program.result, lane);
                give(
                    *group as usize,
                    (value != Val::Unknown).then(|| value.truth() == Some(true)),
                );
            }
        }
    }

    #[inline]
    fn operand(&self, operand: Operand, lane: usize) -> Val {
        match operand {
            Operand::Const(value) => value,
            Operand::Reg(register) => self.registers[register as usize][lane],
        }
    }

    fn step(&mut self, at: usize, groups: &Groups, batch: &[u32]) {
        let program = self.program;
        let mut out = [Val::Undefined; LANES];
        match &program.ops[at] {
            Op::Load(column) => {
                for (lane, group) in batch.iter().enumerate() {
                    let cell = groups.tuple(*group as usize)[*column as usize];
                    out[lane] = Val::of_cell(self.table, cell);
                }
            }
            Op::LoadOr(column, other) => {
                for (lane, group) in batch.iter().enumerate() {
                    let cell = groups.tuple(*group as usize)[*column as usize];
                    out[lane] = if cell.is_missing() {
                        self.operand(*other, lane)
                    } else {
                        Val::of_cell(self.table, cell)
                    };
                }
            }
            Op::Unary(op, a) => {
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    let a = self.operand(*a, lane);
                    *out =
                        apply_unary(self.table, &mut self.others, *op, a).unwrap_or(Val::Unknown);
                }
            }
            Op::Binary(op, a, b) => self.binary(*op, *a, *b, &mut out[..batch.len()]),
            Op::Select(cond, then, other) => {
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    *out = select(
                        self.operand(*cond, lane),
                        self.operand(*then, lane),
                        self.operand(*other, lane),
                    );
                }
            }
            Op::Elvis(a, b) => {
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    *out = elvis(self.operand(*a, lane), self.operand(*b, lane));
                }
            }
            Op::Call(builtin, args) => {
                let mut values = Vec::with_capacity(args.len());
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    values.clear();
                    values.extend(args.iter().map(|arg| self.operand(*arg, lane)));
                    *out = apply_call(self.table, &mut self.others, *builtin, &values)
                        .unwrap_or(Val::Unknown);
                }
            }
        }
        self.registers[at] = out;
    }

    fn binary(&mut self, op: BinaryOp, a: Operand, b: Operand, out: &mut [Val]) {
        // The commonest by far: a column of integers against a number of the job.
        if let (Operand::Reg(register), Operand::Const(Val::Int(right)), true) = (
            a,
            b,
            op.is_comparison() && !matches!(op, BinaryOp::Is | BinaryOp::Isnt),
        ) {
            let left = &self.registers[register as usize];
            for (lane, out) in out.iter_mut().enumerate() {
                *out = match left[lane] {
                    Val::Int(left) => ordered(op, left.cmp(&right)),
                    other => apply_binary(self.table, &mut self.others, op, other, Val::Int(right))
                        .unwrap_or(Val::Unknown),
                };
            }
            return;
        }
        for (lane, out) in out.iter_mut().enumerate() {
            let (a, b) = (self.operand(a, lane), self.operand(b, lane));
            *out = apply_binary(self.table, &mut self.others, op, a, b).unwrap_or(Val::Unknown);
        }
    }
}
