//! Operators and brackets.

use super::{Lexer, is_space};
use crate::error::{Code, ParseError};
use crate::token::Token;

impl Lexer<'_> {
    pub(super) fn punctuation(&mut self, start: usize, first: u8) -> Result<Token, ParseError> {
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
                    "'=?' is not an operator",
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
                    &format!("'{}' has no meaning here", self.shown(start)),
                    "quote unusual names with '...' and text with \"...\"",
                );
            }
        };
        self.at += length;
        Ok(token)
    }

    /// The character at a place, as a message shows it.
    fn shown(&self, start: usize) -> String {
        let width = match self.text[start] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0.. => 4,
            _ => 1,
        };
        let bytes = &self.text[start..(start + width).min(self.text.len())];
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(char::is_control) => text.to_owned(),
            _ => self.text[start].escape_ascii().to_string(),
        }
    }
}
