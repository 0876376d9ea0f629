//! Comparing a column with an integer where it lies, chunk by chunk.
//!
//! Telling the values of a column apart pays where many questions share what is found. A question of its own about an
//! attribute that every ad has another value of (`ProcId == 77777`) is answered by looking at each value once.

use classad::{BinaryOp, Expr, Side, Value};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::cell::Cell;
use crate::clause::Clause;
use crate::column::{CHUNK_ROWS, Chunk};
use crate::compute::Scalar;
use crate::logic::Ask;
use crate::matcher::Owner;
use crate::results::Truth;
use crate::table::ColumnId;
use crate::verdicts::Verdict;

/// Values other than small integers from which on it is better to tell them apart.
const OTHERS_MAX: usize = 256;

/// A comparison of a row's own attribute with an integer, the attribute on the left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    column: ColumnId,
    op: BinaryOp,
    number: i64,
}

impl Comparison {
    /// The comparison that a clause is, if it is nothing else.
    pub fn of(ask: Ask<'_>, clause: &Clause) -> Option<Self> {
        let Expr::Binary(binary) = clause.expr.unparen() else {
            return None;
        };
        let (left, right) = (binary.left.unparen(), binary.right.unparen());
        let (attribute, op, number) = match (left, right) {
            (attribute, Expr::Lit(Value::Int(number))) => (attribute, binary.op, *number),
            (Expr::Lit(Value::Int(number)), attribute) => (attribute, turned(binary.op), *number),
            _ => return None,
        };
        let (side, name) = attribute.as_reference()?;
        // An attribute named MY comes before the scope.
        let shadowed = side == Side::My && ask.table.column_named("MY").is_some();
        if !op.is_comparison()
            || ask.owner != Owner::Slot
            || side == Side::Target
            || shadowed
            || name.special().is_some()
        {
            return None;
        }
        Some(Comparison {
            column: ask.table.column_id(name)?,
            op,
            number,
        })
    }

    /// The column.
    pub fn column(self) -> ColumnId {
        self.column
    }

    /// Those of `within` of which the clause says this; none where there are many values other than small integers.
    /// What else rows have is asked of the plain evaluator, once for each value.
    pub fn rows(
        self,
        ask: Ask<'_>,
        clause: &Clause,
        scalar: &Scalar<'_>,
        want: Verdict,
        within: &Bitmap,
    ) -> Option<Truth> {
        let column = ask.table.column(self.column);
        let mut plain = scalar.plain();
        let mut others: FxHashMap<Cell, bool> = FxHashMap::default();
        let mut said = |cell: Cell| match cell.as_small_int() {
            Some(value) => Some(self.says(value) == want),
            None => {
                if others.len() >= OTHERS_MAX {
                    return None;
                }
                Some(*others.entry(cell).or_insert_with(|| {
                    Verdict::of(&plain.whole(clause, &[self.column], &[cell])) == want
                }))
            }
        };
        let mut out = Bitmap::empty(within.len());
        let asked = within.words();
        if column.is_rare() {
            for row in within.iter() {
                out.set(row, said(column.get(row))?);
            }
            return Some(truth(out));
        }
        let words = out.words_mut();
        for (place, asked) in asked.chunks(CHUNK_ROWS / 64).enumerate() {
            if asked.iter().all(|word| *word == 0) {
                continue;
            }
            let first = place * (CHUNK_ROWS / 64);
            match column.chunk(place) {
                Chunk::Const(cell) => {
                    if said(*cell)? {
                        words[first..first + asked.len()].copy_from_slice(asked);
                    }
                }
                chunk => {
                    for (at, word) in asked.iter().enumerate().filter(|(_, word)| **word != 0) {
                        let mut left = *word;
                        let mut bits = 0u64;
                        if let Chunk::Dense(cells) = chunk
                            && left == u64::MAX
                            && let Some(cells) = cells.get(at * 64..at * 64 + 64)
                        {
                            for (bit, cell) in cells.iter().enumerate() {
                                bits |= u64::from(said(*cell)?) << bit;
                            }
                            left = 0;
                        }
                        while left != 0 {
                            let bit = left.trailing_zeros() as usize;
                            left &= left - 1;
                            bits |= u64::from(said(chunk.get(at * 64 + bit))?) << bit;
                        }
                        words[first + at] = bits;
                    }
                }
            }
        }
        Some(truth(out))
    }

    fn says(self, value: i64) -> Verdict {
        let number = self.number;
        let holds = match self.op {
            BinaryOp::Lt => value < number,
            BinaryOp::Le => value <= number,
            BinaryOp::Eq | BinaryOp::Is => value == number,
            BinaryOp::Ne | BinaryOp::Isnt => value != number,
            BinaryOp::Ge => value >= number,
            _ => value > number,
        };
        if holds { Verdict::True } else { Verdict::False }
    }
}

fn truth(rows: Bitmap) -> Truth {
    if rows.is_clear() {
        Truth::Never
    } else {
        Truth::Rows(std::sync::Arc::new(rows))
    }
}

/// The operator with its sides changed.
pub(crate) fn turned(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        same => same,
    }
}
