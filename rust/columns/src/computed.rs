//! Conditions with `eval` of a computed text: rows are told apart by the text, and for each text what it says stands in
//! its place. Such a condition may read any attribute as it is written, but not once the text is known.

use std::sync::Arc;

use classad::{Expr, Value};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::clause::Clause;
use crate::logic::{Ask, Scope};
use crate::matcher::Matcher;
use crate::results::Truth;
use crate::verdicts::Verdict;

/// Texts of one condition that are told apart.
const TEXTS_MAX: usize = 256;

impl Matcher {
    /// The rows of which a condition says this, if it can be asked text by text.
    pub(crate) fn by_texts(
        &self,
        ask: Ask<'_>,
        clause: &Clause,
        want: Verdict,
        scope: &mut Scope<'_>,
    ) -> Option<Truth> {
        let argument = self.clauses.whole(first_computed(&clause.expr)?);
        let dependencies = self.dependencies(ask.table, &argument, ask.owner, ask.job);
        if dependencies.unbounded
            || dependencies.random
            || self.moves(ask, &argument)
            || !scope.may_go_on()
        {
            return None;
        }
        let values = self.predicates.values(self, ask, &argument, &dependencies);
        let mut numbers: FxHashMap<&[u8], usize> = FxHashMap::default();
        let mut number_of: Vec<usize> = Vec::with_capacity(values.by_group.len());
        for value in &values.by_group {
            let next = numbers.len();
            number_of.push(*numbers.entry(value.as_str()?).or_insert(next));
        }
        if numbers.len() > TEXTS_MAX {
            return None;
        }
        let mut rows = vec![Bitmap::empty(ask.table.row_end()); numbers.len()];
        for row in scope.within.unwrap_or(ask.table.live()).iter() {
            rows[number_of[values.groups.group(row)]].set(row, true);
        }
        let mut out = Truth::Never;
        for (text, number) in numbers {
            let here = std::mem::take(&mut rows[number]);
            if here.is_clear() {
                continue;
            }
            let known = self.clauses.with_text(clause, text, || {
                replaced(&clause.expr, &parsed(text, self.settings().strict)).0
            });
            let said = self.definition_verdict(ask, &known, want, &mut scope.narrowed(Some(&here)));
            out = out.or(said.and(Truth::Rows(Arc::new(here))));
        }
        Some(out)
    }
}

fn parsed(text: &[u8], strict: bool) -> Expr {
    let syntax = classad::Syntax {
        strict,
        ..classad::Syntax::NORMAL
    };
    // In parentheses it is as deep as in the call.
    classad::parse_computed(text, syntax).map_or(Expr::Lit(Value::Error), Expr::paren)
}

/// The argument of the first `eval` that is evaluated where the condition is.
fn first_computed(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Call(call) if call.name.is("eval") => match &*call.args {
            [text] if !matches!(text, Expr::Lit(_)) => Some(text),
            _ => None,
        },
        other => children(other).into_iter().find_map(first_computed),
    }
}

/// The parts that are evaluated with the same names as the whole.
fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Paren(inner) => vec![inner],
        Expr::Unary(unary) => vec![&unary.arg],
        Expr::Binary(binary) => vec![&binary.left, &binary.right],
        Expr::Ternary(ternary) => vec![&ternary.cond, &ternary.then, &ternary.other],
        Expr::Elvis(pair) => vec![&pair.0, &pair.1],
        _ => Vec::new(),
    }
}

/// The expression with `by` in place of the call that `first_computed` finds, and whether it was there.
fn replaced(expr: &Expr, by: &Expr) -> (Expr, bool) {
    let mut done = false;
    let mut part = |part: &Expr| {
        if done {
            return part.clone();
        }
        let (made, found) = replaced(part, by);
        done = found;
        made
    };
    let made = match expr {
        Expr::Call(_) if first_computed(expr).is_some() => return (by.clone(), true),
        Expr::Paren(inner) => Expr::paren(part(inner)),
        Expr::Unary(unary) => Expr::unary(unary.op, part(&unary.arg)),
        Expr::Binary(binary) => {
            let left = part(&binary.left);
            Expr::binary(binary.op, left, part(&binary.right))
        }
        Expr::Ternary(ternary) => {
            let (cond, then) = (part(&ternary.cond), part(&ternary.then));
            Expr::Ternary(Arc::new(classad::expr::Ternary {
                cond,
                then,
                other: part(&ternary.other),
            }))
        }
        Expr::Elvis(pair) => {
            let first = part(&pair.0);
            Expr::Elvis(Arc::new((first, part(&pair.1))))
        }
        other => return (other.clone(), false),
    };
    (made, done)
}
