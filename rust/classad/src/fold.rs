//! What is known of an expression before it is evaluated.

use crate::expr::{BinaryOp, Expr};

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
