//! Conditions of `if` and `elif`, and the nesting of conditional blocks.
//!
//! A condition is a truth value, a number, `defined NAME`, `version >= 8.1`, or one of these after `!`. Comparisons
//! of anything else are refused, as in HTCondor: the shape of the text alone decides which kind it is.

use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::expr;
use crate::lines::{is_space, trim_end, trim_start};
use crate::scope::Scope;
use crate::templates;

/// The version of HTCondor that conditions compare with.
pub const VERSION: (u32, u32, u32) = (25, 14, 1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Empty,
    Number,
    Truth,
    Name,
    Macro,
    Version,
    Defined,
    Complex,
}

const SPACE: u16 = 0x01;
const DIGIT: u16 = 0x02;
const ALPHA: u16 = 0x04;
const NAME: u16 = 0x08;
const COMPARE: u16 = 0x10;
const SUM: u16 = 0x20;
const LOGIC: u16 = 0x40;
const GROUP: u16 = 0x80;
const MONEY: u16 = 0x100;
const COLON: u16 = 0x200;
const OTHER: u16 = 0x400;
const POINT: u16 = 0x1000;
const MACRO: u16 = 0x2000;

fn characters(text: &[u8]) -> u16 {
    let mut set = 0;
    for (at, &c) in text.iter().enumerate() {
        let next = text.get(at + 1).copied();
        set |= match c {
            b'0'..=b'9' => DIGIT,
            b'.' if set == DIGIT || next.is_none_or(|n| n.is_ascii_digit()) => POINT,
            b'.' | b'_' | b'/' => NAME,
            b'e' | b'E' if set & !POINT == DIGIT => POINT,
            b'-' | b'+' if set == DIGIT | POINT => 0,
            b'-' | b'+' => SUM,
            b'a'..=b'z' | b'A'..=b'Z' => ALPHA,
            b'<'..=b'>' => COMPARE,
            b'!' if next == Some(b'=') => COMPARE,
            b'$' if next == Some(b'(') => MONEY | MACRO,
            b'$' => MONEY,
            c if is_space(c) => {
                if next.is_some_and(|n| !is_space(n)) {
                    SPACE
                } else {
                    0
                }
            }
            b'&' | b'|' => LOGIC,
            b'{' | b'}' | b'(' | b')' | b'[' | b']' => GROUP,
            b':' => COLON,
            _ => OTHER,
        };
    }
    set
}

fn is_word(text: &str, word: &str) -> bool {
    trim_end(trim_start(text)).eq_ignore_ascii_case(word)
}

fn starts_with_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= word.len()
        && bytes[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        && !bytes.get(word.len()).is_some_and(u8::is_ascii_alphanumeric)
}

fn shape(text: &str, keywords: bool) -> Shape {
    let start = trim_start(text);
    if start.is_empty() {
        return Shape::Empty;
    }
    let set = characters(start.strip_prefix('-').unwrap_or(start).as_bytes());
    let words = set & !(DIGIT | NAME | POINT);
    if set == 0 {
        return Shape::Empty;
    }
    if set & !POINT == DIGIT {
        return Shape::Number;
    }
    if set == ALPHA {
        if is_word(text, "true") || is_word(text, "false") {
            return Shape::Truth;
        }
        if keywords && is_word(start, "version") {
            return Shape::Version;
        }
        if keywords && is_word(start, "defined") {
            return Shape::Defined;
        }
        return Shape::Name;
    }
    // A point without a digit before it makes a name only together with digits or other name characters.
    let float_alone = set & POINT != 0 && set & DIGIT == 0;
    if words == ALPHA && !float_alone {
        return Shape::Name;
    }
    if set & !POINT == ALPHA | SPACE | COMPARE | DIGIT {
        let version = keywords && starts_with_word(start, "version");
        return if version {
            Shape::Version
        } else {
            Shape::Complex
        };
    }
    let spaced = set & !(NAME | COLON) == ALPHA | SPACE || (words == ALPHA | SPACE && !float_alone);
    if spaced {
        let defined = keywords && starts_with_word(start, "defined");
        return if defined {
            Shape::Defined
        } else {
            Shape::Complex
        };
    }
    if set & MACRO != 0 && set & !(MONEY | NAME | ALPHA | DIGIT | MACRO | COLON) == 0 {
        return Shape::Macro;
    }
    Shape::Complex
}

/// `yes`, `t`, `no`, `f`: truth values that look like names.
fn loose_truth(text: &str) -> Option<bool> {
    if is_word(text, "yes") || is_word(text, "t") {
        Some(true)
    } else if is_word(text, "no") || is_word(text, "f") {
        Some(false)
    } else {
        None
    }
}

fn version_number(text: &str) -> Option<(u32, u32, Option<u32>)> {
    let mut rest = text;
    let mut fields = Vec::new();
    while fields.len() < 3 {
        let Some((number, end)) = expr::leading_integer(rest) else {
            break;
        };
        fields.push(number);
        rest = &rest[end..];
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None => break,
        }
    }
    match fields[..] {
        [major, minor] if major >= 6 => {
            Some((u32::try_from(major).ok()?, u32::try_from(minor).ok()?, None))
        }
        [major, minor, last] if major >= 6 => Some((
            u32::try_from(major).ok()?,
            u32::try_from(minor).ok()?,
            u32::try_from(last).ok(),
        )),
        _ => None,
    }
}

fn version(text: &str) -> Result<bool, &'static str> {
    let mut rest = trim_start(&text["version".len()..]);
    let negated = rest.starts_with('!');
    if negated {
        rest = &rest[1..];
    }
    let mut wanted = 0;
    if let Some(c) = rest.bytes().next().filter(|c| (b'<'..=b'>').contains(c)) {
        wanted = i32::from(c) - i32::from(b'=');
        rest = &rest[1..];
    }
    let or_equal = rest.starts_with('=');
    if or_equal {
        rest = &rest[1..];
    }
    rest = trim_start(rest);
    rest = rest.strip_prefix(['v', 'V']).unwrap_or(rest);
    let (major, minor, last) = version_number(rest).ok_or("the version literal is invalid")?;
    let literal = (major, minor, last.unwrap_or(VERSION.2));
    let order = match VERSION.cmp(&literal) {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    };
    let holds = order == wanted || (or_equal && order == 0);
    Ok(holds != negated)
}

fn defined(text: &str, scope: &dyn Scope) -> Result<bool, &'static str> {
    let argument = trim_start(&text["defined".len()..]);
    if argument.is_empty() {
        return Ok(false);
    }
    match shape(argument, false) {
        Shape::Name => {
            let set = scope.raw(trim_end(argument)).map(|value| !value.is_empty());
            Ok(set.unwrap_or_else(|| loose_truth(argument).is_some()))
        }
        Shape::Number | Shape::Truth => Ok(true),
        _ => {
            let lower = argument.to_ascii_lowercase();
            if !lower.starts_with("use ") {
                return Err("defined argument must be param name, boolean, or number");
            }
            let template = trim_start(&argument[4..]);
            if template.contains([' ', '\t', '\r']) {
                return Err("defined use meta argument with internal spaces will never match");
            }
            Ok(match template.split_once(':') {
                None | Some((_, "")) => templates::has_category(template.trim_end_matches(':')),
                Some((category, name)) => templates::find(category, name).is_some(),
            })
        }
    }
}

fn evaluate(text: &str, scope: &dyn Scope) -> Result<bool, &'static str> {
    match shape(text, true) {
        Shape::Number => Ok(expr::leading_real(text).is_some_and(|(number, _)| number != 0.0)),
        Shape::Truth => Ok(is_word(text, "true")),
        Shape::Name => loose_truth(text).ok_or("expression is not a conditional"),
        Shape::Version => version(trim_start(text)),
        Shape::Defined => defined(trim_start(text), scope),
        Shape::Complex => scope
            .condition(text)
            .ok_or("complex conditionals are not supported"),
        Shape::Empty | Shape::Macro => Err("expression is not a conditional"),
    }
}

/// The truth of a condition as written after `if`.
///
/// # Errors
/// [`Code::BadCondition`] when it is none.
pub fn test(condition: &str, scope: &dyn Scope) -> Result<bool, ConfigError> {
    let expands = condition.contains('$');
    let expanded = if expands {
        trim_end(&Expander::new(scope).expand(condition)?).to_owned()
    } else {
        condition.to_owned()
    };
    let mut text = trim_start(&expanded);
    let inverted = text.starts_with('!');
    if inverted {
        text = trim_start(&text[1..]);
    }
    if expands && text.is_empty() {
        return Ok(inverted);
    }
    match evaluate(text, scope) {
        Ok(truth) => Ok(truth != inverted),
        Err(reason) => Err(ConfigError::new(
            Code::BadCondition,
            format!("{condition} is not a valid if condition because {reason}"),
        )
        .hint("conditions are true, false, numbers, `defined NAME`, `version >= 8.1`, each with ! before it or not")),
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Whether lines in the present branch count (as far as this block decides).
    open: bool,
    /// Whether some branch was taken already.
    taken: bool,
    /// Whether `else` was seen.
    closed: bool,
}

/// Conditional blocks open at one place of a file.
#[derive(Debug, Default)]
pub struct Blocks {
    stack: Vec<Block>,
}

const MAX_BLOCKS: usize = 63;

impl Blocks {
    /// Whether lines count here.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.stack.iter().all(|block| block.open)
    }

    /// Whether any block is open.
    #[must_use]
    pub fn inside(&self) -> bool {
        !self.stack.is_empty()
    }

    /// Takes a line if it is `if`, `elif`, `else` or `endif`; tells whether it was.
    ///
    /// # Errors
    /// Bad conditions and words out of place.
    pub fn take(&mut self, line: &str, scope: &dyn Scope) -> Result<bool, ConfigError> {
        let Some((word, rest)) = keyword(line) else {
            return Ok(false);
        };
        let rest = trim_start(rest);
        match word {
            Word::If => {
                let open = self.enabled() && test(rest, scope)?;
                if self.stack.len() >= MAX_BLOCKS {
                    return Err(ConfigError::new(Code::TooDeep, "if nesting too deep!"));
                }
                self.stack.push(Block {
                    open,
                    taken: open,
                    closed: false,
                });
            }
            Word::Elif => {
                let outer = self
                    .stack
                    .split_last()
                    .is_none_or(|(_, outer)| outer.iter().all(|block| block.open));
                let Some(block) = self.stack.last().copied() else {
                    return Err(out_of_place("elif without matching if"));
                };
                let truth = outer && !block.taken && test(rest, scope)?;
                if block.closed {
                    return Err(out_of_place("elif is not allowed after else"));
                }
                let last = self.stack.len() - 1;
                self.stack[last] = Block {
                    open: truth,
                    taken: block.taken || truth,
                    closed: false,
                };
            }
            Word::Else => {
                let Some(block) = self.stack.last_mut() else {
                    return Err(out_of_place("else without matching if"));
                };
                if block.closed {
                    return Err(out_of_place("else is not allowed after else"));
                }
                *block = Block {
                    open: !block.taken,
                    taken: true,
                    closed: true,
                };
            }
            Word::Endif => {
                if self.stack.pop().is_none() {
                    return Err(out_of_place("endif without matching if"));
                }
            }
        }
        Ok(true)
    }
}

fn out_of_place(message: &str) -> ConfigError {
    ConfigError::new(Code::Unbalanced, message)
        .hint("blocks are if, any number of elif, at most one else, endif")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    If,
    Elif,
    Else,
    Endif,
}

fn keyword(line: &str) -> Option<(Word, &str)> {
    if !matches!(line.as_bytes().first(), Some(b'i' | b'I' | b'e' | b'E')) {
        return None;
    }
    for (text, word) in [
        ("if", Word::If),
        ("else", Word::Else),
        ("elif", Word::Elif),
        ("endif", Word::Endif),
    ] {
        let bytes = line.as_bytes();
        if bytes.len() >= text.len()
            && bytes[..text.len()].eq_ignore_ascii_case(text.as_bytes())
            && bytes.get(text.len()).is_none_or(|&c| is_space(c))
        {
            return Some((word, &line[text.len()..]));
        }
    }
    None
}
