//! The ClassAd language: values, parser, printer, evaluator. No clock, no threads, no Python.

pub mod ad;
pub mod allowance;
pub mod analysis;
pub mod arguments;
pub mod builtins;
pub mod coerce;
pub mod error;
pub mod escape;
pub mod eval;
pub mod expr;
pub mod externals;
mod fast_path;
pub mod fold;
pub mod formats;
pub mod identity;
mod items;
pub mod lexer;
mod lookup;
pub mod matching;
pub mod name;
pub mod number;
pub mod ops;
pub mod parser;
pub mod print;
pub mod regex;
mod scope;
pub mod spans;
pub mod spelling;
mod strftime;
pub mod time;
pub mod token;
mod trace;
pub mod usermap;
pub mod value;

pub use ad::Ad;
pub use builtins::Builtin;
pub use error::{Code, ParseError, Span};
pub use eval::{Context, EvalAborted, Evaluator, Outcome, evaluate, try_evaluate};
pub use expr::{BinaryOp, Expr, Side, UnaryOp};
pub use externals::Externals;
pub use name::Name;
pub use parser::{
    Syntax, parse_ad, parse_ad_spanned, parse_computed, parse_expr, parse_expr_as_reference,
    parse_expr_spanned, parse_leading,
};
pub use print::{unparse, unparse_text};
pub use spans::Spans;
pub use value::{AbsTime, AdValue, Kind, ListValue, Scope, Str, Value};
