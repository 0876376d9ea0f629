//! A shortcut: values that are there already, so that nothing has to be evaluated or copied.

use crate::eval::Evaluator;
use crate::expr::Expr;
use crate::name::{Name, Special};
use crate::scope::{MY, TARGET};
use crate::value::{Scope, Value};

impl<'a> Evaluator<'a> {
    /// The value of a literal, or of a reference whose definition is a literal, without copying it.
    #[inline]
    pub(crate) fn known_literal<'x>(&self, expr: &'x Expr) -> Option<&'x Value>
    where
        'a: 'x,
    {
        if self.tracing {
            return None;
        }
        match expr {
            Expr::Lit(Value::RelTime(_)) => None,
            Expr::Lit(value) => Some(value),
            Expr::Attr(name) if name.special().is_none() => {
                self.known_literal_of(self.names, name, true)
            }
            Expr::Select(sel) if self.scopes.matching => {
                let Expr::Attr(scope) = &sel.base else {
                    return None;
                };
                let side = match (scope.special()?, self.names) {
                    (Special::My, here @ (MY | TARGET)) => here,
                    (Special::Target, MY) => TARGET,
                    (Special::Target, TARGET) => MY,
                    _ => return None,
                };
                if sel.attr.special().is_some() || !self.scopes.unshadowed(self.names) {
                    return None;
                }
                self.known_literal_of(side, &sel.attr, false)
            }
            _ => None,
        }
    }

    #[inline]
    fn known_literal_of<'x>(&self, scope: Scope, name: &Name, bare: bool) -> Option<&'x Value>
    where
        'a: 'x,
    {
        if self.depth <= 2 {
            return None;
        }
        let found = match self.scopes.direct(scope, name) {
            Some(found) => found,
            None if bare && matches!(scope, MY | TARGET) => {
                self.scopes.direct(self.scopes.alternate(scope), name)?
            }
            None => return None,
        };
        match found {
            Expr::Lit(Value::RelTime(_)) => None,
            Expr::Lit(value) => Some(value),
            _ => None,
        }
    }
}
