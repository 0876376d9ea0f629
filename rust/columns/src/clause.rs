//! Conditions split at `&&`, with what each clause mentions, made once per text.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use classad::analysis::Reads;
use classad::{BinaryOp, Expr, Name, Side, UnaryOp};
use rustc_hash::FxHashMap;

use crate::ads::canonical_text;
use crate::cell::ExprId;
use crate::lists::Uses;
use crate::table::AdTable;

/// One clause of a condition, or a whole expression.
#[derive(Debug)]
pub(crate) struct Clause {
    /// Clauses of one cache with the same number have the same text.
    pub id: u32,
    /// The expression.
    pub expr: Expr,
    /// Its canonical text: equal texts mean the same.
    pub text: Box<[u8]>,
    /// What it mentions, definitions of attributes not followed.
    pub reads: Reads,
    /// How deep it nests.
    pub depth: u32,
    /// It stands for the definition of the attribute itself, as when a Requirements is asked, rather than
    /// for a reference to it. (A definition that leads back to itself tells the two apart.)
    pub root: bool,
    /// The attribute it is, if it is nothing else.
    pub reference: Option<(Side, Name)>,
    /// It has parts that take far longer than a comparison.
    pub heavy: bool,
    /// Made when first needed.
    uses: OnceLock<Uses>,
}

/// A condition taken apart.
#[derive(Debug)]
pub(crate) enum Parts {
    /// It is not a condition made of conditions.
    Leaf,
    /// `a && b && ...`
    All(Clauses),
    /// `a || b || ...`
    Any(Clauses),
    /// `!a`
    Not(Arc<Clause>),
    /// `a ? b : c`
    Choice([Arc<Clause>; 3]),
    /// `a ?: b`
    Else([Arc<Clause>; 2]),
}

impl Clause {
    /// The facts of an expression with this text, of no cache.
    pub fn new(expr: Expr, text: Vec<u8>) -> Self {
        let reads = Reads::of(&expr);
        let reference = expr
            .unparen()
            .as_reference()
            .map(|(side, name)| (side, name.clone()));
        Clause {
            id: NO_ID,
            depth: depth(&expr),
            heavy: heavy(&expr),
            expr,
            text: text.into(),
            root: false,
            reads,
            reference,
            uses: OnceLock::new(),
        }
    }

    /// How it uses names.
    pub fn uses(&self) -> &Uses {
        self.uses.get_or_init(|| Uses::of(&self.expr))
    }

    /// The definition of MY.Requirements.
    pub fn requirements() -> Self {
        let expr = Expr::select(Expr::attr("MY"), Name::from("Requirements"));
        Clause {
            id: ROOT_ID,
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

pub(crate) type Clauses = Arc<[Arc<Clause>]>;

/// Number of clauses that no cache knows.
const NO_ID: u32 = 0;
/// Number of MY.Requirements.
const ROOT_ID: u32 = 1;
/// The first number that a cache gives.
const FIRST_ID: u32 = 2;
/// Clauses remembered before starting anew.
const REMEMBER_MAX: usize = 50_000;

/// Something made of an expression, by the address of the expression; the expression is kept, so that
/// no other takes its address.
type ByAddress<V> = Mutex<FxHashMap<usize, (Expr, V)>>;

/// The number of a clause, and a text.
type ClauseAndText = (u32, Box<[u8]>);

/// Clauses by text, by expression, and by id in a table's pool.
#[derive(Debug, Default)]
pub(crate) struct ClauseCache {
    known: Mutex<FxHashMap<Box<[u8]>, Arc<Clause>>>,
    parts: Mutex<FxHashMap<u32, Arc<Parts>>>,
    whole: ByAddress<Arc<Clause>>,
    pooled: Mutex<FxHashMap<ExprId, Arc<Clause>>>,
    /// Clauses with a computed text put in place, by the number of the clause and the text.
    computed: Mutex<FxHashMap<ClauseAndText, Arc<Clause>>>,
    /// Numbers given so far; never given again.
    ids: AtomicU32,
}

/// The address of what an expression shares with its clones, if it shares anything.
fn address(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Lit(_) | Expr::Attr(_) | Expr::AbsAttr(_) => None,
        Expr::Select(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::Unary(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::Binary(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::Ternary(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::Elvis(inner) | Expr::Subscript(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::Paren(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::Call(inner) => Some(Arc::as_ptr(inner) as usize),
        Expr::List(inner) => Some(Arc::as_ptr(inner).cast::<u8>() as usize),
        Expr::Ad(inner) => Some(Arc::as_ptr(inner) as usize),
    }
}

/// A poisoned lock only means that another thread panicked between two whole updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn by_address<V: Clone>(cache: &ByAddress<V>, expr: &Expr, make: impl FnOnce() -> V) -> V {
    let Some(address) = address(expr) else {
        return make();
    };
    if let Some((_, value)) = lock(cache).get(&address) {
        return value.clone();
    }
    let value = make();
    let mut known = lock(cache);
    if known.len() >= REMEMBER_MAX {
        known.clear();
    }
    known.insert(address, (expr.clone(), value.clone()));
    value
}

fn by_id<V: Clone>(cache: &Mutex<FxHashMap<ExprId, V>>, id: ExprId, make: impl FnOnce() -> V) -> V {
    if let Some(value) = lock(cache).get(&id) {
        return value.clone();
    }
    let value = make();
    lock(cache).insert(id, value.clone());
    value
}

impl ClauseCache {
    /// The expression unsplit.
    pub fn whole(&self, expr: &Expr) -> Arc<Clause> {
        by_address(&self.whole, expr, || {
            self.clause(expr, canonical_text(expr))
        })
    }

    /// An expression of the table's pool, unsplit.
    pub fn pooled(&self, table: &AdTable, id: ExprId) -> Arc<Clause> {
        by_id(&self.pooled, id, || {
            self.clause(table.exprs().get(id), table.exprs().text(id).to_vec())
        })
    }

    /// The clause that `make` makes of another one for a computed text.
    pub fn with_text(
        &self,
        clause: &Clause,
        text: &[u8],
        make: impl FnOnce() -> Expr,
    ) -> Arc<Clause> {
        let key = (clause.id, Box::from(text));
        if let Some(known) = lock(&self.computed).get(&key) {
            return known.clone();
        }
        let expr = make();
        let made = self.clause(&expr, canonical_text(&expr));
        let mut known = lock(&self.computed);
        if known.len() >= REMEMBER_MAX {
            known.clear();
        }
        known.insert(key, made.clone());
        made
    }

    /// The one clause with this text.
    fn clause(&self, expr: &Expr, text: Vec<u8>) -> Arc<Clause> {
        if let Some(known) = lock(&self.known).get(&*text) {
            return known.clone();
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + FIRST_ID;
        let made = Arc::new(Clause {
            id,
            ..Clause::new(expr.clone(), text)
        });
        let mut known = lock(&self.known);
        if known.len() >= REMEMBER_MAX {
            known.clear();
        }
        let kept = known.entry(made.text.clone()).or_insert(made);
        kept.clone()
    }

    /// The conditions that a condition is made of.
    pub fn parts(&self, clause: &Clause) -> Arc<Parts> {
        if let Some(known) = lock(&self.parts).get(&clause.id) {
            return known.clone();
        }
        let made = Arc::new(self.take_apart(&clause.expr));
        let mut known = lock(&self.parts);
        if known.len() >= REMEMBER_MAX {
            known.clear();
        }
        known.insert(clause.id, made.clone());
        made
    }

    /// The clauses of a condition, taken apart at `&&`.
    pub fn conjuncts(&self, clause: &Arc<Clause>) -> Clauses {
        match &*self.parts(clause) {
            Parts::All(clauses) => clauses.clone(),
            _ => Arc::from([clause.clone()]),
        }
    }

    fn take_apart(&self, expr: &Expr) -> Parts {
        let part = |expr: &Expr| self.whole(expr.unparen());
        match expr.unparen() {
            Expr::Binary(binary) if matches!(binary.op, BinaryOp::And | BinaryOp::Or) => {
                let mut out = Vec::new();
                let mut stack = vec![expr];
                while let Some(next) = stack.pop() {
                    match next.unparen() {
                        Expr::Binary(inner) if inner.op == binary.op => {
                            stack.push(&inner.right);
                            stack.push(&inner.left);
                        }
                        clause => out.push(part(clause)),
                    }
                }
                match binary.op {
                    BinaryOp::And => Parts::All(out.into()),
                    _ => Parts::Any(out.into()),
                }
            }
            Expr::Unary(unary) if unary.op == UnaryOp::Not => Parts::Not(part(&unary.arg)),
            Expr::Ternary(ternary) => {
                let parts = [&ternary.cond, &ternary.then, &ternary.other];
                Parts::Choice(parts.map(part))
            }
            Expr::Elvis(pair) => Parts::Else([part(&pair.0), part(&pair.1)]),
            Expr::Call(call) if call.name.is("ifThenElse") => match &*call.args {
                [cond, then, other] => Parts::Choice([cond, then, other].map(part)),
                _ => Parts::Leaf,
            },
            _ => Parts::Leaf,
        }
    }

    /// Forgets everything (ids have changed their meaning).
    pub fn clear(&mut self) {
        let given = self.ids.load(Ordering::Relaxed);
        *self = ClauseCache {
            ids: AtomicU32::new(given),
            ..ClauseCache::default()
        };
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

/// Whether an expression has calls, lists and the like: what takes far longer than a comparison.
fn heavy(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Attr(_) => false,
        Expr::Select(_) => expr.as_reference().is_none(),
        Expr::Unary(unary) => heavy(&unary.arg),
        Expr::Binary(binary) => heavy(&binary.left) || heavy(&binary.right),
        Expr::Ternary(t) => heavy(&t.cond) || heavy(&t.then) || heavy(&t.other),
        Expr::Elvis(pair) => heavy(&pair.0) || heavy(&pair.1),
        Expr::Paren(inner) => heavy(inner),
        Expr::AbsAttr(_) | Expr::Subscript(_) | Expr::Call(_) | Expr::List(_) | Expr::Ad(_) => true,
    }
}
