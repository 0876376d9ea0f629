//! The table of knobs: what the reference knows and what Slotwise reads, from `data/`.
//!
//! `reference.tsv` has every knob of the reference with type, range and raw default. `slotwise.tsv` says of those
//! that Slotwise reads: unit, daemons, whether a reconfig is enough, and what it does; and adds Slotwise's own.

use std::sync::OnceLock;

use classad::spelling::distance;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::set::folded;

/// What values a knob takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any text.
    Text,
    /// A file or directory.
    Path,
    /// A 32-bit integer, or an expression that gives one.
    Int,
    /// A 64-bit integer, or an expression that gives one.
    Long,
    /// A truth value, or an expression that gives one.
    Bool,
    /// A real number, or an expression that gives one.
    Real,
    /// A ClassAd expression, evaluated later with ads at hand.
    Expr,
    /// Words separated by commas or blanks.
    List,
}

impl Type {
    /// The name in the data files and in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Path => "path",
            Self::Int => "int",
            Self::Long => "long",
            Self::Bool => "bool",
            Self::Real => "double",
            Self::Expr => "expression",
            Self::List => "list",
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "path" => Self::Path,
            "int" => Self::Int,
            "long" => Self::Long,
            "bool" => Self::Bool,
            "double" => Self::Real,
            "expression" => Self::Expr,
            "list" => Self::List,
            _ => Self::Text,
        }
    }
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Applies {
    /// With `slotwise reconfig`.
    Reconfig,
    /// When the daemon starts again.
    Restart,
    /// With the next job.
    NextJob,
    /// Each time a command runs.
    Command,
}

impl Applies {
    /// The word in the data files and in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reconfig => "reconfig",
            Self::Restart => "restart",
            Self::NextJob => "next job",
            Self::Command => "command",
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "restart" => Self::Restart,
            "job" => Self::NextJob,
            "command" => Self::Command,
            _ => Self::Reconfig,
        }
    }
}

/// What Slotwise does with a knob.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Unit of the value, or empty.
    pub unit: &'static str,
    /// Daemons that read it, comma separated; `tools` for commands.
    pub daemons: &'static str,
    /// When a change takes effect.
    pub applies: Applies,
    /// What it does, in one line.
    pub description: &'static str,
}

/// One knob.
#[derive(Clone, Debug)]
pub struct Knob {
    /// Its name; `*` in names of families stands for a name the administrator gives.
    pub name: &'static str,
    /// Type of values.
    pub kind: Type,
    /// Lowest value, for integers with a range.
    pub lowest: Option<f64>,
    /// Highest value.
    pub highest: Option<f64>,
    /// Default before expansion; `None` when the knob has none.
    pub default: Option<Box<str>>,
    /// Default that the reference's table does not have but its code does: the knob reads as undefined, and typed
    /// reading falls back to this.
    pub implied: Option<&'static str>,
    /// Type in the reference's table, if it is there: what the reference's own typed reading follows.
    pub reference_kind: Option<Type>,
    /// Filled in for knobs that Slotwise reads.
    pub used: Option<Usage>,
    /// Whether the reference knows it.
    pub in_reference: bool,
}

struct Table {
    knobs: Vec<Knob>,
    index: FxHashMap<String, usize>,
    prefixes: FxHashSet<&'static str>,
    families: Vec<usize>,
}

const REFERENCE: &str = include_str!("../data/reference.tsv");
const SLOTWISE: &str = include_str!("../data/slotwise.tsv");

fn unescaped(text: &str) -> Box<str> {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        match (escaped, c) {
            (false, '\\') => {
                escaped = true;
                continue;
            }
            (false, c) => out.push(c),
            (true, 't') => out.push('\t'),
            (true, 'n') => out.push('\n'),
            (true, 'r') => out.push('\r'),
            (true, c) => out.push(c),
        }
        escaped = false;
    }
    out.into()
}

fn default_of_column(column: &str) -> Option<Box<str>> {
    column.strip_prefix('=').map(unescaped)
}

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table {
            knobs: Vec::new(),
            index: FxHashMap::default(),
            prefixes: FxHashSet::default(),
            families: Vec::new(),
        };
        for row in rows(REFERENCE) {
            let [name, kind, lowest, highest, default] = row[..] else {
                continue;
            };
            table.add(Knob {
                name,
                kind: Type::from_name(kind),
                lowest: lowest.parse().ok(),
                highest: highest.parse().ok(),
                default: default_of_column(default),
                implied: None,
                reference_kind: Some(Type::from_name(kind)),
                used: None,
                in_reference: true,
            });
        }
        for row in rows(SLOTWISE) {
            let [name, kind, default, unit, daemons, applies, description] = row[..] else {
                continue;
            };
            table.describe(
                name,
                kind,
                default,
                Usage {
                    unit,
                    daemons,
                    applies: Applies::from_name(applies),
                    description,
                },
            );
        }
        table
    })
}

impl Table {
    fn add(&mut self, knob: Knob) -> usize {
        let at = self.knobs.len();
        if let Some((prefix, _)) = knob.name.split_once('.') {
            self.prefixes.insert(prefix);
        }
        if knob.name.contains('*') {
            self.families.push(at);
        }
        self.index.insert(knob.name.to_ascii_lowercase(), at);
        self.knobs.push(knob);
        at
    }

    fn describe(&mut self, name: &'static str, kind: &str, default: &'static str, usage: Usage) {
        let at = match self.index.get(&name.to_ascii_lowercase()) {
            Some(&at) => at,
            None => self.add(Knob {
                name,
                kind: Type::from_name(kind),
                lowest: None,
                highest: None,
                default: default_of_column(default),
                implied: None,
                reference_kind: None,
                used: None,
                in_reference: !name.starts_with("SLOTWISE_"),
            }),
        };
        let knob = &mut self.knobs[at];
        if !kind.is_empty() {
            knob.kind = Type::from_name(kind);
        }
        if knob.name.starts_with("SLOTWISE_") || knob.default.is_none() {
            knob.default = default_of_column(default).or(knob.default.take());
        }
        knob.implied = default.strip_prefix('~');
        // Named here for its meaning only; no daemon reads it yet.
        if usage.daemons != "-" {
            knob.used = Some(usage);
        }
    }
}

/// All knobs: the reference's by name, then Slotwise's own.
#[must_use]
pub fn all() -> &'static [Knob] {
    &table().knobs
}

/// The knob of a name, with or without a prefix such as `STARTD.`; families such as `SLOT_TYPE_*` included.
#[must_use]
pub fn find(name: &str) -> Option<&'static Knob> {
    exact(name)
        .or_else(|| name.split_once('.').and_then(|(_, rest)| exact(rest)))
        .or_else(|| family(name))
}

/// The knob of exactly this name.
#[must_use]
pub fn exact(name: &str) -> Option<&'static Knob> {
    let table = table();
    table.index.get(&*folded(name)).map(|&at| &table.knobs[at])
}

fn family(name: &str) -> Option<&'static Knob> {
    let table = table();
    let name = name
        .rsplit_once('.')
        .map_or(name, |(_, rest)| rest)
        .to_ascii_lowercase();
    table
        .families
        .iter()
        .map(|&at| &table.knobs[at])
        .find(|knob| {
            let pattern = knob.name.to_ascii_lowercase();
            let pieces: Vec<&str> = pattern.split('*').collect();
            let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
            if name.len() <= first.len() + last.len()
                || !name.starts_with(first)
                || !name.ends_with(last)
            {
                return false;
            }
            let mut middle = &name[first.len()..name.len() - last.len()];
            pieces[1..pieces.len() - 1]
                .iter()
                .all(|piece| match middle.find(piece) {
                    Some(at) if at > 0 => {
                        middle = &middle[at + piece.len()..];
                        true
                    }
                    _ => false,
                })
        })
}

/// The knob whose type counts for a name, with or without a prefix.
#[must_use]
pub fn typed(name: &str) -> Option<&'static Knob> {
    exact(name).or_else(|| name.split_once('.').and_then(|(_, rest)| exact(rest)))
}

/// The default of an already lower-case name; `prefix.name` finds defaults of one subsystem.
pub(crate) fn default_of_folded(name: &str) -> Option<&'static str> {
    let table = table();
    table
        .index
        .get(name)
        .and_then(|&at| table.knobs[at].default.as_deref())
}

/// The default that one subsystem has of its own.
pub(crate) fn default_of_prefixed(prefix: &str, name: &str) -> Option<&'static str> {
    if !table()
        .prefixes
        .iter()
        .any(|known| known.eq_ignore_ascii_case(prefix))
    {
        return None;
    }
    default_of_folded(&folded(&format!("{prefix}.{name}")))
}

/// Known names that are close to a name, nearest first.
#[must_use]
pub fn similar(name: &str) -> Vec<&'static str> {
    let wanted = name.to_ascii_uppercase();
    let most = (wanted.len() / 5).clamp(1, 3);
    let mut near: Vec<(usize, bool, &str)> = all()
        .iter()
        .filter(|knob| knob.name.len().abs_diff(wanted.len()) <= most && !knob.name.contains('*'))
        .filter_map(|knob| {
            let distance = distance(
                wanted.as_bytes(),
                knob.name.to_ascii_uppercase().as_bytes(),
                most,
            )?;
            Some((distance, knob.used.is_none(), knob.name))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, _, name)| name).take(3).collect()
}
