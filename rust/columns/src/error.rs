//! What can be wrong with what a table is given.

use thiserror::Error;

/// Why a batch, a text or a request to the table was refused. Codes are stable; messages may change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// The bytes are no batch, or were cut.
    #[error("not a valid batch of ads: {what} at byte {at}")]
    BadPack {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// The batch is of a newer format.
    #[error("batch format {0} is newer than this program's; update it")]
    PackVersion(u8),
    /// More bytes of attribute names than a table may have.
    #[error("the attribute names of one table take more than {0} bytes")]
    TooManyAttributes(usize),
    /// An expression in an ad does not parse.
    #[error("attribute {name}: {error}")]
    BadExpression {
        /// The attribute.
        name: String,
        /// The parser's words.
        error: String,
    },
    /// A constraint or projection does not parse or cannot be used.
    #[error("{0}")]
    BadQuery(String),
    /// A line of an ad text is no `Name = expression`.
    #[error("line {line}: {error}")]
    BadLine {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        error: String,
    },
}
