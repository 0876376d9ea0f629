//! The tokens of the language.

use crate::name::Name;
use crate::value::Str;

/// A token. Operators that only the parser tells apart keep their own variant.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Token {
    End,
    Int(i64),
    Real(f64),
    Bool(bool),
    Str(Str),
    Undefined,
    Error,
    Ident(Name),
    Dot,
    Star,
    Slash,
    Percent,
    Plus,
    Minus,
    BitAnd,
    BitOr,
    BitNot,
    BitXor,
    Shl,
    Shr,
    Ushr,
    And,
    Or,
    Not,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Is,
    Isnt,
    Assign,
    Question,
    Elvis,
    Colon,
    Semicolon,
    Comma,
    OpenBox,
    CloseBox,
    OpenParen,
    CloseParen,
    OpenBrace,
    CloseBrace,
}

impl Token {
    /// The token in the words of an error message.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Token::End => "the end".into(),
            Token::Int(i) => format!("the number {i}"),
            Token::Real(r) => format!("the number {r}"),
            Token::Bool(b) => format!("{b}"),
            Token::Str(_) => "a string".into(),
            Token::Ident(name) => format!("the name {name}"),
            Token::Undefined => "undefined".into(),
            Token::Error => "error".into(),
            Token::Is => "=?=".into(),
            Token::Isnt => "=!=".into(),
            other => format!("'{}'", other.symbol()),
        }
    }

    fn symbol(&self) -> &'static str {
        match self {
            Token::Dot => ".",
            Token::Star => "*",
            Token::Slash => "/",
            Token::Percent => "%",
            Token::Plus => "+",
            Token::Minus => "-",
            Token::BitAnd => "&",
            Token::BitOr => "|",
            Token::BitNot => "~",
            Token::BitXor => "^",
            Token::Shl => "<<",
            Token::Shr => ">>",
            Token::Ushr => ">>>",
            Token::And => "&&",
            Token::Or => "||",
            Token::Not => "!",
            Token::Lt => "<",
            Token::Le => "<=",
            Token::Gt => ">",
            Token::Ge => ">=",
            Token::Eq => "==",
            Token::Ne => "!=",
            Token::Assign => "=",
            Token::Question => "?",
            Token::Elvis => "?:",
            Token::Colon => ":",
            Token::Semicolon => ";",
            Token::Comma => ",",
            Token::OpenBox => "[",
            Token::CloseBox => "]",
            Token::OpenParen => "(",
            Token::CloseParen => ")",
            Token::OpenBrace => "{",
            Token::CloseBrace => "}",
            _ => "",
        }
    }

    /// After these a minus is an operator, never part of a number.
    pub(crate) fn ends_operand(&self) -> bool {
        matches!(
            self,
            Token::Int(_)
                | Token::Real(_)
                | Token::Bool(_)
                | Token::Str(_)
                | Token::Undefined
                | Token::Error
                | Token::Ident(_)
                | Token::Dot
                | Token::CloseBox
                | Token::CloseParen
                | Token::CloseBrace
        )
    }
}
