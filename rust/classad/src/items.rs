//! Lists and ads as values: subscripts, the value of an item, evaluation to the last item.

use crate::ad::Ad;
use crate::eval::{COPIED_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::name::Name;
use crate::value::{AdValue, ListValue, Scope, Value};

impl Evaluator<'_> {
    /// Evaluates a list with all its items, and theirs, for those who want no expressions left.
    ///
    /// # Errors
    /// [`EvalAborted`] when the evaluation was cut short.
    pub fn eval_deep(&mut self, expr: &Expr) -> Outcome {
        let nest = self.scopes.first();
        let value = self.eval_in(expr, Frame { nest })?;
        Ok(detach(self.deepen(value)?))
    }

    fn deepen(&mut self, value: Value) -> Outcome {
        match value {
            Value::List(list) => {
                self.depth -= 1;
                if self.depth < 0 {
                    self.depth += 1;
                    return Err(EvalAborted);
                }
                let mut items = Vec::with_capacity(list.items.len());
                for i in 0..list.items.len() {
                    let item = self.item(&list, i).unwrap_or(Value::Error);
                    items.push(self.deepen(item)?.into_expr());
                }
                self.depth += 1;
                Ok(Value::list(items))
            }
            Value::Ad(ad) => {
                let scope = self.scope_of(&ad);
                let mut out = Ad::with_capacity(ad.ad.len());
                for (name, expr) in ad.ad.iter() {
                    let save = self.names;
                    self.names = scope;
                    let value = self
                        .eval_in(expr, Frame { nest: scope })
                        .unwrap_or(Value::Error);
                    self.names = save;
                    self.depth -= 1;
                    let value = if self.depth < 0 {
                        Err(EvalAborted)
                    } else {
                        self.deepen(value)
                    };
                    self.depth += 1;
                    out.insert(name.clone(), value?.into_expr());
                }
                Ok(Value::ad(out))
            }
            Value::Str(text) => {
                // The same text may be there many times, and whoever gets the value copies each.
                let length = text.as_bytes().len();
                self.charge(length / COPIED_A_STEP, length)?;
                Ok(Value::Str(text))
            }
            other => Ok(other),
        }
    }

    pub(crate) fn subscript(&mut self, base: &Value, index: &Value) -> Outcome {
        match (base, index) {
            (Value::Error, _) | (_, Value::Error) => Ok(Value::Error),
            (Value::Undefined, _) | (_, Value::Undefined) => Ok(Value::Undefined),
            (Value::Ad(ad), Value::Str(name)) => {
                self.charge_bytes(name.as_bytes().len())?;
                let name = Name::new(name.as_bytes());
                // What comes back is a copy that belongs nowhere: names in it find nothing outside it.
                Ok(self.attribute(ad, &name).map_or(Value::Error, detach))
            }
            (Value::List(list), Value::Int(i)) => {
                // The index is cut to 32 bits, as an int there.
                let i = *i as i32;
                if i < 0 || i as usize >= list.items.len() {
                    return Ok(Value::Error);
                }
                self.blank = false;
                let item = self.item(list, i as usize);
                let broken = if self.blank {
                    Value::Undefined
                } else {
                    Value::Error
                };
                Ok(item.unwrap_or(broken))
            }
            _ => Ok(Value::Error),
        }
    }

    /// The value of an item in the scope of its list.
    pub(crate) fn item(&mut self, list: &ListValue, i: usize) -> Outcome {
        if self.depth <= 0 {
            return Err(EvalAborted);
        }
        self.depth -= 1;
        let names = self.names;
        self.names = list.scope;
        let result = self.eval_in(&list.items[i], Frame { nest: list.scope });
        self.names = names;
        self.depth += 1;
        result
    }
}

/// A value without the scopes of the evaluation that made it.
pub(crate) fn detach(value: Value) -> Value {
    match value {
        Value::List(list) => Value::List(ListValue {
            scope: Scope::NONE,
            ..list
        }),
        Value::Ad(ad) => Value::Ad(AdValue {
            scope: Scope::NONE,
            ..ad
        }),
        other => other,
    }
}
