//! Typed reading of knobs, with HTCondor's rules for values that are not of the type.

use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::expr;
use crate::knobs::{self, Type};
use crate::set::View;

/// A value as a program wants it.
#[derive(Clone, Debug, PartialEq)]
pub enum Typed {
    /// Text, paths, lists and expressions.
    Text(String),
    /// Integers.
    Int(i64),
    /// Truth values.
    Bool(bool),
    /// Real numbers.
    Real(f64),
}

impl View<'_> {
    /// The expanded text of a knob; `None` when undefined or empty.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn text(&self, name: &str) -> Result<Option<String>, ConfigError> {
        let Some(raw) = self.raw_value(name).filter(|raw| !raw.is_empty()) else {
            return Ok(None);
        };
        let text = Expander::new(self)
            .expand(raw)
            .map_err(|error| self.located(error, name))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn located(&self, error: ConfigError, name: &str) -> ConfigError {
        let error = error.about(name);
        let loop_ = self.cycle(name);
        let error = match loop_ {
            Some(names) => ConfigError {
                message: format!("{}: {}", error.message, names.join(" -> ")),
                ..error
            },
            None => error,
        };
        match self.entry(name) {
            Some(entry) => {
                let place = self.set.place(&entry.origin);
                error.at(&place.file, place.line)
            }
            None => error,
        }
    }

    /// A chain of names that leads from `name` back into itself, if plain references make one.
    #[must_use]
    pub fn cycle(&self, name: &str) -> Option<Vec<String>> {
        let mut path = vec![name.to_owned()];
        let mut finished = rustc_hash::FxHashSet::default();
        self.walk(&mut path, &mut finished)
    }

    fn walk(
        &self,
        path: &mut Vec<String>,
        finished: &mut rustc_hash::FxHashSet<String>,
    ) -> Option<Vec<String>> {
        let raw = self.raw_value(path.last()?)?;
        if path.len() > 200 {
            return None;
        }
        for next in crate::expand::references(raw) {
            if let Some(start) = path.iter().position(|seen| seen.eq_ignore_ascii_case(next)) {
                let mut found = path[start..].to_vec();
                found.push(next.to_owned());
                return Some(found);
            }
            if finished.insert(next.to_ascii_lowercase()) {
                path.push(next.to_owned());
                if let Some(found) = self.walk(path, finished) {
                    return Some(found);
                }
                path.pop();
            }
        }
        None
    }

    /// An integer knob: an expression that gives a number, brought into the knob's range. `None` when it is undefined
    /// and the table has no default.
    ///
    /// # Errors
    /// Runaway expansion; a text that gives no number.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ConfigError> {
        self.integer_or_else(name, |text| self.not_of_type(name, text, "an integer"))
    }

    /// A truth knob; `None` when it is undefined and the table has no default.
    ///
    /// # Errors
    /// Runaway expansion; a text that is neither true nor false.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        self.boolean_or_else(name, |text| self.not_of_type(name, text, "true or false"))
    }

    /// A real knob; `None` when it is undefined and the table has no default. Infinity is the largest number. An
    /// integer knob that is read as a real one keeps its range.
    ///
    /// # Errors
    /// Runaway expansion; a text that gives no number.
    pub fn real(&self, name: &str) -> Result<Option<f64>, ConfigError> {
        self.real_or_else(name, |text| self.not_of_type(name, text, "a number"))
    }

    fn integer_or_else(
        &self,
        name: &str,
        otherwise: impl FnOnce(&str) -> Result<Option<i64>, ConfigError>,
    ) -> Result<Option<i64>, ConfigError> {
        let Some(text) = self.text(name)? else {
            return Ok(self.default_value(name, plain_integer, expr::integer_at));
        };
        let Some(mut number) = expr::integer_at(&text, name, self.source.now())
            .map_or_else(|| otherwise(&text), |number| Ok(Some(number)))?
        else {
            return Ok(None);
        };
        let knob = knobs::find(name);
        // What does not fit 32 bits is cut to them, and then no range applies.
        if knob.is_some_and(|knob| knob.reference_kind == Some(Type::Int))
            && i32::try_from(number).is_err()
        {
            return Ok(Some(number.clamp(i64::from(i32::MIN), i64::from(i32::MAX))));
        }
        if let Some(lowest) = knob.and_then(|knob| knob.lowest) {
            number = number.max(lowest as i64);
        }
        if let Some(highest) = knob.and_then(|knob| knob.highest) {
            number = number.min(highest as i64);
        }
        Ok(Some(number))
    }

    fn boolean_or_else(
        &self,
        name: &str,
        otherwise: impl FnOnce(&str) -> Result<Option<bool>, ConfigError>,
    ) -> Result<Option<bool>, ConfigError> {
        let Some(text) = self.text(name)? else {
            return Ok(self.default_value(name, plain_boolean, expr::boolean_at));
        };
        expr::boolean_at(&text, name, self.source.now())
            .map_or_else(|| otherwise(&text), |truth| Ok(Some(truth)))
    }

    fn real_or_else(
        &self,
        name: &str,
        otherwise: impl FnOnce(&str) -> Result<Option<f64>, ConfigError>,
    ) -> Result<Option<f64>, ConfigError> {
        let Some(text) = self.text(name)? else {
            return Ok(self.default_value(name, plain_real, expr::real));
        };
        let Some(mut number) = expr::real(&text, name, self.source.now())
            .map_or_else(|| otherwise(&text), |number| Ok(Some(number)))?
        else {
            return Ok(None);
        };
        if let Some(knob) = knobs::find(name).filter(|knob| knob.kind != Type::Real) {
            number = number.max(knob.lowest.unwrap_or(f64::MIN));
            number = number.min(knob.highest.unwrap_or(f64::MAX));
        }
        Ok(Some(number.clamp(f64::MIN, f64::MAX)))
    }

    fn not_of_type<T>(&self, name: &str, text: &str, kind: &str) -> Result<Option<T>, ConfigError> {
        let message = format!("{name} must be {kind}, and `{text}` does not give one");
        let error = ConfigError::new(Code::BadType, message);
        let error = match self.fixed(name).filter(|raw| !raw.is_empty()) {
            Some(raw) => error.hint(format!("its default is {raw}")),
            None => error.hint("correct it"),
        };
        Err(self.located(error, name))
    }

    /// The text of a knob, and where it is undefined or empty the built-in default; `None` when there is neither.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn text_or_default(&self, name: &str) -> Result<Option<String>, ConfigError> {
        if let Some(text) = self.text(name)? {
            return Ok(Some(text));
        }
        let Some(raw) = self.fixed(name).filter(|raw| !raw.is_empty()) else {
            return Ok(None);
        };
        let text = Expander::new(self)
            .expand(raw)
            .map_err(|error| self.located(error, name))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// The built-in default that typed reading falls back to.
    fn fixed(&self, name: &str) -> Option<&str> {
        let knob = knobs::find(name);
        self.set
            .default_of(name)
            .or_else(|| knob.and_then(|knob| knob.default.as_deref()))
            .or_else(|| knob.and_then(|knob| knob.implied))
    }

    /// That default as a value: a plain one, or what its macros and arithmetic give.
    fn default_value<T>(
        &self,
        name: &str,
        plain: fn(&str) -> Option<T>,
        evaluated: fn(&str, &str, i64) -> Option<T>,
    ) -> Option<T> {
        let raw = self.fixed(name)?;
        plain(raw).or_else(|| {
            let text = Expander::new(self).expand(raw).ok()?;
            evaluated(&text, name, self.source.now())
        })
    }

    /// A knob by HTCondor's type; `None` when undefined, or empty without a type that gives it a value.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn typed(&self, name: &str) -> Result<Option<Typed>, ConfigError> {
        if self.raw_value(name).is_none() {
            return Ok(None);
        }
        let kind = knobs::typed(name).and_then(|knob| knob.reference_kind);
        let text = self.text(name)?;
        // What is empty or no value of the type counts as the built-in default, if that is plain: as in HTCondor.
        Ok(Some(match kind.unwrap_or(Type::Text) {
            Type::Int | Type::Long => {
                let plain = || self.fixed(name).and_then(plain_integer);
                let found = match text {
                    Some(_) => self.integer_or_else(name, |_| Ok(plain()))?,
                    None => plain(),
                };
                Typed::Int(found.unwrap_or(0))
            }
            Type::Bool => {
                let plain = || self.fixed(name).and_then(plain_boolean);
                // A value that only starts like a truth value counts as that when it is not an expression.
                let leading = |text: &str| Ok(expr::leading_boolean(text).or_else(plain));
                let found = match text {
                    Some(_) => self.boolean_or_else(name, leading)?,
                    None => plain(),
                };
                Typed::Bool(found.unwrap_or(false))
            }
            Type::Real => {
                let plain = || self.fixed(name).and_then(plain_real);
                let found = match text {
                    Some(_) => self.real_or_else(name, |_| Ok(plain()))?,
                    None => plain(),
                };
                Typed::Real(found.unwrap_or(0.0))
            }
            _ => return Ok(text.map(Typed::Text)),
        }))
    }
}

/// The number of a built-in default, when that is a literal or a product such as `10000 * 1024`.
fn plain_integer(raw: &str) -> Option<i64> {
    if raw.contains('$') {
        return None;
    }
    raw.split('*').try_fold(1_i64, |product, factor| {
        let (number, end) = expr::leading_integer(factor)?;
        if factor[end..].trim_ascii().is_empty() {
            product.checked_mul(number)
        } else {
            None
        }
    })
}

fn plain_real(raw: &str) -> Option<f64> {
    let (number, end) = expr::leading_real(raw)?;
    raw[end..].trim_ascii().is_empty().then_some(number)
}

fn plain_boolean(raw: &str) -> Option<bool> {
    match raw.trim_ascii().to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
