//! What a cycle is given, and what it made of that before it began: the same for all its parts, changed by none.

use crate::config::CycleConfig;
use crate::dependencies::Dependencies;
use crate::index::SlotIndex;
use crate::request::Demand;
use classad::{Ad, Context, Expr, Value, evaluate};
use columns::{AdTable, Matcher, Row};

/// How requests go through slots that need nothing but a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traversal {
    /// As costs least.
    #[default]
    Cheapest,
    /// Class by class.
    ByClass,
    /// Along sorted lists, always.
    Sorted,
}

/// See the module text.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Slot ads.
    pub table: &'a AdTable,
    /// The engine that asks conditions of whole columns.
    pub matcher: &'a Matcher,
    /// Submitters and their requests.
    pub demand: &'a Demand,
    /// Slots by class.
    pub index: &'a SlotIndex,
    /// Which attributes the expressions of the cycle read.
    pub dependencies: &'a Dependencies,
    /// Knobs.
    pub config: &'a CycleConfig,
    /// Epoch seconds.
    pub now: i64,
    /// How requests go through slots.
    pub traversal: Traversal,
}

impl<'a> Inputs<'a> {
    /// Evaluates `expr` of `my` against `target`.
    #[must_use]
    pub fn eval(&self, expr: &Expr, my: &Ad, target: &Ad) -> Value {
        let context = Context {
            my: Some(my),
            target: Some(target),
            now: self.now,
            ..Context::default()
        };
        evaluate(expr, &context)
    }

    /// The partitionable slot that a dynamic one was carved from: `slot1@host` for `slot1_3@host`.
    #[must_use]
    pub fn parent_of(&self, row: Row) -> Option<Row> {
        let key = self.table.key(row);
        let at = key
            .iter()
            .position(|byte| *byte == b'@')
            .unwrap_or(key.len());
        let cut = key[..at].iter().rposition(|byte| *byte == b'_')?;
        let digits = &key[cut + 1..at];
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let name = [&key[..cut], &key[at..]].concat();
        let parent = self.table.row_of(&name)?;
        let class = self.index.class_of(parent)?;
        self.index.classes()[class].partitionable.then_some(parent)
    }
}
