//! Finds the items of a queue statement: on the line, below it, in a file, from a command, or by file names.

use rustc_hash::FxHashSet;

use crate::error::{Code, ConfigError};
use crate::expr;
use crate::lines::{Lines, trim};
use crate::submit::Facts;
use crate::submit::glob;
use crate::submit::queue::{self, Mode, Place, Queue};

/// What a description says about patterns of file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matching {
    /// Warn about a pattern without match.
    pub warn_empty: bool,
    /// Refuse a pattern without match.
    pub fail_empty: bool,
    /// Warn about a name that matches twice.
    pub warn_duplicates: bool,
    /// Keep a name that matches twice.
    pub allow_duplicates: bool,
    /// What `matching` alone means.
    pub mode: Mode,
}

impl Matching {
    /// From the values of the submit_* commands.
    ///
    /// # Errors
    /// When `submit_match_directories` is none of never, only, yes.
    pub fn from_commands(
        command: &dyn Fn(&str, &str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let truth = |name: &str, other: &str, otherwise: bool| {
            command(name, other)
                .and_then(|text| expr::boolean(&text, "x"))
                .unwrap_or(otherwise)
        };
        let mode = match command("SubmitMatchDirectories", "submit_match_directories")
            .map(|t| t.to_ascii_lowercase())
        {
            None => Mode::MatchingAny,
            Some(word) => match word.as_str() {
                "never" | "no" | "false" => Mode::MatchingFiles,
                "only" => Mode::MatchingDirectories,
                "yes" | "true" => Mode::MatchingAny,
                _ => {
                    let message =
                        format!("{word} is not a valid value for submit_match_directories");
                    let error =
                        ConfigError::new(Code::BadValue, message).hint("use never, only or yes");
                    return Err(error.about("submit_match_directories"));
                }
            },
        };
        Ok(Self {
            warn_empty: truth("SubmitWarnEmptyMatches", "submit_warn_empty_matches", true),
            fail_empty: truth("SubmitFailEmptyMatches", "submit_fail_empty_matches", false),
            warn_duplicates: truth(
                "SubmitWarnDuplicateMatches",
                "submit_warn_duplicate_matches",
                true,
            ),
            allow_duplicates: truth(
                "SubmitAllowDuplicateMatches",
                "submit_allow_duplicate_matches",
                false,
            ),
            mode,
        })
    }
}

/// Takes the lines below a queue statement up to one that starts with `)`.
///
/// # Errors
/// When there is no such line.
pub fn below(queue: &mut Queue, lines: &mut Lines<'_>) -> Result<(), ConfigError> {
    let start = lines.line();
    for line in lines.by_ref() {
        let line = trim(&line);
        if line.starts_with('#') {
            continue;
        }
        if line.starts_with(')') {
            return Ok(());
        }
        add(queue, line);
    }
    let message = format!(
        "Reached end of file without finding closing brace ')' for Queue command on line {start}"
    );
    Err(ConfigError::new(Code::BadQueue, message)
        .about("queue")
        .hint("put a ) on a line by itself behind the items"))
}

fn add(queue: &mut Queue, line: &str) {
    if queue.mode == Mode::From {
        if line.is_empty() {
            queue.blank_lines += 1;
        } else {
            queue.items.push(line.to_owned());
        }
    } else {
        queue.items.extend(queue::words(line));
    }
}

/// Reads items from a file, a command or standard input.
///
/// # Errors
/// When these cannot be read.
pub fn external(
    queue: &mut Queue,
    facts: &Facts,
    world: &dyn crate::Source,
) -> Result<(), ConfigError> {
    let Place::File(name) = queue.place.clone() else {
        return Ok(());
    };
    let failed = |reason: String| {
        let error = ConfigError::new(
            Code::Unreadable,
            format!("cannot read items from {name}: {reason}"),
        );
        error
            .about("queue")
            .hint("check the file or command behind `from`")
    };
    let text = if name == "-" {
        facts
            .stdin
            .clone()
            .ok_or_else(|| failed("there is no standard input here".into()))?
    } else if let Some(command) = name.strip_suffix('|') {
        let (text, status) = world.run(trim(command)).map_err(failed)?;
        if status != 0 {
            return Err(failed(format!(
                "the command ended with exit status {status}"
            )));
        }
        text
    } else {
        world.read(&name).map_err(failed)?
    };
    for line in Lines::new(&text) {
        add(queue, trim(&line));
    }
    Ok(())
}

/// Replaces patterns by the names that match them, in the order of the patterns.
///
/// # Errors
/// With `submit_fail_empty_matches`, when a pattern has no match.
pub fn matching(
    queue: &mut Queue,
    rules: &Matching,
    world: &dyn crate::Source,
    warn: &mut dyn FnMut(String),
) -> Result<(), ConfigError> {
    let mode = if queue.mode == Mode::Matching {
        rules.mode
    } else {
        queue.mode
    };
    let mut seen: FxHashSet<String> = FxHashSet::default();
    let mut found = Vec::new();
    for pattern in std::mem::take(&mut queue.items) {
        let names: Vec<String> = glob::matches(world, &pattern)
            .into_iter()
            .filter(|name| match mode {
                Mode::MatchingFiles => !name.ends_with('/'),
                Mode::MatchingDirectories => name.ends_with('/'),
                _ => true,
            })
            .collect();
        if names.is_empty() {
            if rules.fail_empty {
                let error = ConfigError::new(
                    Code::BadQueue,
                    format!("no matches for pattern(s): '{pattern}'"),
                );
                return Err(error
                    .about("queue")
                    .hint("correct the pattern, or drop submit_fail_empty_matches"));
            }
            if rules.warn_empty {
                warn(format!("'{pattern}' does not match any files"));
            }
        }
        for name in names {
            if !seen.insert(name.clone()) && !rules.allow_duplicates {
                if rules.warn_duplicates {
                    warn(format!(
                        "'{name}' matching pattern '{pattern}' is a duplicate, skipping"
                    ));
                }
                continue;
            }
            found.push(name);
        }
    }
    queue.items = found;
    Ok(())
}
