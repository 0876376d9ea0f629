//! `unresolved`: the names that a definition uses and the ads do not define.

use super::contexts::is_reference;
use crate::eval::{BYTES_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::name::Name;
use crate::ops::compare_nocase;
use crate::print::unparse;
use crate::regex::{Match, Options};
use crate::scope::Found;
use crate::value::{Scope, Value};

/// `unresolved(attribute [, pattern])`: the names its definition uses that this ad lacks.
pub(super) fn unresolved(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    if !is_reference(&args[0]) {
        return Ok(Value::Error);
    }
    // A search that breaks off counts as one that finds nothing.
    let Ok(Some(definition)) = e.dereference(&args[0], frame) else {
        return Ok(Value::Undefined);
    };
    let pattern = match args.get(1) {
        None => None,
        Some(arg) => {
            let value = e.eval_in(arg, frame)?;
            if value.as_str().is_none() {
                return Err(EvalAborted);
            }
            Some(value)
        }
    };
    let Some(pattern) = pattern.as_ref().and_then(Value::as_str) else {
        let names = e.external_references(&definition)?.unwrap_or_default();
        let names: Vec<&[u8]> = names.iter().map(|name| bare(name)).collect();
        return Ok(Value::Str(names.join(&b","[..]).into()));
    };
    let options = Options {
        caseless: true,
        ..Options::default()
    };
    // A malformed pattern is found before the names are.
    if super::charge_matching(e, pattern, options, |_, _| ())?.is_none() {
        return Ok(Value::Error);
    }
    let names = e.external_references(&definition)?.unwrap_or_default();
    let found = super::charge_matching(e, pattern, options, |pattern, steps| {
        names
            .iter()
            .any(|name| matches!(pattern.find_nonempty(bare(name), steps), Match::Found(_)))
    })?;
    Ok(found.map_or(Value::Error, Value::Bool))
}

/// A name without `target.`.
fn bare(name: &[u8]) -> &[u8] {
    match name.split_at_checked(7) {
        Some((scope, bare)) if scope.eq_ignore_ascii_case(b"target.") => bare,
        _ => name,
    }
}

/// Names, some of them several times.
#[derive(Default)]
struct Names(Vec<Vec<u8>>);

impl Names {
    /// In alphabetical order, case ignored: each as it was found first.
    fn distinct(mut self) -> Vec<Vec<u8>> {
        self.0.sort_by(|a, b| compare_nocase(a, b));
        self.0.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
        self.0
    }
}

impl Evaluator<'_> {
    /// The names an expression needs from elsewhere, as HTCondor finds them: through definitions,
    /// qualified by the text of what they are selected from where that is undefined. `None` where a
    /// selection is from something that is not an ad; what was found before is lost then.
    fn external_references(&mut self, expr: &Expr) -> Result<Option<Vec<Vec<u8>>>, EvalAborted> {
        let mut names = Names::default();
        // What was collected before a failure is not used.
        let complete = self.collect_external(expr, &mut names)?;
        Ok(complete.then(|| names.distinct()))
    }

    fn collect_external(&mut self, expr: &Expr, names: &mut Names) -> Result<bool, EvalAborted> {
        self.charge(1, 0)?;
        if self.depth <= 0 {
            return Ok(false);
        }
        self.depth -= 1;
        let result = self.collect_step(expr, names);
        self.depth += 1;
        result
    }

    fn collect_step(&mut self, expr: &Expr, names: &mut Names) -> Result<bool, EvalAborted> {
        let mut parts: Vec<Expr> = Vec::new();
        match expr {
            Expr::Lit(_) => {}
            Expr::Attr(name) => return self.collect_name(self.names, name, names),
            Expr::AbsAttr(name) => return self.collect_name(self.root, name, names),
            Expr::Select(sel) => {
                let here = self.names;
                let value = self.eval_in(&sel.base, Frame { nest: here });
                self.names = here;
                return match value {
                    Ok(Value::Undefined) => {
                        let mut full = unparse(&sel.base);
                        full.push(b'.');
                        full.extend_from_slice(sel.attr.as_bytes());
                        self.charge_name(&full)?;
                        names.0.push(full);
                        Ok(true)
                    }
                    Ok(Value::Ad(ad)) => {
                        let scope = self.scope_of(&ad);
                        self.collect_name(scope, &sel.attr, names)
                    }
                    _ => Ok(false),
                };
            }
            Expr::Unary(u) => parts.push(u.arg.clone()),
            Expr::Paren(inner) => parts.push((**inner).clone()),
            Expr::Binary(b) => parts.extend([b.left.clone(), b.right.clone()]),
            Expr::Ternary(t) => parts.extend([t.cond.clone(), t.then.clone(), t.other.clone()]),
            Expr::Elvis(e) | Expr::Subscript(e) => parts.extend([e.0.clone(), e.1.clone()]),
            Expr::Call(call) => parts.extend(call.args.iter().cloned()),
            Expr::List(items) => parts.extend(items.iter().cloned()),
            Expr::Ad(ad) => parts.extend(ad.sorted().into_iter().map(|(_, e)| e.clone())),
        }
        for part in parts {
            if !self.collect_external(&part, names)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts a name that was found, and bringing it in order.
    fn charge_name(&mut self, name: &[u8]) -> Result<(), EvalAborted> {
        self.charge(4 + name.len() / BYTES_A_STEP, name.len())
    }

    fn collect_name(
        &mut self,
        start: Scope,
        name: &Name,
        names: &mut Names,
    ) -> Result<bool, EvalAborted> {
        let here = self.names;
        let mut at = here;
        let found = self.scopes.find(start, name, self.root, &mut at);
        self.names = at;
        let result = match found {
            None => {
                names.0.push(name.as_bytes().to_vec());
                self.charge_name(name.as_bytes())?;
                Ok(true)
            }
            Some(Found::Borrowed(expr)) => self.collect_external(expr, names),
            Some(Found::Copied(expr, _)) => self.collect_external(&expr, names),
            Some(Found::Scope(scope)) => match self.scopes.side_definition(at, scope) {
                Some(definition) => self.collect_external(&definition, names),
                None => match self.scopes.ad(scope) {
                    Some(ad) => self.collect_external(&Expr::Ad(ad), names),
                    None => Ok(true),
                },
            },
            Some(Found::Time) => Ok(true),
        };
        self.names = here;
        result
    }
}
