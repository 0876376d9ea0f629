//! Functions of regular expressions.

use super::Env;
use crate::eval::{Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::regex::{Match, Options, Pattern};
use crate::value::Value;
use std::cell::RefCell;

/// Substitution stops growing its result here.
const MAX_RESULT: usize = 64 << 20;

/// The rules for undefined and error that all pattern functions share: any error, then any undefined,
/// then the options must be a string.
fn exceptional(args: &[Value], options_at: usize) -> Option<Value> {
    if args.iter().any(|v| matches!(v, Value::Error)) {
        return Some(Value::Error);
    }
    if args.iter().any(|v| matches!(v, Value::Undefined)) {
        return Some(Value::Undefined);
    }
    args.get(options_at)
        .filter(|o| o.as_str().is_none())
        .map(|_| Value::Error)
}

fn options(args: &[Value], at: usize) -> &[u8] {
    args.get(at).and_then(Value::as_str).unwrap_or(b"")
}

/// A pattern, its options, and what they compile to.
struct Compiled {
    pattern: Vec<u8>,
    options: Vec<u8>,
    made: Option<Pattern>,
}

thread_local! {
    /// The pattern that was asked for last: a condition is mostly asked of many ads in a row.
    static LAST: RefCell<Option<Compiled>> = const { RefCell::new(None) };
}

fn has_match(pattern: &[u8], text: &[u8], options: &[u8]) -> Value {
    LAST.with_borrow_mut(|last| {
        let known = last.take_if(|last| last.pattern == pattern && last.options == options);
        let compiled = last.insert(known.unwrap_or_else(|| Compiled {
            pattern: pattern.to_vec(),
            options: options.to_vec(),
            made: Pattern::new(pattern, Options::from_letters(options, false)),
        }));
        match compiled.made.as_ref().map(|made| made.find(text, 0, false)) {
            Some(Match::Found(_)) => Value::Bool(true),
            Some(Match::None) => Value::Bool(false),
            Some(Match::Failed) | None => Value::Error,
        }
    })
}

pub(super) fn regexp(args: &[Value], _: &Env) -> Value {
    if let Some(value) = exceptional(args, 2) {
        return value;
    }
    match (args[0].as_str(), args[1].as_str()) {
        (Some(pattern), Some(text)) => has_match(pattern, text, options(args, 2)),
        _ => Value::Error,
    }
}

pub(super) fn regexp_member(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        values.push(e.eval_in(arg, frame)?);
    }
    if let Some(value) = exceptional(&values, 2) {
        return Ok(value);
    }
    let (Some(pattern), Value::List(list)) = (values[0].as_str(), &values[1]) else {
        return Ok(Value::Error);
    };
    let mut maybe = false;
    for item in list.items.iter() {
        match e.eval_in(item, Frame { nest: list.scope }) {
            Ok(Value::Undefined) => maybe = true,
            Ok(Value::Str(text)) => {
                e.charge(100, 0)?;
                let found = has_match(pattern, text.as_bytes(), options(&values, 2));
                if matches!(found, Value::Bool(true)) {
                    return Ok(found);
                }
            }
            _ => return Ok(Value::Error),
        }
    }
    Ok(if maybe {
        Value::Undefined
    } else {
        Value::Bool(false)
    })
}

pub(super) fn regexps(args: &[Value], _: &Env) -> Value {
    substitute(args, b"")
}
pub(super) fn replace(args: &[Value], _: &Env) -> Value {
    substitute(args, b"f")
}
pub(super) fn replace_all(args: &[Value], _: &Env) -> Value {
    substitute(args, b"fg")
}

/// `f(pattern, text, replacement [, options])`. Option `f` keeps the text around the match, `g` goes on.
fn substitute(args: &[Value], more: &[u8]) -> Value {
    if let Some(value) = exceptional(args, 3) {
        return value;
    }
    let (Some(pattern), Some(text), Some(replacement)) =
        (args[0].as_str(), args[1].as_str(), args[2].as_str())
    else {
        return Value::Error;
    };
    let letters = [options(args, 3), more].concat();
    let Some(pattern) = Pattern::new(pattern, Options::from_letters(&letters, false)) else {
        return Value::Error;
    };
    let whole = letters.contains(&b'f');
    match run(&pattern, text, replacement, whole, letters.contains(&b'g')) {
        Some(out) => Value::Str(out.into()),
        None => Value::Error,
    }
}

fn run(
    pattern: &Pattern,
    text: &[u8],
    replacement: &[u8],
    whole: bool,
    all: bool,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    let mut after_empty = false;
    loop {
        match pattern.find(text, at, after_empty) {
            Match::Failed => return None,
            Match::None if after_empty => {
                // HTCondor copies the byte behind the text here too, and fails on the next round.
                out.push(text.get(at).copied().unwrap_or(0));
                at += 1;
                after_empty = false;
            }
            Match::None => break,
            Match::Found(groups) => {
                let (start, end) = groups.first().copied().flatten()?;
                if whole && start >= at {
                    out.extend_from_slice(&text[at..start]);
                }
                expand(&mut out, replacement, text, &groups)?;
                at = end;
                after_empty = start == end;
            }
        }
        if !all {
            break;
        }
        if out.len() > MAX_RESULT {
            return None;
        }
    }
    if whole {
        out.extend_from_slice(text.get(at..).unwrap_or(b""));
    }
    Some(out)
}

fn expand(
    out: &mut Vec<u8>,
    replacement: &[u8],
    text: &[u8],
    groups: &[Option<(usize, usize)>],
) -> Option<()> {
    let mut at = 0;
    while at < replacement.len() {
        match (replacement[at], replacement.get(at + 1)) {
            (b'\\', Some(d)) if d.is_ascii_digit() => {
                if let Some((start, end)) = groups.get(usize::from(d - b'0'))? {
                    out.extend_from_slice(&text[*start..*end]);
                }
                at += 2;
            }
            (b, _) => {
                out.push(b);
                at += 1;
            }
        }
    }
    Some(())
}
