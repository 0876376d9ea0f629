//! Matching two ads: does each one's Requirements accept the other?

use crate::ad::Ad;
use crate::eval::{Context, Evaluator};
use crate::expr::Expr;
use crate::value::Value;

/// Whether `context.target` satisfies the Requirements of `context.my`.
#[must_use]
pub fn accepts(context: &Context<'_>) -> bool {
    let requirements = context.my.and_then(|my| my.get_bytes(b"Requirements"));
    let Some(requirements) = requirements else {
        return false;
    };
    requirement_value(requirements, context).is_true()
}

fn requirement_value(requirements: &Expr, context: &Context<'_>) -> Value {
    Evaluator::new(*context)
        .eval(requirements)
        .unwrap_or(Value::Error)
}

/// Whether each ad satisfies the other's Requirements.
#[must_use]
pub fn symmetric(context: &Context<'_>) -> bool {
    accepts(context)
        && accepts(&Context {
            my: context.target,
            target: context.my,
            ..*context
        })
}

/// The value of one clause of a Requirements.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The clause as written.
    pub expr: Expr,
    /// What it evaluates to.
    pub value: Value,
}

impl Clause {
    /// Whether this clause lets the match through.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.value.is_true()
    }
}

/// One side's verdict on the other.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What the whole Requirements evaluates to; undefined if the ad has none.
    pub value: Value,
    /// Its clauses in order; empty if the ad has none.
    pub clauses: Vec<Clause>,
}

impl Verdict {
    /// Whether the other ad is accepted.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.value.is_true()
    }
}

/// Evaluates each clause of MY's Requirements against TARGET.
#[must_use]
pub fn verdict(context: &Context<'_>) -> Verdict {
    let requirements = context.my.and_then(|my: &Ad| my.get_bytes(b"Requirements"));
    let Some(requirements) = requirements else {
        return Verdict {
            value: Value::Undefined,
            clauses: Vec::new(),
        };
    };
    let clauses = crate::fold::conjuncts(requirements)
        .into_iter()
        .map(|expr| Clause {
            expr: expr.clone(),
            value: requirement_value(expr, context),
        })
        .collect();
    Verdict {
        value: requirement_value(requirements, context),
        clauses,
    }
}
