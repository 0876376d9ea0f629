//! Functions of string lists, `"a, b, c"`.

use super::Env;
use crate::eval::{BYTES_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::lexer::is_space;
use crate::number::strtod;
use crate::ops::compare_nocase;
use crate::regex::{Match, Options};
use crate::value::Value;

/// A set of bytes, which is asked about each byte of a text.
pub(super) struct Bytes([bool; 256]);

impl Bytes {
    pub(super) fn of(all: &[u8]) -> Self {
        let mut set = [false; 256];
        for b in all {
            set[usize::from(*b)] = true;
        }
        Self(set)
    }

    pub(super) fn has(&self, b: u8) -> bool {
        self.0[usize::from(b)]
    }
}

/// The items of a list, blanks around them left off, empty ones skipped.
pub(super) fn items<'t>(text: &'t [u8], separators: &[u8]) -> impl Iterator<Item = &'t [u8]> {
    let separators = Bytes::of(separators);
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest
            .iter()
            .position(|b| !separators.has(*b) && !is_space(*b))?;
        let text = &rest[start..];
        let end = text
            .iter()
            .position(|b| separators.has(*b))
            .unwrap_or(text.len());
        rest = &text[end..];
        let item = &text[..end];
        let kept = item
            .iter()
            .rposition(|b| !is_space(*b))
            .map_or(0, |p| p + 1);
        Some(&item[..kept])
    })
}

/// Steps of asking the system for a user.
const LOOK_UP_STEPS: usize = 500;

/// The list and its separators, or `None` if either is not a string.
fn list_and_separators(args: &[Value]) -> Option<(&[u8], &[u8])> {
    let list = args[0].as_str()?;
    match args.get(1) {
        None => Some((list, b", ")),
        Some(separators) => Some((list, separators.as_str()?)),
    }
}

pub(super) fn size(args: &[Value], _: &Env) -> Value {
    match list_and_separators(args) {
        Some((list, separators)) => Value::Int(items(list, separators).count() as i64),
        None => Value::Error,
    }
}

/// The number an item begins with, as C's `scanf` reads it: what begins like a hexadecimal number or like
/// `infinity` has to go on like one.
fn scanned(item: &[u8]) -> Option<f64> {
    let unsigned = item.strip_prefix(b"-").or(item.strip_prefix(b"+"));
    let lower = unsigned.unwrap_or(item);
    let begins = |word: &[u8]| {
        lower
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let cut_short = if begins(b"0x") {
        !lower
            .get(2)
            .is_some_and(|b| b.is_ascii_hexdigit() || *b == b'.')
    } else {
        begins(b"infi") && !begins(b"infinity")
    };
    let (number, used) = strtod(item);
    (used > 0 && !cut_short).then_some(number)
}

/// Steps of reading the number of an item.
const NUMBER_STEPS: usize = 3;

fn summary(
    e: &mut Evaluator<'_>,
    args: &[Value],
    start: f64,
    step: fn(f64, f64) -> f64,
    average: bool,
    empty: Value,
) -> Outcome {
    let Some((list, separators)) = list_and_separators(args) else {
        return Ok(Value::Error);
    };
    e.charge_texts(args)?;
    let mut result = start;
    let mut count = 0;
    let mut real = false;
    for item in items(list, separators) {
        e.charge(NUMBER_STEPS, 0)?;
        let Some(number) = scanned(item) else {
            return Ok(Value::Error);
        };
        count += 1;
        real |= !item
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-'));
        result = step(number, result);
    }
    if count == 0 {
        return Ok(empty);
    }
    if average {
        result /= f64::from(count);
    }
    Ok(if real {
        Value::Real(result)
    } else {
        Value::Int(crate::ops::real_to_i64(result))
    })
}

pub(super) fn sum(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    summary(e, args, 0.0, |x, sum| x + sum, false, Value::Real(0.0))
}
pub(super) fn avg(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    summary(e, args, 0.0, |x, sum| x + sum, true, Value::Real(0.0))
}
pub(super) fn min(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    let start = f64::from(f32::MAX);
    summary(
        e,
        args,
        start,
        |x, best| if x < best { x } else { best },
        false,
        Value::Undefined,
    )
}
/// The largest item, but never less than the smallest positive float: so HTCondor.
pub(super) fn max(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    let start = f64::from(f32::MIN_POSITIVE);
    summary(
        e,
        args,
        start,
        |x, best| if x > best { x } else { best },
        false,
        Value::Undefined,
    )
}

/// The item, the list and the separators of the Member functions; one undefined is an empty text.
fn membership(args: &[Value], test: impl FnOnce(&[u8], &[u8], &[u8]) -> bool) -> Value {
    let text = |at: usize, default: &'static [u8]| match args.get(at) {
        None | Some(Value::Undefined) => Some(default.to_vec()),
        Some(Value::Str(s)) => Some(s.as_bytes().to_vec()),
        Some(_) => None,
    };
    let (Some(item), Some(list), Some(separators)) =
        (text(0, b""), text(1, b""), text(2, b", \t\r\n"))
    else {
        return Value::Error;
    };
    if matches!((&args[0], &args[1]), (Value::Undefined, Value::Undefined)) {
        return Value::Undefined;
    }
    Value::Bool(test(&item, &list, &separators))
}

type Order = fn(&[u8], &[u8]) -> std::cmp::Ordering;
type Same = fn(&[u8], &[u8]) -> bool;
const EXACT: Same = |a, b| a == b;
const NO_CASE: Same = |a, b| a.eq_ignore_ascii_case(b);

fn contains(args: &[Value], same: Same) -> Value {
    membership(args, |item, list, separators| {
        items(list, separators).any(|x| same(x, item))
    })
}

/// Whether all items of the first text are among those of the second.
fn subset(e: &mut Evaluator<'_>, args: &[Value], order: Order) -> Outcome {
    // Bringing the items in order goes through them several times.
    for _ in 0..4 {
        e.charge_texts(args)?;
    }
    let mut count = 0;
    let said = membership(args, |wanted, list, separators| {
        if wanted.is_empty() {
            return true;
        }
        let mut known: Vec<&[u8]> = items(list, separators).collect();
        known.sort_unstable_by(|a, b| order(a, b));
        count = known.len();
        let mut any = false;
        items(wanted, separators)
            .inspect(|_| any = true)
            .all(|item| known.binary_search_by(|x| order(x, item)).is_ok())
            && any
    });
    e.charge(count, 0)?;
    Ok(said)
}

pub(super) fn member(args: &[Value], _: &Env) -> Value {
    contains(args, EXACT)
}
pub(super) fn imember(args: &[Value], _: &Env) -> Value {
    contains(args, NO_CASE)
}
pub(super) fn subset_match(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    subset(e, args, Ord::cmp)
}
pub(super) fn isubset_match(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    subset(e, args, compare_nocase)
}

pub(super) fn regexp_member(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    let texts: Option<Vec<&[u8]>> = args.iter().map(Value::as_str).collect();
    let Some(texts) = texts else {
        return Ok(Value::Error);
    };
    e.charge_texts(&args[1..])?;
    let separators = texts.get(2).copied().unwrap_or(b", ");
    let options = Options::from_letters(texts.get(3).copied().unwrap_or(b""), true);
    let found = super::charge_matching(e, texts[0], options, |pattern, steps| {
        let mut found = None;
        for item in items(texts[1], separators) {
            let here = matches!(pattern.find(item, 0, false, steps), Match::Found(_));
            found = Some(found.unwrap_or(false) || here);
        }
        found
    })?;
    Ok(match found {
        None => Value::Error,
        Some(found) => found.map_or(Value::Undefined, Value::Bool),
    })
}

/// Whether two lists share an item. Broken arguments count as errors here.
pub(super) fn intersect(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        match e.eval_in(arg, frame) {
            Ok(value) => values.push(value),
            Err(_) => return Ok(Value::Error),
        }
    }
    if values.iter().any(|v| matches!(v, Value::Error)) {
        return Ok(Value::Error);
    }
    if values.iter().any(|v| matches!(v, Value::Undefined)) {
        return Ok(Value::Undefined);
    }
    let texts: Option<Vec<&[u8]>> = values.iter().map(Value::as_str).collect();
    let Some(texts) = texts else {
        return Ok(Value::Error);
    };
    let separators = texts
        .get(2)
        .copied()
        .filter(|s| !s.is_empty())
        .unwrap_or(b" ,");
    for _ in 0..4 {
        e.charge_texts(&values)?;
    }
    let separators = Bytes::of(separators);
    let pieces =
        |text| <[u8]>::split(text, |b| separators.has(*b)).filter(|p: &&[u8]| !p.is_empty());
    let mut second: Vec<&[u8]> = pieces(texts[1]).collect();
    second.sort_unstable();
    let shared = pieces(texts[0]).any(|p| second.binary_search(&p).is_ok());
    e.charge(second.len(), 0)?;
    Ok(Value::Bool(shared))
}

/// `userMap(map, user [, preferred [, default]])`
pub(super) fn user_map(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        values.push(e.eval_in(arg, frame)?);
    }
    let default = values.get(3).cloned().unwrap_or(Value::Undefined);
    let (Some(map), Some(user)) = (values[0].as_str(), values[1].as_str()) else {
        let error = values[..2].iter().any(|v| matches!(v, Value::Error));
        return Ok(if error { Value::Error } else { default });
    };
    e.charge_texts(&values)?;
    let externals = e.context().externals;
    let mapped = externals.and_then(|h| h.user_map(map, user, &mut e.steps));
    e.charge(mapped.as_ref().map_or(0, Vec::len) / BYTES_A_STEP, 0)?;
    let Some(mapped) = mapped else {
        return Ok(default);
    };
    if values.len() == 2 {
        return Ok(Value::Str(mapped.into()));
    }
    let preferred = values[2].as_str();
    let chosen = items(&mapped, b",")
        .find(|item| preferred.is_some_and(|p| item.eq_ignore_ascii_case(p)))
        .or_else(|| items(&mapped, b",").next());
    Ok(chosen.map_or(default, |item| Value::Str(item.into())))
}

/// `userHome(name [, default])`
pub(super) fn user_home(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    if args.is_empty() || args.len() > 2 {
        return Err(EvalAborted);
    }
    let default = match args.get(1).map(|arg| e.eval_in(arg, frame)) {
        Some(Ok(Value::Str(s))) if !s.as_bytes().is_empty() => Some(Value::Str(s)),
        _ => None,
    };
    e.blank = false;
    let name = e.eval_in(&args[0], frame);
    let broken = if e.blank {
        Value::Undefined
    } else {
        Value::Error
    };
    let name = name.unwrap_or(broken);
    Ok(match (&name, default) {
        (Value::Undefined, None) => Value::Undefined,
        (Value::Str(user), default) => {
            e.charge(LOOK_UP_STEPS + user.as_bytes().len() / BYTES_A_STEP, 0)?;
            e.context()
                .externals
                .and_then(|h| h.user_home(user.as_bytes()))
                .map(|home| Value::Str(home.into()))
                .or(default)
                .unwrap_or(Value::Undefined)
        }
        (_, Some(default)) => default,
        _ => Value::Error,
    })
}
