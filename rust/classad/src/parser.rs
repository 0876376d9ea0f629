//! Tokens to trees: precedence climbing, with the reference's depth limit.

use crate::ad::Ad;
use crate::builtins::Builtin;
use crate::error::{Code, ParseError, Span};
use crate::expr::{BinaryOp, Call, Expr, Ternary, UnaryOp};
use crate::lexer::{Lexer, Token};
use crate::name::Name;
use crate::time;
use crate::value::Value;
use std::sync::Arc;

/// How deep expressions may nest; the reference counts three steps for a pair of parentheses.
const MAX_DEPTH: u32 = 500;
/// How many operators of one level may follow each other (`a || b || ...`). The reference reads more, but
/// cannot evaluate more than 400.
const MAX_CHAIN: u32 = 5000;

/// Which dialect is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syntax {
    /// The reference's STRICT_CLASSAD_EVALUATION: `017` is an integer, `;` separates no arguments.
    pub strict: bool,
    /// Strings as in old-syntax ads: a backslash is itself unless a quote follows.
    pub old_strings: bool,
    /// Tokens as in JSON: `null`, JSON escapes, `undefined` a plain name.
    pub json: bool,
    /// JSON escapes above ASCII come out as the reference garbles them.
    pub exact_json: bool,
}

impl Syntax {
    /// The normal mode's new syntax.
    pub const NORMAL: Syntax = Syntax {
        strict: false,
        old_strings: false,
        json: false,
        exact_json: false,
    };
    /// The right-hand sides of old-syntax ads, normal mode.
    pub const OLD: Syntax = Syntax {
        old_strings: true,
        ..Syntax::NORMAL
    };
}

/// Parses a whole text as one expression.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_expr(text: &[u8], syntax: Syntax) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

/// Parses a new-syntax ad at the beginning of `text`; gives it and where it ends.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_ad(text: &[u8], syntax: Syntax) -> Result<(Ad, usize), ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    let ad = parser.ad()?;
    let end = parser.span_before.end;
    Ok((ad, end))
}

/// As [`parse_ad`], telling how far the text was looked at before an error.
pub(crate) fn parse_ad_reaching(
    text: &[u8],
    syntax: Syntax,
) -> Result<(Ad, usize), (ParseError, usize)> {
    let mut parser = Parser::new(text, syntax).map_err(|error| (error, text.len()))?;
    match parser.ad() {
        Ok(ad) => Ok((ad, parser.span_before.end)),
        Err(error) => Err((error, parser.lexer.reach())),
    }
}

pub(crate) struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token,
    span: Span,
    /// The place of the token consumed last.
    pub(crate) span_before: Span,
    syntax: Syntax,
    depth: u32,
    /// A token that could not be read; reported when the parser gets there.
    pending: Option<ParseError>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t [u8], syntax: Syntax) -> Result<Self, ParseError> {
        let mut lexer = Lexer::new(text, syntax);
        let (token, span) = lexer.next_token()?;
        Ok(Self {
            lexer,
            token,
            span,
            span_before: Span::default(),
            syntax,
            depth: 0,
            pending: None,
        })
    }

    /// Consumes the current token. The next one is read at once, but an error in it only counts when it is
    /// looked at: text after a complete ad is nobody's business.
    fn advance(&mut self) -> Token {
        self.span_before = self.span;
        match self.lexer.next_token() {
            Ok((token, span)) => {
                self.span = span;
                std::mem::replace(&mut self.token, token)
            }
            Err(error) => {
                self.span = error.span;
                self.pending = Some(error);
                std::mem::replace(&mut self.token, Token::End)
            }
        }
    }

    fn unexpected<T>(&mut self, wanted: &str, hint: &'static str) -> Result<T, ParseError> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let code = if self.token == Token::End {
            Code::UnexpectedEnd
        } else {
            Code::UnexpectedToken
        };
        let message = format!("expected {wanted} but found {}", self.token.describe());
        Err(ParseError::new(code, self.span, message, hint))
    }

    fn expect(
        &mut self,
        token: &Token,
        wanted: &str,
        hint: &'static str,
    ) -> Result<(), ParseError> {
        if self.token == *token {
            self.advance();
            return Ok(());
        }
        self.unexpected(wanted, hint)
    }

    /// Nothing may follow.
    pub(crate) fn end(&mut self) -> Result<(), ParseError> {
        if self.token == Token::End && self.pending.is_none() {
            return Ok(());
        }
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let message = format!("{} after the end of the expression", self.token.describe());
        let hint = "an operator may be missing, or a quote around a name or string";
        Err(ParseError::new(
            Code::TrailingText,
            self.span,
            message,
            hint,
        ))
    }

    fn deeper<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH {
            Err(ParseError::new(
                Code::TooDeep,
                self.span,
                "the expression nests too deep",
                "move parts of it into attributes of their own",
            ))
        } else {
            step(self)
        };
        self.depth -= 1;
        result
    }

    /// `cond ? a : b`, or anything that binds tighter.
    pub(crate) fn expression(&mut self) -> Result<Expr, ParseError> {
        self.deeper(|p| {
            let cond = p.binary(1)?;
            if p.token != Token::Question {
                return Ok(cond);
            }
            p.advance();
            let then = p.expression()?;
            p.expect(
                &Token::Colon,
                "':'",
                "a conditional is written  condition ? value : other",
            )?;
            let other = p.expression()?;
            Ok(Expr::Ternary(Arc::new(Ternary { cond, then, other })))
        })
    }

    fn binary(&mut self, min: u8) -> Result<Expr, ParseError> {
        let mut left = self.unary()?;
        let mut chain = 0;
        while let Some((op, level)) = infix(&self.token) {
            if level < min {
                break;
            }
            chain += 1;
            if chain > MAX_CHAIN {
                return Err(ParseError::new(
                    Code::TooLong,
                    self.span,
                    "too many operators in a row",
                    "test for membership in a list instead",
                ));
            }
            self.advance();
            let right = self.binary(level + 1)?;
            left = Expr::binary(op, left, right);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, ParseError> {
        self.deeper(|p| {
            let op = match p.token {
                Token::Minus => UnaryOp::Minus,
                Token::Plus => UnaryOp::Plus,
                Token::BitNot => UnaryOp::BitNot,
                Token::Not => UnaryOp::Not,
                _ => return p.postfix(),
            };
            p.advance();
            Ok(Expr::unary(op, p.unary()?))
        })
    }

    fn postfix(&mut self) -> Result<Expr, ParseError> {
        self.deeper(|p| {
            let mut base = p.primary()?;
            let mut chain = 0;
            loop {
                chain += 1;
                if chain > MAX_CHAIN {
                    let hint = "shorten the chain of selections";
                    let message = "too many selections in a row";
                    return Err(ParseError::new(Code::TooLong, p.span, message, hint));
                }
                base = match p.token {
                    Token::OpenBox => {
                        p.advance();
                        let index = p.expression()?;
                        p.expect(&Token::CloseBox, "']'", "close the subscript with ]")?;
                        Expr::Subscript(Arc::new((base, index)))
                    }
                    Token::Elvis => {
                        p.advance();
                        let other = p.postfix()?;
                        Expr::Elvis(Arc::new((base, other)))
                    }
                    Token::Dot => {
                        p.advance();
                        Expr::select(base, p.name("the name of an attribute")?)
                    }
                    _ => return Ok(base),
                };
            }
        })
    }

    fn name(&mut self, wanted: &str) -> Result<Name, ParseError> {
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

    fn primary(&mut self) -> Result<Expr, ParseError> {
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
            Token::OpenBox => Ok(Expr::Ad(Arc::new(self.ad()?))),
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
            if name.as_bytes().is_empty() {
                let message = "an attribute needs a name";
                return Err(ParseError::new(
                    Code::ExpectedName,
                    self.span_before,
                    message,
                    "",
                ));
            }
            self.expect(
                &Token::Assign,
                "'='",
                "attributes are written  name = value",
            )?;
            let value = self.expression()?;
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

fn infix(token: &Token) -> Option<(BinaryOp, u8)> {
    Some(match token {
        Token::Or => (BinaryOp::Or, 1),
        Token::And => (BinaryOp::And, 2),
        Token::BitOr => (BinaryOp::BitOr, 3),
        Token::BitXor => (BinaryOp::BitXor, 4),
        Token::BitAnd => (BinaryOp::BitAnd, 5),
        Token::Eq => (BinaryOp::Eq, 6),
        Token::Ne => (BinaryOp::Ne, 6),
        Token::Is => (BinaryOp::Is, 6),
        Token::Isnt => (BinaryOp::Isnt, 6),
        Token::Lt => (BinaryOp::Lt, 7),
        Token::Le => (BinaryOp::Le, 7),
        Token::Gt => (BinaryOp::Gt, 7),
        Token::Ge => (BinaryOp::Ge, 7),
        Token::Shl => (BinaryOp::Shl, 8),
        Token::Shr => (BinaryOp::Shr, 8),
        Token::Ushr => (BinaryOp::Ushr, 8),
        Token::Plus => (BinaryOp::Add, 9),
        Token::Minus => (BinaryOp::Sub, 9),
        Token::Star => (BinaryOp::Mul, 10),
        Token::Slash => (BinaryOp::Div, 10),
        Token::Percent => (BinaryOp::Mod, 10),
        _ => return None,
    })
}
