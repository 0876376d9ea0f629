//! `include`, `use`, `warning` and `error` statements of a description.

use super::{Done, Reading};
use crate::error::{Code, ConfigError};
use crate::reader::MAX_DEPTH;
use crate::set::Origin;
use crate::statement::{self, Statement};
use crate::templates;

impl Reading<'_> {
    pub(super) fn colon(
        &mut self,
        found: &Statement<'_>,
        keyword: &str,
        origin: &Origin,
        depth: u32,
    ) -> Done {
        match keyword.to_ascii_lowercase().as_str() {
            "include" => self.include(found, depth),
            "use" => self.use_template(found, origin, depth),
            "warning" => {
                let message = self.expand(found.value)?;
                self.warnings.borrow_mut().push(message);
                Ok(())
            }
            "error" => {
                let message = self.expand(found.value)?;
                Err(ConfigError::new(Code::Stated, message)
                    .hint("an `error :` statement of the description stops it here"))
            }
            _ => {
                let message = format!("`{} : {}` is not a statement", found.name, found.value);
                Err(ConfigError::new(Code::Syntax, message)
                    .hint("write = instead of :")
                    .about(found.name))
            }
        }
    }

    fn include(&mut self, found: &Statement<'_>, depth: u32) -> Done {
        let options = statement::include_options(found.between).map_err(|words| {
            ConfigError::new(
                Code::Syntax,
                format!("unexpected keyword(s) '{words}' after include"),
            )
            .hint("these may follow: ifexist, command")
        })?;
        let name = self.expand(found.value)?;
        let failed = |reason: String| {
            ConfigError::new(Code::Unreadable, format!("can't include {name}: {reason}"))
        };
        let command = options.command || name.ends_with('|');
        let read = if command {
            self.world
                .run(name.trim_end_matches(['|', ' ']))
                .map(|(text, _)| text)
        } else {
            self.world.read(&name)
        };
        match read {
            Err(_) if options.if_exists => Ok(()),
            Err(reason) => Err(failed(reason).hint("check the name, or write `include ifexist :`")),
            Ok(_) if depth + 1 >= MAX_DEPTH => Err(ConfigError::new(
                Code::TooDeep,
                format!("{name}: includes nested too deep"),
            )
            .hint("look for a file that includes itself")),
            Ok(text) => self.text(&name, &text, depth + 1),
        }
    }

    /// `use TEMPLATE : name(args)`: templates of the administrator, from SUBMIT_TEMPLATE_<name>.
    fn use_template(&mut self, found: &Statement<'_>, origin: &Origin, depth: u32) -> Done {
        let unknown = |name: &str| {
            ConfigError::new(
                Code::UnknownTemplate,
                format!("use {}: does not recognise {name}", found.between),
            )
            .hint("templates are knobs of the configuration: SUBMIT_TEMPLATE_<name>")
        };
        let wanted = templates::wanted(found.value).map_err(unknown)?;
        for want in wanted {
            let strict = found.between.eq_ignore_ascii_case("STRICT");
            let text = match strict {
                true => strict_template(want.name).map(str::to_owned),
                false => self.knobs.text(&format!("SUBMIT_TEMPLATE_{}", want.name)),
            };
            let text = text.ok_or_else(|| unknown(want.name))?;
            if depth + 1 >= MAX_DEPTH {
                return Err(ConfigError::new(
                    Code::TooDeep,
                    format!("{}: templates nested too deep", want.name),
                ));
            }
            let text = templates::with_arguments(&text, want.arguments) + "\n";
            let label = format!("{} (line {})", want.name, origin.line);
            self.text(&label, &text, depth + 1)?;
        }
        Ok(())
    }
}

fn strict_template(name: &str) -> Option<&'static str> {
    let harsh = "SubmitWarnEmptyMatches=true\nSubmitFailEmptyMatches=true\nSubmitWarnDuplicateMatches=true\n\
                 SubmitFailEmptyFields=true\nSubmitWarnEmptyFields=true";
    match name.to_ascii_uppercase().as_str() {
        "FALSE" => Some(
            "SubmitWarnEmptyMatches=false\nSubmitFailEmptyMatches=false\nSubmitWarnDuplicateMatches=false\n\
             SubmitFailEmptyFields=false\nSubmitWarnEmptyFields=false",
        ),
        "TRUE" => Some(
            "SubmitWarnEmptyMatches=true\nSubmitFailEmptyMatches=true\nSubmitWarnDuplicateMatches=true\n\
             SubmitFailEmptyFields=false\nSubmitWarnEmptyFields=true",
        ),
        "HARSH" => Some(harsh),
        _ => None,
    }
}
