//! Conditions split at `&&`, with what each clause mentions, made once per text.

use std::sync::{Arc, Mutex};

use classad::{BinaryOp, Expr, Name, Side};
use rustc_hash::FxHashMap;

use crate::ads::canonical_text;
use crate::cell::ExprId;
use crate::mentions::Mentions;
use crate::table::AdTable;

/// One clause of a condition, or a whole expression.
#[derive(Debug)]
pub(crate) struct Clause {
    /// The expression.
    pub expr: Expr,
    /// Its canonical text: equal texts mean the same.
    pub text: Box<[u8]>,
    /// What it mentions.
    pub mentions: Mentions,
    /// The attribute it is, if it is nothing else.
    pub reference: Option<(Side, Name)>,
}

impl Clause {
    /// The facts of an expression with this text.
    pub fn new(expr: Expr, text: Vec<u8>) -> Self {
        let mentions = Mentions::of(&expr);
        let reference = expr
            .unparen()
            .as_reference()
            .map(|(side, name)| (side, name.clone()));
        Clause {
            expr,
            text: text.into(),
            mentions,
            reference,
        }
    }

    /// The text for people.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}

type Clauses = Arc<[Arc<Clause>]>;

/// Clauses by text, and by id in a table's pool.
#[derive(Debug, Default)]
pub(crate) struct ClauseCache {
    split: Mutex<FxHashMap<Box<[u8]>, Clauses>>,
    whole: Mutex<FxHashMap<Box<[u8]>, Arc<Clause>>>,
    split_pooled: Mutex<FxHashMap<ExprId, Clauses>>,
    pooled: Mutex<FxHashMap<ExprId, Arc<Clause>>>,
}

/// Texts remembered before starting anew.
const REMEMBER_MAX: usize = 50_000;

fn remember<K: std::hash::Hash + Eq, V: Clone>(
    cache: &Mutex<FxHashMap<K, V>>,
    key: K,
    make: impl FnOnce(&K) -> V,
) -> V {
    if let Ok(known) = cache.lock()
        && let Some(value) = known.get(&key)
    {
        return value.clone();
    }
    let value = make(&key);
    if let Ok(mut known) = cache.lock() {
        if known.len() >= REMEMBER_MAX {
            known.clear();
        }
        known.insert(key, value.clone());
    }
    value
}

impl ClauseCache {
    /// The clauses of a condition, outermost parentheses and `&&` taken apart.
    pub fn split(&self, expr: &Expr) -> Clauses {
        remember(&self.split, canonical_text(expr).into(), |_| split(expr))
    }

    /// The expression unsplit.
    pub fn whole(&self, expr: &Expr) -> Arc<Clause> {
        remember(&self.whole, canonical_text(expr).into(), |_| whole(expr))
    }

    /// The clauses of an expression of the table's pool.
    pub fn split_pooled(&self, table: &AdTable, id: ExprId) -> Clauses {
        remember(&self.split_pooled, id, |id| split(table.exprs().get(*id)))
    }

    /// An expression of the table's pool, unsplit.
    pub fn pooled(&self, table: &AdTable, id: ExprId) -> Arc<Clause> {
        remember(&self.pooled, id, |id| {
            Arc::new(Clause::new(
                table.exprs().get(*id).clone(),
                table.exprs().text(*id).to_vec(),
            ))
        })
    }

    /// Forgets everything (ids have changed their meaning).
    pub fn clear(&mut self) {
        *self = ClauseCache::default();
    }
}

fn whole(expr: &Expr) -> Arc<Clause> {
    Arc::new(Clause::new(expr.clone(), canonical_text(expr)))
}

fn split(expr: &Expr) -> Clauses {
    let mut out = Vec::new();
    let mut stack = vec![expr];
    while let Some(next) = stack.pop() {
        match next.unparen() {
            Expr::Binary(binary) if binary.op == BinaryOp::And => {
                stack.push(&binary.right);
                stack.push(&binary.left);
            }
            clause => out.push(Arc::new(Clause::new(
                clause.clone(),
                canonical_text(clause),
            ))),
        }
    }
    out.into()
}
