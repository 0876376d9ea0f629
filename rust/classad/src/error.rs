//! What is wrong with a text, where, and what to do about it.

use std::fmt;

/// Stable codes of parse errors; messages may change, these may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Code {
    UnexpectedCharacter,
    UnterminatedString,
    UnterminatedComment,
    NulInString,
    BadNumber,
    UnexpectedEnd,
    UnexpectedToken,
    ExpectedName,
    BadTimeLiteral,
    TooDeep,
    TooLong,
    TrailingText,
    BadJson,
    BadXml,
    BadLine,
}

impl Code {
    /// All codes, for documentation and tests.
    pub const ALL: [Code; 15] = [
        Code::UnexpectedCharacter,
        Code::UnterminatedString,
        Code::UnterminatedComment,
        Code::NulInString,
        Code::BadNumber,
        Code::UnexpectedEnd,
        Code::UnexpectedToken,
        Code::ExpectedName,
        Code::BadTimeLiteral,
        Code::TooDeep,
        Code::TooLong,
        Code::TrailingText,
        Code::BadJson,
        Code::BadXml,
        Code::BadLine,
    ];

    /// The code as programs see it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Code::UnexpectedCharacter => "CA101",
            Code::UnterminatedString => "CA102",
            Code::UnterminatedComment => "CA103",
            Code::NulInString => "CA104",
            Code::BadNumber => "CA105",
            Code::UnexpectedEnd => "CA201",
            Code::UnexpectedToken => "CA202",
            Code::ExpectedName => "CA203",
            Code::BadTimeLiteral => "CA204",
            Code::TooDeep => "CA205",
            Code::TooLong => "CA206",
            Code::TrailingText => "CA207",
            Code::BadJson => "CA301",
            Code::BadXml => "CA302",
            Code::BadLine => "CA303",
        }
    }
}

/// A range of bytes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// A text that is no expression or no ad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The stable code.
    pub code: Code,
    /// Where in the text.
    pub span: Span,
    /// What is wrong, in a few words.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: &'static str,
}

impl ParseError {
    /// An error at `span`.
    pub fn new(code: Code, span: Span, message: impl Into<String>, hint: &'static str) -> Self {
        Self {
            code,
            span,
            message: message.into(),
            hint,
        }
    }

    /// Line and column (both from 1, columns in bytes) of the error in its text.
    #[must_use]
    pub fn line_column(&self, text: &[u8]) -> (usize, usize) {
        let at = self.span.start.min(text.len());
        let line = text[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        let start = text[..at]
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |p| p + 1);
        (line, at - start + 1)
    }

    /// The error with its line of the text, a caret below the place, and the hint.
    #[must_use]
    pub fn render(&self, text: &[u8]) -> String {
        let at = self.span.start.min(text.len());
        let (line, column) = self.line_column(text);
        let start = at + 1 - column;
        let end = text[at..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(text.len(), |p| at + p);
        let from = start.max(at.saturating_sub(60));
        let to = end.min(at + 60);
        let shown = String::from_utf8_lossy(&text[from..to]).replace('\t', " ");
        let indent = String::from_utf8_lossy(&text[from..at]).chars().count();
        let width = self.span.end.clamp(at + 1, to.max(at + 1)) - at;
        let mut out = format!(
            "{} at line {line}, column {column} [{}]\n  {shown}\n  {}{}",
            self.message,
            self.code.name(),
            " ".repeat(indent),
            "^".repeat(width.clamp(1, 60)),
        );
        if !self.hint.is_empty() {
            out.push_str("\n  hint: ");
            out.push_str(self.hint);
        }
        out
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at byte {} [{}]",
            self.message,
            self.span.start,
            self.code.name()
        )?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}
impl std::error::Error for ParseError {}
