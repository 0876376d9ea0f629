//! Operators: precedence climbing over what [`super::primary`] reads.

use super::{MAX_CHAIN, Parser};
use crate::error::{Code, ParseError};
use crate::expr::{BinaryOp, Expr, Ternary, UnaryOp};
use crate::lexer::Token;
use std::sync::Arc;

impl Parser<'_> {
    /// `cond ? a : b`, or anything that binds tighter.
    pub(crate) fn expression(&mut self) -> Result<Expr, ParseError> {
        self.deeper(|p| {
            let mark = p.mark();
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
            p.note(mark);
            Ok(Expr::Ternary(Arc::new(Ternary { cond, then, other })))
        })
    }

    fn binary(&mut self, min: u8) -> Result<Expr, ParseError> {
        let mark = self.mark();
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
            self.note(mark);
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
            let mark = p.mark();
            p.advance();
            let arg = p.unary()?;
            p.note(mark);
            Ok(Expr::unary(op, arg))
        })
    }

    fn postfix(&mut self) -> Result<Expr, ParseError> {
        self.deeper(|p| {
            let mark = p.mark();
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
                p.note(mark);
            }
        })
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
