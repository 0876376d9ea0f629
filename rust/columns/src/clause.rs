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
    /// How deep it nests.
    pub depth: u32,
    /// It stands for the definition of the attribute itself, as when a Requirements is asked, rather than
    /// for a reference to it. (A definition that leads back to itself tells the two apart.)
    pub root: bool,
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
            depth: depth(&expr),
            expr,
            text: text.into(),
            root: false,
            mentions,
            reference,
        }
    }

    /// The definition of MY.Requirements.
    pub fn requirements() -> Self {
        let expr = Expr::select(Expr::attr("MY"), Name::from("Requirements"));
        Clause {
            root: true,
            ..Clause::new(expr, b"\x01Requirements".to_vec())
        }
    }

    /// The text for people.
    pub fn shown(&self) -> String {
        if self.root {
            return "Requirements".to_owned();
        }
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

/// How deep an expression nests.
fn depth(expr: &Expr) -> u32 {
    1 + match expr {
        Expr::Lit(_) | Expr::Attr(_) | Expr::AbsAttr(_) => 0,
        Expr::Select(select) => depth(&select.base),
        Expr::Unary(unary) => depth(&unary.arg),
        Expr::Binary(binary) => depth(&binary.left).max(depth(&binary.right)),
        Expr::Ternary(t) => depth(&t.cond).max(depth(&t.then)).max(depth(&t.other)),
        Expr::Elvis(pair) | Expr::Subscript(pair) => depth(&pair.0).max(depth(&pair.1)),
        Expr::Paren(inner) => depth(inner),
        Expr::Call(call) => call.args.iter().map(depth).max().unwrap_or(0),
        Expr::List(items) => items.iter().map(depth).max().unwrap_or(0),
        Expr::Ad(ad) => ad.iter().map(|(_, expr)| depth(expr)).max().unwrap_or(0),
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
