//! Functions that look at definitions or evaluate in other scopes.

use crate::eval::{BYTES_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::parser::{Syntax, parse_computed};
use crate::print::{Style, unparse, unparse_styled};
use crate::scope::{MY, TARGET};
use crate::value::{Scope, Value};

pub(super) fn if_then_else(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    match e.eval_in(&args[0], frame)? {
        Value::Undefined => Ok(Value::Undefined),
        cond => match cond.truth() {
            Some(true) => e.eval_in(&args[1], frame),
            Some(false) => e.eval_in(&args[2], frame),
            None => Ok(Value::Error),
        },
    }
}

pub(super) fn debug(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    e.eval_debugged(&args[0], frame)
}

pub(super) fn eval(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let value = e.eval_in(&args[0], frame)?;
    let Some(text) = e.text_of(&value)? else {
        return Ok(Value::Error);
    };
    if e.depth <= 0 {
        return Err(EvalAborted);
    }
    e.charge(text.as_bytes().len(), text.as_bytes().len())?;
    let syntax = Syntax {
        strict: e.context().strict,
        ..Syntax::NORMAL
    };
    let Ok(expr) = parse_computed(text.as_bytes(), syntax) else {
        return Ok(Value::Error);
    };
    e.depth -= 1;
    let result = e.eval_in(&expr, Frame { nest: e.names });
    e.depth += 1;
    result
}

pub(super) fn is_reference(expr: &Expr) -> bool {
    matches!(expr, Expr::Attr(_) | Expr::AbsAttr(_) | Expr::Select(_))
}

/// `unparse(attribute)`: the text of its definition in the ad at hand; empty if that has none.
pub(super) fn unparse_attribute(e: &mut Evaluator<'_>, args: &[Expr], _: Frame) -> Outcome {
    let [expr] = args else {
        return Ok(Value::Error);
    };
    if !is_reference(expr) {
        return Ok(Value::Error);
    }
    let name = crate::name::Name::new(&unparse(expr));
    let definition = e.own_definition(&name);
    let style = Style {
        indent: true,
        ..Style::default()
    };
    let text = definition.map_or(Vec::new(), |d| unparse_styled(&d, style));
    e.charge(text.len() / BYTES_A_STEP, text.len())?;
    Ok(Value::Str(text.into()))
}

pub(super) fn eval_in_each_context(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut items = Vec::new();
    let status = in_each_context(e, args, frame, |value| items.push(value.into_expr()))?;
    Ok(match status {
        Status::Done => Value::made_list(items),
        Status::NoList => Value::Undefined,
        Status::Wrong => Value::Error,
    })
}

pub(super) fn count_matches(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut count = 0;
    let status = in_each_context(e, args, frame, |value| count += i64::from(value.is_true()))?;
    Ok(match status {
        Status::Wrong => Value::Error,
        _ => Value::Int(count),
    })
}

enum Status {
    Done,
    NoList,
    Wrong,
}

/// Evaluates the first argument in each ad of the list that the second is. A reference is replaced by its
/// definition first, if it has one here. Ads and lists written in the expression stay nested where they are written.
fn in_each_context(
    e: &mut Evaluator<'_>,
    args: &[Expr],
    frame: Frame,
    mut take: impl FnMut(Value),
) -> Result<Status, EvalAborted> {
    let mut expr = args[0].clone();
    let mut written = frame;
    if is_reference(&expr)
        && let Ok(Some(definition)) = e.dereference(&expr, frame)
    {
        expr = definition;
        written = Frame { nest: e.names };
    }
    let list = match e.eval_in(&args[1], frame) {
        Ok(Value::List(list)) => list,
        Ok(Value::Undefined) => return Ok(Status::NoList),
        // A reference that cannot be followed counts as undefined, as in HTCondor.
        Err(_) if is_reference(&args[1]) => return Ok(Status::NoList),
        Ok(_) | Err(_) => return Ok(Status::Wrong),
    };
    for item in list.items.iter() {
        let context = e
            .eval_in(item, Frame { nest: list.scope })
            .unwrap_or(Value::Error);
        take(match context {
            Value::Ad(ad) => {
                let around = e.scope_around(&ad);
                let scope = e.scope_of(&ad);
                let scope = e.linked(scope, around);
                e.eval_elsewhere(&expr, scope, written)
                    .unwrap_or(Value::Error)
            }
            Value::Undefined => Value::Undefined,
            _ => Value::Error,
        });
    }
    Ok(Status::Done)
}

impl Evaluator<'_> {
    /// The scope of an ad right inside MY or TARGET, with the other of the two as its alternate.
    fn linked(&mut self, scope: Scope, around: Scope) -> Scope {
        if !self.scopes.matching || self.context().strict {
            return scope;
        }
        let mut side = around;
        if side != MY && side != TARGET {
            // The context ads count as part of their side; the match ad counts as MY's.
            let reaches = |scopes: &crate::scope::Scopes<'_>, from: Scope| {
                let mut at = from;
                while at != Scope::NONE {
                    if at == around {
                        return true;
                    }
                    at = scopes.parent(at);
                }
                false
            };
            side = if around == Scope::NONE {
                return scope;
            } else if reaches(&self.scopes, MY) {
                MY
            } else if reaches(&self.scopes, TARGET) {
                TARGET
            } else {
                return scope;
            };
        }
        let alternate = self.scopes.alternate(side);
        self.scopes.with_alternate(scope, alternate)
    }
}
