//! The functions of the language: one table, looked up once when a call is parsed.

use crate::eval::{Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::value::Value;

/// How a function gets its arguments.
#[derive(Clone, Copy)]
pub enum Body {
    /// From evaluated arguments alone.
    Pure(fn(&[Value], &Env) -> Value),
    /// Evaluates its arguments itself (some of them, or in a scope of its own).
    Scoped(fn(&mut Evaluator<'_>, &[Expr], Frame) -> Outcome),
}

/// What the world outside tells a function.
#[derive(Clone, Copy, Debug, Default)]
pub struct Env {
    /// Seconds since the epoch.
    pub now: i64,
    /// Seconds local time is east of UTC.
    pub utc_offset_s: i32,
}

/// One row of the table.
pub struct Spec {
    /// The canonical spelling.
    pub name: &'static str,
    /// Its implementation.
    pub body: Body,
    /// Whether equal arguments always give equal results, so that it can be folded.
    pub steady: bool,
}

/// A function of the language: an index into [`table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Builtin(pub u16);

/// All functions.
#[must_use]
pub fn table() -> &'static [Spec] {
    &[]
}

impl Builtin {
    /// The function of that name, case ignored.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<Builtin> {
        table()
            .iter()
            .position(|s| s.name.as_bytes().eq_ignore_ascii_case(name))
            .map(|i| Builtin(i as u16))
    }

    /// Its row.
    #[must_use]
    pub fn spec(self) -> &'static Spec {
        &table()[self.0 as usize]
    }

    /// Its result for evaluated arguments, if it needs nothing but those; `None` for a function that
    /// evaluates its arguments itself.
    #[must_use]
    pub fn call(self, args: &[Value], env: &Env) -> Option<Value> {
        match self.spec().body {
            Body::Pure(f) => Some(f(args, env)),
            Body::Scoped(_) => None,
        }
    }
}
