//! Reads configuration text statement by statement into a [`MacroSet`]: assignments, blocks, includes, templates.

mod include;
mod template;

use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::lines::{CommentRule, Lines, trim_start};
use crate::set::{MacroSet, Origin, View};
use crate::source::Source;
use crate::statement::{self, Op, Statement};

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
        let raw = self.as_default(name, raw);
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
        let raw = self.as_default(name, raw);
        self.set.insert(name, raw, origin);
        Ok(())
    }

    /// A truth value that is a knob's default but for case reads as the default is spelled, when it is set first.
    fn as_default<'r>(&self, name: &str, raw: &'r str) -> &'r str {
        if !(raw.eq_ignore_ascii_case("true") || raw.eq_ignore_ascii_case("false"))
            || self.set.get(name).is_some()
        {
            return raw;
        }
        let rest = name.split_once('.').map(|(_, rest)| rest);
        let knob = crate::knobs::exact(name).or_else(|| rest.and_then(crate::knobs::exact));
        let default = knob.and_then(|knob| knob.default.as_deref());
        default
            .filter(|text| text.eq_ignore_ascii_case(raw))
            .unwrap_or(raw)
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
    pub fn read_text(&mut self, file: &str, text: &str, depth: u32) -> Result<(), ConfigError> {
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
            here = self
                .statement(line, &origin, depth, strict_colon)
                .map_err(place)?;
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
        Ok(())
    }

    fn statement(
        &mut self,
        line: &str,
        origin: &Origin,
        depth: u32,
        strict: bool,
    ) -> Result<Option<Here>, ConfigError> {
        let Some(found) = statement::split(line) else {
            if line.starts_with('[')
                && !line.contains(|c: char| c.is_ascii_whitespace() || c == '=' || c == ':')
            {
                return Ok(None);
            }
            return Err(no_statement(line));
        };
        let keyword = found.name.strip_prefix('@').unwrap_or(found.name);
        if found.op == Op::Colon {
            if keyword.eq_ignore_ascii_case("use") {
                return self.use_templates(&found, origin, depth).map(|()| None);
            }
            if keyword.eq_ignore_ascii_case("include") {
                return self.include(&found, origin, depth).map(|()| None);
            }
            if keyword.eq_ignore_ascii_case("error") || keyword.eq_ignore_ascii_case("warning") {
                return self.stated(&found, keyword, origin).map(|()| None);
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
                return Ok(Some(Here {
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
        Ok(None)
    }

    fn stated(
        &mut self,
        found: &Statement<'_>,
        keyword: &str,
        origin: &Origin,
    ) -> Result<(), ConfigError> {
        let message = self.expand(found.value)?;
        if keyword.eq_ignore_ascii_case("warning") {
            let place = self.set.place(origin);
            self.warnings.push(Warning { place, message });
            return Ok(());
        }
        Err(ConfigError::new(Code::Stated, message)
            .hint("an `error :` statement of the configuration stops it here"))
    }
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
    ConfigError::new(Code::Syntax, format!("`{shown}` is not a statement")).hint(hint)
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
