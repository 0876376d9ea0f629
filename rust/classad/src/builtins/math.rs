//! Functions of numbers.

use super::Env;
use crate::coerce::real;
use crate::eval::{EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::ops::real_to_i64;
use crate::value::Value;

fn rounded(args: &[Value], round: fn(f64) -> f64) -> Value {
    match &args[0] {
        Value::Int(i) => Value::Int(*i),
        other => real(other).map_or(Value::Error, |r| Value::Int(real_to_i64(round(r)))),
    }
}

pub(super) fn floor(args: &[Value], _: &Env) -> Value {
    rounded(args, f64::floor)
}
pub(super) fn ceiling(args: &[Value], _: &Env) -> Value {
    rounded(args, f64::ceil)
}
pub(super) fn round(args: &[Value], _: &Env) -> Value {
    rounded(args, f64::round_ties_even)
}

pub(super) fn pow(args: &[Value], _: &Env) -> Value {
    if let (Value::Int(base), Value::Int(exponent @ 0..)) = (&args[0], &args[1]) {
        return Value::Int(real_to_i64((*base as f64).powf(*exponent as f64) + 0.5));
    }
    match (real(&args[0]), real(&args[1])) {
        (Some(base), Some(exponent)) => Value::Real(base.powf(exponent)),
        _ => Value::Error,
    }
}

/// `quantize(value, step)` or `quantize(value, {steps})`.
pub(super) fn quantize(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let value = e.eval_in(&args[0], frame)?;
    let step = e.eval_in(&args[1], frame)?;
    e.charge_texts(std::slice::from_ref(&value))?;
    if matches!(step, Value::Str(_)) {
        e.charge_texts(std::slice::from_ref(&step))?;
    }
    let Some(number) = real(&value) else {
        return Ok(Value::Error);
    };
    let step = match step {
        Value::List(list) => {
            let mut last = Value::Real(0.0);
            for item in list.items.iter() {
                last = e.eval_in(item, Frame { nest: list.scope })?;
                if matches!(last, Value::Str(_)) {
                    e.charge_texts(std::slice::from_ref(&last))?;
                }
                match real(&last) {
                    Some(bound) if bound >= number => return Ok(last),
                    Some(_) => {}
                    None => return Ok(Value::Error),
                }
            }
            last
        }
        other => other,
    };
    let Some(real_step) = real(&step) else {
        return Ok(Value::Error);
    };
    Ok(match (step, value) {
        (Value::Int(0), value) => value,
        (Value::Int(step), Value::Int(n)) => {
            let steps = n.wrapping_add(step).wrapping_sub(1).wrapping_div(step);
            Value::Int(steps.wrapping_mul(step))
        }
        (Value::Int(step), _) => Value::Real((number / step as f64).ceil() * step as f64),
        (_, value) if (-1e-8..=1e-8).contains(&real_step) => value,
        _ => Value::Real((number / real_step).ceil() * real_step),
    })
}

/// `random()`, `random(max)`: breaks the evaluation off when there is nothing to choose from.
pub(super) fn random(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let limit = match args.first() {
        Some(arg) => e.eval_in(arg, frame)?,
        None => Value::Real(1.0),
    };
    let drawn = e.next_random() >> 33;
    match limit {
        Value::Int(max) => match max as i32 {
            ..=0 => Err(EvalAborted),
            max => Ok(Value::Int(drawn as i64 % i64::from(max))),
        },
        Value::Real(max) if max <= 0.0 => Err(EvalAborted),
        Value::Real(max) => Ok(Value::Real(max * (drawn as f64 / f64::from(i32::MAX)))),
        _ => Ok(Value::Error),
    }
}
