//! The table of knobs: what HTCondor knows and what Slotwise reads, from `data/`.
//!
//! `reference.tsv` has every knob of HTCondor with type, range and raw default. `slotwise.tsv` says of those
//! that Slotwise reads: unit, daemons, whether a reconfig is enough, and what it does; and adds Slotwise's own.

use std::borrow::Cow;
use std::sync::OnceLock;

use classad::spelling::distance;
use rustc_hash::{FxHashMap, FxHashSet};

/// A name as names are compared: in small letters.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|c| c.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

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
    /// Its name; `<...>` in names of families stands for a part that the administrator chooses.
    pub name: &'static str,
    /// Type of values.
    pub kind: Type,
    /// Lowest value, for integers with a range.
    pub lowest: Option<f64>,
    /// Highest value.
    pub highest: Option<f64>,
    /// Default before expansion; `None` when the knob has none.
    pub default: Option<Box<str>>,
    /// Default that HTCondor's table does not have but its code does: the knob reads as undefined, and typed
    /// reading falls back to this.
    pub implied: Option<&'static str>,
    /// Type in HTCondor's table, if it is there: what HTCondor's own typed reading follows.
    pub reference_kind: Option<Type>,
    /// Filled in for knobs that Slotwise reads.
    pub used: Option<Usage>,
    /// Whether HTCondor knows it.
    pub in_reference: bool,
    /// The family that a knob with a row of its own is a member of: `<DAEMON>_LOG` for `SCHEDD_LOG`.
    pub family: Option<&'static str>,
    /// Whether a slot or a slot type may have a value of its own: `SLOT<N>_X`, `SLOT_TYPE_<N>_X`.
    pub per_slot: bool,
    /// Whether jobs of one universe may have a value of their own: `X_VANILLA`.
    pub per_universe: bool,
}

struct Table {
    knobs: Vec<Knob>,
    index: FxHashMap<String, usize>,
    prefixes: FxHashSet<&'static str>,
    families: Vec<(usize, Vec<Piece>)>,
}

const REFERENCE: &str = include_str!("../data/reference.tsv");
const SLOTWISE: &str = include_str!("../data/slotwise.tsv");
const FORMS: &str = include_str!("../data/forms.tsv");

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
                panic!("a row of reference.tsv has five columns: {row:?}");
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
                family: None,
                per_slot: false,
                per_universe: false,
            });
        }
        let mut described = FxHashSet::default();
        for row in rows(SLOTWISE) {
            let [name, kind, default, unit, daemons, applies, description] = row[..] else {
                panic!("a row of slotwise.tsv has seven columns: {row:?}");
            };
            described.insert(table.describe(
                name,
                kind,
                default,
                Usage {
                    unit,
                    daemons,
                    applies: Applies::from_name(applies),
                    description,
                },
            ));
        }
        for row in rows(FORMS) {
            let [name, forms] = row[..] else {
                panic!("a row of forms.tsv has a name and forms: {row:?}");
            };
            let Some(&at) = table.index.get(&name.to_ascii_lowercase()) else {
                panic!("forms.tsv names {name}, which is not a knob");
            };
            let has = |form| forms.split(' ').any(|word| word == form);
            table.knobs[at].per_slot = has("slot");
            table.knobs[at].per_universe = has("universe");
        }
        table.inherit(&described);
        table
    })
}

impl Table {
    /// Members of families that HTCondor has rows of, such as `SCHEDD_LOG`, are used as their families are.
    fn inherit(&mut self, described: &FxHashSet<&'static str>) {
        for at in 0..self.knobs.len() {
            let knob = &self.knobs[at];
            if described.contains(knob.name) || knob.name.contains('<') {
                continue;
            }
            let Some(family) = family_in(&self.families, &knob.name.to_ascii_lowercase()) else {
                continue;
            };
            let family = self.knobs[family].clone();
            if family.name.starts_with("<LIMIT>") {
                continue; // a limit is any name that ends so and has a number
            }
            let knob = &mut self.knobs[at];
            knob.family = Some(family.name);
            knob.kind = family.kind;
            knob.used = family.used;
            knob.implied = knob.implied.or(family.implied);
            knob.per_slot = family.per_slot;
            knob.per_universe = family.per_universe;
        }
    }

    fn add(&mut self, knob: Knob) -> usize {
        let at = self.knobs.len();
        if let Some((prefix, _)) = knob.name.split_once('.') {
            self.prefixes.insert(prefix);
        }
        if knob.name.contains('<') {
            self.families.push((at, pieces(knob.name)));
        }
        self.index.insert(knob.name.to_ascii_lowercase(), at);
        self.knobs.push(knob);
        at
    }

    fn describe(
        &mut self,
        name: &'static str,
        kind: &str,
        default: &'static str,
        usage: Usage,
    ) -> &'static str {
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
                family: None,
                per_slot: false,
                per_universe: false,
            }),
        };
        let knob = &mut self.knobs[at];
        if !kind.is_empty() {
            knob.kind = Type::from_name(kind);
        }
        if let Some(own) = default.strip_prefix('!') {
            knob.default = Some(unescaped(own));
        }
        if knob.name.starts_with("SLOTWISE_") || knob.default.is_none() {
            knob.default = default_of_column(default).or(knob.default.take());
        }
        knob.implied = default.strip_prefix('~');
        // Named here for its meaning only; no daemon reads it yet.
        if usage.daemons != "-" {
            knob.used = Some(usage);
        }
        knob.name
    }
}

/// All knobs: HTCondor's by name, then Slotwise's own.
#[must_use]
pub fn all() -> &'static [Knob] {
    &table().knobs
}

/// The knob of a name, with or without a prefix such as `STARTD.`; members of families (`SLOT_TYPE_1`) and forms of
/// knobs (`SLOT1_START`, `PREEMPT_VANILLA`) included.
#[must_use]
pub fn find(name: &str) -> Option<&'static Knob> {
    let any = |name: &str| family(name).or_else(|| form(name));
    typed(name).or_else(|| {
        let name = folded(name);
        let bare = name.split_once('.').and_then(|(_, rest)| any(rest));
        any(&name).or(bare).map(|at| &table().knobs[at])
    })
}

/// The knob of exactly this name.
#[must_use]
pub fn exact(name: &str) -> Option<&'static Knob> {
    let table = table();
    table.index.get(&*folded(name)).map(|&at| &table.knobs[at])
}

/// A part of the name of a family of knobs.
enum Piece {
    /// Text, in lower case.
    Text(String),
    /// A number: `<N>`.
    Number,
    /// A daemon's name, or `tool`: `<DAEMON>`.
    Daemon,
    /// A category of log messages, without its `D_`: `<CATEGORY>`.
    Category,
    /// Anything else: `<JOB>`, `<GROUP>`, ...
    Any,
}

/// What `<DAEMON>` stands for, in lower case.
const DAEMONS: [&str; 14] = [
    "master",
    "collector",
    "negotiator",
    "schedd",
    "startd",
    "starter",
    "defrag",
    "rooster",
    "librarian",
    "shared_port",
    "web",
    "front",
    "tool",
    "submit",
];

/// What `<CATEGORY>` stands for, in lower case.
const CATEGORIES: [&str; 6] = [
    "fulldebug",
    "command",
    "security",
    "match",
    "protocol",
    "audit",
];

/// Universes that a policy may have an expression for, in lower case.
const UNIVERSES: [&str; 7] = [
    "vanilla",
    "scheduler",
    "grid",
    "java",
    "parallel",
    "local",
    "vm",
];

fn pieces(name: &str) -> Vec<Piece> {
    let mut rest = name;
    let mut found = Vec::new();
    while let Some((text, after)) = rest.split_once('<') {
        let (hole, after) = after.split_once('>').unwrap_or((after, ""));
        found.push(Piece::Text(text.to_ascii_lowercase()));
        found.push(match hole {
            "N" => Piece::Number,
            "DAEMON" => Piece::Daemon,
            "CATEGORY" => Piece::Category,
            _ => Piece::Any,
        });
        rest = after;
    }
    found.push(Piece::Text(rest.to_ascii_lowercase()));
    found
}

/// Whether a lower-case name is made of these pieces; no part that is chosen may be empty.
fn is_made_of(name: &str, pieces: &[Piece]) -> bool {
    let Some((first, rest)) = pieces.split_first() else {
        return name.is_empty();
    };
    let may_be = |part: &str| match first {
        Piece::Text(_) => false,
        Piece::Number => part.bytes().all(|c| c.is_ascii_digit()),
        Piece::Daemon => DAEMONS.contains(&part),
        Piece::Category => CATEGORIES.contains(&part),
        Piece::Any => true,
    };
    match first {
        Piece::Text(text) => name
            .strip_prefix(text.as_str())
            .is_some_and(|name| is_made_of(name, rest)),
        _ => (1..=name.len())
            .filter(|&at| name.is_char_boundary(at))
            .any(|at| may_be(&name[..at]) && is_made_of(&name[at..], rest)),
    }
}

/// The family of a lower-case name; of several the one with most of its name fixed.
fn family(name: &str) -> Option<usize> {
    family_in(&table().families, name)
}

fn family_in(families: &[(usize, Vec<Piece>)], name: &str) -> Option<usize> {
    families
        .iter()
        .filter(|(_, pieces)| is_made_of(name, pieces))
        .max_by_key(|(_, pieces)| {
            let fixed = |piece: &Piece| match piece {
                Piece::Text(text) => 2 * text.len(),
                Piece::Number | Piece::Daemon | Piece::Category => 1,
                Piece::Any => 0,
            };
            pieces.iter().map(fixed).sum::<usize>()
        })
        .map(|&(at, _)| at)
}

/// The knob that a lower-case name is a form of: `slot1_start`, `slot_type_1_preempt_vanilla`.
fn form(name: &str) -> Option<usize> {
    let knob = |name: &str| {
        let index = &table().index;
        index.get(name).copied().or_else(|| family(name))
    };
    let of_slot = |name: &str| {
        let rest = name
            .strip_prefix("slot_type_")
            .or(name.strip_prefix("slot"));
        let (number, rest) = rest?.split_once('_')?;
        let digits = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
        digits.then(|| rest.to_owned())
    };
    let of_universe = |name: &str| {
        let (rest, universe) = name.rsplit_once('_')?;
        UNIVERSES.contains(&universe).then(|| rest.to_owned())
    };
    let knobs = &table().knobs;
    let bare = of_slot(name);
    if let Some(at) = bare.as_deref().and_then(knob) {
        return Some(at).filter(|&at| knobs[at].per_slot);
    }
    let at = knob(&of_universe(bare.as_deref().unwrap_or(name))?)?;
    (knobs[at].per_universe && (bare.is_none() || knobs[at].per_slot)).then_some(at)
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
        .filter(|knob| knob.name.len().abs_diff(wanted.len()) <= most && !knob.name.contains('<'))
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
