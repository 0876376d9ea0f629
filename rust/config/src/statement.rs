//! Splits one joined line into name, operator and value. What the name means is decided by the reader.

use crate::lines::{is_space, trim, trim_start};

/// The operator of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `=`.
    Assign,
    /// `:`.
    Colon,
    /// `@=`; the value is the tag.
    Text,
    /// `+=`, `+;=`, `+&&=` and the like: what goes between the old and the new value.
    Append(Joint),
}

/// What `+=` puts between the old value and the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// A blank.
    Blank,
    /// One character, as in `+,=`.
    One(u8),
    /// The character twice between blanks, as in `+&&=`.
    Two(u8),
}

impl Joint {
    /// The text between old and new value.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Blank => " ".into(),
            Self::One(c) => char::from(c).to_string(),
            Self::Two(c) => format!(" {0}{0} ", char::from(c)),
        }
    }
}

/// A line with an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'l> {
    /// First word.
    pub name: &'l str,
    /// Words between the name and the operator, trimmed; often empty.
    pub between: &'l str,
    /// Operator.
    pub op: Op,
    /// Text after the operator without leading blanks.
    pub value: &'l str,
}

fn joint(bytes: &[u8]) -> Option<(Joint, usize)> {
    let separator = bytes.first().copied().filter(|c| b",;|&*".contains(c));
    let (joint, used) = match separator {
        Some(c) if bytes.get(1) == Some(&c) => (Joint::Two(c), 2),
        Some(c) => (Joint::One(c), 1),
        None => (Joint::Blank, 0),
    };
    (bytes.get(used) == Some(&b'=')).then_some((joint, used + 1))
}

/// The statement of a line, or `None` when it has no operator where one belongs.
#[must_use]
pub fn split(line: &str) -> Option<Statement<'_>> {
    let bytes = line.as_bytes();
    let name_end = bytes
        .iter()
        .position(|&c| is_space(c) || c == b'=' || c == b':')?;
    let name = &line[..name_end];
    let (op, at, between) = match bytes[name_end] {
        b'=' => (Op::Assign, name_end + 1, ""),
        b':' => (Op::Colon, name_end + 1, ""),
        _ => {
            let at = name_end + bytes[name_end..].iter().position(|c| b"=:@+".contains(c))?;
            let between = trim(&line[name_end..at]);
            let (op, next) = match bytes[at] {
                b'=' => (Op::Assign, at + 1),
                b':' => (Op::Colon, at + 1),
                b'@' if bytes.get(at + 1) == Some(&b'=') => (Op::Text, at + 2),
                b'@' => return None,
                _ => {
                    let (joint, used) = joint(&bytes[at + 1..])?;
                    (Op::Append(joint), at + 1 + used)
                }
            };
            (op, next, between)
        }
    };
    Some(Statement {
        name,
        between,
        op,
        value: trim_start(&line[at..]),
    })
}

/// Whether a text may be the name of a knob.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(crate::scan::is_name_char)
}

/// Words between `include` and its colon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncludeOptions<'l> {
    /// A missing file is not an error.
    pub if_exists: bool,
    /// The text after the colon is a command.
    pub command: bool,
    /// Keep what the command prints in this file, and read that instead when it is there.
    pub into: Option<&'l str>,
}

/// Reads the words between `include` and its colon.
///
/// # Errors
/// The words that do not belong there.
pub fn include_options(words: &str) -> Result<IncludeOptions<'_>, &str> {
    let mut options = IncludeOptions::default();
    let mut tokens = words
        .split([' ', '\t'])
        .filter(|word| !word.is_empty())
        .peekable();
    options.if_exists = tokens
        .next_if(|word| matches!(*word, "ifexist" | "ifexists"))
        .is_some();
    match tokens.next() {
        None => {}
        Some("output" | "command") => {
            options.command = true;
            if tokens.next_if_eq(&"into").is_some() {
                options.into = Some(tokens.next().ok_or(words)?);
            }
        }
        Some(_) => return Err(words),
    }
    Ok(options)
}
