//! Job transforms: statements that change an ad, as in JOB_TRANSFORM_<NAME> and the files of `transform-ads`.
//!
//! [`Rules`] is the text of one transform, read once; [`apply`] runs it on an ad. Statements are those of submit
//! descriptions (macros, `if`, texts with `@=`) and the verbs of [`Verb`]. Source: manual, "Job Transforms" and the
//! condor_transform_ads page; what these leave open was asked of HTCondor 25.14.

mod apply;
mod command;

use classad::{Expr, Syntax, parse_expr};

pub use apply::{Iteration, Outcome, Surroundings, Variables, apply, rows};
pub use command::{Command, Verb};

use crate::bytes;
use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::lines::{Lines, is_space, trim, trim_start};
use crate::scope::Scope;
use crate::source::{Nothing, Source};
use crate::statement::{self, Joint, Op};

/// What one line does.
#[derive(Clone, Debug)]
enum Step {
    /// `if`, `elif`, `else`, `endif`.
    Condition(String),
    /// `name = value`: a macro.
    Assign(String, String),
    /// `name += value` and the like.
    Append(String, Joint, String),
    /// A verb.
    Do(Command),
}

/// One transform.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Its name: that of the knob or file, unless it says another.
    pub name: String,
    /// Which ads it applies to; `None`: all.
    pub requirements: Option<Expr>,
    /// What UNIVERSE says; job transforms take no notice of it.
    pub universe: Option<String>,
    /// What TRANSFORM iterates over, as written; `None` when it iterates over nothing.
    pub iterates: Option<String>,
    /// The lines below TRANSFORM, which may hold its items.
    pub below: String,
    steps: Vec<(u32, Step)>,
}

impl Rules {
    /// Reads the text of a transform.
    ///
    /// # Errors
    /// Statements that HTCondor would fail on each time the transform applies, with their line in the text.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut rules = Self {
            name: name.to_owned(),
            requirements: None,
            universe: None,
            iterates: None,
            below: String::new(),
            steps: Vec::new(),
        };
        if text.trim_start().starts_with('[') {
            let error = ConfigError::new(
                Code::Syntax,
                "the transform is a ClassAd, which is no longer supported",
            );
            return Err(
                error.hint("write it with SET, COPY, RENAME, DELETE and the other statements")
            );
        }
        // With its last line complete, so that lines are counted right.
        let text = &format!("{text}\n");
        let mut lines = Lines::new(text);
        let mut open: Option<(String, String, Vec<String>, u32)> = None;
        let mut blocks = Blocks::default();
        while let Some(line) = lines.next() {
            let at = lines.line().max(1);
            let line = trim(&line).to_owned();
            if let Some((name, tag, value, _)) = &mut open {
                if line.strip_prefix('@') == Some(tag.as_str()) {
                    let step = Step::Assign(std::mem::take(name), value.join("\n"));
                    rules.steps.push((at, step));
                    open = None;
                } else {
                    value.push(line);
                }
                continue;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if rules.envelope(&line, at)? {
                if rules.iterates.is_some() || keyword(&line, "transform").is_some() {
                    rules.below = text[lines.offset()..].to_owned();
                    break;
                }
                continue;
            }
            open = rules.line(&line, at, &mut blocks)?;
        }
        if let Some((name, tag, _, at)) = open {
            let message = format!("Found end-of-file while scanning for '@{tag}'");
            let hint = format!("the text of {name} ends with a line `@{tag}`");
            return Err(ConfigError::new(Code::OpenText, message)
                .hint(hint)
                .at(&rules.name, at));
        }
        if blocks.inside() {
            let error = ConfigError::new(Code::Unbalanced, "endif(s) not found before end-of-file");
            return Err(error
                .hint("every if needs its endif")
                .at(&rules.name, lines.line()));
        }
        Ok(rules)
    }

    /// Whether it does nothing at all: a file of macros only, from which other rules take theirs.
    #[must_use]
    pub fn is_config(&self) -> bool {
        self.iterates.is_none()
            && !self
                .steps
                .iter()
                .any(|(_, step)| matches!(step, Step::Do(_)))
    }

    /// The macros that a file of macros only defines, in order.
    #[must_use]
    pub fn assignments(&self) -> Vec<(&str, &str)> {
        self.steps
            .iter()
            .filter_map(|(_, step)| match step {
                Step::Assign(name, value) => Some((name.as_str(), value.as_str())),
                _ => None,
            })
            .collect()
    }

    /// The attributes that its statements name to be set, copied to, renamed to or removed; those that a pattern or a
    /// macro names are known only when it applies.
    #[must_use]
    pub fn writes(&self) -> Vec<(u32, &str)> {
        let mut names = Vec::new();
        for (line, step) in &self.steps {
            if let Step::Do(command) = step {
                names.extend(command.writes().into_iter().map(|name| (*line, name)));
            }
        }
        names
    }

    /// NAME, REQUIREMENTS, UNIVERSE and TRANSFORM; whether the line was one.
    fn envelope(&mut self, line: &str, at: u32) -> Result<bool, ConfigError> {
        if let Some(name) = keyword(line, "name") {
            if !name.is_empty() {
                name.clone_into(&mut self.name);
            }
        } else if let Some(text) = keyword(line, "requirements") {
            let expr = parse_expr(&bytes::release(text), Syntax::OLD).map_err(|error| {
                ConfigError::new(
                    Code::BadExpression,
                    format!("invalid REQUIREMENTS: {error}"),
                )
                .hint("REQUIREMENTS is a ClassAd expression")
                .at(&self.name, at)
            })?;
            self.requirements = Some(expr);
        } else if let Some(universe) = keyword(line, "universe") {
            self.universe = Some(universe.to_owned());
        } else if let Some(arguments) = keyword(line, "transform") {
            if !matches!(trim(arguments), "" | "0" | "1") {
                self.iterates = Some(trim(arguments).to_owned());
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    #[allow(clippy::type_complexity)]
    fn line(
        &mut self,
        line: &str,
        at: u32,
        blocks: &mut Blocks,
    ) -> Result<Option<(String, String, Vec<String>, u32)>, ConfigError> {
        let place = |error: ConfigError| error.at(&self.name, at);
        let nothing = Unconditional(Nothing::default());
        // With every condition taken for true: the nesting is checked, and nothing is evaluated.
        if blocks.take(line, &nothing).map_err(place)? {
            self.steps.push((at, Step::Condition(line.to_owned())));
            return Ok(None);
        }
        let found = statement::split(line);
        let found = found.filter(|found| found.between.is_empty() && found.op != Op::Colon);
        let Some(found) = found else {
            if let Some(word) = ["include", "use", "error", "warning"]
                .into_iter()
                .find(|word| statement_of(line, word))
            {
                let message = format!("{word} is not allowed in a transform");
                return Err(place(
                    ConfigError::new(Code::Syntax, message)
                        .hint("write the statements into the transform itself"),
                ));
            }
            let command = Command::parse(line).map_err(place)?;
            self.steps.push((at, Step::Do(command)));
            return Ok(None);
        };
        let name = match found.name.strip_prefix(['+', '-']) {
            Some(rest) if found.op == Op::Assign => format!("MY.{rest}"),
            _ => found.name.to_owned(),
        };
        if !name.contains('$') && !statement::is_name(&name) {
            let error = ConfigError::new(Code::BadName, format!("Illegal Identifier: <{name}>"));
            return Err(place(
                error.hint("names of macros have letters, digits, _ and . only"),
            ));
        }
        let value = if found.name.starts_with('-') {
            ""
        } else {
            found.value
        }
        .to_owned();
        let step = match found.op {
            Op::Text => return Ok(Some((name, value, Vec::new(), at))),
            Op::Append(joint) => Step::Append(name, joint, value),
            Op::Assign | Op::Colon => Step::Assign(name, value),
        };
        self.steps.push((at, step));
        Ok(None)
    }
}

/// `include : ...` and the other statements of configuration files.
fn statement_of(line: &str, word: &str) -> bool {
    statement::split(line).is_some_and(|found| {
        let name = found.name.strip_prefix('@').unwrap_or(found.name);
        found.op == Op::Colon && name.eq_ignore_ascii_case(word)
    })
}

/// The rest of a line that begins with a word of the envelope; `name = x` sets a macro.
fn keyword<'l>(line: &'l str, word: &str) -> Option<&'l str> {
    let start = line.get(..word.len())?;
    let rest = &line[word.len()..];
    if !start.eq_ignore_ascii_case(word) {
        return None;
    }
    if rest.is_empty() {
        return (word == "transform").then_some("");
    }
    let inner = trim_start(rest);
    (is_space(rest.as_bytes()[0]) && !inner.starts_with('=')).then(|| trim(inner))
}

/// A scope in which every condition can be read.
struct Unconditional(Nothing);

impl Scope for Unconditional {
    fn raw(&self, _name: &str) -> Option<std::borrow::Cow<'_, str>> {
        Some("1".into())
    }

    fn source(&self) -> &dyn Source {
        &self.0
    }

    fn condition(&self, _text: &str) -> Option<bool> {
        Some(true)
    }
}
