//! `use CATEGORY : NAME(arguments)`: reads the statements of a template.

use super::{Here, MAX_DEPTH, Reader, bad_name, no_statement, too_deep};
use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::knobs;
use crate::set::Origin;
use crate::statement::{self, Op, Statement};
use crate::templates;

impl Reader<'_> {
    pub(super) fn use_templates(
        &mut self,
        found: &Statement<'_>,
        origin: &Origin,
        depth: u32,
    ) -> Result<(), ConfigError> {
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
    ) -> Result<(), ConfigError> {
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
            self.read_template(&text, &origin, depth)?;
        }
        Ok(())
    }

    fn read_template(
        &mut self,
        text: &str,
        origin: &Origin,
        depth: u32,
    ) -> Result<(), ConfigError> {
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
        Ok(())
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
