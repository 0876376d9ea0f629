//! Which attribute names an expression mentions, and through which scope.

use classad::{Expr, Name, Side};
use rustc_hash::FxHashSet;

/// Names mentioned, and whether the value depends on more than attributes.
#[derive(Debug, Clone, Default)]
pub struct Mentions {
    /// Names after `MY.`.
    pub my: FxHashSet<Name>,
    /// Names after `TARGET.` or `other.`.
    pub target: FxHashSet<Name>,
    /// Names with no scope, or selected from something that is evaluated.
    pub bare: FxHashSet<Name>,
    /// Uses the clock or randomness: the value may differ between cycles.
    pub unsteady: bool,
    /// May look up names that are only known when it runs (`eval("...")`).
    pub unbounded: bool,
}

impl Mentions {
    /// Mentions of one expression.
    #[must_use]
    pub fn of(expr: &Expr) -> Self {
        let mut found = Self::default();
        found.add(expr);
        found
    }

    /// Adds what `expr` mentions.
    pub fn add(&mut self, expr: &Expr) {
        if let Some((side, name)) = expr.as_reference() {
            self.add_name(side, name);
            return;
        }
        match expr {
            Expr::Lit(_) => {}
            Expr::Attr(name) | Expr::AbsAttr(name) => self.add_name(Side::Bare, name),
            Expr::Select(select) => {
                self.add(&select.base);
                self.add_name(Side::Bare, &select.attr);
            }
            Expr::Unary(inner) => self.add(&inner.arg),
            Expr::Binary(inner) => {
                self.add(&inner.left);
                self.add(&inner.right);
            }
            Expr::Ternary(inner) => {
                self.add(&inner.cond);
                self.add(&inner.then);
                self.add(&inner.other);
            }
            Expr::Elvis(pair) | Expr::Subscript(pair) => {
                self.add(&pair.0);
                self.add(&pair.1);
            }
            Expr::Paren(inner) => self.add(inner),
            Expr::Call(call) => {
                let steady = call.builtin.is_none_or(|b| b.spec().steady);
                self.unsteady |= !steady;
                self.unbounded |= ["eval", "evalInEachContext", "countMatches"]
                    .iter()
                    .any(|name| call.name.is(name));
                call.args.iter().for_each(|arg| self.add(arg));
            }
            Expr::List(items) => items.iter().for_each(|item| self.add(item)),
            Expr::Ad(ad) => ad.iter().for_each(|(_, expr)| self.add(expr)),
        }
    }

    fn add_name(&mut self, side: Side, name: &Name) {
        self.unsteady |= name.is("CurrentTime");
        let set = match side {
            Side::My => &mut self.my,
            Side::Target => &mut self.target,
            Side::Bare => &mut self.bare,
        };
        set.insert(name.clone());
    }

    /// Every name, whatever its scope.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.my.iter().chain(&self.target).chain(&self.bare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use classad::BinaryOp;

    #[test]
    fn scope_words_are_not_attributes() {
        let expr = Expr::binary(
            BinaryOp::And,
            Expr::select(Expr::attr("TARGET"), "Memory".into()),
            Expr::paren(Expr::attr("Start")),
        );
        let found = Mentions::of(&expr);
        assert!(found.target.contains(&"memory".into()));
        assert!(found.bare.contains(&"START".into()));
        assert_eq!(found.names().count(), 2);
    }
}
