//! Command lines in HTCondor's old and new syntax, around `classad::arguments`.
//!
//! Old: words separated by blanks, a double quote only as `\"`. New: the whole in double quotes (a double quote inside
//! is doubled); within, single quotes group words and a single quote inside them is doubled.

use crate::lines::is_space;
use classad::arguments;

fn texts(words: Vec<Vec<u8>>) -> Vec<String> {
    let text = |word| String::from_utf8(word).unwrap_or_default(); // pieces of a text between ASCII characters
    words.into_iter().map(text).collect()
}

/// Splits new-syntax text (without the outer double quotes) into arguments.
///
/// # Errors
/// A sentence about an open quote.
pub fn split_v2(text: &str) -> Result<Vec<String>, String> {
    arguments::split_v2(text.as_bytes())
        .map(texts)
        .map_err(|_| format!("unbalanced quote starting here: '{text}"))
}

/// Takes the outer double quotes off new-syntax text and undoubles those inside; `None` when it does not start so.
///
/// # Errors
/// A sentence about a quote that does not close or text behind it.
pub fn unquote_v2(text: &str) -> Result<Option<String>, String> {
    let text = crate::lines::trim_start(text);
    let Some(rest) = text.strip_prefix('"') else {
        return Ok(None);
    };
    let mut out = String::with_capacity(rest.len());
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            out.push(c);
            continue;
        }
        if chars.peek().is_some_and(|(_, next)| *next == '"') {
            chars.next();
            out.push('"');
            continue;
        }
        let behind = crate::lines::trim(&rest[at + 1..]);
        if behind.is_empty() {
            return Ok(Some(out));
        }
        return Err(format!(
            "unexpected characters following double-quote: {behind}; did you forget to escape the double-quote by repeating it?"
        ));
    }
    Err("unterminated double-quote".into())
}

/// Splits old-syntax text: words between blanks.
#[must_use]
pub fn split_v1(text: &str) -> Vec<String> {
    text.split(|c: char| c.is_ascii() && is_space(c as u8))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Old-syntax text with `\\"` turned into a double quote.
///
/// # Errors
/// A sentence about a double quote without its backslash.
pub fn unwack_v1(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                return Err(format!(
                    "found illegal unescaped double-quote: \"{}",
                    chars.collect::<String>()
                ));
            }
            '\\' if chars.peek() == Some(&'"') => {
                chars.next();
                out.push('"');
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Splits a command line of either syntax.
///
/// # Errors
/// As [`unquote_v2`] and [`split_v2`].
pub fn split_either(text: &str) -> Result<Vec<String>, String> {
    match unquote_v2(text)? {
        Some(inner) => split_v2(&inner),
        None => Ok(split_v1(text)),
    }
}

/// Joins arguments as the new syntax stores them in a job ad.
#[must_use]
pub fn join_v2(arguments: &[String]) -> String {
    let words = arguments.iter().map(String::as_bytes);
    String::from_utf8(arguments::join_v2(words)).unwrap_or_default() // texts with ASCII between them
}
