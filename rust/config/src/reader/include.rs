//! `include`: files, commands, and what commands printed before.

use super::{MAX_DEPTH, Reader, Warning, too_deep};
use crate::error::{Code, ConfigError, Place};
use crate::set::Origin;
use crate::statement::{self, Statement};

impl Reader<'_> {
    pub(super) fn include(
        &mut self,
        found: &Statement<'_>,
        origin: &Origin,
        depth: u32,
    ) -> Result<(), ConfigError> {
        let options = statement::include_options(found.between).map_err(|words| {
            ConfigError::new(
                Code::Syntax,
                format!("unexpected keyword(s) '{words}' after include"),
            )
            .hint("these may follow: ifexist, command, command into FILE")
        })?;
        let name = self.expand(found.value)?;
        if options.command && options.into.is_none() && matches!(name.trim(), "" | "\"\"") {
            // As in HTCondor, which runs nothing then.
            let place = self.set.place(origin);
            let message = "include command names no command, nothing is read".to_owned();
            self.warnings.push(Warning { place, message });
            return Ok(());
        }
        let (label, text) = match self.included(&name, &options) {
            Ok(read) => read,
            // One that is there, and is refused, is an error.
            Err(_) if options.if_exists && (options.command || !self.is_file(&name)) => {
                return Ok(());
            }
            Err(_) if !options.command && self.is_directory(&name) => {
                let place = self.set.place(origin);
                self.warn_of_directory(&name, place);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if depth + 1 >= MAX_DEPTH {
            return Err(too_deep(&label));
        }
        self.read_text(&label, &text, depth + 1)?;
        Ok(())
    }

    fn is_file(&self, name: &str) -> bool {
        self.world.readable(name) && !self.is_directory(name)
    }

    /// Whether a name is that of a directory.
    pub fn is_directory(&self, name: &str) -> bool {
        !name.is_empty() && self.world.list(name).is_ok()
    }

    /// Warns that nothing is read from a directory, as in HTCondor.
    pub fn warn_of_directory(&mut self, name: &str, place: Place) {
        let message = format!(
            "{name} is a directory, nothing is read (LOCAL_CONFIG_DIR reads the files of one)"
        );
        self.warnings.push(Warning { place, message });
    }

    fn included(
        &self,
        name: &str,
        options: &statement::IncludeOptions<'_>,
    ) -> Result<(String, String), ConfigError> {
        let Some(into) = options.into else {
            return self.open(name, options.command);
        };
        let cache = self.expand(into)?;
        if cache.trim().is_empty() || cache.ends_with('|') {
            return Err(ConfigError::new(
                Code::Syntax,
                format!("'{cache}' is not a file that include can write into"),
            ));
        }
        if let Ok(text) = self.world.read(&cache) {
            return Ok((cache, text));
        }
        let (label, text, status) = self.open_with_status(name, options.command)?;
        if status != 0 {
            return Err(ConfigError::new(
                Code::Command,
                format!("{label} exited with status {status}, so {cache} is not made"),
            ));
        }
        self.world.write(&cache, &text).map_err(|reason| {
            ConfigError::new(
                Code::Unreadable,
                format!("can't open {cache} for write: {reason}"),
            )
            .hint("make its directory, or run it once as a user who may write there")
        })?;
        Ok((label, text))
    }

    /// The text of a file, or of a command when `name` has a `|` at its end or `command` says so.
    ///
    /// # Errors
    /// [`Code::Unreadable`] and [`Code::Command`].
    pub fn open(&self, name: &str, command: bool) -> Result<(String, String), ConfigError> {
        let (label, text, _) = self.open_with_status(name, command)?;
        Ok((label, text))
    }

    fn open_with_status(
        &self,
        name: &str,
        command: bool,
    ) -> Result<(String, String, i32), ConfigError> {
        let piped = name.contains('|');
        if !piped && !command {
            if name.trim().is_empty() {
                return Err(ConfigError::new(Code::Unreadable, "include names no file")
                    .hint("write `include : FILE`; a macro in it may be undefined"));
            }
            let text = self.world.read(name).map_err(|reason| {
                let failed = ConfigError::new(
                    Code::Unreadable,
                    format!("can't open file {name}: {reason}"),
                );
                // Other reasons, such as a file that root does not trust, say what to do.
                if reason.starts_with("No such file") {
                    failed
                        .hint("make the file, or write `include ifexist :` when it may be missing")
                } else {
                    failed
                }
            })?;
            return Ok((name.to_owned(), text, 0));
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
        if line.trim().is_empty() {
            return Err(
                ConfigError::new(Code::Command, format!("`{name}` names no command"))
                    .hint("write the program before the |"),
            );
        }
        let (text, status) = self.world.run(line).map_err(|reason| {
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
            status,
        ))
    }
}
