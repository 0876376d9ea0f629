//! The plain evaluator: the law that every faster one is proved against.

use crate::ad::Ad;
use crate::allowance::{self, MAX_STEPS};
use crate::builtins::{Body, Builtin, Env};
use crate::coerce::to_text;
use crate::expr::{Binary, BinaryOp, Call, Expr};
use crate::externals::{self, Externals};
use crate::items::detach;
use crate::ops;
use crate::scope::{ROOT, Scopes};
use crate::value::{AdValue, ListValue, Scope, Str, Value};
use std::sync::Arc;

/// What an evaluation may know besides the expression.
#[derive(Clone, Copy)]
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
    /// HTCondor's STRICT_CLASSAD_EVALUATION: bare names stay in MY.
    pub strict: bool,
    /// Who answers for `userMap()` and `userHome()` and takes the lines of `debug()`.
    pub externals: Option<&'a dyn Externals>,
}

impl Default for Context<'_> {
    /// No ads, the epoch, UTC, normal mode; the externals that this process has installed.
    fn default() -> Self {
        Self {
            my: None,
            target: None,
            now: 0,
            utc_offset_s: 0,
            seed: 0,
            strict: false,
            externals: externals::installed().map(|externals| externals as &dyn Externals),
        }
    }
}

/// An evaluation that broke off: too deep, too long, or a function that refuses (`random(0)`).
///
/// HTCondor reports this differently from an error value: nothing around it can catch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalAborted;

/// A value, or an evaluation broken off.
pub type Outcome = Result<Value, EvalAborted>;

/// Where list and ad literals met during evaluation are nested; bare names are looked up in
/// [`Evaluator::names`], which functions may move.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// What a list or ad literal evaluated now is nested in.
    pub nest: Scope,
}

/// How deep evaluation may recurse, as in HTCondor.
const MAX_DEPTH: i32 = 400;
/// How many calls of functions, and selections from lists, may be under way inside each other. Arguments and items of
/// lists are no level of [`MAX_DEPTH`], and a list may contain a call of a function of itself.
const MAX_CALLS: u32 = 500;
/// How many bytes of a text that a function goes through are a step.
pub(crate) const BYTES_A_STEP: usize = 16;
/// How many bytes of two texts that are compared, or of one that is copied, are a step.
pub(crate) const COPIED_A_STEP: usize = 256;
/// How many bytes of new text one evaluation may make.
const MAX_BYTES: usize = 256 << 20;

/// One evaluation in progress.
pub struct Evaluator<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) scopes: Scopes<'a>,
    /// Where bare names are looked up now.
    pub(crate) names: Scope,
    /// Where `.name` is looked up.
    pub(crate) root: Scope,
    pub(crate) depth: i32,
    pub(crate) steps: i64,
    /// Steps that it was given.
    granted: i64,
    calls: u32,
    bytes: usize,
    random: u64,
    /// Whether what broke off last left no value behind, not even error: the search for the ad that a reference
    /// selects from, with no operator around it. An item of a list is undefined then.
    pub(crate) blank: bool,
    /// Whether this is inside a `debug()` that somebody listens to.
    pub(crate) tracing: bool,
    /// The definitions being evaluated, by address: meeting one again is a cycle.
    pub(crate) active: smallvec::SmallVec<[usize; 16]>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator for expressions of `context.my`.
    #[must_use]
    pub fn new(context: Context<'a>) -> Self {
        let scopes = Scopes::new(context.my, context.target, context.strict);
        let names = scopes.first();
        let root = if scopes.matching { ROOT } else { names };
        let granted = allowance::grant();
        Self {
            context,
            scopes,
            names,
            root,
            depth: MAX_DEPTH,
            steps: granted,
            granted,
            calls: 0,
            bytes: MAX_BYTES,
            random: context.seed,
            blank: false,
            tracing: false,
            active: smallvec::SmallVec::new(),
        }
    }

    /// The context it evaluates in.
    #[must_use]
    pub fn context(&self) -> &Context<'a> {
        &self.context
    }

    pub(crate) fn env(&self) -> Env {
        Env {
            now: self.context.now,
            utc_offset_s: self.context.utc_offset_s,
        }
    }

    /// The next number of the random sequence that began with the seed.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Counts work beyond visiting nodes.
    pub(crate) fn charge(&mut self, steps: usize, bytes: usize) -> Result<(), EvalAborted> {
        self.steps -= steps as i64;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(EvalAborted)?;
        if self.steps < 0 {
            Err(EvalAborted)
        } else {
            Ok(())
        }
    }

    /// Counts going through so many bytes.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), EvalAborted> {
        self.charge(bytes / BYTES_A_STEP, 0)
    }

    /// Counts what turning values into text takes, or going through the texts that they are.
    pub(crate) fn charge_texts(&mut self, values: &[Value]) -> Result<(), EvalAborted> {
        let most = self.steps.max(0) as usize * BYTES_A_STEP;
        let mut bytes = 0;
        for value in values {
            weight(value, most, &mut bytes);
        }
        self.charge_bytes(bytes)
    }

    /// A value as text, as [`crate::coerce::to_text`]; what is not text yet is counted.
    pub(crate) fn text_of(&mut self, value: &Value) -> Result<Option<Str>, EvalAborted> {
        if !matches!(value, Value::Str(_)) {
            self.charge_texts(std::slice::from_ref(value))?;
        }
        Ok(to_text(value))
    }

    /// `left op right`, as [`ops::binary`]; what comparing texts takes is counted.
    #[inline]
    pub(crate) fn operate(&mut self, op: BinaryOp, left: &Value, right: &Value) -> Outcome {
        if let (Value::Str(a), Value::Str(b)) = (left, right) {
            let length = a.as_bytes().len().min(b.as_bytes().len());
            if length >= COPIED_A_STEP {
                self.charge(length / COPIED_A_STEP, 0)?;
            }
        }
        Ok(ops::binary(op, left, right))
    }

    /// Evaluates an expression as one of MY's. Lists and ads come back without the scope they had.
    ///
    /// # Errors
    /// [`EvalAborted`] when the evaluation was cut short.
    pub fn eval(&mut self, expr: &Expr) -> Outcome {
        let nest = self.scopes.first();
        self.eval_in(expr, Frame { nest }).map(detach)
    }

    /// Calls a function with these arguments.
    ///
    /// # Errors
    /// [`EvalAborted`] when the evaluation was cut short.
    pub fn apply(&mut self, builtin: Builtin, args: &[Expr]) -> Outcome {
        let nest = self.scopes.first();
        self.builtin(builtin, args, Frame { nest }).map(detach)
    }

    /// Lets the evaluation do no more than one part of `parts` of what it could.
    #[must_use]
    pub fn with_share(mut self, parts: u32) -> Self {
        self.granted = self.granted.min(MAX_STEPS / i64::from(parts));
        self.steps = self.granted;
        self.bytes /= parts as usize;
        self
    }

    /// Evaluates an expression where names and nesting stand now.
    ///
    /// # Errors
    /// [`EvalAborted`] when the evaluation was cut short.
    #[inline]
    pub fn eval_in(&mut self, expr: &Expr, frame: Frame) -> Outcome {
        if self.tracing {
            return self.eval_traced(expr, frame);
        }
        self.eval_untraced(expr, frame)
    }

    pub(crate) fn eval_untraced(&mut self, expr: &Expr, frame: Frame) -> Outcome {
        self.steps -= 1;
        if self.steps < 0 {
            return Err(EvalAborted);
        }
        match expr {
            // A written relative time is a real once evaluated.
            Expr::Lit(Value::RelTime(r)) => Ok(Value::Real(*r)),
            Expr::Lit(value) => Ok(value.clone()),
            Expr::Attr(_) | Expr::AbsAttr(_) | Expr::Select(_) => self.reference(expr, frame),
            Expr::List(items) => Ok(Value::List(ListValue {
                items: items.clone(),
                scope: frame.nest,
                made: false,
            })),
            Expr::Ad(ad) => Ok(Value::Ad(AdValue {
                ad: ad.clone(),
                scope: frame.nest,
                made: false,
            })),
            Expr::Call(call) => self.call(call, frame),
            Expr::Binary(b) => self.one_level(|e| e.binary(b, frame)),
            Expr::Paren(_) => {
                // Parentheses mean nothing, but each counts as a level.
                let (mut inner, mut levels) = (expr, 0);
                while let Expr::Paren(next) = inner {
                    inner = next;
                    levels += 1;
                }
                self.depth -= levels;
                let result = if self.depth < 0 {
                    Err(EvalAborted)
                } else {
                    self.eval_in(inner, frame)
                };
                self.depth += levels;
                if result.is_err() {
                    self.blank = false;
                }
                result
            }
            _ => self.one_level(|e| e.operation(expr, frame)),
        }
    }

    #[inline]
    fn one_level(&mut self, step: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        self.depth -= 1;
        let result = if self.depth < 0 {
            Err(EvalAborted)
        } else {
            step(self)
        };
        self.depth += 1;
        if result.is_err() {
            self.blank = false;
        }
        result
    }

    #[inline]
    fn binary(&mut self, b: &Binary, frame: Frame) -> Outcome {
        if let (Some(left), Some(right)) =
            (self.known_literal(&b.left), self.known_literal(&b.right))
        {
            // Neither side needs evaluating, so neither can break off.
            if let Some(decided) = ops::decided_by_left(b.op, left) {
                return Ok(decided);
            }
            return self.operate(b.op, left, right);
        }
        let left = self.eval_in(&b.left, frame)?;
        if let Some(decided) = ops::decided_by_left(b.op, &left) {
            return Ok(decided);
        }
        if let Some(right) = self.known_literal(&b.right) {
            return self.operate(b.op, &left, right);
        }
        let right = self.eval_in(&b.right, frame)?;
        self.operate(b.op, &left, &right)
    }

    fn operation(&mut self, expr: &Expr, frame: Frame) -> Outcome {
        match expr {
            Expr::Unary(u) => {
                let value = self.eval_in(&u.arg, frame)?;
                Ok(ops::unary(u.op, &value))
            }
            Expr::Ternary(t) => match self.eval_in(&t.cond, frame)? {
                Value::Undefined => Ok(Value::Undefined),
                cond => match cond.truth() {
                    Some(true) => self.eval_in(&t.then, frame),
                    Some(false) => self.eval_in(&t.other, frame),
                    None if matches!(cond, Value::Error) => Ok(Value::Error),
                    None => {
                        // Neither branch is chosen, but either can break the evaluation off.
                        self.eval_in(&t.then, frame)?;
                        self.eval_in(&t.other, frame)?;
                        Ok(Value::Error)
                    }
                },
            },
            Expr::Elvis(e) => match self.eval_in(&e.0, frame)? {
                Value::Undefined => self.eval_in(&e.1, frame),
                value => Ok(value),
            },
            Expr::Subscript(s) => {
                let base = self.eval_in(&s.0, frame)?;
                let index = self.eval_in(&s.1, frame)?;
                self.subscript(&base, &index)
            }
            _ => Ok(Value::Error),
        }
    }

    fn call(&mut self, call: &Arc<Call>, frame: Frame) -> Outcome {
        self.nested_call(|e| e.function(call, frame))
    }

    pub(crate) fn nested_call<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, EvalAborted>,
    ) -> Result<T, EvalAborted> {
        if self.calls >= MAX_CALLS {
            return Err(EvalAborted);
        }
        self.calls += 1;
        let result = step(self);
        self.calls -= 1;
        result
    }

    fn function(&mut self, call: &Arc<Call>, frame: Frame) -> Outcome {
        match call.builtin {
            Some(builtin) => self.builtin(builtin, &call.args, frame),
            None => Ok(Value::Error),
        }
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Expr], frame: Frame) -> Outcome {
        if !builtin.takes(args.len()) {
            return Ok(Value::Error);
        }
        if let Body::Scoped(f) = builtin.spec().body {
            return f(self, args, frame);
        }
        let mut values: smallvec::SmallVec<[Value; 3]> = smallvec::SmallVec::new();
        for arg in args {
            values.push(self.eval_in(arg, frame)?);
        }
        self.of_values(builtin, &values).unwrap_or(Ok(Value::Error))
    }

    /// The result of a function for evaluated arguments; `None` for one that evaluates its arguments itself.
    pub fn of_values(&mut self, builtin: Builtin, values: &[Value]) -> Option<Outcome> {
        if !builtin.takes(values.len()) {
            return Some(Ok(Value::Error));
        }
        let result = match builtin.spec().body {
            Body::Scoped(_) => return None,
            Body::Pure(f) => f(values, &self.env()),
            Body::Linear(f) => match self.charge_texts(values) {
                Ok(()) => f(values, &self.env()),
                Err(aborted) => return Some(Err(aborted)),
            },
            Body::Counted(f) => return Some(f(self, values)),
        };
        if let Value::Str(s) = &result {
            let n = s.as_bytes().len();
            if let Err(aborted) = self.charge(n / COPIED_A_STEP, n) {
                return Some(Err(aborted));
            }
        }
        Some(Ok(result))
    }
}

/// Counts about how many bytes the text of a value has, until more than `most` were found: values that share parts may
/// have texts without end.
fn weight(value: &Value, most: usize, found: &mut usize) {
    match value {
        Value::Str(text) => *found += text.as_bytes().len(),
        Value::List(list) => list
            .items
            .iter()
            .for_each(|item| written(item, most, found)),
        Value::Ad(ad) => weight_of_ad(&ad.ad, most, found),
        _ => {}
    }
}

fn weight_of_ad(ad: &Ad, most: usize, found: &mut usize) {
    for (name, expr) in ad {
        *found += name.as_bytes().len();
        written(expr, most, found);
    }
}

/// As [`weight`], of an expression.
fn written(expr: &Expr, most: usize, found: &mut usize) {
    const NODE: usize = 8;
    if *found > most {
        return;
    }
    *found += NODE;
    match expr {
        Expr::Lit(value) => weight(value, most, found),
        Expr::Attr(name) | Expr::AbsAttr(name) => *found += name.as_bytes().len(),
        Expr::Select(select) => {
            *found += select.attr.as_bytes().len();
            written(&select.base, most, found);
        }
        Expr::Unary(unary) => written(&unary.arg, most, found),
        Expr::Paren(inner) => written(inner, most, found),
        Expr::Binary(binary) => {
            written(&binary.left, most, found);
            written(&binary.right, most, found);
        }
        Expr::Ternary(t) => {
            for part in [&t.cond, &t.then, &t.other] {
                written(part, most, found);
            }
        }
        Expr::Elvis(pair) | Expr::Subscript(pair) => {
            written(&pair.0, most, found);
            written(&pair.1, most, found);
        }
        Expr::Call(call) => {
            *found += call.name.as_bytes().len();
            call.args.iter().for_each(|arg| written(arg, most, found));
        }
        Expr::List(items) => items.iter().for_each(|item| written(item, most, found)),
        Expr::Ad(ad) => weight_of_ad(ad, most, found),
    }
}

impl Drop for Evaluator<'_> {
    fn drop(&mut self) {
        allowance::settle(self.granted, self.steps);
    }
}

/// Evaluates `expr` in `context`; an evaluation cut short counts as error.
#[must_use]
pub fn evaluate(expr: &Expr, context: &Context<'_>) -> Value {
    Evaluator::new(*context).eval(expr).unwrap_or(Value::Error)
}

/// Evaluates `expr` in `context` with no more than `most` steps; how many it took.
pub(crate) fn eval_within(expr: &Expr, context: &Context<'_>, most: i64) -> (Outcome, i64) {
    let mut evaluator = Evaluator::new(*context);
    evaluator.granted = evaluator.granted.min(most.max(0));
    evaluator.steps = evaluator.granted;
    let outcome = evaluator.eval(expr);
    (outcome, evaluator.granted - evaluator.steps.max(0))
}

/// Evaluates `expr` in `context`, telling an evaluation cut short from an error value.
///
/// # Errors
/// [`EvalAborted`] when the evaluation was cut short.
pub fn try_evaluate(expr: &Expr, context: &Context<'_>) -> Outcome {
    Evaluator::new(*context).eval(expr)
}
