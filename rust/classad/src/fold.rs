//! Evaluating ahead of time: constant folding, and what is left of an expression once one side is known.

use crate::ad::Ad;
use crate::analysis::{Reads, reads_in};
use crate::eval::{Context, eval_within};
use crate::expr::{BinaryOp, Call, Expr, Side, Ternary, UnaryOp};
use crate::name::Name;
use crate::value::Value;
use std::sync::Arc;

/// The clauses of `a && (b && c) && ...`, in order.
#[must_use]
pub fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let mut out = Vec::new();
    let mut todo = vec![expr];
    while let Some(expr) = todo.pop() {
        match expr.unparen() {
            Expr::Binary(b) if b.op == BinaryOp::And => {
                todo.push(&b.right);
                todo.push(&b.left);
            }
            _ => out.push(expr),
        }
    }
    out
}

/// An expression with the same value in every context, its constant parts evaluated.
#[must_use]
pub fn fold(expr: &Expr) -> Expr {
    Folder {
        my: None,
        hidden: Vec::new(),
        depth: 0,
        nodes: 0,
        steps: MAX_STEPS,
    }
    .rebuild(expr)
}

/// What is left of an expression of `my` when only TARGET is unknown: evaluated in `my` with any target it
/// gives what `expr` gives. Names without scope word that `my` lacks become TARGET's (normal mode).
#[must_use]
pub fn residual(expr: &Expr, my: &Ad) -> Expr {
    if Reads::of(expr).moves_in(|name| my.contains(name)) {
        return expr.clone();
    }
    Folder {
        my: Some(my),
        hidden: Vec::new(),
        depth: 0,
        nodes: 0,
        steps: MAX_STEPS,
    }
    .rebuild(expr)
}

/// How deep trees are rebuilt; deeper parts stay as they are.
const MAX_DEPTH: usize = 300;
/// How many nodes are rebuilt, definitions that are put in counted each time; what is beyond stays as it is. Definitions
/// that name others twice each would double the tree with each of them.
const MAX_NODES: usize = 20_000;
/// Steps that all constant parts together may take to evaluate; what would take more stays as it is.
const MAX_STEPS: i64 = 200_000;

struct Folder<'a> {
    my: Option<&'a Ad>,
    /// Definitions being put in: a name met again inside its own is a cycle and stays.
    hidden: Vec<Name>,
    depth: usize,
    nodes: usize,
    /// Steps that are left for constant parts.
    steps: i64,
}

fn literal(expr: &Expr) -> Option<&Value> {
    match expr.unparen() {
        // A written span is a real once evaluated, so it is not a stand-in for itself.
        Expr::Lit(Value::RelTime(_)) => None,
        Expr::Lit(value) => Some(value),
        _ => None,
    }
}

/// Whether the value can only be true, false, undefined or error.
fn is_logical(expr: &Expr) -> bool {
    match expr.unparen() {
        Expr::Lit(value) => matches!(value, Value::Bool(_) | Value::Undefined | Value::Error),
        Expr::Binary(b) => b.op.is_comparison() || matches!(b.op, BinaryOp::And | BinaryOp::Or),
        Expr::Unary(u) => u.op == UnaryOp::Not,
        _ => false,
    }
}

/// A value that a literal can stand for exactly.
fn stands(value: &Value) -> bool {
    !matches!(value, Value::RelTime(_) | Value::List(_) | Value::Ad(_))
}

impl Folder<'_> {
    fn constant(&mut self, expr: Expr) -> Expr {
        let (outcome, steps) = eval_within(&expr, &Context::default(), self.steps);
        self.steps -= steps;
        match outcome {
            Ok(value) if stands(&value) => Expr::Lit(value),
            _ => expr,
        }
    }

    fn rebuild(&mut self, expr: &Expr) -> Expr {
        self.depth += 1;
        self.nodes += 1;
        let out = if self.depth > MAX_DEPTH || self.nodes > MAX_NODES {
            expr.clone()
        } else {
            self.step(expr)
        };
        self.depth -= 1;
        out
    }

    fn step(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Lit(_) | Expr::AbsAttr(_) | Expr::List(_) | Expr::Ad(_) => expr.clone(),
            Expr::Attr(_) | Expr::Select(_) => self.reference(expr),
            Expr::Paren(inner) => match self.rebuild(inner) {
                lit @ Expr::Lit(_) => lit,
                other => Expr::paren(other),
            },
            Expr::Unary(u) => {
                let arg = self.rebuild(&u.arg);
                let known = literal(&arg).is_some();
                let out = Expr::unary(u.op, arg);
                if known { self.constant(out) } else { out }
            }
            Expr::Binary(b) => {
                let (left, right) = (self.rebuild(&b.left), self.rebuild(&b.right));
                self.binary(b.op, left, right)
            }
            Expr::Ternary(t) => self.ternary(t),
            Expr::Elvis(e) => {
                let left = self.rebuild(&e.0);
                match literal(&left) {
                    Some(Value::Undefined) => self.rebuild(&e.1),
                    Some(_) => left,
                    None => Expr::Elvis(Arc::new((left, self.rebuild(&e.1)))),
                }
            }
            Expr::Subscript(s) => {
                Expr::Subscript(Arc::new((self.rebuild(&s.0), self.rebuild(&s.1))))
            }
            Expr::Call(call) => self.call(call),
        }
    }

    fn ternary(&mut self, t: &Ternary) -> Expr {
        let cond = self.rebuild(&t.cond);
        match literal(&cond) {
            Some(Value::Undefined) => Expr::Lit(Value::Undefined),
            Some(Value::Error) => Expr::Lit(Value::Error),
            Some(value) if value.truth() == Some(true) => self.rebuild(&t.then),
            Some(value) if value.truth() == Some(false) => self.rebuild(&t.other),
            _ => Expr::Ternary(Arc::new(Ternary {
                cond,
                then: self.rebuild(&t.then),
                other: self.rebuild(&t.other),
            })),
        }
    }

    fn call(&mut self, call: &Arc<Call>) -> Expr {
        let steady = call.builtin.is_some_and(|b| b.spec().steady);
        if !steady {
            // Such a function may look at its arguments' definitions, so they must stay.
            return Expr::Call(call.clone());
        }
        let args: Box<[Expr]> = call.args.iter().map(|arg| self.rebuild(arg)).collect();
        let known = args.iter().all(|arg| literal(arg).is_some());
        let out = Call {
            name: call.name.clone(),
            builtin: call.builtin,
            args,
        };
        let out = Expr::Call(Arc::new(out));
        if known { self.constant(out) } else { out }
    }

    fn reference(&mut self, expr: &Expr) -> Expr {
        let (Some(my), Some((side, name))) = (self.my, expr.as_reference()) else {
            return expr.clone();
        };
        if name.special().is_some() || side == Side::Target || my.may_shadow() {
            return expr.clone();
        }
        let Some(definition) = my.get(name) else {
            return match side {
                Side::My => Expr::Lit(Value::Undefined),
                _ => Expr::select(Expr::attr("TARGET"), name.clone()),
            };
        };
        if self.hidden.contains(name) {
            return expr.clone();
        }
        if let Expr::Lit(value) = definition {
            return if stands(value) {
                definition.clone()
            } else {
                expr.clone()
            };
        }
        let reads = reads_in(definition, my);
        if reads.unbounded || matches!(definition, Expr::List(_) | Expr::Ad(_)) {
            return expr.clone();
        }
        self.hidden.push(name.clone());
        let inner = self.rebuild(definition);
        self.hidden.pop();
        // A name that stayed inside might mean a cycle, which the definition's own name would cut.
        if Reads::of(&inner).of_my().next().is_none() {
            match inner {
                lit @ Expr::Lit(_) => lit,
                other => Expr::paren(other),
            }
        } else {
            expr.clone()
        }
    }

    fn binary(&mut self, op: BinaryOp, left: Expr, right: Expr) -> Expr {
        let (l, r) = (literal(&left), literal(&right));
        if l.is_some() && r.is_some() {
            return self.constant(Expr::binary(op, left, right));
        }
        if let Some(decided) = l.and_then(|l| crate::ops::decided_by_left(op, l)) {
            return Expr::Lit(decided);
        }
        let neutral = match op {
            BinaryOp::And => Some(true),
            BinaryOp::Or => Some(false),
            _ => None,
        };
        if let Some(neutral) = neutral {
            if l.and_then(Value::truth) == Some(neutral) && is_logical(&right) {
                return right;
            }
            if r.and_then(Value::truth) == Some(neutral) && is_logical(&left) {
                return left;
            }
        }
        Expr::binary(op, left, right)
    }
}
