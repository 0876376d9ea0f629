//! The table of submit commands: which exist, which attribute each sets, and how its value is read.

use std::sync::OnceLock;

use classad::spelling::distance;
use rustc_hash::FxHashMap;

use crate::submit::job_set;

/// How a command's value becomes an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text as it is.
    Text,
    /// An expression, kept.
    Expr,
    /// A truth value, evaluated.
    Bool,
    /// An integer, evaluated.
    Int,
    /// An integer that is not negative.
    Count,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Job attribute, which is a second name of the command; empty for none.
    pub attribute: &'static str,
    /// How the value is read.
    pub kind: Kind,
    /// Put into the job ad without rules of its own.
    pub simple: bool,
    /// Another name of the command before it, which wins when both are given.
    pub alias: bool,
    /// Quotes around the value are taken off.
    pub unquote: bool,
    /// A file: relative names start at the job's directory.
    pub file: bool,
    /// A list, stored with commas.
    pub list: bool,
}

const DATA: &str = include_str!("../../data/submit.tsv");

/// All commands in the order in which simple ones are applied.
#[must_use]
pub fn all() -> &'static [Command] {
    static ALL: OnceLock<Vec<Command>> = OnceLock::new();
    ALL.get_or_init(|| {
        DATA.lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .filter_map(|line| {
                let [name, attribute, kind, flags] = line.split('\t').collect::<Vec<_>>()[..]
                else {
                    return None;
                };
                let has = |flag: &str| flags.split(' ').any(|f| f == flag);
                Some(Command {
                    name,
                    attribute: if attribute == "-" { "" } else { attribute },
                    kind: match kind {
                        "string" => Kind::Text,
                        "bool" => Kind::Bool,
                        "int" => Kind::Int,
                        "uint" => Kind::Count,
                        _ => Kind::Expr,
                    },
                    simple: has("simple"),
                    alias: has("alias"),
                    unquote: has("quotes"),
                    file: has("file"),
                    list: has("list"),
                })
            })
            .collect()
    })
}

fn names() -> &'static FxHashMap<String, usize> {
    static NAMES: OnceLock<FxHashMap<String, usize>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = FxHashMap::default();
        for (at, command) in all().iter().enumerate() {
            names.entry(command.name.to_ascii_lowercase()).or_insert(at);
            if !command.attribute.is_empty() {
                names
                    .entry(command.attribute.to_ascii_lowercase())
                    .or_insert(at);
            }
        }
        names
    })
}

/// Whether a name is a command or the attribute of one.
#[must_use]
pub fn is_known(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    names().contains_key(&lower)
        || lower.starts_with("request_")
        || job_set::is_about_set(&lower)
        || lower.ends_with("_container_port")
}

/// The command whose name is nearest to a misspelt one.
#[must_use]
pub fn similar(name: &str) -> Option<&'static str> {
    let wanted = name.to_ascii_lowercase();
    if wanted.len() < 4 {
        return None;
    }
    let most = (wanted.len() / 5).clamp(1, 3);
    all()
        .iter()
        .filter(|command| command.name.len().abs_diff(wanted.len()) <= most)
        .filter_map(|command| {
            let found = distance(
                wanted.as_bytes(),
                command.name.to_ascii_lowercase().as_bytes(),
                most,
            )?;
            Some((found, command.name))
        })
        .min()
        .map(|(_, name)| name)
}
