//! Text to tokens.

use crate::error::{Code, ParseError, Span};
use crate::name::Name;
use crate::parser::Syntax;
pub use crate::token::Token;

/// Reads tokens one after the other.
pub struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    syntax: Syntax,
    after_operand: bool,
    reach: usize,
}

/// C's isspace.
#[must_use]
pub fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | 0x0B | 0x0C | b'\r')
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// How much of a text is blank space and comments before its first token.
pub(crate) fn blank(text: &[u8]) -> usize {
    let mut lexer = Lexer::new(text, Syntax::NORMAL);
    match lexer.skip_blank() {
        Ok(()) => lexer.at,
        Err(_) => text.len(),
    }
}

impl<'t> Lexer<'t> {
    /// A lexer at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'t [u8], syntax: Syntax) -> Self {
        Self {
            text,
            at: 0,
            syntax,
            after_operand: false,
            reach: 0,
        }
    }

    /// Where the next token search begins.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// How far the reference's reader looks to make out the tokens read so far: it reads one byte ahead where a
    /// token could go on.
    #[must_use]
    pub fn reach(&self) -> usize {
        self.reach
    }

    fn looked_at(&self, token: &Token) -> usize {
        let alone = matches!(
            token,
            Token::Star
                | Token::Percent
                | Token::Plus
                | Token::BitNot
                | Token::BitXor
                | Token::Colon
                | Token::Semicolon
                | Token::Comma
                | Token::OpenBox
                | Token::CloseBox
                | Token::OpenParen
                | Token::CloseParen
                | Token::OpenBrace
                | Token::CloseBrace
                | Token::Elvis
                | Token::And
                | Token::Or
                | Token::Le
                | Token::Ge
                | Token::Eq
                | Token::Ne
                | Token::Shl
                | Token::Ushr
        ) || (matches!(token, Token::Is | Token::Isnt)
            && self.text[self.at - 1] == b'=')
            || (*token == Token::Minus && self.after_operand);
        let mut end = self.at;
        if matches!(token, Token::Str(_)) && !self.syntax.old_strings {
            while end < self.text.len() && is_space(self.text[end]) {
                end += 1;
            }
        }
        (end + usize::from(!alone)).min(self.text.len())
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn fail<T>(
        &self,
        code: Code,
        start: usize,
        message: &str,
        hint: &'static str,
    ) -> Result<T, ParseError> {
        let span = Span {
            start,
            end: self.at.max(start + 1).min(self.text.len().max(start)),
        };
        Err(ParseError::new(code, span, message, hint))
    }

    fn skip_blank(&mut self) -> Result<(), ParseError> {
        loop {
            while self.at < self.text.len() && is_space(self.text[self.at]) {
                self.at += 1;
            }
            if self.peek(0) != b'/' {
                return Ok(());
            }
            match self.peek(1) {
                b'/' => {
                    let start = self.at;
                    match memchr::memchr(b'\n', &self.text[start..]) {
                        Some(length) => self.at += length,
                        None if !self.syntax.closed_comments => self.at = self.text.len(),
                        None => {
                            self.at = self.text.len();
                            return self.fail(
                                Code::UnterminatedComment,
                                start,
                                "this comment has no end",
                                "end the line, or write /* ... */",
                            );
                        }
                    }
                }
                b'*' => {
                    let start = self.at;
                    match memchr::memmem::find(&self.text[start + 2..], b"*/") {
                        Some(end) => self.at = start + 2 + end + 2,
                        None => {
                            self.at = self.text.len();
                            return self.fail(
                                Code::UnterminatedComment,
                                start,
                                "this comment has no end",
                                "close it with */",
                            );
                        }
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// The next token and its place.
    ///
    /// # Errors
    /// When the text there is no token.
    pub fn next_token(&mut self) -> Result<(Token, Span), ParseError> {
        if let Err(error) = self.skip_blank() {
            self.reach = self.text.len();
            return Err(error);
        }
        let start = self.at;
        let token = self.token(start);
        let reach = match &token {
            Ok(token) => self.looked_at(token),
            // A character without meaning is not read on from.
            Err(error) if error.code == Code::UnexpectedCharacter && self.at == start + 1 => {
                self.at
            }
            Err(_) => self.looked_at(&Token::End),
        };
        self.reach = self.reach.max(reach);
        let token = token?;
        self.after_operand = token.ends_operand();
        Ok((
            token,
            Span {
                start,
                end: self.at,
            },
        ))
    }

    fn token(&mut self, start: usize) -> Result<Token, ParseError> {
        let Some(&first) = self.text.get(start) else {
            return Ok(Token::End);
        };
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Ok(self.word(start)),
            b'0'..=b'9' | b'.' => self.number(start),
            b'-' if !self.after_operand => self.number(start),
            b'"' | b'\'' if self.syntax.old_strings => self.old_string(start, first),
            b'"' | b'\'' => self.string(start, first),
            _ => self.punctuation(start, first),
        }
    }

    fn word(&mut self, start: usize) -> Token {
        while self.at < self.text.len() && is_word(self.text[self.at]) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        match word.len() {
            2 if word.eq_ignore_ascii_case(b"is") => Token::Is,
            4 if word.eq_ignore_ascii_case(b"true") => Token::Bool(true),
            4 if word.eq_ignore_ascii_case(b"isnt") => Token::Isnt,
            4 if self.syntax.json && word.eq_ignore_ascii_case(b"null") => Token::Undefined,
            5 if word.eq_ignore_ascii_case(b"false") => Token::Bool(false),
            5 if word.eq_ignore_ascii_case(b"error") => Token::Error,
            9 if !self.syntax.json && word.eq_ignore_ascii_case(b"undefined") => Token::Undefined,
            _ => Token::Ident(Name::new(word)),
        }
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self, start: usize) -> Result<Token, ParseError> {
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
    fn string(&mut self, start: usize, quote: u8) -> Result<Token, ParseError> {
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
    fn old_string(&mut self, start: usize, quote: u8) -> Result<Token, ParseError> {
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

    fn punctuation(&mut self, start: usize, first: u8) -> Result<Token, ParseError> {
        let (second, third) = (self.peek(1), self.peek(2));
        let (token, length) = match (first, second, third) {
            (b'*', ..) => (Token::Star, 1),
            (b'/', ..) => (Token::Slash, 1),
            (b'%', ..) => (Token::Percent, 1),
            (b'+', ..) => (Token::Plus, 1),
            (b'-', ..) => (Token::Minus, 1),
            (b'~', ..) => (Token::BitNot, 1),
            (b'^', ..) => (Token::BitXor, 1),
            (b':', ..) => (Token::Colon, 1),
            (b';', ..) => (Token::Semicolon, 1),
            (b',', ..) => (Token::Comma, 1),
            (b'[', ..) => (Token::OpenBox, 1),
            (b']', ..) => (Token::CloseBox, 1),
            (b'(', ..) => (Token::OpenParen, 1),
            (b')', ..) => (Token::CloseParen, 1),
            (b'{', ..) => (Token::OpenBrace, 1),
            (b'}', ..) => (Token::CloseBrace, 1),
            (b'&', b'&', _) => (Token::And, 2),
            (b'&', ..) => (Token::BitAnd, 1),
            (b'|', b'|', _) => (Token::Or, 2),
            (b'|', ..) => (Token::BitOr, 1),
            (b'<', b'=', _) => (Token::Le, 2),
            (b'<', b'<', _) => (Token::Shl, 2),
            (b'<', ..) => (Token::Lt, 1),
            (b'>', b'>', b'>') => (Token::Ushr, 3),
            (b'>', b'>', _) => (Token::Shr, 2),
            (b'>', b'=', _) => (Token::Ge, 2),
            (b'>', ..) => (Token::Gt, 1),
            (b'=', b'=', _) => (Token::Eq, 2),
            (b'=', b'?', b'=') => (Token::Is, 3),
            (b'=', b'!', b'=') => (Token::Isnt, 3),
            (b'=', b'?', _) => {
                self.at += 2;
                return self.fail(
                    Code::UnexpectedCharacter,
                    start,
                    "'=?' is no operator",
                    "the meta comparison is written =?=",
                );
            }
            (b'=', ..) => (Token::Assign, 1),
            (b'!', b'=', _) => (Token::Ne, 2),
            (b'!', ..) => (Token::Not, 1),
            (b'?', ..) => {
                self.at += 1;
                let mut next = self.at;
                while next < self.text.len() && is_space(self.text[next]) {
                    next += 1;
                }
                if self.text.get(next) == Some(&b':') {
                    self.at = next + 1;
                    return Ok(Token::Elvis);
                }
                return Ok(Token::Question);
            }
            _ => {
                self.at += 1;
                return self.fail(
                    Code::UnexpectedCharacter,
                    start,
                    &format!("'{}' has no meaning here", first.escape_ascii()),
                    "quote unusual names with '...' and text with \"...\"",
                );
            }
        };
        self.at += length;
        Ok(token)
    }
}
