//! The few questions the languages ask of ClassAd expressions: is it one, and what number, truth or text is it.

use classad::number::strtod;
use classad::ops::real_to_i64;
use classad::{
    Ad, Context, Expr, Syntax, Value, evaluate, parse_computed, parse_expr, try_evaluate,
};

use crate::lines::is_space;

/// Strings are those of the old syntax: a backslash in them is itself.
fn parse(text: &str) -> Option<Expr> {
    parse_computed(text.as_bytes(), Syntax::OLD).ok()
}

/// Evaluates a text as an attribute `name` of an otherwise empty ad: what refers to itself is an error. `now` is what
/// `time()` gives.
fn value_as(text: &str, name: &str, now: i64) -> Option<Value> {
    let expr = parse(text)?;
    let mut ad = Ad::new();
    ad.set(name, expr.clone());
    let context = Context {
        my: Some(&ad),
        now,
        ..Context::default()
    };
    Some(evaluate(&Expr::attr(name), &context))
}

/// Why a text is not an expression: a message, the byte where the trouble is, and the line with a caret below it.
#[must_use]
pub fn complaint(text: &str) -> Option<(String, usize, String)> {
    match parse_expr(text.as_bytes(), Syntax::OLD) {
        Ok(_) => None,
        Err(error) => {
            let hint = if error.hint.is_empty() {
                String::new()
            } else {
                format!("; {}", error.hint)
            };
            let message = format!("{}{hint}", error.message);
            let excerpt = error.span.excerpt(text.as_bytes());
            Some((message, error.span.start, excerpt))
        }
    }
}

fn skip_spaces(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|c| is_space(*c)) {
        at += 1;
    }
    at
}

/// Reads an integer at the start of a text as C's `strtoll`: value (saturated) and where it ended.
#[must_use]
pub fn leading_integer(text: &str) -> Option<(i64, usize)> {
    let bytes = text.as_bytes();
    let mut at = skip_spaces(bytes, 0);
    let negative = bytes.get(at) == Some(&b'-');
    if negative || bytes.get(at) == Some(&b'+') {
        at += 1;
    }
    let first = at;
    let mut number: i128 = 0;
    while let Some(digit) = bytes.get(at).filter(|c| c.is_ascii_digit()) {
        number = (number * 10 + i128::from(digit - b'0')).min(1 << 80);
        at += 1;
    }
    if at == first {
        return None;
    }
    let signed = if negative { -number } else { number };
    Some((
        signed.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
        at,
    ))
}

/// Reads a real number at the start of a text as C's `strtod`, decimal forms, `inf` and `nan`.
#[must_use]
pub fn leading_real(text: &str) -> Option<(f64, usize)> {
    let bytes = text.as_bytes();
    let start = skip_spaces(bytes, 0);
    let mut at = start;
    if matches!(bytes.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let unsigned = &bytes[at..];
    for word in ["infinity", "inf", "nan"] {
        if unsigned.len() >= word.len()
            && unsigned[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        {
            let end = at + word.len();
            return text[start..end].parse().ok().map(|number| (number, end));
        }
    }
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let whole = digits(at);
    let mut end = whole;
    let mut any = whole > at;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        any |= fraction > end + 1;
        end = fraction;
    }
    if !any {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let mut exponent = end + 1;
        if matches!(bytes.get(exponent), Some(b'+' | b'-')) {
            exponent += 1;
        }
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    text[start..end].parse().ok().map(|number| (number, end))
}

/// As [`integer_at`], for texts that have nothing to do with the time of day.
#[must_use]
pub fn integer(text: &str, name: &str) -> Option<i64> {
    integer_at(text, name, 0)
}

/// A text as an integer: a literal, or an expression that gives a number or truth value. `name` is the knob, `now`
/// what `time()` gives.
#[must_use]
pub fn integer_at(text: &str, name: &str, now: i64) -> Option<i64> {
    if let Some((number, end)) = leading_integer(text)
        && skip_spaces(text.as_bytes(), end) == text.len()
    {
        return Some(number);
    }
    match value_as(text, name, now)? {
        Value::Int(number) => Some(number),
        Value::Real(number) => Some(real_to_i64(number)),
        Value::Bool(truth) => Some(i64::from(truth)),
        _ => None,
    }
}

/// A text as a real number: a literal, or an expression that gives a number or truth value.
#[must_use]
pub fn real(text: &str, name: &str, now: i64) -> Option<f64> {
    let (number, end) = strtod(text.as_bytes());
    if end > 0 && skip_spaces(text.as_bytes(), end) == text.len() {
        return Some(number);
    }
    value_as(text, name, now)?.as_number()
}

/// As [`boolean_at`], for texts that have nothing to do with the time of day.
#[must_use]
pub fn boolean(text: &str, name: &str) -> Option<bool> {
    boolean_at(text, name, 0)
}

/// A text as a truth value: `true`, `false`, `1`, `0`, or an expression that gives a truth value or number.
#[must_use]
pub fn boolean_at(text: &str, name: &str, now: i64) -> Option<bool> {
    let bytes = text.as_bytes();
    for (word, truth) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        if bytes.len() >= word.len() && bytes[..word.len()].eq_ignore_ascii_case(word.as_bytes()) {
            if skip_spaces(bytes, word.len()) == bytes.len() {
                return Some(truth);
            }
            break;
        }
    }
    value_as(text, name, now)?.truth()
}

/// The truth value a text starts with.
#[must_use]
pub fn leading_boolean(text: &str) -> Option<bool> {
    let bytes = text.as_bytes();
    [("true", true), ("1", true), ("false", false), ("0", false)]
        .into_iter()
        .find_map(|(word, truth)| {
            (bytes.len() >= word.len() && bytes[..word.len()].eq_ignore_ascii_case(word.as_bytes()))
                .then_some(truth)
        })
}

/// The text an expression evaluates to, if it is one and gives a string.
#[must_use]
pub fn string(text: &str, now: i64) -> Option<String> {
    value_as(text, "CondorString", now)?
        .as_str()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// What an expression evaluates to in an empty ad, strings bare and all else as the language prints it; `None` for no
/// expression, or one that breaks off.
#[must_use]
pub fn evaluated(text: &str, now: i64) -> Option<String> {
    let empty = Ad::new();
    let context = Context {
        my: Some(&empty),
        now,
        ..Context::default()
    };
    let found = try_evaluate(&parse(text)?, &context).ok()?;
    Some(match found.as_str() {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => String::from_utf8_lossy(&classad::print::unparse_value(&found)).into_owned(),
    })
}

/// Whether `regexp(pattern, text)` is true.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let args = [pattern, text].map(|arg| Expr::Lit(arg.into()));
    let call = Expr::call("regexp", args.into());
    evaluate(&call, &Context::default()).is_true()
}
