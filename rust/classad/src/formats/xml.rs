//! HTCondor's XML: `<c>` is an ad, `<a n="Name">` an attribute, `<i>`, `<r>`, `<s>`, ... its value.
//!
//! As lenient as HTCondor: unknown tags end an ad, missing end tags are overlooked.

use super::xml_token::{Shape, Token, entity_text, split_tag};
pub use super::xml_write::{FOOTER, HEADER, write_xml};
use crate::ad::Ad;
use crate::error::{Code, ParseError, Span};
use crate::expr::Expr;
use crate::lexer::is_space;
use crate::name::Name;
use crate::number::strtod;
use crate::parser::{Parser, Syntax};
use crate::time;
use crate::value::Value;
use memchr::{memchr, memchr2};
use std::sync::Arc;

/// How deep ads and lists may nest.
const MAX_DEPTH: usize = 400;

/// Reads ads from a text, one after the other.
pub struct XmlReader<'t> {
    text: &'t [u8],
    at: usize,
    peeked: Option<Token>,
    in_string: bool,
    depth: usize,
    syntax: Syntax,
}

impl<'t> XmlReader<'t> {
    /// A reader at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'t [u8], strict: bool) -> Self {
        let syntax = Syntax {
            strict,
            ..Syntax::NORMAL
        };
        Self {
            text,
            at: 0,
            peeked: None,
            in_string: false,
            depth: 0,
            syntax,
        }
    }

    /// How far it has read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next ad; `None` when the text holds no further one.
    ///
    /// # Errors
    /// [`ParseError`] for an attribute without a value that can be read.
    pub fn next_ad(&mut self) -> Result<Option<Ad>, ParseError> {
        while let Some(token) = self.take() {
            match token.is(b"c") {
                Some(Shape::Start) => return self.ad_rest().map(Some),
                Some(_) => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    fn error<T>(&self, message: &str) -> Result<T, ParseError> {
        let span = Span {
            start: self.at.saturating_sub(1),
            end: self.at,
        };
        Err(ParseError::new(
            Code::BadXml,
            span,
            message,
            "write <a n=\"Name\"><i>1</i></a>",
        ))
    }

    fn peek(&mut self) -> Option<&Token> {
        if self.peeked.is_none() {
            self.peeked = self.read();
        }
        self.peeked.as_ref()
    }

    fn take(&mut self) -> Option<Token> {
        self.peek();
        self.peeked.take()
    }

    fn swallow_end(&mut self, name: &[u8]) {
        if self.peek().and_then(|t| t.is(name)) == Some(Shape::End) {
            self.take();
        }
    }

    fn read(&mut self) -> Option<Token> {
        let in_string = std::mem::take(&mut self.in_string);
        if !in_string {
            while self.at < self.text.len() && is_space(self.text[self.at]) {
                self.at += 1;
            }
        }
        if *self.text.get(self.at)? != b'<' {
            return Some(Token::Text(self.read_text()));
        }
        self.at += 1;
        let rest = &self.text[self.at..];
        let Some(end) = memchr(b'>', rest) else {
            self.at = self.text.len();
            return Some(Token::Tag {
                name: Vec::new(),
                shape: Shape::Empty,
                attributes: Vec::new(),
                broken: true,
            });
        };
        self.at += end + 1;
        let tag = split_tag(rest[..end].trim_ascii_start());
        self.in_string = tag.is(b"s") == Some(Shape::Start);
        Some(tag)
    }

    fn read_text(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(step) = memchr2(b'<', b'&', &self.text[self.at..]) {
            out.extend_from_slice(&self.text[self.at..self.at + step]);
            self.at += step;
            if self.text[self.at] == b'<' {
                return out;
            }
            let rest = &self.text[self.at..];
            let stop = rest[1..]
                .iter()
                .position(|b| matches!(b, b' ' | b'&' | b';'));
            let Some(stop) = stop.map(|s| s + 1) else {
                self.at = self.text.len();
                return out;
            };
            let length = if rest[stop] == b'&' { stop } else { stop + 1 };
            let entity = &rest[..length];
            out.extend_from_slice(entity_text(entity).unwrap_or(entity));
            self.at += length;
        }
        out.extend_from_slice(&self.text[self.at..]);
        self.at = self.text.len();
        out
    }

    /// The attributes of an ad whose start tag was read.
    fn ad_rest(&mut self) -> Result<Ad, ParseError> {
        let mut ad = Ad::new();
        loop {
            let Some(token) = self.peek() else {
                return Ok(ad);
            };
            if let Token::Tag {
                broken: true, name, ..
            } = token
                && name == b"a"
            {
                return self.error("an attribute's name cannot hold a NUL");
            }
            match (token.is(b"a"), token.is(b"c")) {
                (Some(Shape::Start), _) => {
                    let (name, value) = self.attribute()?;
                    ad.insert(name, value);
                    continue;
                }
                (_, Some(Shape::End)) => {
                    self.take();
                    return Ok(ad);
                }
                (Some(_), _) | (_, Some(_)) => {}
                _ => {
                    let known = [&b"?xml"[..], b"?xml-stylesheet", b"DOCTYPE", b"classads"];
                    let harmless = known.iter().any(|k| token.is(k).is_some());
                    if matches!(token, Token::Tag { .. }) && !harmless {
                        self.take();
                        return Ok(ad);
                    }
                }
            }
            self.take();
        }
    }

    fn attribute(&mut self) -> Result<(Name, Expr), ParseError> {
        let Some(Token::Tag { attributes, .. }) = self.take() else {
            return self.error("expected an attribute");
        };
        let name = attributes
            .into_iter()
            .rev()
            .find(|(key, _)| key == b"n")
            .map(|(_, value)| value);
        let Some(name) = name.filter(|n| !n.is_empty()) else {
            return self.error("an attribute needs a name: <a n=\"Name\">");
        };
        let value = self.thing()?;
        self.swallow_end(b"a");
        Ok((Name::new(&name), value))
    }

    fn thing(&mut self) -> Result<Expr, ParseError> {
        let Some(Token::Tag { name, .. }) = self.peek() else {
            return self.error("expected a value");
        };
        let name = name.clone();
        match name.as_slice() {
            b"c" | b"l" => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    let span = Span {
                        start: self.at,
                        end: self.at,
                    };
                    return Err(ParseError::new(
                        Code::TooDeep,
                        span,
                        "XML nests too deep",
                        "",
                    ));
                }
                let inner = if name == b"l" {
                    self.list()
                } else {
                    self.nested()
                };
                self.depth -= 1;
                inner
            }
            b"b" | b"un" | b"er" => Ok(Expr::Lit(self.word(&name))),
            b"i" | b"r" | b"s" | b"at" | b"rt" | b"e" => self.scalar(&name),
            _ => self.error("expected a value"),
        }
    }

    fn nested(&mut self) -> Result<Expr, ParseError> {
        match self.next_ad()? {
            Some(ad) => Ok(Expr::Ad(Arc::new(ad))),
            None => self.error("expected an ad"),
        }
    }

    fn list(&mut self) -> Result<Expr, ParseError> {
        self.take();
        let mut items = Vec::new();
        loop {
            match self.peek() {
                None => break,
                Some(token) if token.is(b"l") == Some(Shape::End) => {
                    self.take();
                    break;
                }
                Some(Token::Tag {
                    shape: Shape::Start | Shape::Empty,
                    ..
                }) => items.push(self.thing()?),
                Some(_) => return self.error("expected an item of the list"),
            }
        }
        Ok(Expr::List(items.into()))
    }

    fn word(&mut self, name: &[u8]) -> Value {
        let token = self.take();
        if token.as_ref().and_then(|t| t.is(name)) == Some(Shape::Start) {
            self.swallow_end(name);
        }
        match (name, token) {
            (b"b", Some(Token::Tag { attributes, .. })) => {
                let value = attributes.iter().rev().find(|(key, _)| key == b"v");
                Value::Bool(value.is_some_and(|(_, v)| v.eq_ignore_ascii_case(b"t")))
            }
            (b"un", _) => Value::Undefined,
            _ => Value::Error,
        }
    }

    fn scalar(&mut self, name: &[u8]) -> Result<Expr, ParseError> {
        self.take();
        let text = match self.peek() {
            Some(Token::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let value = match text {
            Some(text) => {
                self.take();
                self.scalar_value(name, &text)?
            }
            None if name == b"s" => Some(Expr::Lit(Value::str(""))),
            None => None,
        };
        self.swallow_end(name);
        match value {
            Some(value) => Ok(value),
            None => self.error("this value cannot be read"),
        }
    }

    fn scalar_value(&mut self, name: &[u8], text: &[u8]) -> Result<Option<Expr>, ParseError> {
        Ok(Some(Expr::Lit(match name {
            b"i" => integer(text),
            b"r" => match strtod(text) {
                (_, 0) => Value::Error,
                (r, _) => Value::Real(r),
            },
            b"s" => {
                let bytes = crate::escape::from_new(text);
                if bytes.contains(&0) {
                    return Ok(None);
                }
                Value::Str(bytes.into())
            }
            b"at" => return Ok(time::parse_abs(text).map(|t| Expr::Lit(Value::AbsTime(t)))),
            b"rt" => return Ok(time::parse_rel(text).map(|r| Expr::Lit(Value::RelTime(r)))),
            _ => {
                let here = Span {
                    start: self.at.saturating_sub(text.len()),
                    end: self.at,
                };
                let parsed = Parser::new(text, self.syntax).and_then(|mut p| p.expression());
                return parsed.map(Some).map_err(|error| ParseError {
                    span: here,
                    ..error
                });
            }
        })))
    }
}

/// The digits a text begins with; error if there are none or too many.
fn integer(text: &[u8]) -> Value {
    let sign = usize::from(text.first() == Some(&b'-'));
    let digits = text[sign..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let number = std::str::from_utf8(&text[..sign + digits]).ok();
    number
        .and_then(|n| n.parse().ok())
        .map_or(Value::Error, Value::Int)
}
