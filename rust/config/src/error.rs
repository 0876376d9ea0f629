//! What goes wrong when a configuration or a submit description is read: a stable code, a place, a remedy.

use std::fmt;

/// Where a statement stands: a file (or a name such as `<Environment>`) and its last line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// File name, command with its trailing `|`, or a name in angle brackets.
    pub file: String,
    /// 1-based line; 0 when the source has no lines.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}", self.file)
        } else {
            write!(f, "{}, line {}", self.file, self.line)
        }
    }
}

/// Kinds of refusal; the code is stable, the message may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A file that has to exist cannot be read.
    Unreadable,
    /// A line is not a statement of the language.
    Syntax,
    /// A name holds a character that no knob may have.
    BadName,
    /// The condition of an `if` or `elif` is none.
    BadCondition,
    /// `else`, `elif` or `endif` out of place, or `endif` missing.
    Unbalanced,
    /// `use` names a category or template that does not exist.
    UnknownTemplate,
    /// Includes or templates nested too deep: most likely a loop.
    TooDeep,
    /// A macro refers to itself, or its expansion grows without end.
    Runaway,
    /// `@=tag` without its closing `@tag`.
    OpenText,
    /// `error :` statement of the administrator.
    Stated,
    /// A command run by `include command` failed.
    Command,
    /// A value is not an expression, though the knob needs one.
    BadExpression,
    /// A value has the wrong type.
    BadType,
    /// A value lies outside the knob's range.
    OutOfRange,
    /// A macro function was given arguments it cannot use.
    BadFunction,
    /// A queue statement cannot be understood.
    BadQueue,
    /// A submit command has a value it cannot have.
    BadValue,
}

impl Code {
    /// Stable text of the code, as programs see it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Unreadable => "config-unreadable",
            Self::Syntax => "config-syntax",
            Self::BadName => "config-bad-name",
            Self::BadCondition => "config-bad-condition",
            Self::Unbalanced => "config-unbalanced-if",
            Self::UnknownTemplate => "config-unknown-template",
            Self::TooDeep => "config-too-deep",
            Self::Runaway => "config-runaway",
            Self::OpenText => "config-open-text",
            Self::Stated => "config-stated-error",
            Self::Command => "config-command",
            Self::BadExpression => "config-bad-expression",
            Self::BadType => "config-bad-type",
            Self::OutOfRange => "config-out-of-range",
            Self::BadFunction => "config-bad-function",
            Self::BadQueue => "submit-bad-queue",
            Self::BadValue => "submit-bad-value",
        }
    }
}

/// A refusal with its place and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct ConfigError {
    /// Kind of refusal.
    pub code: Code,
    /// What is wrong, without the place.
    pub message: String,
    /// Where; empty file name when unknown.
    pub place: Place,
    /// Knob or submit command concerned, or empty.
    pub key: String,
    /// What to do, or empty.
    pub hint: String,
}

impl ConfigError {
    /// A refusal of the given kind.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            place: Place::default(),
            key: String::new(),
            hint: String::new(),
        }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The same at a place, unless it already has one.
    #[must_use]
    pub fn at(mut self, file: &str, line: u32) -> Self {
        if self.place.file.is_empty() {
            self.place = Place {
                file: file.to_owned(),
                line,
            };
        }
        self
    }

    /// The same about a knob.
    #[must_use]
    pub fn about(mut self, key: &str) -> Self {
        if self.key.is_empty() {
            key.clone_into(&mut self.key);
        }
        self
    }

    fn render(&self) -> String {
        let mut text = String::new();
        if !self.place.file.is_empty() {
            text.push_str(&self.place.to_string());
            text.push_str(": ");
        }
        text.push_str(&self.message);
        if !self.hint.is_empty() {
            text.push_str(" (");
            text.push_str(&self.hint);
            text.push(')');
        }
        text
    }
}
