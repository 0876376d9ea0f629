//! Functions of lists. Items are evaluated with the names in use where the call is, not the list's.

use super::only;
use super::stringlists::Bytes;
use crate::coerce::promote;
use crate::eval::{EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::{BinaryOp, Expr};
use crate::ops;
use crate::value::{ListValue, Value};

/// Steps of making an item of a list.
pub(super) const ITEM_STEPS: usize = 2;

/// The values of a list's items, one after the other.
fn each(
    e: &mut Evaluator<'_>,
    list: &ListValue,
    mut visit: impl FnMut(&mut Evaluator<'_>, Value) -> Result<Option<Value>, EvalAborted>,
) -> Result<Option<Value>, EvalAborted> {
    for item in list.items.iter() {
        let value = e.eval_in(item, Frame { nest: list.scope })?;
        if let Some(done) = visit(e, value)? {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

pub(super) fn member(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    find(e, args, frame, BinaryOp::Eq)
}

pub(super) fn identical_member(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    find(e, args, frame, BinaryOp::Is)
}

fn find(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame, op: BinaryOp) -> Outcome {
    let mut wanted = e.eval_in(&args[0], frame)?;
    let list = e.eval_in(&args[1], frame)?;
    let exact = op == BinaryOp::Is;
    if matches!(list, Value::Undefined) || (!exact && matches!(wanted, Value::Undefined)) {
        return Ok(Value::Undefined);
    }
    let Value::List(list) = list else {
        return Ok(Value::Error);
    };
    if matches!(wanted, Value::List(_) | Value::Ad(_)) || (!exact && matches!(wanted, Value::Error))
    {
        return Ok(Value::Error);
    }
    let found = each(e, &list, |e, mut item| {
        if !exact {
            // Comparing changes the wanted value too: once met with a real, a number stays one.
            promote(&mut item, &mut wanted);
        }
        let same = e.operate(op, &item, &wanted)?;
        Ok(matches!(same, Value::Bool(true)).then_some(same))
    })?;
    Ok(found.unwrap_or(Value::Bool(false)))
}

pub(super) fn size(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let n = match e.eval_in(&args[0], frame)? {
        Value::Undefined => return Ok(Value::Undefined),
        Value::List(list) => list.items.len(),
        Value::Ad(ad) => ad.ad.len(),
        Value::Str(s) => s.as_bytes().len(),
        _ => return Ok(Value::Error),
    };
    Ok(Value::Int(n as i64))
}

/// The list a one-argument function is called with, or its result if there is none.
fn the_list(
    e: &mut Evaluator<'_>,
    args: &[Expr],
    frame: Frame,
) -> Result<Result<ListValue, Value>, EvalAborted> {
    Ok(match e.eval_in(&args[0], frame)? {
        Value::List(list) => Ok(list),
        Value::Undefined => Err(Value::Undefined),
        _ => Err(Value::Error),
    })
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Real(_))
}

/// The sum of a list's numbers and how many there are; undefined items do not count.
fn total(e: &mut Evaluator<'_>, list: &ListValue) -> Result<Option<(Value, usize)>, EvalAborted> {
    let mut sum = Value::Int(0);
    let mut count = 0;
    let bad = each(e, list, |_, item| {
        if matches!(item, Value::Undefined) {
            return Ok(None);
        }
        if !is_number(&item) {
            return Ok(Some(Value::Error));
        }
        // A single item comes back as it is, even a boolean.
        sum = if count == 0 {
            item
        } else {
            ops::binary(BinaryOp::Add, &sum, &item)
        };
        count += 1;
        Ok(None)
    })?;
    Ok(if bad.is_some() {
        None
    } else {
        Some((sum, count))
    })
}

pub(super) fn sum(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    Ok(match the_list(e, args, frame)? {
        Err(value) => value,
        Ok(list) => total(e, &list)?.map_or(Value::Error, |(sum, _)| sum),
    })
}

pub(super) fn avg(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    Ok(match the_list(e, args, frame)? {
        Err(value) => value,
        Ok(list) => match total(e, &list)? {
            None => Value::Error,
            Some((sum, 0)) => sum,
            Some((sum, n)) => ops::binary(BinaryOp::Div, &sum, &Value::Real(n as f64)),
        },
    })
}

pub(super) fn min(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    bound(e, args, frame, BinaryOp::Lt)
}

pub(super) fn max(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    bound(e, args, frame, BinaryOp::Gt)
}

fn bound(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame, op: BinaryOp) -> Outcome {
    let list = match the_list(e, args, frame)? {
        Err(value) => return Ok(value),
        Ok(list) => list,
    };
    let mut best = Value::Undefined;
    let bad = each(e, &list, |_, mut item| {
        if matches!(item, Value::Undefined) {
            return Ok(None);
        }
        if !is_number(&item) {
            return Ok(Some(Value::Error));
        }
        if matches!(best, Value::Undefined) {
            best = item;
            return Ok(None);
        }
        // Comparing promotes both, and the promoted value is what is kept.
        promote(&mut item, &mut best);
        if ops::binary(op, &item, &best).is_true() {
            best = item;
        }
        Ok(None)
    })?;
    Ok(bad.unwrap_or(best))
}

pub(super) fn any_compare(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    compare(e, args, frame, false)
}

pub(super) fn all_compare(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    compare(e, args, frame, true)
}

fn compare(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame, all: bool) -> Outcome {
    let op = match e.eval_in(&args[0], frame)? {
        Value::Undefined => return Ok(Value::Undefined),
        Value::Str(s) => match s.as_bytes() {
            b"<" => BinaryOp::Lt,
            b"<=" => BinaryOp::Le,
            b"!=" => BinaryOp::Ne,
            b"==" => BinaryOp::Eq,
            b">" => BinaryOp::Gt,
            b">=" => BinaryOp::Ge,
            b"is" => BinaryOp::Is,
            b"isnt" => BinaryOp::Isnt,
            _ => return Ok(Value::Error),
        },
        _ => return Ok(Value::Error),
    };
    let list = match the_list(e, &args[1..], frame)? {
        Err(value) => return Ok(value),
        Ok(list) => list,
    };
    let mut other = e.eval_in(&args[2], frame)?;
    let decided = each(e, &list, |e, mut item| {
        if !matches!(op, BinaryOp::Is | BinaryOp::Isnt) {
            promote(&mut item, &mut other);
        }
        Ok(match e.operate(op, &item, &other)? {
            Value::Bool(holds) => (holds != all).then_some(Value::Bool(holds)),
            Value::Undefined => Some(Value::Bool(false)),
            _ => Some(Value::Error),
        })
    })?;
    Ok(decided.unwrap_or(Value::Bool(all)))
}

/// `split("a b")` and the like give lists of strings.
pub(super) fn strings<'s>(items: impl IntoIterator<Item = &'s [u8]>) -> Value {
    let items: Vec<Expr> = items
        .into_iter()
        .map(|s| Expr::Lit(Value::Str(s.into())))
        .collect();
    Value::made_list(items)
}

pub(super) fn split_user_name(args: &[Value], _: &super::Env) -> Value {
    split_at(args, true)
}

pub(super) fn split_slot_name(args: &[Value], _: &super::Env) -> Value {
    split_at(args, false)
}

fn split_at(args: &[Value], rest_is_second: bool) -> Value {
    let Some(text) = only(args) else {
        return Value::Error;
    };
    match memchr::memchr(b'@', text) {
        Some(at) => strings([&text[..at], &text[at + 1..]]),
        None if rest_is_second => strings([text, &b""[..]]),
        None => strings([&b""[..], text]),
    }
}

/// `split(text [, separators])`: empty items only between two equal separators that are no blanks.
pub(super) fn split(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    let Some(text) = args[0].as_str() else {
        return Ok(Value::Error);
    };
    let separators = match args.get(1) {
        None => &b", \t"[..],
        Some(Value::Str(s)) => s.as_bytes(),
        Some(_) => return Ok(Value::Error),
    };
    e.charge_texts(args)?;
    let separators = Bytes::of(separators);
    let mut items: Vec<&[u8]> = Vec::new();
    let mut from = 0;
    let mut last: Option<u8> = None;
    for (at, b) in text.iter().enumerate() {
        if !separators.has(*b) {
            continue;
        }
        if at > from {
            items.push(&text[from..at]);
        } else if last == Some(*b) {
            items.push(b"");
        }
        if !crate::lexer::is_space(*b) {
            last = Some(*b);
        }
        from = at + 1;
    }
    if from < text.len() {
        items.push(&text[from..]);
    }
    e.charge(items.len() * ITEM_STEPS, items.len() * size_of::<Expr>())?;
    Ok(strings(items))
}
