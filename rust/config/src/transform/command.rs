//! One statement of a transform that does something: its verb, its attribute, and what follows.

use classad::regex::{Options, Pattern};

use crate::bytes;
use crate::error::{Code, ConfigError};
use crate::lines::is_space;

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// COPY a b: the definition of a for b too.
    Copy,
    /// DEFAULT a expr: SET, unless there is an a.
    Default,
    /// DELETE a.
    Delete,
    /// EVALMACRO name expr: a macro gets the value.
    EvalMacro,
    /// EVALSET a expr: SET to the value.
    EvalSet,
    /// RENAME a b.
    Rename,
    /// SET a expr.
    Set,
}

const VERBS: [(&str, Verb); 7] = [
    ("COPY", Verb::Copy),
    ("DEFAULT", Verb::Default),
    ("DELETE", Verb::Delete),
    ("EVALMACRO", Verb::EvalMacro),
    ("EVALSET", Verb::EvalSet),
    ("RENAME", Verb::Rename),
    ("SET", Verb::Set),
];

impl Verb {
    /// As it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        VERBS
            .iter()
            .find(|(_, verb)| *verb == self)
            .map_or("", |(text, _)| text)
    }

    fn takes_pattern(self) -> bool {
        matches!(self, Self::Copy | Self::Delete | Self::Rename)
    }
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Command {
    /// What it does.
    pub verb: Verb,
    /// The attribute, the macro of EVALMACRO, or the text of a pattern.
    pub name: String,
    /// How the pattern matches, if it is one; case is ignored.
    pub pattern: Option<Options>,
    /// What follows, before macros are expanded; empty for DELETE.
    pub rest: String,
}

/// A word, and where it and what follows it begin.
struct Word<'l> {
    text: &'l str,
    start: usize,
    next: usize,
}

/// The next word; one in quotes ends at the next such quote.
fn word(line: &str, from: usize) -> Option<Word<'_>> {
    let bytes = line.as_bytes();
    let start = from + bytes[from..].iter().position(|&c| !is_space(c))?;
    let quote = bytes[start];
    if matches!(quote, b'"' | b'\'') {
        let inner = start + 1;
        let end = bytes[inner..].iter().position(|&c| c == quote);
        let end = end.map_or(bytes.len(), |at| inner + at);
        return Some(Word {
            text: &line[inner..end],
            start,
            next: (end + 1).min(bytes.len()),
        });
    }
    let end = bytes[start..].iter().position(|&c| is_space(c));
    let end = end.map_or(bytes.len(), |at| start + at);
    Some(Word {
        text: &line[start..end],
        start,
        next: end,
    })
}

fn bad(message: String, hint: &str) -> ConfigError {
    ConfigError::new(Code::Syntax, message).hint(hint)
}

impl Command {
    /// Reads a line.
    ///
    /// # Errors
    /// Unknown verbs, missing arguments, patterns that are none.
    pub fn parse(line: &str) -> Result<Self, ConfigError> {
        let first = word(line, 0).map_or("", |word| word.text);
        let known = VERBS
            .iter()
            .find(|(text, _)| text.eq_ignore_ascii_case(first));
        let Some(&(text, verb)) = known else {
            return Err(bad(
                format!("{first} is not a valid transform keyword"),
                "statements are SET, EVALSET, DEFAULT, COPY, RENAME, DELETE, EVALMACRO, NAME, REQUIREMENTS, UNIVERSE, \
                 TRANSFORM, and `name = value` for macros",
            ));
        };
        let needs = if verb == Verb::Delete { 1 } else { 2 };
        let too_few = || {
            let hint = format!(
                "write {text} NAME{}",
                if needs == 2 { " VALUE" } else { "" }
            );
            bad(
                format!(
                    "{text} needs {needs} argument{}",
                    if needs == 2 { "s" } else { "" }
                ),
                &hint,
            )
        };
        let target = word(line, first.len()).ok_or_else(too_few)?;
        let (name, pattern, next) = if verb.takes_pattern() && line[target.start..].starts_with('/')
        {
            pattern(line, target.start)?
        } else {
            let name = target.text.strip_suffix([',', '=']).unwrap_or(target.text);
            if !crate::statement::is_name(name) {
                return Err(bad(
                    format!("{text} {name}: not a valid attribute name"),
                    "names have letters, digits, _ and . only",
                ));
            }
            (name.to_owned(), None, target.next)
        };
        let mut rest = String::new();
        if needs == 2 {
            let mut value = word(line, next).ok_or_else(too_few)?;
            if matches!(value.text, "=" | ",") {
                value = word(line, value.next).ok_or_else(too_few)?;
            }
            line[value.start..].clone_into(&mut rest);
        }
        Ok(Self {
            verb,
            name,
            pattern,
            rest,
        })
    }

    /// The compiled pattern.
    #[must_use]
    pub fn compiled(&self) -> Option<Pattern> {
        Pattern::new(&bytes::release(&self.name), self.pattern?)
    }

    /// Attributes that it names to be changed.
    #[must_use]
    pub fn writes(&self) -> Vec<&str> {
        let plain = self.pattern.is_none();
        let other = Some(self.rest.as_str()).filter(|rest| !rest.contains(['$', '\\']));
        match self.verb {
            Verb::Set | Verb::EvalSet | Verb::Default => vec![&self.name],
            Verb::Delete if plain => vec![&self.name],
            Verb::Copy => other.into_iter().collect(),
            Verb::Rename if plain => [self.name.as_str()].into_iter().chain(other).collect(),
            Verb::Rename => other.into_iter().collect(),
            Verb::Delete | Verb::EvalMacro => Vec::new(),
        }
    }
}

/// A pattern in slashes with the letters behind it.
fn pattern(line: &str, start: usize) -> Result<(String, Option<Options>, usize), ConfigError> {
    let inner = start + 1;
    let Some(length) = line[inner..].find('/') else {
        return Err(bad(
            format!("{} is not a pattern", &line[start..]),
            "a pattern stands in slashes: /^Foo(.*)/",
        ));
    };
    let text = &line[inner..inner + length];
    let after = inner + length + 1;
    let letters: usize = line[after..].bytes().take_while(|&c| !is_space(c)).count();
    let mut options = Options {
        caseless: true,
        ..Options::default()
    };
    for letter in line[after..after + letters].chars() {
        match letter {
            'm' => options.multiline = true,
            'U' => options.ungreedy = true,
            'i' | 'g' => {}
            _ => {
                return Err(bad(
                    format!("{letter} is not an option of a pattern"),
                    "options are i, m and U",
                ));
            }
        }
    }
    if Pattern::new(&bytes::release(text), options).is_none() {
        return Err(bad(
            format!("/{text}/ is not a regular expression"),
            "correct the pattern",
        ));
    }
    Ok((text.to_owned(), Some(options), after + letters))
}
