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

/// How much of a line is shown before and behind a place.
const SHOWN: usize = 60;

impl Span {
    /// Line and column (both from 1, columns in bytes) of the beginning.
    #[must_use]
    pub fn line_column(self, text: &[u8]) -> (usize, usize) {
        let at = self.start.min(text.len());
        let line = text[..at].iter().filter(|&&b| b == b'\n').count() + 1;
        (line, at - line_start(text, at) + 1)
    }

    /// The line the place begins in, with carets below the place; both indented by two spaces. A place of several
    /// lines is marked to the end of its first; of a long line, only what is near is shown, between dots.
    #[must_use]
    pub fn excerpt(self, text: &[u8]) -> String {
        let at = self.start.min(text.len());
        let rest = text[at..].iter().position(|&b| b == b'\n');
        let line_end = rest.map_or(text.len(), |p| at + p);
        let end = self.end.clamp(at, line_end);
        let start = line_start(text, at);
        let from = on_boundary(text, start.max(at.saturating_sub(SHOWN)));
        let to = on_boundary(text, line_end.min(end.max(at) + SHOWN));
        let shown = String::from_utf8_lossy(&text[from..to]);
        let shown = shown.trim_end().replace('\t', " ");
        let (before, after) = (
            if from > start { "..." } else { "" },
            if to < line_end { "..." } else { "" },
        );
        let indent = String::from_utf8_lossy(&text[from..at]).chars().count();
        let width = String::from_utf8_lossy(&text[at..end])
            .trim_end()
            .chars()
            .count();
        let (indent, carets) = (" ".repeat(before.len() + indent), "^".repeat(width.max(1)));
        format!("  {before}{shown}{after}\n  {indent}{carets}")
    }
}

fn line_start(text: &[u8], at: usize) -> usize {
    let newline = text[..at].iter().rposition(|&b| b == b'\n');
    newline.map_or(0, |p| p + 1)
}

/// Back to where a character begins.
fn on_boundary(text: &[u8], mut at: usize) -> usize {
    while at > 0 && at < text.len() && text[at] & 0xC0 == 0x80 {
        at -= 1;
    }
    at
}

/// A text that is not an expression or no ad.
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
        self.span.line_column(text)
    }

    /// The error with its line of the text, a caret below the place, and the hint.
    #[must_use]
    pub fn render(&self, text: &[u8]) -> String {
        let (line, column) = self.line_column(text);
        let mut out = format!(
            "{} at line {line}, column {column} [{}]\n{}",
            self.message,
            self.code.name(),
            self.span.excerpt(text),
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
