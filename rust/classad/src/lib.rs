//! The ClassAd language: values, parser, printer, evaluator. No clock, no threads, no Python.

pub mod ad;
pub mod builtins;
pub mod error;
pub mod eval;
pub mod expr;
pub mod name;
pub mod ops;
pub mod parser;
pub mod value;

pub use ad::Ad;
pub use builtins::Builtin;
pub use error::{Code, ParseError, Span};
pub use eval::{Context, Evaluator, evaluate};
pub use expr::{BinaryOp, Expr, Side, UnaryOp};
pub use name::Name;
pub use parser::{Syntax, parse_expr};
pub use value::{AbsTime, AdValue, Kind, ListValue, Scope, Str, Value};
