//! Reads configuration text statement by statement into a [`MacroSet`]: assignments, blocks, includes, templates.

use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::knobs;
use crate::lines::{CommentRule, Lines, trim_start};
use crate::set::{MacroSet, Origin, View};
use crate::source::Source;
use crate::statement::{self, Op, Statement};
use crate::templates;

/// Includes and templates may nest this deep.
pub const MAX_DEPTH: u32 = 20;

/// A warning of the administrator's or the reader's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// File and line.
    pub place: crate::error::Place,
    /// What about it.
    pub message: String,
}

/// Whether reading of a file went to its end, or an `error` statement with a positive code stopped it silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// To the end.
    Whole,
    /// Stopped; what was read stays.
    Stopped,
}

/// Reads configuration for one subsystem.
pub struct Reader<'w> {
    /// What was read so far.
    pub set: MacroSet,
    /// Subsystem whose settings win.
    pub subsystem: Option<String>,
    /// Local name whose settings win even more.
    pub local_name: Option<String>,
    /// The world.
    pub world: &'w dyn Source,
    /// Warnings met on the way.
    pub warnings: Vec<Warning>,
}

/// A `@=tag` text being collected.
#[derive(Default)]
pub(crate) struct Here {
    name: String,
    tag: String,
    text: String,
    line: u32,
}

impl<'w> Reader<'w> {
    /// A reader with nothing read.
    #[must_use]
    pub fn new(world: &'w dyn Source) -> Self {
        Self {
            set: MacroSet::default(),
            subsystem: None,
            local_name: None,
            world,
            warnings: Vec::new(),
        }
    }

    /// The settings as this reader sees them.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View {
            set: &self.set,
            subsystem: self.subsystem.as_deref(),
            local_name: self.local_name.as_deref(),
            source: self.world,
        }
    }

    /// The expanded value of a name; `None` when undefined or empty.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn value(&self, name: &str) -> Result<Option<String>, ConfigError> {
        let view = self.view();
        let Some(raw) = view.raw_value(name) else {
            return Ok(None);
        };
        let text = Expander::new(&view)
            .expand(raw)
            .map_err(|error| error.about(name))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn expand(&self, text: &str) -> Result<String, ConfigError> {
        Expander::new(&self.view()).expand(text)
    }

    /// Sets a name; references to itself take the value so far.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn assign(&mut self, name: &str, raw: &str, origin: Origin) -> Result<(), ConfigError> {
        if raw.contains('$') {
            let other = self.without_own_prefix(name);
            let value = Expander::new(&self.view())
                .expand_own(raw, name, other)
                .map_err(|error| error.about(name))?;
            self.set.insert(name, &value, origin);
        } else {
            self.set.insert(name, raw, origin);
        }
        Ok(())
    }

    /// Sets a name from outside (environment, run time): self-reference only counts when it is set already.
    ///
    /// # Errors
    /// Runaway expansion.
    pub fn assign_from_outside(
        &mut self,
        name: &str,
        raw: &str,
        origin: Origin,
    ) -> Result<(), ConfigError> {
        if self.set.get(name).is_some() {
            return self.assign(name, raw, origin);
        }
        self.set.insert(name, raw, origin);
        Ok(())
    }

    /// For `STARTD.X` read by the startd: `X`, which refers to the same knob.
    fn without_own_prefix<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (prefix, rest) = name.split_once('.')?;
        let own = [&self.local_name, &self.subsystem]
            .into_iter()
            .flatten()
            .any(|own| own.eq_ignore_ascii_case(prefix));
        (own && !rest.is_empty()).then_some(rest)
    }

    /// Reads a whole text as the file `file`.
    ///
    /// # Errors
    /// Everything the language refuses, with file and line.
    pub fn read_text(&mut self, file: &str, text: &str, depth: u32) -> Result<End, ConfigError> {
        let source = self.set.add_source(file);
        let mut blocks = Blocks::default();
        let mut here: Option<Here> = None;
        let mut strict_colon = false;
        let mut lines = Lines::new(text);
        while let Some(line) = lines.next() {
            let at = lines.line();
            let place = |error: ConfigError| error.at(file, at);
            let line = &*line;
            if line.starts_with('#') || line.trim_ascii().is_empty() {
                match line.to_ascii_lowercase().as_str() {
                    "#opt:oldcomment" => lines.rule = CommentRule::Old,
                    "#opt:newcomment" => lines.rule = CommentRule::New,
                    "#opt:strict" => strict_colon = true,
                    _ => {}
                }
                continue;
            }
            let origin = Origin {
                source,
                line: at,
                template: None,
            };
            if let Some(open) = &mut here {
                if line.strip_prefix('@') == Some(open.tag.as_str()) {
                    let done = std::mem::take(open);
                    here = None;
                    self.assign(&done.name, &done.text, origin).map_err(place)?;
                } else {
                    open.push(line);
                }
                continue;
            }
            let line = without_colon(line, blocks.inside());
            if blocks.take(line, &self.view()).map_err(place)? || !blocks.enabled() {
                continue;
            }
            match self
                .statement(line, &origin, depth, strict_colon)
                .map_err(place)?
            {
                Step::Done => {}
                Step::Here(open) => here = Some(open),
                Step::Stop => return Ok(End::Stopped),
            }
        }
        if let Some(open) = here {
            let message = format!("Found end-of-file while scanning for '@{}'", open.tag);
            let hint = format!(
                "the text of {} that starts with `@={}` ends with a line `@{}`",
                open.name, open.tag, open.tag
            );
            return Err(ConfigError::new(Code::OpenText, message)
                .hint(hint)
                .about(&open.name)
                .at(file, open.line));
        }
        if blocks.inside() {
            let error = ConfigError::new(Code::Unbalanced, "endif(s) not found before end-of-file");
            return Err(error
                .hint("every if needs its endif in the same file")
                .at(file, lines.line()));
        }
        Ok(End::Whole)
    }

    fn statement(
        &mut self,
        line: &str,
        origin: &Origin,
        depth: u32,
        strict: bool,
    ) -> Result<Step, ConfigError> {
        let Some(found) = statement::split(line) else {
            if line.starts_with('[')
                && !line.contains(|c: char| c.is_ascii_whitespace() || c == '=' || c == ':')
            {
                return Ok(Step::Done);
            }
            return Err(no_statement(line));
        };
        let keyword = found.name.strip_prefix('@').unwrap_or(found.name);
        if found.op == Op::Colon {
            if keyword.eq_ignore_ascii_case("use") {
                return self.use_templates(&found, origin, depth);
            }
            if keyword.eq_ignore_ascii_case("include") {
                return self.include(&found, depth);
            }
            if keyword.eq_ignore_ascii_case("error") || keyword.eq_ignore_ascii_case("warning") {
                return self.stated(&found, keyword, origin);
            }
            if strict && !found.name.eq_ignore_ascii_case("RunBenchmarks") {
                let message = format!(
                    "obsolete use of ':' for parameter assignment at {} : {}",
                    found.name, found.value
                );
                return Err(ConfigError::new(Code::Syntax, message).hint("write = instead of :"));
            }
        }
        let name = self.expand(found.name)?;
        if !statement::is_name(&name) {
            return Err(bad_name(&name));
        }
        match found.op {
            Op::Text => {
                let tag = found.value.to_owned();
                return Ok(Step::Here(Here {
                    name,
                    tag,
                    text: String::new(),
                    line: origin.line,
                }));
            }
            Op::Append(joint) => {
                let old = self.view().raw_value(&name).unwrap_or_default().to_owned();
                let value = if old.is_empty() {
                    found.value.to_owned()
                } else {
                    format!("{old}{}{}", joint.text(), found.value)
                };
                self.assign(&name, &value, origin.clone())?;
            }
            Op::Assign | Op::Colon => self.assign(&name, found.value, origin.clone())?,
        }
        Ok(Step::Done)
    }

    fn stated(
        &mut self,
        found: &Statement<'_>,
        keyword: &str,
        origin: &Origin,
    ) -> Result<Step, ConfigError> {
        let message = self.expand(found.value)?;
        if keyword.eq_ignore_ascii_case("warning") {
            self.warnings.push(Warning {
                place: self.set.place(origin),
                message,
            });
            return Ok(Step::Done);
        }
        match crate::expr::leading_integer(found.between) {
            Some((code, _)) if code > 0 => {
                self.warnings.push(Warning {
                    place: self.set.place(origin),
                    message,
                });
                Ok(Step::Stop)
            }
            _ => Err(ConfigError::new(Code::Stated, message)
                .hint("an `error :` statement of the configuration stops it here")),
        }
    }

    fn include(&mut self, found: &Statement<'_>, depth: u32) -> Result<Step, ConfigError> {
        let options = statement::include_options(found.between).map_err(|words| {
            ConfigError::new(
                Code::Syntax,
                format!("unexpected keyword(s) '{words}' after include"),
            )
            .hint("these may follow: ifexist, command, command into FILE")
        })?;
        let name = self.expand(found.value)?;
        let (label, text) = match self.included(&name, &options) {
            Ok(read) => read,
            Err(_) if options.if_exists => return Ok(Step::Done),
            Err(error) => return Err(error),
        };
        if depth + 1 >= MAX_DEPTH {
            return Err(too_deep(&label));
        }
        // A nested `error` with a positive code stops the inner file only.
        self.read_text(&label, &text, depth + 1)?;
        Ok(Step::Done)
    }

    fn included(
        &self,
        name: &str,
        options: &statement::IncludeOptions<'_>,
    ) -> Result<(String, String), ConfigError> {
        if let Some(into) = options.into {
            let cache = self.expand(into)?;
            if let Ok(text) = self.world.read(&cache) {
                return Ok((cache, text));
            }
        }
        self.open(name, options.command)
    }

    /// The text of a file, or of a command when `name` has a `|` at its end or `command` says so.
    ///
    /// # Errors
    /// [`Code::Unreadable`] and [`Code::Command`].
    pub fn open(&self, name: &str, command: bool) -> Result<(String, String), ConfigError> {
        let piped = name.contains('|');
        if !piped && !command {
            let text = self.world.read(name).map_err(|reason| {
                ConfigError::new(
                    Code::Unreadable,
                    format!("can't open file {name}: {reason}"),
                )
                .hint("make the file, or write `include ifexist :` when it may be missing")
            })?;
            return Ok((name.to_owned(), text));
        }
        if piped && !name.ends_with('|') {
            return Err(ConfigError::new(
                Code::Command,
                format!("{name} is not a valid command, | must be at the end"),
            ));
        }
        let line = if piped {
            name.trim_end_matches(['|', ' '])
        } else {
            name
        };
        let (text, _) = self.world.run(line).map_err(|reason| {
            ConfigError::new(
                Code::Command,
                format!("{line} is not a valid command: {reason}"),
            )
        })?;
        Ok((
            if piped {
                name.to_owned()
            } else {
                format!("{name} |")
            },
            text,
        ))
    }

    fn use_templates(
        &mut self,
        found: &Statement<'_>,
        origin: &Origin,
        depth: u32,
    ) -> Result<Step, ConfigError> {
        let category = self.expand(found.between)?;
        self.apply(&category, found.value, origin, depth + 1)
    }

    /// Applies templates: `use category : list`.
    ///
    /// # Errors
    /// Unknown names, nesting too deep, `error` statements in a template.
    pub(crate) fn apply(
        &mut self,
        category: &str,
        list: &str,
        origin: &Origin,
        depth: u32,
    ) -> Result<Step, ConfigError> {
        if category.is_empty() {
            return Err(ConfigError::new(
                Code::Syntax,
                format!("Error: use needs a keyword before : {list}"),
            ));
        }
        let key = category.split(':').next().unwrap_or_default();
        if !templates::has_category(key) {
            return Err(ConfigError::new(
                Code::UnknownTemplate,
                format!("use {category}: there is no such category"),
            )
            .hint("categories are ROLE, FEATURE, POLICY and SECURITY"));
        }
        let wanted = templates::wanted(list).map_err(|name| {
            ConfigError::new(
                Code::Syntax,
                format!("use {category}: the arguments of {name} do not close"),
            )
            .hint("add the missing )")
        })?;
        for want in wanted {
            let Some(template) = templates::find(key, want.name) else {
                let known = templates::names(key).join(", ");
                return Err(ConfigError::new(
                    Code::UnknownTemplate,
                    format!("use {category}: does not recognise {}", want.name),
                )
                .hint(format!("known are {known}")));
            };
            let text = templates::with_arguments(&template.text, want.arguments);
            let mut origin = origin.clone();
            origin.template = Some(format!("{}:{}", template.category, template.name).into());
            if let Step::Stop = self.read_template(&text, &origin, depth)? {
                return Ok(Step::Stop);
            }
        }
        Ok(Step::Done)
    }

    fn read_template(
        &mut self,
        text: &str,
        origin: &Origin,
        depth: u32,
    ) -> Result<Step, ConfigError> {
        let mut blocks = Blocks::default();
        let mut here: Option<Here> = None;
        for line in text.lines().map(crate::lines::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(open) = &mut here {
                if line.strip_prefix('@') == Some(open.tag.as_str()) {
                    let done = std::mem::take(open);
                    here = None;
                    self.assign(&done.name, &done.text, origin.clone())?;
                } else {
                    open.push(line);
                }
                continue;
            }
            if blocks.take(line, &self.view())? || !blocks.enabled() {
                continue;
            }
            let Some(found) = statement::split(line) else {
                return Err(no_statement(line));
            };
            if found.op == Op::Colon && found.name.eq_ignore_ascii_case("use") {
                if depth >= MAX_DEPTH {
                    return Err(too_deep(line));
                }
                self.apply(found.between, found.value, origin, depth + 1)?;
            } else if found.op == Op::Colon
                && (found.name.eq_ignore_ascii_case("error")
                    || found.name.eq_ignore_ascii_case("warning"))
            {
                if found.name.eq_ignore_ascii_case("error") {
                    return Err(ConfigError::new(Code::Stated, self.expand(found.value)?));
                }
                self.stated(&found, found.name, origin)?;
            } else if let Op::Text = found.op {
                let (name, tag) = (found.name.to_owned(), found.value.to_owned());
                here = Some(Here {
                    name,
                    tag,
                    text: String::new(),
                    line: origin.line,
                });
            } else if statement::is_name(found.name) {
                self.assign(found.name, found.value, origin.clone())?;
            } else {
                return Err(bad_name(found.name));
            }
        }
        Ok(Step::Done)
    }

    /// Applies templates that `AUTO_USE_<category>_<name>` knobs ask for.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_automatic(&mut self) -> Result<(), ConfigError> {
        let mut names: Vec<String> = self
            .set
            .entries()
            .iter()
            .map(|entry| entry.name.to_string())
            .chain(knobs::all().iter().map(|knob| knob.name.to_owned()))
            .filter(|name| {
                name.len() > 9 && name.as_bytes()[..9].eq_ignore_ascii_case(b"AUTO_USE_")
            })
            .collect();
        names.sort_by_key(|name| name.to_ascii_lowercase());
        names.dedup_by_key(|name| name.to_ascii_lowercase());
        for name in names {
            let Some((category, template)) = name[9..].split_once('_') else {
                continue;
            };
            let Some(trigger) = self.value(&name)? else {
                continue;
            };
            if !crate::condition::test(&trigger, &self.view()).unwrap_or(false)
                || templates::find(category, template).is_none()
            {
                continue;
            }
            let source = self.set.add_source(&name);
            let origin = Origin {
                source,
                line: 0,
                template: None,
            };
            self.apply(category, template, &origin, 1)?;
        }
        Ok(())
    }
}

/// What a statement asks of the loop that reads lines.
pub(crate) enum Step {
    /// Nothing.
    Done,
    /// Collect lines up to the tag.
    Here(Here),
    /// Stop reading this file.
    Stop,
}

impl Here {
    fn push(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }
}

/// Old files hide `:if` blocks from old readers with a leading colon.
fn without_colon(line: &str, inside: bool) -> &str {
    let Some(rest) = line.strip_prefix(':') else {
        return line;
    };
    let is_if = rest.starts_with("if")
        && rest[2..]
            .chars()
            .next()
            .is_none_or(|c| c.is_ascii_whitespace());
    if inside || is_if { rest } else { line }
}

fn no_statement(line: &str) -> ConfigError {
    let shown: String = line.chars().take(60).collect();
    let hint = match trim_start(line).split_ascii_whitespace().next() {
        Some(word) if ["include", "use", "error", "warning"].iter().any(|k| word.eq_ignore_ascii_case(k)) => {
            format!("write `{} : ...`", word.to_ascii_lowercase())
        }
        _ => "a statement is NAME = value; a line that goes on needs a \\ at the end of the line before".to_owned(),
    };
    ConfigError::new(Code::Syntax, format!("`{shown}` is no statement")).hint(hint)
}

fn bad_name(name: &str) -> ConfigError {
    ConfigError::new(Code::BadName, format!("Illegal Identifier: <{name}>"))
        .hint("names have letters, digits, _ and . only")
}

fn too_deep(what: &str) -> ConfigError {
    ConfigError::new(
        Code::TooDeep,
        format!("{what}: nested too deep (more than {MAX_DEPTH})"),
    )
    .hint("look for a file that includes itself, or a template that uses itself")
}
