//! Functions of argument lists and environments, in both of HTCondor's notations.

use super::lists::{ITEM_STEPS, strings};
use crate::arguments::{is_blank, join_v2, split_v1, split_v2};
use crate::eval::{BYTES_A_STEP, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::value::Value;
use std::collections::BTreeMap;

/// Which notation the second argument asks for; `None` if it is neither 1 nor 2.
fn notation(
    e: &mut Evaluator<'_>,
    args: &[Expr],
    frame: Frame,
) -> Result<Option<i32>, crate::eval::EvalAborted> {
    Ok(match args.get(1) {
        None => Some(2),
        Some(arg) => match e.eval_in(arg, frame)? {
            Value::Int(i) => Some(i as i32).filter(|v| matches!(v, 1 | 2)),
            _ => None,
        },
    })
}

pub(super) fn args_to_list(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let Some(notation) = notation(e, args, frame)? else {
        return Ok(Value::Error);
    };
    let text = e.eval_in(&args[0], frame)?;
    let Some(text) = text.as_str() else {
        return Ok(Value::Error);
    };
    e.charge_bytes(4 * text.len())?;
    let words = if notation == 1 {
        Some(split_v1(text))
    } else {
        split_v2(text).ok()
    };
    let Some(words) = words else {
        return Ok(Value::Error);
    };
    e.charge(
        2 * words.len() * ITEM_STEPS,
        words.len() * size_of::<Expr>(),
    )?;
    Ok(strings(words.iter().map(Vec::as_slice)))
}

pub(super) fn list_to_args(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let Some(notation) = notation(e, args, frame)? else {
        return Ok(Value::Error);
    };
    let Value::List(list) = e.eval_in(&args[0], frame)? else {
        return Ok(Value::Error);
    };
    let mut words = Vec::with_capacity(list.items.len());
    for item in list.items.iter() {
        match e.eval_in(item, Frame { nest: list.scope })? {
            Value::Str(s) => {
                let length = s.as_bytes().len();
                e.charge(4 * length / BYTES_A_STEP, 2 * length)?;
                words.push(s);
            }
            _ => return Ok(Value::Error),
        }
    }
    let words = words.iter().map(|w| w.as_bytes());
    if notation == 2 {
        return Ok(Value::Str(join_v2(words).into()));
    }
    let mut out = Vec::new();
    for word in words {
        if word.iter().any(|b| is_blank(*b)) {
            return Ok(Value::Error);
        }
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    Ok(Value::Str(out.into()))
}

/// An environment; `None` as a value is an entry kept as written, without `=`.
#[derive(Default)]
struct Environment(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Environment {
    /// Sets from `NAME=value`; false if it is neither that nor a macro.
    fn set(&mut self, entry: &[u8]) -> bool {
        match memchr::memchr(b'=', entry) {
            None if entry.windows(2).any(|w| w == b"$$") => {
                self.0.insert(entry.to_vec(), None);
                true
            }
            None | Some(0) => false,
            Some(at) => {
                self.0
                    .insert(entry[..at].to_vec(), Some(entry[at + 1..].to_vec()));
                true
            }
        }
    }

    fn text(&self) -> Vec<u8> {
        let words: Vec<Vec<u8>> = self
            .0
            .iter()
            .map(|(name, value)| match value {
                Some(value) => [name.as_slice(), b"=", value].concat(),
                None => name.clone(),
            })
            .collect();
        join_v2(words.iter().map(Vec::as_slice))
    }
}

/// Steps of an entry of an environment: it is read, put into its place and written.
const ENTRY_STEPS: usize = 16;

pub(super) fn env_v1_to_v2(e: &mut Evaluator<'_>, args: &[Value]) -> Outcome {
    let mut text = match &args[0] {
        Value::Undefined => return Ok(Value::Undefined),
        Value::Str(s) => s.as_bytes(),
        _ => return Ok(Value::Error),
    };
    e.charge(4 * text.len() / BYTES_A_STEP, 2 * text.len())?;
    let mut separator = b';';
    if let Some(first) = text.first() {
        // A permitted separator in front says which one is used.
        if b"!#$%&*+,-/:;<>?@^`|~\x1F".contains(first) {
            separator = *first;
            text = &text[1..];
        }
    }
    let mut environment = Environment::default();
    for entry in text.split(|b| *b == separator || *b == b'\n') {
        let start = entry
            .iter()
            .position(|b| !is_blank(*b))
            .unwrap_or(entry.len());
        let entry = &entry[start..];
        if entry.is_empty() {
            continue;
        }
        e.charge(ENTRY_STEPS, 0)?;
        if !environment.set(entry) {
            return Ok(Value::Error);
        }
    }
    Ok(Value::Str(environment.text().into()))
}

pub(super) fn merge_environment(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let mut environment = Environment::default();
    for arg in args {
        let value = e.eval_in(arg, frame)?;
        let text = match &value {
            Value::Undefined => continue,
            Value::Str(s) => s.as_bytes(),
            _ => return Ok(Value::Error),
        };
        e.charge(4 * text.len() / BYTES_A_STEP, 2 * text.len())?;
        let Ok(entries) = split_v2(text) else {
            return Ok(Value::Error);
        };
        e.charge(entries.len() * ENTRY_STEPS, 0)?;
        if !entries.iter().all(|entry| environment.set(entry)) {
            return Ok(Value::Error);
        }
    }
    Ok(Value::Str(environment.text().into()))
}
