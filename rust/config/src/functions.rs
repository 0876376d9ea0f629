//! The macro functions: `$INT`, `$REAL`, `$STRING`, `$EVAL`, `$CHOICE`, `$SUBSTR`, `$RANDOM_*`, file names.
//!
//! Their argument is the text up to the first `)`, whatever is in it. Most take a knob's name and fall back to the
//! text itself. A function that cannot do its work expands to nothing and complains.

use std::borrow::Cow;

use crate::error::ConfigError;
use crate::expr;
use crate::filename::Parts;
use crate::lines::{is_space, trim, trim_start};
use crate::printf::{self, Arg};
use crate::scan::Kind;
use crate::scope::Scope;

/// Formatted numbers are cut at this many bytes, as in HTCondor.
const MAX_FORMATTED: usize = 55;

type Text = Result<String, ConfigError>;

/// The expansion that a function is called in; what its arguments refer to is expanded within the same bounds.
pub(crate) trait Nested {
    /// Where names are looked up.
    fn scope(&self) -> &dyn Scope;
    /// Expands all references of a text.
    fn expand(&self, text: &str) -> Text;
    /// Expands, but leaves `$(DOLLAR)` for whoever expands the result.
    fn expand_keeping_dollar(&self, text: &str) -> Text;
    /// Says why a function could not do its work.
    fn complain(&self, text: String);
}

/// What a function gives for the text between its parentheses.
///
/// # Errors
/// Only for runaway expansion of its arguments.
pub(crate) fn call(with: &dyn Nested, kind: Kind, letters: &str, body: &str) -> Text {
    match kind {
        Kind::RandomChoice => random_choice(with, body),
        Kind::RandomInteger => Ok(random_integer(with, body)),
        Kind::Choice => choice(with, body),
        Kind::Substr => substr(with, body),
        Kind::Int | Kind::Real => number(with, kind, body),
        Kind::Text => string(with, body),
        Kind::Eval => eval(with, body),
        Kind::Basename => {
            let (body, suffix) = match body.rsplit_once(',') {
                Some((name, suffix)) => (name, Some(trim_start(suffix).to_owned())),
                None => (body, None),
            };
            file_name(
                with,
                body,
                &Parts {
                    base: true,
                    extension: true,
                    suffix,
                    ..Parts::default()
                },
            )
        }
        Kind::Dirname => file_name(
            with,
            body,
            &Parts {
                path: true,
                ..Parts::default()
            },
        ),
        Kind::Filename => file_name(with, body, &Parts::from_letters(&letters[1..])),
        Kind::Plain | Kind::Env => Ok(String::new()),
    }
}

/// The expanded value of a knob by this name, or the text itself, expanded.
fn value_or_text(with: &dyn Nested, text: &str) -> Text {
    let raw = with.scope().raw(text).unwrap_or(Cow::Borrowed(text));
    with.expand(&raw)
}

/// Items as HTCondor splits lists of words: separators in a row count once.
fn words<'t>(text: &'t str, separators: &'t [u8]) -> Vec<&'t str> {
    text.split(|c: char| c.is_ascii() && separators.contains(&(c as u8)))
        .map(trim)
        .filter(|item| !item.is_empty())
        .collect()
}

fn pick<'t>(with: &dyn Nested, items: &[&'t str]) -> &'t str {
    items[usize::try_from(with.scope().source().random(items.len() as u64)).unwrap_or(0)]
}

fn random_choice(with: &dyn Nested, body: &str) -> Text {
    let items = words(body, b",");
    if let [name] = items[..] {
        if let Some(list) = with.scope().raw(name) {
            let list = with.expand(&list)?;
            let items = words(&list, b", \t\r\n");
            if !items.is_empty() {
                return Ok(pick(with, &items).to_owned());
            }
        } else {
            return Ok(name.to_owned());
        }
    } else if !items.is_empty() {
        return Ok(pick(with, &items).to_owned());
    }
    with.complain("$RANDOM_CHOICE has nothing to choose from".into());
    Ok(String::new())
}

fn random_integer(with: &dyn Nested, body: &str) -> String {
    let items = words(body, b",");
    let argument = |at: usize| {
        items
            .get(at)
            .and_then(|text| expr::leading_integer(text))
            .map(|(number, _)| number)
    };
    let mut low = argument(0).unwrap_or_else(|| {
        with.complain("$RANDOM_INTEGER needs a lowest value".into());
        0
    });
    let high = argument(1).unwrap_or_else(|| {
        with.complain("$RANDOM_INTEGER needs a highest value".into());
        low
    });
    let mut step = if items.len() > 2 {
        argument(2).unwrap_or(1)
    } else {
        1
    };
    if step < 1 {
        with.complain("the step of $RANDOM_INTEGER is at least 1".into());
        step = 1;
    }
    if low > high {
        with.complain("the lowest value of $RANDOM_INTEGER is above the highest".into());
        low = high;
    }
    let range = high.wrapping_sub(low).unsigned_abs() / step.unsigned_abs() + 1;
    let drawn = with.scope().source().random(range);
    low.wrapping_add((drawn as i64).wrapping_mul(step))
        .to_string()
}

fn choice(with: &dyn Nested, body: &str) -> Text {
    let (index, items) = match body.split_once(',') {
        Some((index, items)) => (index, Some(items)),
        None => (body, None),
    };
    let index = trim(index);
    let raw = with
        .scope()
        .raw(index)
        .unwrap_or(Cow::Borrowed(index))
        .into_owned();
    let index_text = with.expand_keeping_dollar(&raw)?;
    let index = expr::integer_at(&index_text, "CondorLong", with.scope().source().now())
        .filter(|n| (0..i64::from(i32::MAX)).contains(n));
    if index.is_none() {
        with.complain(format!(
            "$CHOICE needs the number of an item, not {index_text:?}"
        ));
    }
    let index = usize::try_from(index.unwrap_or(0)).unwrap_or(0);
    let Some(items) = items else {
        with.complain("$CHOICE has nothing to choose from".into());
        return Ok(String::new());
    };
    let list: Cow<'_, str> = if items.contains(',') {
        items.into()
    } else {
        let name = trim(items);
        let Some(raw) = with.scope().raw(name) else {
            with.complain(format!("there is no list {name:?} for $CHOICE"));
            return Ok(String::new());
        };
        with.expand(&raw)?.into()
    };
    match list.split(',').nth(index) {
        Some(item) => Ok(trim(item).to_owned()),
        None => {
            with.complain(format!("$CHOICE: there is no item {index}"));
            Ok(String::new())
        }
    }
}

fn substr(with: &dyn Nested, body: &str) -> Text {
    let mut arguments = body.splitn(3, ',');
    let name = arguments.next().unwrap_or_default();
    let Some(start) = arguments.next() else {
        with.complain("$SUBSTR needs a start".into());
        return Ok(String::new());
    };
    let length = arguments.next();
    let number = |text: &str| -> Result<Option<i64>, ConfigError> {
        let text = value_or_text(with, text)?;
        let number = expr::integer_at(&text, "CondorLong", with.scope().source().now())
            .filter(|n| (i64::from(i32::MIN)..=i64::from(i32::MAX)).contains(n));
        if number.is_none() {
            with.complain(format!("$SUBSTR needs a number, not {text:?}"));
        }
        Ok(number)
    };
    let Some(start) = number(start)? else {
        return Ok(String::new());
    };
    let length = match length {
        None => i64::from(i32::MAX / 2),
        Some(text) => match number(text)? {
            Some(length) => length,
            None => return Ok(String::new()),
        },
    };
    let Some(raw) = with.scope().raw(name) else {
        return Ok(String::new());
    };
    let text = with.expand(&raw)?;
    let total = text.len() as i64;
    let start = if start < 0 { total + start } else { start }.clamp(0, total);
    let rest = total - start;
    let length = if length < 0 { rest + length } else { length }.clamp(0, rest);
    let bytes = &text.as_bytes()[start as usize..(start + length) as usize];
    Ok(crate::bytes::hold(bytes).into_owned())
}

fn number(with: &dyn Nested, kind: Kind, body: &str) -> Text {
    let (name, format) = match body.split_once(',') {
        Some((name, format)) => (name, Some(format)),
        None => (body, None),
    };
    let integer = kind == Kind::Int;
    let function = if integer { "$INT" } else { "$REAL" };
    if let Some(format) = format {
        let probe = if integer { Arg::Int(0) } else { Arg::Real(0.0) };
        if printf::print(format, probe).is_none() {
            with.complain(format!("{function} cannot print by {format:?}"));
            return Ok(format.to_owned());
        }
    }
    let text = value_or_text(with, name)?;
    let printed = if integer {
        expr::integer_at(&text, "CondorLong", with.scope().source().now()).map(
            |number| match format {
                Some(format) => printf::print(format, Arg::Int(number)).unwrap_or_default(),
                None => number.to_string(),
            },
        )
    } else {
        expr::real(&text, "CondorDouble", with.scope().source().now()).map(|number| match format {
            Some(format) => printf::print(format, Arg::Real(number)).unwrap_or_default(),
            None => printf::real_16(number),
        })
    };
    let Some(printed) = printed else {
        with.complain(format!(
            "{function} needs a number, and {text:?} does not give one"
        ));
        return Ok(String::new());
    };
    let cut = (0..=MAX_FORMATTED.min(printed.len()))
        .rev()
        .find(|&at| printed.is_char_boundary(at))
        .unwrap_or(0);
    let mut printed = printed[..cut].to_owned();
    if !integer && format.is_some() && !printed.contains('.') {
        printed.push_str(".0");
    }
    Ok(printed)
}

fn string(with: &dyn Nested, body: &str) -> Text {
    let (name, format) = match body.split_once(',') {
        Some((name, format)) => (name, Some(format)),
        None => (body, None),
    };
    if let Some(format) = format.filter(|format| printf::print(format, Arg::Text("")).is_none()) {
        with.complain(format!("$STRING cannot print by {format:?}"));
        return Ok(format.to_owned());
    }
    let text = value_or_text(with, name)?;
    let text = expr::string(&text, with.scope().source().now()).unwrap_or(text);
    Ok(match format {
        Some(format) => printf::print(format, Arg::Text(&text)).unwrap_or_default(),
        None => text,
    })
}

fn eval(with: &dyn Nested, body: &str) -> Text {
    let raw = with.scope().raw(body).unwrap_or(Cow::Borrowed(body));
    let text = with.expand(&raw)?;
    Ok(match with.scope().evaluated(&text) {
        Some(value) => value,
        None if raw.contains('$') => text,
        None => String::new(),
    })
}

fn file_name(with: &dyn Nested, body: &str, parts: &Parts) -> Text {
    let name = value_or_text(with, body)?;
    Ok(parts.of(&name, with.scope().cwd()))
}

/// Splits a list knob: separators are commas and blanks.
#[must_use]
pub fn list_items(text: &str) -> Vec<&str> {
    text.split(|c: char| c == ',' || (c.is_ascii() && is_space(c as u8)))
        .filter(|item| !item.is_empty())
        .collect()
}
