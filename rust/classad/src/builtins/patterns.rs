//! Functions of regular expressions.

use super::charge_matching;
use crate::eval::{BYTES_A_STEP, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::regex::{Match, Options, Pattern};
use crate::value::Value;

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

fn has_match(e: &mut Evaluator<'_>, pattern: &[u8], text: &[u8], options: &[u8]) -> Outcome {
    let options = Options::from_letters(options, false);
    let found = charge_matching(e, pattern, options, |pattern, steps| {
        pattern.find(text, 0, false, steps)
    })?;
    Ok(match found {
        Some(Match::Found(_)) => Value::Bool(true),
        Some(Match::None) => Value::Bool(false),
        Some(Match::Failed) | None => Value::Error,
    })
}

pub(super) fn regexp(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    if let Some(value) = exceptional(args, 2) {
        return Ok(value);
    }
    e.charge_texts(args.get(2..).unwrap_or(&[]))?;
    match (args[0].as_str(), args[1].as_str()) {
        (Some(pattern), Some(text)) => has_match(e, pattern, text, options(args, 2)),
        _ => Ok(Value::Error),
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
    e.charge_texts(values.get(2..).unwrap_or(&[]))?;
    let (Some(pattern), Value::List(list)) = (values[0].as_str(), &values[1]) else {
        return Ok(Value::Error);
    };
    let mut maybe = false;
    for item in list.items.iter() {
        match e.eval_in(item, Frame { nest: list.scope }) {
            Ok(Value::Undefined) => maybe = true,
            Ok(Value::Str(text)) => {
                let found = has_match(e, pattern, text.as_bytes(), options(&values, 2))?;
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

pub(super) fn regexps(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    substitute(e, args, b"")
}
pub(super) fn replace(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    substitute(e, args, b"f")
}
pub(super) fn replace_all(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    substitute(e, args, b"fg")
}

/// `f(pattern, text, replacement [, options])`. Option `f` keeps the text around the match, `g` goes on.
fn substitute(e: &mut Evaluator<'_>, args: &[Value], more: &[u8]) -> Outcome {
    if let Some(value) = exceptional(args, 3) {
        return Ok(value);
    }
    e.charge_texts(&args[2..])?;
    let (Some(pattern), Some(text), Some(replacement)) =
        (args[0].as_str(), args[1].as_str(), args[2].as_str())
    else {
        return Ok(Value::Error);
    };
    let letters = [options(args, 3), more].concat();
    let options = Options::from_letters(&letters, false);
    let substitution = Substitution {
        text,
        replacement,
        whole: letters.contains(&b'f'),
        all: letters.contains(&b'g'),
    };
    let made = charge_matching(e, pattern, options, |pattern, steps| {
        substitution.run(pattern, steps)
    })?;
    let Some(made) = made.flatten() else {
        return Ok(Value::Error);
    };
    e.charge(0, made.len())?;
    Ok(Value::Str(made.into()))
}

struct Substitution<'a> {
    text: &'a [u8],
    replacement: &'a [u8],
    whole: bool,
    all: bool,
}

impl Substitution<'_> {
    /// The text that it makes; steps as in [`Pattern::find`].
    fn run(&self, pattern: &mut Pattern, steps: &mut i64) -> Option<Vec<u8>> {
        let text = self.text;
        let mut out = Vec::new();
        let mut at = 0;
        let mut after_empty = false;
        loop {
            match pattern.find(text, at, after_empty, steps) {
                Match::Failed => return None,
                Match::None if after_empty => {
                    // HTCondor copies the byte behind the text here too, and fails on the next round.
                    out.push(text.get(at).copied().unwrap_or(0));
                    at += 1;
                    after_empty = false;
                }
                Match::None => break,
                Match::Found(groups) => {
                    let before = out.len();
                    let (start, end) = groups.first().copied().flatten()?;
                    if self.whole && start >= at {
                        out.extend_from_slice(&text[at..start]);
                    }
                    expand(&mut out, self.replacement, text, &groups)?;
                    *steps -= ((out.len() - before + self.replacement.len()) / BYTES_A_STEP) as i64;
                    at = end;
                    after_empty = start == end;
                }
            }
            if !self.all {
                break;
            }
            if out.len() > MAX_RESULT || *steps < 0 {
                return None;
            }
        }
        if self.whole {
            out.extend_from_slice(text.get(at..).unwrap_or(b""));
        }
        Some(out)
    }
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
