//! Running programs over groups of rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use classad::{Ad, BinaryOp, Value, allowance};

use crate::bitmap::Bitmap;
use crate::compute::Plain;
use crate::groups::Groups;
use crate::lower::{Guard, Op, Operand, Program, Residue};
use crate::matcher::Matcher;
use crate::register::{
    Val, apply_binary, apply_call, apply_unary, elvis, list_of, ordered, select, subscript,
};
use crate::scan::turned;
use crate::table::AdTable;

/// Groups computed at a time.
const LANES: usize = 256;
/// Groups for which an operation is a step.
const LANES_A_STEP: usize = 8;

impl Program {
    /// The comparison, if the program is nothing but one of a column with an integer: the column, and as if it
    /// stood on the left.
    pub fn column_against_integer(&self) -> Option<(usize, BinaryOp, i64)> {
        let [Op::Load(column), Op::Binary(op, a, b)] = &*self.ops else {
            return None;
        };
        if !matches!(self.result, Operand::Reg(1)) {
            return None;
        }
        let column = usize::from(*column);
        match (a, b) {
            (Operand::Reg(0), Operand::Const(Val::Int(number))) => {
                plain_comparison(*op).then_some((column, *op, *number))
            }
            (Operand::Const(Val::Int(number)), Operand::Reg(0)) => {
                let turned = turned(*op);
                plain_comparison(turned).then_some((column, turned, *number))
            }
            _ => None,
        }
    }
}

fn plain_comparison(op: BinaryOp) -> bool {
    op.is_comparison() && !matches!(op, BinaryOp::Is | BinaryOp::Isnt)
}

/// Sets the bits of the groups whose integer compares so.
pub(crate) fn compare_integers(
    op: BinaryOp,
    integers: &[i64],
    number: i64,
    members: &[u32],
    out: &mut Bitmap,
) {
    fn fill(integers: &[i64], members: &[u32], out: &mut Bitmap, holds: impl Fn(i64) -> bool) {
        let first = members.first().copied().unwrap_or(0) as usize;
        let last = members.last().copied().unwrap_or(0) as usize;
        let words = out.words_mut();
        if last - first + 1 != members.len() || !first.is_multiple_of(64) {
            for (value, group) in integers.iter().zip(members) {
                let group = *group as usize;
                words[group / 64] |= u64::from(holds(*value)) << (group % 64);
            }
            return;
        }
        for (word, values) in words[first / 64..].iter_mut().zip(integers.chunks(64)) {
            let mut bits = 0u64;
            for (at, value) in values.iter().enumerate() {
                bits |= u64::from(holds(*value)) << at;
            }
            *word |= bits;
        }
    }
    match op {
        BinaryOp::Lt => fill(integers, members, out, |value| value < number),
        BinaryOp::Le => fill(integers, members, out, |value| value <= number),
        BinaryOp::Eq => fill(integers, members, out, |value| value == number),
        BinaryOp::Ne => fill(integers, members, out, |value| value != number),
        BinaryOp::Ge => fill(integers, members, out, |value| value >= number),
        _ => fill(integers, members, out, |value| value > number),
    }
}

/// What is known of a residue, by group of the columns that it reads; shared by all that ask.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    values: Mutex<Vec<Option<Known>>>,
}

/// A value, or none where the evaluation broke off.
type Known = Option<Value>;

impl Memo {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Known>>> {
        // A poisoned lock only means that another thread panicked between two whole updates.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held, texts aside.
    pub fn heap_bytes(&self) -> usize {
        self.lock().capacity() * size_of::<Option<Known>>()
    }
}

/// A residue being asked for.
struct Part<'a> {
    residue: &'a Residue,
    /// Groups of what it reads, ...
    groups: Arc<Groups>,
    /// ... the one of each group of the program, ...
    map: Arc<[u32]>,
    memo: Arc<Memo>,
    /// ... and the words of their values, as far as they are known here.
    words: Vec<Option<Val>>,
    plain: Plain<'a>,
}

/// Registers for a batch of groups.
pub(crate) struct Machine<'a> {
    matcher: &'a Matcher,
    table: &'a AdTable,
    program: &'a Program,
    groups: &'a Groups,
    registers: Vec<[Val; LANES]>,
    others: Vec<Value>,
    parts: Vec<Part<'a>>,
}

impl<'a> Machine<'a> {
    /// A machine for a program over groups.
    pub fn new(
        matcher: &'a Matcher,
        table: &'a AdTable,
        job: Option<&'a Ad>,
        program: &'a Program,
        groups: &'a Groups,
    ) -> Self {
        let part = |residue: &'a Residue| {
            let found = matcher
                .predicates
                .groups(table, &residue.dependencies.columns);
            Part {
                map: matcher.predicates.group_map(groups, &found),
                memo: matcher.predicates.memo(matcher, residue, job, &found),
                words: vec![None; found.count()],
                plain: Plain::new(matcher, table, residue.owner, job),
                groups: found,
                residue,
            }
        };
        Machine {
            matcher,
            table,
            program,
            groups,
            registers: vec![[Val::Undefined; LANES]; program.ops.len()],
            others: program.others.clone(),
            parts: program.residues.iter().map(part).collect(),
        }
    }

    /// Computes the program for these groups. `give` gets none where the plain evaluator must be asked.
    pub fn run(&mut self, wanted: &[u32], mut give: impl FnMut(usize, Option<Value>)) {
        for batch in wanted.chunks(LANES) {
            if !self.batch(batch) {
                batch.iter().for_each(|group| give(*group as usize, None));
                continue;
            }
            for (lane, group) in batch.iter().enumerate() {
                let value = self.operand(self.program.result, lane);
                let known = (value != Val::Unknown).then(|| value.value(self.table, &self.others));
                give(*group as usize, known);
            }
        }
    }

    /// As `run`, for conditions: `give` gets the result as a word.
    pub fn run_words(&mut self, wanted: &[u32], mut give: impl FnMut(usize, Val)) {
        for batch in wanted.chunks(LANES) {
            if !self.batch(batch) {
                batch
                    .iter()
                    .for_each(|group| give(*group as usize, Val::Unknown));
                continue;
            }
            for (lane, group) in batch.iter().enumerate() {
                give(*group as usize, self.operand(self.program.result, lane));
            }
        }
    }

    /// Computes the registers for these groups; false where no steps are left for that.
    fn batch(&mut self, batch: &[u32]) -> bool {
        if allowance::exhausted() {
            return false;
        }
        self.others.truncate(self.program.others.len());
        let ops = self.program.ops.len();
        allowance::charge((ops * batch.len() / LANES_A_STEP) as i64);
        for at in 0..ops {
            self.step(at, batch);
        }
        true
    }

    #[inline]
    fn operand(&self, operand: Operand, lane: usize) -> Val {
        match operand {
            Operand::Const(value) => value,
            Operand::Reg(register) => self.registers[register as usize][lane],
        }
    }

    fn step(&mut self, at: usize, batch: &[u32]) {
        let program = self.program;
        let mut out = [Val::Undefined; LANES];
        match &program.ops[at] {
            Op::Load(column) => {
                for (lane, group) in batch.iter().enumerate() {
                    let cell = self.groups.tuple(*group as usize)[*column as usize];
                    out[lane] = Val::of_cell(self.table, cell);
                }
            }
            Op::LoadOr(column, other) => {
                for (lane, group) in batch.iter().enumerate() {
                    let cell = self.groups.tuple(*group as usize)[*column as usize];
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
                let settings = self.matcher.settings();
                let mut values = Vec::with_capacity(args.len());
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    values.clear();
                    values.extend(args.iter().map(|arg| self.operand(*arg, lane)));
                    let others = &mut self.others;
                    *out = apply_call(self.table, others, *builtin, &values, &settings)
                        .unwrap_or(Val::Unknown);
                }
            }
            Op::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    values.clear();
                    values.extend(items.iter().map(|item| self.operand(*item, lane)));
                    *out = list_of(self.table, &mut self.others, &values).unwrap_or(Val::Unknown);
                }
            }
            Op::Subscript(base, index) => {
                for (lane, out) in out.iter_mut().enumerate().take(batch.len()) {
                    let (base, index) = (self.operand(*base, lane), self.operand(*index, lane));
                    *out = subscript(self.table, &mut self.others, base, index)
                        .unwrap_or(Val::Unknown);
                }
            }
            Op::Residue(number, guards) => {
                for (lane, group) in batch.iter().enumerate() {
                    if guards.iter().all(|guard| self.asked_for(*guard, lane)) {
                        out[lane] = self.part(usize::from(*number), *group);
                    }
                }
            }
        }
        self.registers[at] = out;
    }

    fn asked_for(&self, guard: Guard, lane: usize) -> bool {
        match guard {
            Guard::Open(op, left) => !self.operand(left, lane).decides(op),
            Guard::Chosen(side, cond) => {
                let cond = self.operand(cond, lane);
                !matches!(cond, Val::Undefined | Val::Error) && cond.truth() != Some(!side)
            }
            Guard::Undefined(first) => self.operand(first, lane) == Val::Undefined,
        }
    }

    /// The value of a residue in a group of the program.
    fn part(&mut self, number: usize, group: u32) -> Val {
        let part = &mut self.parts[number];
        let at = part.map[group as usize] as usize;
        if let Some(word) = part.words.get(at).copied().flatten() {
            return word;
        }
        // A group that has no row any more.
        if at >= part.words.len() {
            return Val::Unknown;
        }
        let mut memo = part.memo.lock();
        if memo.len() <= at {
            memo.resize(part.groups.count(), None);
        }
        let value = memo[at].get_or_insert_with(|| {
            let (columns, tuple) = (part.groups.columns(), part.groups.tuple(at));
            part.plain.part(&part.residue.clause.expr, columns, tuple)
        });
        let word = match value {
            None => Val::Unknown,
            Some(value) => Val::of(self.table, &mut self.others, value).unwrap_or(Val::Unknown),
        };
        // Others are of this batch.
        if !matches!(word, Val::Other(_)) {
            part.words[at] = Some(word);
        }
        word
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
