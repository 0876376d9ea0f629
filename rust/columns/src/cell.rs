//! One attribute value of one ad in eight bytes.
//!
//! A cell is a NaN-boxed word: a real is itself, everything else hides in the payload of a negative
//! quiet NaN. Integers of 48 bits are inline; wider ones, strings and expressions are ids into the
//! pools of the table that owns the cell, so two cells of one table are the same value exactly when
//! their words are equal.

use std::fmt;

const BOXED: u64 = 0xFFF8_0000_0000_0000;
const TAG_SHIFT: u32 = 48;
const PAYLOAD: u64 = (1 << TAG_SHIFT) - 1;
const TAG_SPECIAL: u64 = BOXED;
const TAG_INT: u64 = BOXED | (1 << TAG_SHIFT);
const TAG_STR: u64 = BOXED | (2 << TAG_SHIFT);
const TAG_EXPR: u64 = BOXED | (3 << TAG_SHIFT);
const TAG_BIG: u64 = BOXED | (4 << TAG_SHIFT);
const TAG_MASK: u64 = !PAYLOAD;

/// Id of a string in a table's string pool.
pub type StrId = u32;
/// Id of an expression in a table's expression pool.
pub type ExprId = u32;

/// A value as stored: see the module text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Cell(u64);

/// What a cell holds, ids unresolved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CellKind {
    /// The ad has no such attribute.
    Missing,
    /// The literal `undefined`.
    Undefined,
    /// The literal `error`.
    Error,
    /// A boolean literal.
    Bool(bool),
    /// An integer literal of at most 48 bits.
    Int(i64),
    /// An integer literal that needs the pool of wide integers.
    BigInt(u32),
    /// A real literal.
    Real(f64),
    /// A string literal.
    Str(StrId),
    /// Anything that has to be evaluated (also lists and nested ads).
    Expr(ExprId),
}

impl Cell {
    /// The ad has no such attribute.
    pub const MISSING: Cell = Cell(TAG_SPECIAL);
    /// The literal `undefined`.
    pub const UNDEFINED: Cell = Cell(TAG_SPECIAL | 1);
    /// The literal `error`.
    pub const ERROR: Cell = Cell(TAG_SPECIAL | 2);
    /// The literal `false`.
    pub const FALSE: Cell = Cell(TAG_SPECIAL | 3);
    /// The literal `true`.
    pub const TRUE: Cell = Cell(TAG_SPECIAL | 4);

    /// A boolean.
    #[inline]
    pub fn bool(value: bool) -> Cell {
        if value { Cell::TRUE } else { Cell::FALSE }
    }

    /// A real; every NaN becomes the one positive quiet NaN.
    #[inline]
    pub fn real(value: f64) -> Cell {
        if value.is_nan() {
            Cell(0x7FF8_0000_0000_0000)
        } else {
            Cell(value.to_bits())
        }
    }

    /// An integer, if 48 bits hold it.
    #[inline]
    pub fn small_int(value: i64) -> Option<Cell> {
        if (value << 16) >> 16 == value {
            Some(Cell(TAG_INT | (value as u64 & PAYLOAD)))
        } else {
            None
        }
    }

    /// A string of the pool.
    #[inline]
    pub fn str(id: StrId) -> Cell {
        Cell(TAG_STR | u64::from(id))
    }

    /// An expression of the pool.
    #[inline]
    pub fn expr(id: ExprId) -> Cell {
        Cell(TAG_EXPR | u64::from(id))
    }

    /// A wide integer of the pool.
    #[inline]
    pub fn big(id: u32) -> Cell {
        Cell(TAG_BIG | u64::from(id))
    }

    /// Whether the attribute is absent.
    #[inline]
    pub fn is_missing(self) -> bool {
        self == Cell::MISSING
    }

    /// The id, if this is an expression.
    #[inline]
    pub fn expr_id(self) -> Option<ExprId> {
        (self.0 & TAG_MASK == TAG_EXPR).then_some(self.0 as u32)
    }

    /// The id, if this is a string.
    #[inline]
    pub fn str_id(self) -> Option<StrId> {
        (self.0 & TAG_MASK == TAG_STR).then_some(self.0 as u32)
    }

    /// The integer, if this is an inline one.
    #[inline]
    pub fn as_small_int(self) -> Option<i64> {
        (self.0 & TAG_MASK == TAG_INT).then_some(((self.0 << 16) as i64) >> 16)
    }

    /// The real, if this is one.
    #[inline]
    pub fn as_real(self) -> Option<f64> {
        (self.0 < BOXED).then_some(f64::from_bits(self.0))
    }

    /// The value taken apart.
    #[inline]
    pub fn kind(self) -> CellKind {
        if self.0 < BOXED {
            return CellKind::Real(f64::from_bits(self.0));
        }
        match self.0 & TAG_MASK {
            TAG_INT => CellKind::Int(((self.0 << 16) as i64) >> 16),
            TAG_STR => CellKind::Str(self.0 as u32),
            TAG_EXPR => CellKind::Expr(self.0 as u32),
            TAG_BIG => CellKind::BigInt(self.0 as u32),
            _ => match self.0 & PAYLOAD {
                0 => CellKind::Missing,
                1 => CellKind::Undefined,
                3 => CellKind::Bool(false),
                4 => CellKind::Bool(true),
                _ => CellKind::Error,
            },
        }
    }

    /// The word itself, for hashing.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_boxing() {
        for value in [0, 1, -1, (1 << 47) - 1, -(1 << 47)] {
            assert_eq!(Cell::small_int(value).unwrap().kind(), CellKind::Int(value));
        }
        assert!(Cell::small_int(1 << 47).is_none());
        for value in [0.0, -0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::MIN] {
            assert_eq!(Cell::real(value).kind(), CellKind::Real(value));
        }
        assert!(matches!(Cell::real(-f64::NAN).kind(), CellKind::Real(v) if v.is_nan()));
        assert_ne!(Cell::real(0.0), Cell::real(-0.0));
        assert_eq!(Cell::str(7).kind(), CellKind::Str(7));
        assert_eq!(Cell::expr(u32::MAX).kind(), CellKind::Expr(u32::MAX));
        assert_eq!(Cell::big(3).kind(), CellKind::BigInt(3));
        assert_eq!(Cell::TRUE.kind(), CellKind::Bool(true));
        assert_eq!(Cell::MISSING.kind(), CellKind::Missing);
    }
}
