//! Text to tokens.

mod literals;
mod punctuation;

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

    /// How far HTCondor's reader looks to make out the tokens read so far: it reads one byte ahead where a
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
        // Another string behind this one would be joined to it; so would quoted names.
        let quoted = match token {
            Token::Str(_) => true,
            Token::Ident(_) => self.text[self.at - 1] == b'\'',
            _ => false,
        };
        if quoted && !self.syntax.old_strings {
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
}
