//! Goes through a description: statements into the macro set, queue statements into jobs.

use std::cell::{Cell, RefCell};

use classad::Ad;
use rustc_hash::FxHashSet;

use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::lines::{Lines, trim};
use crate::scope::Scope;
use crate::set::{MacroSet, Origin};
use crate::source::Source;
use crate::statement::{self, Op};
use crate::submit::builder::Cache;
use crate::submit::queue;
use crate::submit::scope::{Given, Live, SubmitScope, Touched};
use crate::submit::{Facts, Knobs, Submission, commands};

mod include;
mod jobs;
mod unused;

/// A description up to its first queue statement, for programs that look at it and change it before they submit it.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Statements in their order: the key, its text with macros as written, and expanded (`None` where it cannot be).
    pub statements: Vec<(String, String, Option<String>)>,
    /// Arguments of the queue statement; `None` when there is none.
    pub queue: Option<String>,
    /// Loop variables of the queue statement, as written.
    pub variables: Vec<String>,
    /// Its items, each with a field for each variable; empty for a statement without items.
    pub items: Vec<Vec<String>>,
    /// Whether the queue statement has items.
    pub has_items: bool,
}

type Done = Result<(), ConfigError>;

/// A description being read.
pub struct Reading<'a> {
    facts: &'a Facts,
    knobs: &'a dyn Knobs,
    world: &'a dyn Source,
    set: MacroSet,
    live: Live,
    given: Given,
    work: Cell<usize>,
    touched: Touched,
    used: RefCell<FxHashSet<String>>,
    missing: RefCell<std::collections::BTreeSet<String>>,
    job_set: RefCell<Ad>,
    warnings: RefCell<Vec<String>>,
    cache: Cache,
    made: Submission,
    loop_names: Vec<String>,
    stopped: bool,
    /// Read up to the first queue statement only, and keep that.
    outline: Option<Outline>,
}

struct Text {
    name: String,
    tag: String,
    lines: Vec<String>,
    line: u32,
}

impl<'a> Reading<'a> {
    /// Nothing read yet.
    #[must_use]
    pub fn new(facts: &'a Facts, knobs: &'a dyn Knobs, world: &'a dyn Source) -> Self {
        let given = Given {
            file: facts.file.clone(),
            now: facts.now,
            date: facts.date,
            macros: facts.macros.clone(),
        };
        Self {
            facts,
            knobs,
            world,
            set: MacroSet::default(),
            live: Live {
                node: "",
                ..Live::default()
            },
            given,
            work: Cell::new(facts.most_work.unwrap_or(usize::MAX)),
            touched: Touched::default(),
            used: RefCell::default(),
            missing: RefCell::default(),
            job_set: RefCell::default(),
            warnings: RefCell::default(),
            cache: RefCell::default(),
            made: Submission::default(),
            loop_names: Vec::new(),
            stopped: false,
            outline: None,
        }
    }

    fn scope(&self) -> SubmitScope<'_> {
        SubmitScope {
            set: &self.set,
            live: &self.live,
            given: &self.given,
            world: self.world,
            work: &self.work,
            iwd: &self.facts.cwd,
            touched: &self.touched,
            used: &self.used,
            missing: &self.missing,
        }
    }

    fn expand(&self, text: &str) -> Result<String, ConfigError> {
        Expander::new(&self.scope()).expand(text)
    }

    /// Reads the whole description.
    ///
    /// # Errors
    /// Everything the language refuses.
    pub fn whole(mut self, text: &str) -> Result<Submission, ConfigError> {
        self.live.cluster = self.facts.first_cluster.unwrap_or(1).to_string();
        let before = self.facts.before.join("\n");
        if !before.is_empty() {
            self.text("<command line>", &(before + "\n"), 0)?;
        }
        let file = if self.facts.file.is_empty() {
            "<description>"
        } else {
            &self.facts.file
        };
        self.text(file, text, 0)?;
        if let Some(arguments) = self.facts.queue.clone().filter(|_| !self.stopped) {
            let mut nothing = Lines::new("");
            self.appended()?;
            self.queue(&arguments, &mut nothing)
                .map_err(|error| error.at("<command line>", 0))?;
        }
        self.warn_missing();
        self.warn_unused();
        self.made.mentions_cluster = self.touched.cluster.get();
        self.made.warnings = self.warnings.take();
        Ok(self.made)
    }

    /// Reads up to the first queue statement, and the items of that.
    ///
    /// # Errors
    /// Everything the language refuses up to there.
    pub fn outline(mut self, text: &str) -> Result<Outline, ConfigError> {
        self.live.cluster = self.facts.first_cluster.unwrap_or(1).to_string();
        self.outline = Some(Outline::default());
        self.text("<description>", text, 0)?;
        if let Some(arguments) = self.facts.queue.clone() {
            let (first, rest) = arguments.split_once('\n').unwrap_or((&arguments, ""));
            self.keep(first, &mut Lines::new(rest))?;
        }
        let mut outline = self.outline.take().unwrap_or_default();
        outline.statements = self
            .set
            .entries()
            .iter()
            .map(|entry| {
                let expanded = self.expand(&entry.raw).ok();
                (entry.name.to_string(), entry.raw.to_string(), expanded)
            })
            .collect();
        Ok(outline)
    }

    /// Keeps a queue statement for the outline.
    fn keep(&mut self, arguments: &str, lines: &mut Lines<'_>) -> Done {
        let queue = self.gather(arguments, lines)?;
        if let Some(outline) = &mut self.outline {
            outline.queue = Some(arguments.to_owned());
            outline.has_items = queue.mode != queue::Mode::Plain;
            outline.items = queue.items.iter().map(|item| queue.split(item)).collect();
            outline.variables = queue.variables;
        }
        Ok(())
    }

    fn text(&mut self, file: &str, text: &str, depth: u32) -> Done {
        let source = self.set.add_source(file);
        let mut blocks = Blocks::default();
        let mut open: Option<Text> = None;
        let mut lines = Lines::new(text);
        while let Some(line) = lines.next() {
            let at = lines.line().max(1);
            let place = |error: ConfigError| error.at(file, at);
            let line = trim(&line).to_owned();
            if line.is_empty() || (line.starts_with('#') && open.is_none()) {
                continue;
            }
            let origin = Origin {
                source,
                line: at,
                template: None,
            };
            if let Some(text) = &mut open {
                if line.strip_prefix('@') == Some(text.tag.as_str()) {
                    let (name, value) = (text.name.clone(), text.lines.join("\n"));
                    open = None;
                    self.assign(&name, &value, origin).map_err(place)?;
                } else if !line.starts_with('#') {
                    text.lines.push(line);
                }
                continue;
            }
            if blocks.take(&line, &self.scope()).map_err(place)? || !blocks.enabled() {
                continue;
            }
            if let Some(arguments) = queue::arguments(&line) {
                if self.facts.queue.is_some() {
                    return Ok(());
                }
                self.appended().map_err(place)?;
                let arguments = arguments.to_owned();
                if self.outline.is_some() {
                    self.stopped = true;
                    return self.keep(&arguments, &mut lines).map_err(place);
                }
                self.queue(&arguments, &mut lines).map_err(place)?;
                continue;
            }
            open = self.statement(&line, &origin, depth).map_err(place)?;
            if self.stopped {
                return Ok(());
            }
        }
        if let Some(text) = open {
            let message = format!("Found end-of-file while scanning for '@{}'", text.tag);
            let hint = format!("the text of {} ends with a line `@{}`", text.name, text.tag);
            return Err(ConfigError::new(Code::OpenText, message)
                .hint(hint)
                .about(&text.name)
                .at(file, text.line));
        }
        if blocks.inside() {
            let error = ConfigError::new(Code::Unbalanced, "endif(s) not found before end-of-file");
            return Err(error
                .hint("every if needs its endif")
                .at(file, lines.line()));
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, raw: &str, origin: Origin) -> Done {
        let value = Expander::new(&self.scope())
            .expand_own(raw, name, None)
            .map_err(|error| error.about(name))?;
        self.set.insert(name, &value, origin);
        Ok(())
    }

    fn statement(
        &mut self,
        line: &str,
        origin: &Origin,
        depth: u32,
    ) -> Result<Option<Text>, ConfigError> {
        let Some(found) = statement::split(line) else {
            return Err(no_statement(line));
        };
        let keyword = found.name.strip_prefix('@').unwrap_or(found.name);
        if found.op == Op::Colon {
            return self.colon(&found, keyword, origin, depth).map(|()| None);
        }
        if let Some(rest) = found
            .name
            .strip_prefix(['+', '-'])
            .filter(|_| found.op == Op::Assign)
        {
            let value = if found.name.starts_with('+') {
                found.value
            } else {
                ""
            };
            self.set
                .insert(&format!("MY.{}", self.expand(rest)?), value, origin.clone());
            return Ok(None);
        }
        if !found.between.is_empty() {
            return Err(no_key(line, found.name));
        }
        let name = self.expand(found.name)?;
        if !statement::is_name(&name) {
            return Err(
                ConfigError::new(Code::BadName, format!("Illegal Identifier: <{name}>"))
                    .hint("keys have letters, digits, _ and . only")
                    .about(&name),
            );
        }
        match found.op {
            Op::Text => {
                let tag = found.value.to_owned();
                return Ok(Some(Text {
                    name,
                    tag,
                    lines: Vec::new(),
                    line: origin.line,
                }));
            }
            Op::Append(joint) => {
                let old = self.scope().raw(&name).map(|raw| raw.into_owned());
                let value = match old.filter(|old| !old.is_empty()) {
                    Some(old) => format!("{old}{}{}", joint.text(), found.value),
                    None => found.value.to_owned(),
                };
                self.assign(&name, &value, origin.clone())?;
            }
            Op::Assign | Op::Colon => self.assign(&name, found.value, origin.clone())?,
        }
        Ok(None)
    }

    fn appended(&mut self) -> Done {
        let lines = self.facts.append.clone();
        for (at, line) in lines.iter().enumerate() {
            let source = self.set.add_source("<command line>");
            let origin = Origin {
                source,
                line: at as u32 + 1,
                template: None,
            };
            let line = trim(line);
            if queue::arguments(line).is_some() {
                let error =
                    ConfigError::new(Code::BadQueue, "a queue statement cannot be appended");
                return Err(error.hint("use -queue").at("<command line>", 0));
            }
            self.statement(line, &origin, 0)
                .map_err(|error| error.at("<command line>", 0))?;
        }
        Ok(())
    }
}

/// The refusal of a line that is not a statement at all.
fn no_statement(line: &str) -> ConfigError {
    let shown: String = line.chars().take(60).collect();
    let word = shown.split_whitespace().next().unwrap_or_default();
    let hint = match commands::similar(word) {
        _ if queue_like(line) => "did you mean `queue`?".to_owned(),
        Some(name) => format!("did you mean `{name} = ...`?"),
        None => "a statement is `key = value`, or a queue statement".into(),
    };
    ConfigError::new(Code::Syntax, format!("`{shown}` is not a statement"))
        .hint(hint)
        .about(word)
}

/// The refusal of a line with several words where one key belongs.
fn no_key(line: &str, name: &str) -> ConfigError {
    let words = line.split(['=', '@', '+']).next().unwrap_or(line).trim();
    let hint = if queue_like(line) {
        "a queue statement starts with the word queue"
    } else {
        "keys have no blanks; a line that goes on needs a \\ at the end of the line before"
    };
    ConfigError::new(Code::Syntax, format!("`{words}` is not a key"))
        .hint(hint)
        .about(name)
}

fn queue_like(line: &str) -> bool {
    let word = line
        .split_ascii_whitespace()
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    classad::spelling::distance(word.as_bytes(), b"queue", 2).is_some()
}
