//! Running programs over tuples of column values.

use classad::{BinaryOp, Value};

use crate::bitmap::Bitmap;
use crate::groups::Groups;
use crate::lower::{Op, Operand, Program};
use crate::table::AdTable;
use crate::word::{Val, apply_binary, apply_call, apply_unary, elvis, ordered, select};

/// Tuples computed at a time.
const LANES: usize = 256;

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
