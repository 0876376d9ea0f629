//! Typed reading of knobs, with the reference's rules for values that are not of the type.

use crate::error::ConfigError;
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

    /// An integer knob: an expression that gives a number, brought into the knob's range. What is none counts as the
    /// built-in default when that is a plain number, else as `otherwise`.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn integer(&self, name: &str, otherwise: i64) -> Result<i64, ConfigError> {
        let knob = knobs::typed(name);
        let otherwise = self
            .fixed(name)
            .and_then(plain_integer)
            .unwrap_or(otherwise);
        let Some(text) = self.text(name)? else {
            return Ok(otherwise);
        };
        let mut number = expr::integer_at(&text, name, self.source.now()).unwrap_or(otherwise);
        // What does not fit 32 bits is cut to them, and then no range applies.
        if knob.is_some_and(|knob| knob.reference_kind == Some(Type::Int))
            && i32::try_from(number).is_err()
        {
            return Ok(number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)));
        }
        if let Some(lowest) = knob.and_then(|knob| knob.lowest) {
            number = number.max(lowest as i64);
        }
        if let Some(highest) = knob.and_then(|knob| knob.highest) {
            number = number.min(highest as i64);
        }
        Ok(number)
    }

    /// A truth knob; what is none counts as the built-in default, else as `otherwise`.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn boolean(&self, name: &str, otherwise: bool) -> Result<bool, ConfigError> {
        let otherwise = self
            .fixed(name)
            .and_then(plain_boolean)
            .unwrap_or(otherwise);
        let Some(text) = self.text(name)? else {
            return Ok(otherwise);
        };
        // A value that only starts like a truth value counts as that when it is no expression.
        Ok(expr::boolean_at(&text, name, self.source.now())
            .unwrap_or_else(|| expr::leading_boolean(&text).unwrap_or(otherwise)))
    }

    /// A real knob; what is none counts as the built-in default, else as `otherwise`. Infinity is the largest number.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn real(&self, name: &str, otherwise: f64) -> Result<f64, ConfigError> {
        let otherwise = self.fixed(name).and_then(plain_real).unwrap_or(otherwise);
        let Some(text) = self.text(name)? else {
            return Ok(otherwise);
        };
        let number = expr::real(&text, name, self.source.now()).unwrap_or(otherwise);
        Ok(number.clamp(f64::MIN, f64::MAX))
    }

    /// The built-in default that typed reading falls back to.
    fn fixed(&self, name: &str) -> Option<&str> {
        let knob = knobs::typed(name);
        self.set
            .default_of(name)
            .or_else(|| knob.and_then(|knob| knob.default.as_deref()))
            .or_else(|| knob.and_then(|knob| knob.implied))
    }

    /// A knob by the reference's type; `None` when undefined, or empty without a type that gives it a value.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn typed(&self, name: &str) -> Result<Option<Typed>, ConfigError> {
        if self.raw_value(name).is_none() {
            return Ok(None);
        }
        Ok(
            match knobs::typed(name)
                .and_then(|knob| knob.reference_kind)
                .unwrap_or(Type::Text)
            {
                Type::Int | Type::Long => Some(Typed::Int(self.integer(name, 0)?)),
                Type::Bool => Some(Typed::Bool(self.boolean(name, false)?)),
                Type::Real => Some(Typed::Real(self.real(name, 0.0)?)),
                _ => self.text(name)?.map(Typed::Text),
            },
        )
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
