//! Expands macro references until none is left, with a bound on the work.
//!
//! Each step replaces the first reference and looks again from the start, since what a replacement leaves behind may
//! form a new reference. `$(DOLLAR)` comes last. Loops and growth without end are refused.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use crate::error::{Code, ConfigError};
use crate::functions::{self, Nested};
use crate::scan::{self, Found, Kind, Want};
use crate::scope::Scope;

/// Bounds of one expansion.
const MAX_STEPS: u32 = 50_000;
const MAX_LENGTH: usize = 4 << 20;
const MAX_MOVED: usize = 512 << 20;
const MAX_DEPTH: u32 = 40;
/// What a step costs besides the bytes that it moves, in bytes.
const STEP: usize = 64;
/// The bytes of work of all expansions of a description that somebody else sent: those of twenty thousand jobs with
/// six thousand each. What jobs are made of grows with it, too.
pub const MAX_WORK_FOR_OTHERS: usize = 128 << 20;

/// One expansion with everything nested in it: bounds, and complaints of functions that could not do their work.
pub struct Expander<'s> {
    /// Where names are looked up.
    pub scope: &'s dyn Scope,
    steps: Cell<u32>,
    moved: Cell<usize>,
    depth: Cell<u32>,
    complaints: RefCell<Vec<String>>,
}

impl<'s> Expander<'s> {
    /// A fresh expansion.
    #[must_use]
    pub fn new(scope: &'s dyn Scope) -> Self {
        Self {
            scope,
            steps: Cell::new(0),
            moved: Cell::new(0),
            depth: Cell::new(0),
            complaints: RefCell::default(),
        }
    }

    /// What functions complained about so far; such a function expands to nothing.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.borrow().clone()
    }

    /// Expands all references of a text.
    ///
    /// # Errors
    /// [`Code::Runaway`] for loops and growth without end.
    pub fn expand(&self, text: &str) -> Result<String, ConfigError> {
        if !text.contains('$') {
            return Ok(text.to_owned());
        }
        let expanded = self.replace(text.to_owned(), Want::ButDollar)?;
        self.replace(expanded, Want::OnlyDollar)
    }

    /// Expands only references to `own` (and `other`): self-reference when a knob is set.
    ///
    /// # Errors
    /// As [`Self::expand`].
    pub fn expand_own(
        &self,
        text: &str,
        own: &str,
        other: Option<&str>,
    ) -> Result<String, ConfigError> {
        if !text.contains('$') {
            return Ok(text.to_owned());
        }
        self.replace(text.to_owned(), Want::Own(own, other))
    }

    fn replace(&self, mut text: String, want: Want<'_>) -> Result<String, ConfigError> {
        self.depth.set(self.depth.get() + 1);
        if self.depth.get() > MAX_DEPTH {
            return Err(runaway("macro functions call themselves"));
        }
        let mut from = 0;
        loop {
            let mut looked = 0;
            let (found, passed) = scan::next(&text, from, want, &mut looked);
            // What moves the text pays for one look at it.
            self.work(looked.saturating_sub(text.len()))?;
            let Some(found) = found else {
                break;
            };
            let value: Cow<'_, str> = match want {
                Want::OnlyDollar => "$".into(),
                _ => self.value(&text, &found)?,
            };
            self.spend(text.len() + value.len())?;
            let value = value.into_owned();
            text.replace_range(found.dollar..found.end, &value);
            from = passed.unwrap_or(found.dollar).min(found.dollar);
        }
        self.depth.set(self.depth.get() - 1);
        Ok(text)
    }

    fn spend(&self, bytes: usize) -> Result<(), ConfigError> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > MAX_STEPS || bytes > MAX_LENGTH {
            return Err(runaway("macro expansion does not end"));
        }
        self.work(bytes + STEP)
    }

    fn work(&self, bytes: usize) -> Result<(), ConfigError> {
        self.moved.set(self.moved.get() + bytes);
        if self.moved.get() > MAX_MOVED {
            return Err(runaway("macro expansion does not end"));
        }
        if !self.scope.spend(bytes) {
            return Err(too_much_work());
        }
        Ok(())
    }

    fn value(&self, text: &str, found: &Found) -> Result<Cow<'_, str>, ConfigError> {
        let body = found.body(text);
        if !matches!(found.kind, Kind::Plain | Kind::Env) {
            let value = functions::call(self, found.kind, found.function(text), body)?;
            return Ok(Cow::Owned(if self.scope.results_are_data() {
                value.replace('$', "$(DOLLAR)")
            } else {
                value
            }));
        }
        let (name, default) = match body.split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (body, None),
        };
        if found.kind == Kind::Env {
            let value = self.scope.source().env(name);
            return Ok(Cow::Owned(
                value.unwrap_or_else(|| default.unwrap_or("UNDEFINED").to_owned()),
            ));
        }
        Ok(match (self.scope.raw(name), default) {
            (Some(value), _) if !value.is_empty() => value,
            (_, Some(default)) => Cow::Owned(default.to_owned()),
            (Some(_), None) => Cow::Borrowed(""),
            (None, None) => {
                self.scope.missing(name);
                Cow::Borrowed("")
            }
        })
    }
}

impl Nested for Expander<'_> {
    fn scope(&self) -> &dyn Scope {
        self.scope
    }

    fn expand(&self, text: &str) -> Result<String, ConfigError> {
        Expander::expand(self, text)
    }

    fn expand_keeping_dollar(&self, text: &str) -> Result<String, ConfigError> {
        self.replace(text.to_owned(), Want::ButDollar)
    }

    fn complain(&self, text: String) {
        self.complaints.borrow_mut().push(text);
    }
}

fn runaway(message: &str) -> ConfigError {
    ConfigError::new(Code::Runaway, message)
        .hint("look for a macro that refers to itself, also by way of others")
}

/// The refusal of a description whose work is beyond [`MAX_WORK_FOR_OTHERS`].
#[must_use]
pub fn too_much_work() -> ConfigError {
    let message = "the macros of the description take too much work for all its jobs";
    ConfigError::new(Code::Runaway, message)
        .hint("shorten the values with macros in them, or queue fewer jobs at a time")
}

/// Names that a raw text refers to plainly, with their defaults' references: edges for finding cycles.
#[must_use]
pub fn references(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut from, mut looked) = (0, 0);
    while looked <= MAX_MOVED
        && let (Some(found), _) = scan::next(text, from, Want::ButDollar, &mut looked)
    {
        let body = found.body(text);
        if found.kind == Kind::Plain {
            names.push(body.split_once(':').map_or(body, |(name, _)| name));
        }
        from = found.body;
    }
    names
}
