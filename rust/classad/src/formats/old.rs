//! The old syntax: one attribute a line, ads separated by blank lines.
//!
//! Streams repeat themselves: ads of one kind have the same attributes in the same order, and many of the
//! same values. The reader compares each line with the one in the same place of the ad before, and only
//! parses what differs.

use crate::ad::Ad;
use crate::error::{Code, ParseError, Span};
use crate::expr::Expr;
use crate::lexer::is_space;
use crate::name::Name;
use crate::parser::{Parser, Syntax};
use crate::print::{Printer, Style};
use crate::spans::{Recorder, Spans};
use crate::value::Value;
use memchr::memchr;

/// What ends an ad, and what a bad line does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Lines that begin with `-----` or `***` also end an ad (as history files and tools write them).
    pub rules_separate: bool,
    /// A bad line ends its ad quietly and the lines to the next blank one are skipped, as in HTCondor.
    pub lenient: bool,
    /// The strict mode's tokens.
    pub strict: bool,
}

struct Seen<'t> {
    line: &'t [u8],
    /// The length of the part of the line before its value.
    head: usize,
    name: Name,
    expr: Expr,
}

/// Reads ads from a text, one after the other.
pub struct OldReader<'t> {
    text: &'t [u8],
    at: usize,
    rules: Rules,
    seen: Vec<Seen<'t>>,
}

/// How an ad ended.
enum End {
    Separator,
    BadLine(ParseError),
}

impl<'t> OldReader<'t> {
    /// A reader at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'t [u8], rules: Rules) -> Self {
        Self {
            text,
            at: 0,
            rules,
            seen: Vec::new(),
        }
    }

    /// How far it has read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next ad; `None` at the end of the text.
    ///
    /// # Errors
    /// For a line that is not an attribute, unless the rules are lenient.
    pub fn next_ad(&mut self) -> Option<Result<Ad, ParseError>> {
        loop {
            while self.at < self.text.len() && is_space(self.text[self.at]) {
                self.at += 1;
            }
            if self.at >= self.text.len() {
                return None;
            }
            let mut ad = Ad::with_capacity(self.seen.len());
            let end = self.read_into(&mut ad);
            if matches!(end, End::BadLine(_)) {
                self.skip_to_separator();
            }
            match end {
                End::Separator if ad.is_empty() => {}
                End::BadLine(error) if !self.rules.lenient || ad.is_empty() => {
                    return Some(Err(error));
                }
                _ => return Some(Ok(ad)),
            }
        }
    }

    /// The ad up to the next separator, whatever is in it; for HTCondor's way of reading.
    /// After a bad line it goes on to the next separator only if `skip`.
    pub(crate) fn one_ad(&mut self, skip: bool) -> Ad {
        let mut ad = Ad::new();
        if let End::BadLine(_) = self.read_into(&mut ad)
            && skip
        {
            self.skip_to_separator();
        }
        ad
    }

    fn next_line(&mut self) -> &'t [u8] {
        let rest = &self.text[self.at..];
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        let line = &rest[..end];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    fn is_separator(&self, line: &[u8]) -> bool {
        let dashes = line.starts_with(b"-----") || line.starts_with(b"***");
        line.iter().all(|b| is_space(*b)) || (self.rules.rules_separate && dashes)
    }

    fn read_into(&mut self, ad: &mut Ad) -> End {
        let mut place = 0;
        while self.at < self.text.len() {
            let start = self.at;
            let line = self.next_line();
            let known = self.seen.get(place).filter(|seen| seen.line == line);
            if let Some(seen) = known {
                ad.insert(seen.name.clone(), seen.expr.clone());
                place += 1;
                continue;
            }
            match line.iter().find(|b| !matches!(b, b' ' | b'\t')) {
                None => return End::Separator,
                Some(b'#') => continue,
                Some(b'-' | b'*') | Some(0x0B..=b'\r') if self.is_separator(line) => {
                    return End::Separator;
                }
                _ => {}
            }
            if let Err(mut error) = self.attribute(ad, line, place) {
                error.span.start += start;
                error.span.end += start;
                return End::BadLine(error);
            }
            place += 1;
        }
        End::Separator
    }

    fn skip_to_separator(&mut self) {
        while self.at < self.text.len() {
            let line = self.next_line();
            if self.is_separator(line) {
                return;
            }
        }
    }

    fn attribute(&mut self, ad: &mut Ad, line: &'t [u8], place: usize) -> Result<(), ParseError> {
        if let Some(seen) = self.seen.get_mut(place)
            && line.len() > seen.head
            && line[..seen.head] == seen.line[..seen.head]
        {
            seen.expr = value(&line[seen.head..], self.rules.strict)
                .map_err(|error| moved(error, seen.head))?;
            seen.line = line;
            ad.insert(seen.name.clone(), seen.expr.clone());
            return Ok(());
        }
        let (name, head) = split(line)?;
        let expr = value(&line[head..], self.rules.strict).map_err(|error| moved(error, head))?;
        let name = Name::new(name);
        ad.insert(name.clone(), expr.clone());
        let seen = Seen {
            line,
            head,
            name,
            expr,
        };
        if place < self.seen.len() {
            self.seen[place] = seen;
        } else {
            self.seen.push(seen);
        }
        Ok(())
    }
}

fn moved(mut error: ParseError, by: usize) -> ParseError {
    error.span.start += by;
    error.span.end += by;
    error
}

/// The name of a line, and where its value begins.
pub(super) fn split(line: &[u8]) -> Result<(&[u8], usize), ParseError> {
    const HINT: &str = "write one attribute a line:  Name = value";
    let start = line.iter().take_while(|b| is_space(**b)).count();
    let whole = Span {
        start,
        end: line.len(),
    };
    let Some(equals) = memchr(b'=', &line[start..]).map(|i| start + i) else {
        return Err(ParseError::new(
            Code::BadLine,
            whole,
            "this line is not an attribute",
            HINT,
        ));
    };
    let mut end = equals;
    while end > start && line[end - 1] == b' ' {
        end -= 1;
    }
    if end == start {
        return Err(ParseError::new(
            Code::BadLine,
            whole,
            "an attribute needs a name",
            HINT,
        ));
    }
    let mut head = equals + 1;
    while line.get(head) == Some(&b' ') {
        head += 1;
    }
    Ok((&line[start..end], head))
}

/// Parses one line, `Name = value`. What follows a complete value is ignored, as HTCondor does.
///
/// # Errors
/// When the line is not an attribute.
pub fn parse_line(line: &[u8]) -> Result<(Name, Expr), ParseError> {
    let (name, head) = split(line)?;
    let expr = value(&line[head..], false).map_err(|error| moved(error, head))?;
    Ok((Name::new(name), expr))
}

/// The value of a line. Plain literals are recognised without the parser.
fn value(text: &[u8], strict: bool) -> Result<Expr, ParseError> {
    if let Some(literal) = plain_literal(text) {
        return Ok(Expr::Lit(literal));
    }
    let mut parser = Parser::new(
        text,
        Syntax {
            strict,
            ..Syntax::OLD
        },
    )?;
    parser.expression()
}

/// The value of a line with the places of its nodes.
pub(super) fn value_spanned(text: &[u8]) -> Result<(Expr, Spans), ParseError> {
    let mut parser = Parser::new(text, Syntax::OLD)?;
    parser.recorder = Some(Recorder::default());
    let expr = parser.expression()?;
    Ok((expr, parser.spans()))
}

fn plain_literal(text: &[u8]) -> Option<Value> {
    let text = text.trim_ascii_end();
    match *text.first()? {
        b'"' => {
            let inner = text[1..].strip_suffix(b"\"")?;
            (memchr::memchr3(b'"', b'\\', 0, inner).is_none()).then(|| Value::Str(inner.into()))
        }
        b'0'..=b'9' | b'-' => plain_number(text),
        b't' | b'T' if text.eq_ignore_ascii_case(b"true") => Some(Value::Bool(true)),
        b'f' | b'F' if text.eq_ignore_ascii_case(b"false") => Some(Value::Bool(false)),
        b'u' | b'U' if text.eq_ignore_ascii_case(b"undefined") => Some(Value::Undefined),
        _ => None,
    }
}

fn plain_number(text: &[u8]) -> Option<Value> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole == 0 || (digits[0] == b'0' && whole > 1) {
        return None;
    }
    if whole == digits.len() {
        return (whole <= 18).then(|| Value::Int(crate::number::integer_prefix(text)));
    }
    let fraction = digits[whole..].strip_prefix(b".")?;
    let plain = !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit);
    if !plain {
        return None;
    }
    std::str::from_utf8(text)
        .ok()?
        .parse()
        .ok()
        .map(Value::Real)
}

/// Writes an ad, one attribute a line, in HTCondor's order; an empty line for an empty ad.
pub fn write_old(out: &mut Vec<u8>, ad: &Ad) {
    let mut printer = Printer::new(
        out,
        Style {
            old: true,
            ..Style::default()
        },
    );
    for (name, expr) in ad.sorted() {
        printer.line_of(name.as_bytes(), expr);
    }
    if ad.is_empty() {
        out.push(b'\n');
    }
}
