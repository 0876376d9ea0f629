//! Text to trees.

use crate::error::{Code, ParseError, Span};
use crate::expr::Expr;

/// Which dialect is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syntax {
    /// The reference's STRICT_CLASSAD_EVALUATION: `017` is an integer, `;` separates no arguments.
    pub strict: bool,
    /// Strings as in old-syntax ads: a backslash is itself unless a quote follows.
    pub old_strings: bool,
}

/// Parses a whole text as one expression.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_expr(text: &[u8], _syntax: Syntax) -> Result<Expr, ParseError> {
    Err(ParseError::new(
        Code::UnexpectedEnd,
        Span {
            start: 0,
            end: text.len(),
        },
        "not yet",
        "",
    ))
}
