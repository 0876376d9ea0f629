//! The plain evaluator: the law that every faster one is proved against.

use crate::ad::Ad;
use crate::expr::Expr;
use crate::value::{Scope, Value};

/// What an evaluation may know besides the expression.
#[derive(Clone, Copy, Default)]
pub struct Context<'a> {
    /// The ad the expression belongs to.
    pub my: Option<&'a Ad>,
    /// The other ad of a match.
    pub target: Option<&'a Ad>,
    /// Seconds since the epoch, for `time()` and `CurrentTime`.
    pub now: i64,
    /// Seconds local time is east of UTC.
    pub utc_offset_s: i32,
    /// Seed of `random()`.
    pub seed: u64,
    /// The reference's STRICT_CLASSAD_EVALUATION: bare names stay in MY.
    pub strict: bool,
    /// Answers for `userMap()` and `userHome()`.
    pub host: Option<&'a dyn Host>,
}

/// Facts of the machine that a few functions ask for. Without one they say undefined.
pub trait Host: Sync {
    /// The canonical names `map` gives `input`, comma separated.
    fn user_map(&self, map: &[u8], input: &[u8]) -> Option<Vec<u8>>;
    /// The home directory of a user.
    fn user_home(&self, user: &[u8]) -> Option<Vec<u8>>;
}

/// An evaluation that broke off: too deep, too long, or a function that refuses (`random(0)`).
///
/// The reference reports this differently from an error value: nothing around it can catch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A value, or an evaluation broken off.
pub type Outcome = Result<Value, Broken>;

/// Which ad bare names, and which ad written lists and ads, belong to while evaluating.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where names are looked up.
    pub names: Scope,
    /// What a list or ad literal evaluated now is nested in.
    pub nest: Scope,
}

/// One evaluation in progress.
pub struct Evaluator<'a> {
    context: Context<'a>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator for expressions of `context.my`.
    #[must_use]
    pub fn new(context: Context<'a>) -> Self {
        Self { context }
    }

    /// The context it evaluates in.
    #[must_use]
    pub fn context(&self) -> &Context<'a> {
        &self.context
    }

    /// Evaluates an expression as one of MY's.
    ///
    /// # Errors
    /// [`Broken`] when the evaluation was cut short.
    pub fn eval(&mut self, _expr: &Expr) -> Outcome {
        Err(Broken)
    }
}

/// Evaluates `expr` in `context`; an evaluation cut short counts as error.
#[must_use]
pub fn evaluate(expr: &Expr, context: &Context<'_>) -> Value {
    Evaluator::new(*context).eval(expr).unwrap_or(Value::Error)
}
