//! References: finding what a name stands for, and evaluating it there.

use crate::eval::{EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::name::Name;
use crate::scope::Found;
use crate::value::{AdValue, ListValue, Scope, Value};

/// The address of definitions made on the spot; they belong to no ad.
const DETACHED: usize = 0;

/// Marks the scope of an ad value as that of the ad itself rather than the one around it.
const ITSELF: u32 = 1 << 31;

/// Whether a reference names something.
enum Lookup<'a> {
    Found(Found<'a>),
    Undefined,
    Error,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn reference(&mut self, expr: &Expr, frame: Frame) -> Outcome {
        let names = self.names;
        let found = self.find(expr, frame).inspect_err(|_| self.blank = true)?;
        let result = match found {
            Lookup::Undefined => Ok(Value::Undefined),
            Lookup::Error => Ok(Value::Error),
            Lookup::Found(found) => self.definition(found),
        };
        self.names = names;
        result
    }

    /// Evaluates what a reference was found to stand for; names are already those of its ad.
    fn definition(&mut self, found: Found<'a>) -> Outcome {
        if self.depth <= 0 {
            return Err(EvalAborted);
        }
        let frame = Frame { nest: self.names };
        match found {
            Found::Borrowed(Expr::Lit(value)) if !matches!(value, Value::RelTime(_)) => {
                Ok(value.clone())
            }
            Found::Borrowed(expr) => self.guarded(expr, std::ptr::from_ref(expr) as usize, frame),
            Found::Copied(expr, DETACHED) => {
                self.guarded(&expr, DETACHED, Frame { nest: Scope::NONE })
            }
            Found::Copied(expr, address) => self.guarded(&expr, address, frame),
            Found::Scope(_) if self.depth <= self.scope_levels() => Err(EvalAborted),
            Found::Scope(scope) => Ok(self.ad_value(scope)),
            Found::Time => Ok(Value::Int(self.context.now)),
        }
    }

    fn guarded(&mut self, expr: &Expr, address: usize, frame: Frame) -> Outcome {
        if self.active.contains(&address) {
            return Ok(Value::Undefined);
        }
        self.active.push(address);
        self.depth -= 1;
        let result = self.eval_in(expr, frame);
        self.depth += 1;
        self.active.pop();
        result
    }

    /// How many more levels a scope word takes where it was found: the context ads define theirs by further
    /// references.
    fn scope_levels(&self) -> i32 {
        i32::from(self.scopes.is_context(self.names))
    }

    /// An ad that is a scope, as a value.
    fn ad_value(&mut self, scope: Scope) -> Value {
        match self.scopes.ad(scope) {
            Some(ad) => Value::Ad(AdValue {
                ad,
                scope: Scope(scope.0 | ITSELF),
                made: false,
            }),
            None => Value::Undefined,
        }
    }

    /// The scope an ad value is.
    pub(crate) fn scope_of(&mut self, value: &AdValue) -> Scope {
        if value.scope != Scope::NONE && value.scope.0 & ITSELF != 0 {
            return Scope(value.scope.0 & !ITSELF);
        }
        self.scopes.nested(&value.ad, value.scope)
    }

    /// What is around an ad value.
    pub(crate) fn scope_around(&mut self, value: &AdValue) -> Scope {
        if value.scope != Scope::NONE && value.scope.0 & ITSELF != 0 {
            return self.scopes.parent(Scope(value.scope.0 & !ITSELF));
        }
        value.scope
    }

    /// Finds what a reference stands for, and moves the names to its ad, found or not.
    fn find(&mut self, expr: &Expr, frame: Frame) -> Result<Lookup<'a>, EvalAborted> {
        match expr {
            Expr::Attr(name) => {
                let start = self.names;
                if start == Scope::NONE {
                    return Ok(Lookup::Undefined);
                }
                if let Some(found) = self.find_from(start, name) {
                    return Ok(found);
                }
                let alternate = self.scopes.alternate(start);
                if alternate == Scope::NONE {
                    return Ok(Lookup::Undefined);
                }
                Ok(self.find_from(alternate, name).unwrap_or(Lookup::Undefined))
            }
            Expr::AbsAttr(name) => {
                let root = self.root;
                if root == Scope::NONE {
                    return Err(EvalAborted);
                }
                Ok(self.find_from(root, name).unwrap_or(Lookup::Undefined))
            }
            Expr::Select(sel) => self.find_selected(&sel.base, &sel.attr, frame),
            _ => Ok(Lookup::Error),
        }
    }

    fn find_from(&mut self, start: Scope, name: &Name) -> Option<Lookup<'a>> {
        let mut at = self.names;
        let found = self.scopes.find(start, name, self.root, &mut at);
        self.names = at;
        found.map(Lookup::Found)
    }

    fn find_selected(
        &mut self,
        base: &Expr,
        attr: &Name,
        frame: Frame,
    ) -> Result<Lookup<'a>, EvalAborted> {
        if self.depth <= 0 {
            return Ok(Lookup::Error);
        }
        self.depth -= 1;
        let scope = self.base_scope(base, frame);
        self.depth += 1;
        match scope? {
            Ok(scope) => Ok(self.find_from(scope, attr).unwrap_or(Lookup::Undefined)),
            Err(Value::Undefined) => Ok(Lookup::Undefined),
            Err(Value::List(list)) => {
                let items = self.project(&list, attr)?;
                let made = Expr::List(items.into());
                Ok(Lookup::Found(Found::Copied(made, DETACHED)))
            }
            Err(_) => Ok(Lookup::Error),
        }
    }

    /// The scope that the left side of a selection is, or its value if that is not an ad.
    fn base_scope(
        &mut self,
        base: &Expr,
        frame: Frame,
    ) -> Result<Result<Scope, Value>, EvalAborted> {
        // MY and TARGET need not become values for this.
        if let Expr::Attr(_) = base
            && !self.tracing
        {
            self.steps -= 1;
            let names = self.names;
            let lookup = self.find(base, frame)?;
            if let Lookup::Found(Found::Scope(scope)) = lookup {
                let levels = self.scope_levels();
                self.names = names;
                return if self.depth <= levels {
                    Err(EvalAborted)
                } else {
                    Ok(Ok(scope))
                };
            }
            let value = match lookup {
                Lookup::Found(found) => self.definition(found)?,
                Lookup::Undefined => Value::Undefined,
                Lookup::Error => Value::Error,
            };
            self.names = names;
            return Ok(self.as_scope(value));
        }
        let value = self.eval_in(base, frame)?;
        Ok(self.as_scope(value))
    }

    fn as_scope(&mut self, value: Value) -> Result<Scope, Value> {
        match value {
            Value::Ad(ad) => Ok(self.scope_of(&ad)),
            other => Err(other),
        }
    }

    /// Selects an attribute from every item of a list, each evaluated with the names used here.
    fn project(&mut self, list: &ListValue, attr: &Name) -> Result<Vec<Expr>, EvalAborted> {
        // A list may contain its own name.
        self.nested_call(|e| e.project_items(list, attr))
    }

    fn project_items(&mut self, list: &ListValue, attr: &Name) -> Result<Vec<Expr>, EvalAborted> {
        let mut items = Vec::with_capacity(list.items.len());
        let (names, root) = (self.names, self.root);
        for item in list.items.iter() {
            self.root = self.scopes.root_of(names);
            let selection = Expr::select(item.clone(), attr.clone());
            let value = self.eval_in(&selection, Frame { nest: list.scope });
            self.names = names;
            self.root = root;
            items.push(value?.into_expr());
        }
        Ok(items)
    }

    /// The value of an ad's own attribute, in that ad.
    pub(crate) fn attribute(&mut self, ad: &AdValue, name: &Name) -> Outcome {
        let scope = self.scope_of(ad);
        match self.scopes.own(scope, name) {
            Some(found) => self.elsewhere(scope, |e| e.definition(found)),
            None => Ok(Value::Undefined),
        }
    }

    /// Evaluates an expression with the names of another ad, as a fresh evaluation would; `frame` says where it is
    /// written.
    pub(crate) fn eval_elsewhere(&mut self, expr: &Expr, scope: Scope, frame: Frame) -> Outcome {
        if self.depth <= 0 {
            return Err(EvalAborted);
        }
        self.depth -= 1;
        let result = self.elsewhere(scope, |e| e.eval_in(expr, frame));
        self.depth += 1;
        result
    }

    fn elsewhere(&mut self, scope: Scope, step: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let (names, root) = (self.names, self.root);
        let active = std::mem::take(&mut self.active);
        self.names = scope;
        self.root = self.scopes.root_of(scope);
        let result = step(self);
        self.active = active;
        self.names = names;
        self.root = root;
        result
    }

    /// The definition of a name in the ad at hand, not looking further.
    pub(crate) fn own_definition(&mut self, name: &Name) -> Option<Expr> {
        match self.scopes.own(self.names, name)? {
            Found::Borrowed(expr) => Some(expr.clone()),
            Found::Copied(expr, _) => Some(expr),
            Found::Scope(scope) => self.scopes.ad(scope).map(Expr::Ad),
            Found::Time => None,
        }
    }

    /// What a reference is defined as, for functions that look at definitions. Moves the names to where
    /// it was found, or where the search ended: so does HTCondor's evaluator.
    pub(crate) fn dereference(
        &mut self,
        expr: &Expr,
        frame: Frame,
    ) -> Result<Option<Expr>, EvalAborted> {
        Ok(match self.find(expr, frame)? {
            Lookup::Found(Found::Borrowed(expr)) => Some(expr.clone()),
            Lookup::Found(Found::Copied(expr, _)) => Some(expr),
            Lookup::Found(Found::Scope(scope)) => {
                match self.scopes.side_definition(self.names, scope) {
                    Some(definition) => Some(definition),
                    None => self.scopes.ad(scope).map(Expr::Ad),
                }
            }
            Lookup::Found(Found::Time) => Some(Expr::call("time", Vec::new())),
            _ => None,
        })
    }
}
