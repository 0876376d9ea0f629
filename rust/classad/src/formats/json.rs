//! JSON: ads are objects, undefined is null, expressions are strings between `\/Expr(` and `)\/`.

use crate::ad::Ad;
use crate::error::{Code, ParseError, Span};
use crate::expr::Expr;
use crate::lexer::{Lexer, Token, is_space};
use crate::name::Name;
use crate::number::push_general;
use crate::parser::{Syntax, parse_computed};
use crate::print::{unparse, unparse_value};
use crate::value::{Str, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// How deep objects and arrays may nest.
const MAX_DEPTH: usize = 400;

/// How a text in JSON is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonRules {
    /// Garble `\u0080` and above as HTCondor does, instead of reading them as Unicode.
    pub reference_escapes: bool,
    /// The strict mode's rules for the expressions inside.
    pub strict: bool,
}

/// Reads the object at the beginning of `text`; gives the ad and where the object ends.
///
/// # Errors
/// [`ParseError`], and how far the text was looked at.
pub fn parse_object(text: &[u8], rules: JsonRules) -> Result<(Ad, usize), (ParseError, usize)> {
    let syntax = Syntax {
        json: true,
        exact_json: rules.reference_escapes,
        ..Syntax::NORMAL
    };
    let mut reader = Reader {
        lexer: Lexer::new(text, syntax),
        text,
        rules,
        depth: 0,
        end: 0,
    };
    let result = match reader.next() {
        Ok((Token::OpenBrace, _)) => reader.object(),
        Ok((other, span)) => Err(unexpected("'{'", &other, span)),
        Err(error) => Err(error),
    };
    let reach = reader.lexer.reach();
    result
        .map(|ad| (ad, reader.end))
        .map_err(|error| (error, reach))
}

struct Reader<'t> {
    lexer: Lexer<'t>,
    text: &'t [u8],
    rules: JsonRules,
    depth: usize,
    /// The end of the token read last.
    end: usize,
}

fn unexpected(wanted: &str, found: &Token, span: Span) -> ParseError {
    let message = format!("expected {wanted} but found {}", found.describe());
    ParseError::new(
        Code::BadJson,
        span,
        message,
        "JSON ads look like {\"Name\": value, ...}",
    )
}

impl Reader<'_> {
    fn next(&mut self) -> Result<(Token, Span), ParseError> {
        let (token, span) = self.lexer.next_token()?;
        self.end = span.end;
        Ok((token, span))
    }

    /// The rest of an object whose brace was read. Extra commas are forgiven.
    fn object(&mut self) -> Result<Ad, ParseError> {
        let mut ad = Ad::new();
        let mut after_comma = false;
        loop {
            match self.next()? {
                (Token::CloseBrace, span) if after_comma && ad.is_empty() => {
                    return Err(unexpected("a name", &Token::CloseBrace, span));
                }
                (Token::CloseBrace, _) => return Ok(ad),
                (Token::Comma, _) => {
                    after_comma = true;
                    continue;
                }
                (Token::Str(name), span) => {
                    if name.as_bytes().is_empty() {
                        // HTCondor notices after it has read the value.
                        self.colon()?;
                        self.value()?;
                        return Err(ParseError::new(
                            Code::BadJson,
                            span,
                            "an attribute needs a name",
                            "",
                        ));
                    }
                    self.colon()?;
                    let value = self.value()?;
                    ad.insert(Name::new(name.as_bytes()), value);
                }
                (other, span) => return Err(unexpected("a name in quotes", &other, span)),
            }
            match self.next()? {
                (Token::Comma, _) => after_comma = true,
                (Token::CloseBrace, _) => return Ok(ad),
                (other, span) => return Err(unexpected("',' or '}'", &other, span)),
            }
        }
    }

    fn colon(&mut self) -> Result<(), ParseError> {
        match self.next()? {
            (Token::Colon, _) => Ok(()),
            (other, span) => Err(unexpected("':'", &other, span)),
        }
    }

    fn value(&mut self) -> Result<Expr, ParseError> {
        let (token, span) = self.next()?;
        self.value_from(token, span)
    }

    fn value_from(&mut self, token: Token, span: Span) -> Result<Expr, ParseError> {
        Ok(Expr::Lit(match token {
            Token::OpenBrace | Token::OpenBox => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(ParseError::new(
                        Code::TooDeep,
                        span,
                        "JSON nests too deep",
                        "",
                    ));
                }
                let inner = if token == Token::OpenBrace {
                    self.object().map(|ad| Expr::Ad(Arc::new(ad)))
                } else {
                    self.array()
                };
                self.depth -= 1;
                return inner;
            }
            Token::Undefined => Value::Undefined,
            Token::Bool(b) => Value::Bool(b),
            Token::Int(i) => Value::Int(i),
            Token::Real(r) => Value::Real(r),
            Token::Str(s) => return self.string(s, span),
            other => return Err(unexpected("a value", &other, span)),
        }))
    }

    fn array(&mut self) -> Result<Expr, ParseError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Token::CloseBox, _) if items.is_empty() => break,
                (token, span) => items.push(self.value_from(token, span)?),
            }
            match self.next()? {
                (Token::Comma, _) => {}
                (Token::CloseBox, _) => break,
                (other, span) => return Err(unexpected("',' or ']'", &other, span)),
            }
        }
        Ok(Expr::List(items.into()))
    }

    fn string(&mut self, s: Str, span: Span) -> Result<Expr, ParseError> {
        let raw = self.text.get(span.start + 1..span.end - 1).unwrap_or(b"");
        let raw = joined(raw);
        let marked = raw.len() >= 4 && raw.starts_with(b"\\/") && raw.ends_with(b"\\/");
        let bytes = s.as_bytes();
        let head = bytes.len() >= 8 && bytes[..6].eq_ignore_ascii_case(b"/Expr(");
        if marked && head && bytes.ends_with(b")/") {
            let syntax = Syntax {
                strict: self.rules.strict,
                ..Syntax::NORMAL
            };
            return parse_computed(&bytes[6..bytes.len() - 2], syntax)
                .map_err(|error| ParseError { span, ..error });
        }
        Ok(Expr::Lit(Value::Str(s)))
    }
}

/// The raw text of a string, adjacent strings taken together, escapes as written.
fn joined(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'"', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&b) = raw.get(at) {
        match b {
            b'\\' => {
                out.extend_from_slice(&raw[at..raw.len().min(at + 2)]);
                at += 2;
            }
            // The end of one string; the next begins behind the blanks.
            b'"' => {
                let blanks = raw[at + 1..].iter().take_while(|b| is_space(**b)).count();
                at += 2 + blanks;
            }
            _ => {
                out.push(b);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

/// Writes an ad as JSON. `indent` puts every member on a line of its own, as HTCondor does.
pub fn write_json(out: &mut Vec<u8>, ad: &Ad, indent: bool) {
    Writer {
        out,
        indent,
        level: 0,
    }
    .object(ad);
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    indent: bool,
    level: usize,
}

impl Writer<'_> {
    fn line(&mut self) {
        if self.indent {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', self.level));
        }
    }

    fn object(&mut self, ad: &Ad) {
        self.out.push(b'{');
        self.level += 2;
        for (i, (name, expr)) in ad.sorted().into_iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.line();
            self.string(name.as_bytes());
            self.out.extend_from_slice(b": ");
            self.expr(expr);
        }
        self.level -= 2;
        self.line();
        self.out.push(b'}');
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Ad(ad) => self.object(ad),
            Expr::List(items) => {
                self.out.push(b'[');
                self.level += 2;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push(b',');
                    }
                    self.line();
                    self.expr(item);
                }
                self.level -= 2;
                self.line();
                self.out.push(b']');
            }
            Expr::Lit(Value::Undefined) => self.out.extend_from_slice(b"null"),
            Expr::Lit(Value::Bool(b)) => {
                self.out
                    .extend_from_slice(if *b { b"true" } else { b"false" })
            }
            Expr::Lit(Value::Int(i)) => self.out.extend_from_slice(i.to_string().as_bytes()),
            Expr::Lit(Value::Real(r) | Value::RelTime(r)) if r.is_finite() => self.real(*r),
            Expr::Lit(Value::Str(s)) => self.string(s.as_bytes()),
            Expr::Lit(Value::RelTime(r)) => self.quoted(&unparse_value(&Value::Real(*r))),
            other => self.quoted(&unparse(other)),
        }
    }

    fn real(&mut self, r: f64) {
        if r == 0.0 {
            self.out.extend_from_slice(if r.is_sign_negative() {
                b"-0.0"
            } else {
                b"0.0"
            });
            return;
        }
        let from = self.out.len();
        push_general(self.out, r, 16, true);
        if !self.out[from..].iter().any(|b| matches!(b, b'.' | b'E')) {
            self.out.extend_from_slice(b".0");
        }
    }

    fn quoted(&mut self, text: &[u8]) {
        self.out.extend_from_slice(b"\"\\/Expr(");
        self.escaped(text);
        self.out.extend_from_slice(b")\\/\"");
    }

    fn string(&mut self, bytes: &[u8]) {
        self.out.push(b'"');
        self.escaped(bytes);
        self.out.push(b'"');
    }

    fn escaped(&mut self, bytes: &[u8]) {
        for &b in bytes {
            match b {
                b'"' => self.out.extend_from_slice(b"\\\""),
                0x08 => self.out.extend_from_slice(b"\\b"),
                0x0C => self.out.extend_from_slice(b"\\f"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                1..32 => self
                    .out
                    .extend_from_slice(format!("\\u00{b:02X}").as_bytes()),
                _ => self.out.push(b),
            }
        }
    }
}
