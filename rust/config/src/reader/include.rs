//! `include`: files, commands, and what commands printed before.

use super::{MAX_DEPTH, Reader, too_deep};
use crate::error::{Code, ConfigError};
use crate::statement::{self, Statement};

impl Reader<'_> {
    pub(super) fn include(&mut self, found: &Statement<'_>, depth: u32) -> Result<(), ConfigError> {
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
            Err(_) if options.if_exists => return Ok(()),
            Err(error) => return Err(error),
        };
        if depth + 1 >= MAX_DEPTH {
            return Err(too_deep(&label));
        }
        self.read_text(&label, &text, depth + 1)?;
        Ok(())
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
}
