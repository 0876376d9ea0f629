//! Numbers, strings and quoted names.

use super::{Lexer, is_space};
use crate::error::{Code, ParseError};
use crate::name::Name;
use crate::token::Token;

impl Lexer<'_> {
    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
        self.at - from
    }

    pub(super) fn number(&mut self, start: usize) -> Result<Token, ParseError> {
        const FORM: &str = "write numbers like 12, -3, 0.5 or 1e6";
        if self.peek(0) == b'-' {
            self.at += 1;
            let digit_after_dot = self.peek(0) == b'.' && self.peek(1).is_ascii_digit();
            if !self.peek(0).is_ascii_digit() && !digit_after_dot {
                return Ok(Token::Minus);
            }
        }
        let mut real = false;
        let whole = self.at;
        if self.peek(0) == b'0' && self.peek(1).eq_ignore_ascii_case(&b'x') {
            self.at += 2;
            let from = self.at;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
            if self.at == from {
                return self.fail(
                    Code::BadNumber,
                    start,
                    "no hexadecimal digit follows 0x",
                    FORM,
                );
            }
        } else if self.digits() > 0 {
            real = matches!(self.peek(0), b'.' | b'e' | b'E');
            let octal = self.text[whole] == b'0';
            let digits = &self.text[whole..self.at];
            if octal && !real && digits.iter().any(|d| *d > b'7') {
                return self.fail(Code::BadNumber, start, "8 and 9 are no octal digits", FORM);
            }
        }
        if self.peek(0) == b'.' {
            // Two points in front count as one.
            let doubled = self.at == whole && self.peek(1) == b'.';
            self.at += if doubled { 2 } else { 1 };
            if self.digits() > 0 {
                real = true;
            } else if self.text[whole] != b'.' {
                return self.fail(
                    Code::BadNumber,
                    start,
                    "a digit must follow the point",
                    FORM,
                );
            } else {
                return Ok(Token::Dot);
            }
        }
        if real && matches!(self.peek(0), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(0), b'+' | b'-') {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.fail(Code::BadNumber, start, "the exponent has no digits", FORM);
            }
        }
        let text = &self.text[start..self.at];
        if real {
            return Ok(Token::Real(crate::number::strtod(text).0));
        }
        if text[0] == b'0' && text.len() > 1 && (!self.syntax.strict || self.syntax.json) {
            return self.fail(
                Code::BadNumber,
                start,
                "octal and hexadecimal numbers are not read",
                "write the number in decimal, without leading zeros",
            );
        }
        Ok(Token::Int(crate::number::integer_prefix(text)))
    }

    /// A string or quoted name; adjacent ones are joined before escapes are read.
    pub(super) fn string(&mut self, start: usize, quote: u8) -> Result<Token, ParseError> {
        let mut joined: Option<Vec<u8>> = None;
        let mut from = start + 1;
        let raw: &[u8] = loop {
            let end = self.string_end(start, from, quote)?;
            let part = &self.text[from..end];
            let mut next = end + 1;
            while next < self.text.len() && is_space(self.text[next]) {
                next += 1;
            }
            let more = self.text.get(next) == Some(&quote);
            self.at = end + 1;
            match (&mut joined, more) {
                (None, false) => break part,
                (Some(all), false) => {
                    all.extend_from_slice(part);
                    break &[];
                }
                (all, true) => all.get_or_insert_default().extend_from_slice(part),
            }
            from = next + 1;
        };
        let raw = joined.as_deref().unwrap_or(raw);
        let bytes = if memchr::memchr(b'\\', raw).is_none() {
            std::borrow::Cow::Borrowed(raw)
        } else if self.syntax.json {
            match crate::escape::from_json(raw, self.syntax.exact_json) {
                Some(bytes) => bytes.into(),
                None => {
                    return self.fail(
                        Code::BadJson,
                        start,
                        "a \\u escape in this string is malformed",
                        "write \\u and four hexadecimal digits, not all zero",
                    );
                }
            }
        } else {
            crate::escape::from_new(raw).into()
        };
        if memchr::memchr(0, &bytes).is_some() && !self.syntax.exact_json {
            return self.fail(
                Code::NulInString,
                start,
                "a string cannot hold a NUL",
                "remove the \\0 from the string",
            );
        }
        Ok(if quote == b'"' {
            Token::Str((&*bytes).into())
        } else {
            Token::Ident(Name::new(&bytes))
        })
    }

    fn string_end(&mut self, start: usize, from: usize, quote: u8) -> Result<usize, ParseError> {
        let mut at = from;
        while let Some(step) =
            memchr::memchr3(quote, b'\\', 0, &self.text[at.min(self.text.len())..])
        {
            at += step;
            match self.text[at] {
                b'\\' => at += 2,
                0 => break,
                _ => return Ok(at),
            }
        }
        self.at = self.text.len();
        self.fail(
            Code::UnterminatedString,
            start,
            if quote == b'"' {
                "this string has no end"
            } else {
                "this quoted name has no end"
            },
            "add the closing quote; write a quote inside as \\\" or \\'",
        )
    }

    /// A string of the old syntax: a backslash is itself, unless a quote and more text follow it.
    pub(super) fn old_string(&mut self, start: usize, quote: u8) -> Result<Token, ParseError> {
        let mut bytes = Vec::new();
        let mut from = start + 1;
        loop {
            let Some(step) = memchr::memchr2(quote, 0, &self.text[from..])
                .filter(|step| self.text[from + step] == quote)
            else {
                self.at = self.text.len();
                return self.fail(
                    Code::UnterminatedString,
                    start,
                    "this string has no end",
                    "add the closing quote",
                );
            };
            let end = from + step;
            bytes.extend_from_slice(&self.text[from..end]);
            self.at = end + 1;
            let next = self.peek(0);
            if step > 0 && self.text[end - 1] == b'\\' && next != 0 && next != b'\n' {
                if let Some(last) = bytes.last_mut() {
                    *last = quote;
                }
                from = end + 1;
                continue;
            }
            break;
        }
        Ok(if quote == b'"' {
            Token::Str(bytes.into())
        } else {
            Token::Ident(Name::new(&bytes))
        })
    }
}
