//! Which attributes an expression can read, found without evaluating it.

use classad::builtins::Body;
use classad::name::Special;
use classad::{Expr, Name, Side};

/// The attributes an expression mentions. A superset of what any evaluation of it reads, unless
/// `dynamic`.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    /// `MY.x`
    pub mine: Vec<Name>,
    /// `TARGET.x`
    pub other: Vec<Name>,
    /// `x`, and names whose scope only evaluation tells: looked up in both ads.
    pub both: Vec<Name>,
    /// It may read attributes that it does not name (`eval(...)`, a scope as a value).
    pub dynamic: bool,
    /// Equal ads may give different results at different times.
    pub unsteady: bool,
    /// It draws random numbers: how many are drawn before matters.
    pub chancy: bool,
}

impl Mentions {
    /// The mentions of an expression.
    pub fn of(expr: &Expr) -> Self {
        let mut out = Mentions::default();
        out.walk(expr, false);
        for names in [&mut out.mine, &mut out.other, &mut out.both] {
            names.sort_unstable_by(|a, b| a.print_cmp(b));
            names.dedup();
        }
        out
    }

    fn walk(&mut self, expr: &Expr, nested: bool) {
        match expr {
            Expr::Lit(_) => {}
            Expr::Attr(name) => self.bare(name),
            Expr::AbsAttr(_) => self.dynamic = true,
            Expr::Select(select) => {
                let reference = expr.as_reference();
                if reference.is_some()
                    && let Expr::Attr(scope) = &select.base
                {
                    // An attribute named MY or TARGET comes before the scope.
                    self.both.push(scope.clone());
                }
                match reference {
                    Some((_, name)) if name.special().is_some() => self.dynamic = true,
                    Some((Side::My, name)) if !nested => self.mine.push(name.clone()),
                    Some((Side::Target, name)) if !nested => self.other.push(name.clone()),
                    Some((_, name)) => self.bare(name),
                    None => {
                        // A name that the selected ad lacks is looked up around it.
                        self.bare(&select.attr);
                        self.walk(&select.base, nested);
                    }
                }
            }
            Expr::Unary(unary) => self.walk(&unary.arg, nested),
            Expr::Binary(binary) => {
                self.walk(&binary.left, nested);
                self.walk(&binary.right, nested);
            }
            Expr::Ternary(ternary) => {
                self.walk(&ternary.cond, nested);
                self.walk(&ternary.then, nested);
                self.walk(&ternary.other, nested);
            }
            Expr::Elvis(pair) | Expr::Subscript(pair) => {
                self.walk(&pair.0, nested);
                self.walk(&pair.1, nested);
            }
            Expr::Paren(inner) => self.walk(inner, nested),
            Expr::Call(call) => {
                let mut nested = nested;
                if let Some(builtin) = call.builtin {
                    let spec = builtin.spec();
                    self.unsteady |= !spec.steady;
                    if matches!(spec.body, Body::Scoped(_)) {
                        nested = true;
                    }
                }
                self.dynamic |= call.name.is("eval");
                self.chancy |= call.name.is("random");
                for arg in &call.args {
                    self.walk(arg, nested);
                }
            }
            Expr::List(items) => items.iter().for_each(|item| self.walk(item, true)),
            Expr::Ad(ad) => ad.iter().for_each(|(_, expr)| self.walk(expr, true)),
        }
    }

    fn bare(&mut self, name: &Name) {
        match name.special() {
            None => {}
            Some(Special::CurrentTime) => self.unsteady = true,
            Some(_) => self.dynamic = true,
        }
        self.both.push(name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[Name]) -> Vec<String> {
        all.iter()
            .map(|name| name.to_text().to_ascii_lowercase())
            .collect()
    }

    #[test]
    fn sides_are_told_apart() {
        let expr = classad::parse_expr(b"MY.a + TARGET.b * c + {MY.d}[0]", classad::Syntax::NORMAL)
            .unwrap();
        let found = Mentions::of(&expr);
        assert_eq!(names(&found.mine), ["a"]);
        assert_eq!(names(&found.other), ["b"]);
        assert_eq!(names(&found.both), ["c", "d", "my", "target"]);
        assert!(!found.dynamic);
        for text in ["eval(\"x\")", "size(parent)", ".x"] {
            let expr = classad::parse_expr(text.as_bytes(), classad::Syntax::NORMAL).unwrap();
            assert!(Mentions::of(&expr).dynamic, "{text}");
        }
    }
}
