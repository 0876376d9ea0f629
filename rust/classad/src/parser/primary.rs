//! What stands between operators: names, literals, calls, lists, ads.

use super::Parser;
use crate::ad::Ad;
use crate::builtins::Builtin;
use crate::error::{Code, ParseError, Span};
use crate::expr::{Call, Expr};
use crate::lexer::Token;
use crate::name::Name;
use crate::time;
use crate::value::Value;
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn name(&mut self, wanted: &str) -> Result<Name, ParseError> {
        if matches!(self.token, Token::Ident(_))
            && let Token::Ident(name) = self.advance()
        {
            return Ok(name);
        }
        if self.pending.is_some() || self.token == Token::End {
            return self.unexpected(wanted, "");
        }
        let message = format!("expected {wanted} but found {}", self.token.describe());
        let hint = "reserved words and unusual names must be quoted: 'true'";
        Err(ParseError::new(
            Code::ExpectedName,
            self.span,
            message,
            hint,
        ))
    }

    pub(super) fn primary(&mut self) -> Result<Expr, ParseError> {
        let mark = self.mark();
        let made = self.unmarked()?;
        self.note(mark);
        Ok(made)
    }

    fn unmarked(&mut self) -> Result<Expr, ParseError> {
        match &self.token {
            Token::Ident(_) => {
                let name = self.name("a name")?;
                if self.token == Token::OpenParen {
                    self.call(name)
                } else {
                    Ok(Expr::Attr(name))
                }
            }
            Token::Dot => {
                self.advance();
                Ok(Expr::AbsAttr(self.name("the name of an attribute")?))
            }
            Token::OpenParen => {
                self.advance();
                let inner = self.expression()?;
                self.expect(&Token::CloseParen, "')'", "a parenthesis is not closed")?;
                Ok(Expr::paren(inner))
            }
            Token::OpenBox => Ok(Expr::Ad(Arc::new(self.attributes()?))),
            Token::OpenBrace => self.list(),
            Token::Undefined => self.literal(Value::Undefined),
            Token::Error => self.literal(Value::Error),
            Token::Bool(b) => self.literal(Value::Bool(*b)),
            Token::Int(i) => self.literal(Value::Int(*i)),
            Token::Real(r) => self.literal(Value::Real(*r)),
            Token::Str(s) => {
                let s = s.clone();
                self.literal(Value::Str(s))
            }
            _ => self.unexpected("a value", "an operator needs a value on each side"),
        }
    }

    fn literal(&mut self, value: Value) -> Result<Expr, ParseError> {
        self.advance();
        Ok(Expr::Lit(value))
    }

    fn call(&mut self, name: Name) -> Result<Expr, ParseError> {
        let start = self.span_before.start;
        self.advance();
        let mut args = Vec::new();
        while self.token != Token::CloseParen || self.pending.is_some() {
            args.push(self.expression()?);
            match self.token {
                Token::Comma => {}
                Token::Semicolon if !self.syntax.strict => {}
                Token::CloseParen => break,
                _ => return self.unexpected("',' or ')'", "close the call's arguments with )"),
            }
            self.advance();
            if self.token == Token::CloseParen {
                return self.unexpected("another argument", "remove the last comma");
            }
        }
        self.advance();
        if let [Expr::Lit(Value::Str(text))] = args.as_slice() {
            let made = if name.is("absTime") {
                Some(time::parse_abs(text.as_bytes()).map(Value::AbsTime))
            } else if name.is("relTime") {
                Some(time::parse_rel(text.as_bytes()).map(Value::RelTime))
            } else {
                None
            };
            if let Some(value) = made {
                let span = Span {
                    start,
                    end: self.span_before.end,
                };
                if let Some(recorder) = &mut self.recorder {
                    recorder.forget_last();
                }
                return value.map(Expr::Lit).ok_or_else(|| {
                    let message = format!("{name} cannot read this time");
                    let hint = "write 2026-01-31T12:00:00+01:00 or 1+02:03:04";
                    ParseError::new(Code::BadTimeLiteral, span, message, hint)
                });
            }
        }
        let builtin = Builtin::find(name.as_bytes());
        Ok(Expr::Call(Arc::new(Call {
            name,
            builtin,
            args: args.into(),
        })))
    }

    fn list(&mut self) -> Result<Expr, ParseError> {
        self.advance();
        let mut items = Vec::new();
        while self.token != Token::CloseBrace {
            items.push(self.expression()?);
            match self.token {
                Token::Comma => {
                    self.advance();
                    if self.token == Token::CloseBrace {
                        return self.unexpected("another item", "remove the last comma");
                    }
                }
                Token::CloseBrace => {}
                _ => return self.unexpected("',' or '}'", "close the list with }"),
            }
        }
        self.advance();
        Ok(Expr::List(items.into()))
    }

    /// `[ a = x; b = y ]`
    pub(crate) fn ad(&mut self) -> Result<Ad, ParseError> {
        let mark = self.mark();
        let ad = self.attributes()?;
        self.note(mark);
        Ok(ad)
    }

    fn attributes(&mut self) -> Result<Ad, ParseError> {
        let noted = self.mark().noted;
        self.expect(
            &Token::OpenBox,
            "'['",
            "an ad is written [ name = value; ... ]",
        )?;
        let mut ad = Ad::new();
        while self.token != Token::CloseBox {
            while self.token == Token::Semicolon {
                self.advance();
            }
            let name = self.name("the name of an attribute")?;
            let name_span = self.span_before;
            self.expect(
                &Token::Assign,
                "'='",
                "attributes are written  name = value",
            )?;
            let value = self.expression()?;
            if name.as_bytes().is_empty() {
                let message = "an attribute needs a name";
                return Err(ParseError::new(Code::ExpectedName, name_span, message, ""));
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.attribute(noted, ad.position(&name));
            }
            ad.insert(name, value);
            if self.token != Token::Semicolon && self.token != Token::CloseBox {
                return self.unexpected("';' or ']'", "separate attributes with ;");
            }
            while self.token == Token::Semicolon {
                self.advance();
            }
        }
        self.advance();
        Ok(ad)
    }
}
