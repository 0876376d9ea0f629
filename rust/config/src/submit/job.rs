//! One job in the making: what the description says, what is in the ad so far, and what goes wrong.

use std::cell::RefCell;

use classad::{Ad, Expr, Syntax, Value, parse_expr};

use crate::bytes;
use crate::error::{Code, ConfigError};
use crate::expand::{Expander, too_much_work};
use crate::expr;
use crate::scope::Scope;
use crate::submit::scope::SubmitScope;
use crate::submit::{Facts, Knobs};

/// Job universes that descriptions may name here.
pub const VANILLA: i64 = 5;
/// The java universe: programs for a virtual machine of the execution point.
pub const JAVA: i64 = 10;
/// The parallel universe: jobs of several nodes that run at the same time.
pub const PARALLEL: i64 = 11;
/// The local universe.
pub const LOCAL: i64 = 12;
/// The universe of virtual machines.
pub const VM: i64 = 13;

/// What a byte of an expression costs to be parsed and kept, in bytes that macros move.
const PARSED: usize = 8;

/// Whether jobs of the universe run in slots of execution points.
#[must_use]
pub fn runs_on_slots(universe: i64) -> bool {
    matches!(universe, VANILLA | JAVA | PARALLEL | VM)
}

/// Result of a step.
pub type Done = Result<(), ConfigError>;

/// One job in the making.
pub struct Job<'a> {
    /// Where macros come from.
    pub scope: SubmitScope<'a>,
    /// Facts of the submission.
    pub facts: &'a Facts,
    /// The configuration.
    pub knobs: &'a dyn Knobs,
    /// The cluster's ad, or an empty one while that is being made.
    pub base: &'a Ad,
    /// What this job sets itself.
    pub own: Ad,
    /// Directory of the job.
    pub iwd: String,
    /// Attributes of the cluster's set.
    pub job_set: &'a RefCell<Ad>,
    /// Warnings of the whole submission.
    pub warnings: &'a RefCell<Vec<String>>,
    /// Requirements made last, with their text: most jobs have the same.
    pub cached_requirements: &'a RefCell<Option<(String, Expr)>>,
}

impl Job<'_> {
    /// The expanded value of a command by its name, or else by its attribute; `None` when unset or empty.
    pub fn command(&self, name: &str, attribute: &str) -> Result<Option<String>, ConfigError> {
        let raw = match self.scope.raw(name) {
            Some(raw) => raw,
            None if attribute.is_empty() => return Ok(None),
            None => match self.scope.raw(attribute) {
                Some(raw) => raw,
                None => return Ok(None),
            },
        };
        let expander = Expander::new(&self.scope);
        let text = expander
            .expand(&raw)
            .map_err(|error| self.located(error, name))?;
        if let Some(complaint) = expander.complaints().pop() {
            let error = ConfigError::new(Code::BadFunction, complaint);
            return Err(self.located(error.hint("correct the macro function"), name));
        }
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// An error about a command, at the place where the description sets it.
    pub fn located(&self, error: ConfigError, command: &str) -> ConfigError {
        let error = error.about(command);
        match self.scope.set.get(command) {
            Some(entry) => {
                let place = self.scope.set.place(&entry.origin);
                error.at(&place.file, place.line)
            }
            None => error,
        }
    }

    /// A refusal of a command's value.
    pub fn bad(&self, command: &str, message: impl Into<String>, hint: &str) -> ConfigError {
        self.located(
            ConfigError::new(Code::BadValue, message).hint(hint),
            command,
        )
    }

    /// A truth-valued command.
    pub fn truth(&self, name: &str, attribute: &str, otherwise: bool) -> Result<bool, ConfigError> {
        let Some(text) = self.command(name, attribute)? else {
            return Ok(otherwise);
        };
        expr::boolean(&text, "CondorBool").ok_or_else(|| {
            self.bad(
                name,
                format!("{name}={text} is invalid, must eval to a boolean"),
                "write true or false",
            )
        })
    }

    /// An integer command.
    pub fn number(&self, name: &str, attribute: &str) -> Result<Option<i64>, ConfigError> {
        let Some(text) = self.command(name, attribute)? else {
            return Ok(None);
        };
        expr::integer(&text, "CondorLong").map(Some).ok_or_else(|| {
            self.bad(
                name,
                format!("{name}={text} is invalid, must eval to an integer"),
                "write a number",
            )
        })
    }

    /// An attribute, own or of the cluster.
    pub fn get(&self, attribute: &str) -> Option<&Expr> {
        self.own
            .get_str(attribute)
            .or_else(|| self.base.get_str(attribute))
    }

    /// Whether an attribute is set.
    pub fn has(&self, attribute: &str) -> bool {
        self.get(attribute).is_some()
    }

    /// A string attribute.
    pub fn text(&self, attribute: &str) -> Option<String> {
        match self.get(attribute)? {
            Expr::Lit(Value::Str(text)) => Some(bytes::hold(text.as_bytes()).into_owned()),
            _ => None,
        }
    }

    /// An integer attribute.
    pub fn integer(&self, attribute: &str) -> Option<i64> {
        match self.get(attribute)? {
            Expr::Lit(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// Whether an attribute is the literal true.
    pub fn is_true(&self, attribute: &str) -> bool {
        matches!(self.get(attribute), Some(Expr::Lit(Value::Bool(true))))
    }

    /// Sets an attribute to a value.
    pub fn put(&mut self, attribute: &str, value: impl Into<Value>) {
        self.own.insert(attribute.into(), Expr::Lit(value.into()));
    }

    /// Sets a string attribute.
    pub fn put_text(&mut self, attribute: &str, text: &str) {
        let text = classad::Str::from(bytes::release(text).as_ref());
        self.put(attribute, Value::Str(text));
    }

    /// Sets an attribute to an expression that a command gives.
    pub fn put_expr(&mut self, attribute: &str, text: &str, command: &str) -> Done {
        let parsed = self.parse(attribute, text, command)?;
        self.own.insert(attribute.into(), parsed);
        Ok(())
    }

    /// Parses an expression that a command gives.
    pub fn parse(&self, attribute: &str, text: &str, command: &str) -> Result<Expr, ConfigError> {
        if !self.scope.spend(PARSED * text.len()) {
            return Err(self.located(too_much_work(), command));
        }
        parse_expr(&bytes::release(text), Syntax::OLD).map_err(|error| {
            let message = format!(
                "{attribute} is not an expression: {} at character {}\n{}",
                error.message,
                error.span.start + 1,
                error.span.excerpt(text.as_bytes()),
            );
            let hint = if error.hint.is_empty() {
                "strings need double quotes"
            } else {
                error.hint
            };
            self.located(
                ConfigError::new(Code::BadExpression, message).hint(hint),
                command,
            )
        })
    }

    /// Sets an attribute to the expression a command gives, if it gives one.
    pub fn pass_expr(&mut self, command: &str, attribute: &str) -> Done {
        match self.command(command, attribute)? {
            Some(text) => self.put_expr(attribute, &text, command),
            None => Ok(()),
        }
    }

    /// A warning, once for each text.
    pub fn warn(&self, text: String) {
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// A name as a full path: relative ones start at the job's directory.
    pub fn full_path(&self, name: &str) -> String {
        absolute(name, &self.iwd)
    }
}

/// A name made absolute.
pub fn absolute(name: &str, directory: &str) -> String {
    if name.starts_with('/') || name.is_empty() {
        return name.to_owned();
    }
    format!("{}/{}", directory.trim_end_matches('/'), name)
}

/// A text without quotes around it.
pub fn unquoted(text: &str) -> &str {
    let text = crate::lines::trim(text);
    let inner = text.strip_prefix('"').unwrap_or(text);
    if inner.len() == text.len() {
        text
    } else {
        inner.strip_suffix('"').unwrap_or(inner)
    }
}

/// Items of a comma-separated list.
pub fn comma_list(text: &str) -> Vec<String> {
    text.split(',')
        .map(crate::lines::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}
