//! The settings read so far: raw values by name, with where each one came from; and lookups for one reader.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Place;
use crate::knobs::{self, folded};
use crate::scope::Scope;
use crate::source::Source;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Origin {
    /// Index of the source in [`MacroSet::sources`].
    pub source: u32,
    /// 1-based line, 0 for sources without lines.
    pub line: u32,
    /// The template that made it, as `CATEGORY:NAME`.
    pub template: Option<Box<str>>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name as first written.
    pub name: Box<str>,
    /// The value before expansion.
    pub raw: Box<str>,
    /// Where the present value comes from.
    pub origin: Origin,
}

/// A value that another one has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The name as first written.
    pub name: Box<str>,
    /// The value before expansion.
    pub raw: Box<str>,
    /// Where it came from.
    pub origin: Origin,
}

/// Values the daemon finds out itself.
pub const DETECTED: u32 = 0;
/// Values from the environment.
pub const ENVIRONMENT: u32 = 1;
/// Values set at run time.
pub const RUNTIME: u32 = 2;

/// All settings; names ignore case.
#[derive(Clone, Debug)]
pub struct MacroSet {
    index: FxHashMap<Box<str>, u32>,
    entries: Vec<Entry>,
    replaced: Vec<Replaced>,
    prefixes: FxHashSet<Box<str>>,
    overlay: FxHashMap<Box<str>, Box<str>>,
    sources: Vec<String>,
}

impl Default for MacroSet {
    fn default() -> Self {
        Self {
            index: FxHashMap::default(),
            entries: Vec::new(),
            replaced: Vec::new(),
            prefixes: FxHashSet::default(),
            overlay: FxHashMap::default(),
            sources: vec![
                "<Detected>".into(),
                "<Environment>".into(),
                "<Runtime>".into(),
            ],
        }
    }
}

impl MacroSet {
    /// Adds a source and returns its index.
    pub fn add_source(&mut self, name: &str) -> u32 {
        self.sources.push(name.to_owned());
        (self.sources.len() - 1) as u32
    }

    /// Names of all sources: files, commands, `<Environment>` and the like.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// The place of an origin, for messages.
    #[must_use]
    pub fn place(&self, origin: &Origin) -> Place {
        let file = self
            .sources
            .get(origin.source as usize)
            .cloned()
            .unwrap_or_default();
        Place {
            file,
            line: origin.line,
        }
    }

    /// The entry of exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.index
            .get(&*folded(name))
            .map(|&at| &self.entries[at as usize])
    }

    /// The entry of `prefix.name`.
    #[must_use]
    pub fn get_prefixed(&self, prefix: &str, name: &str) -> Option<&Entry> {
        if !self.prefixes.contains(&*folded(prefix)) {
            return None;
        }
        self.get(&format!("{prefix}.{name}"))
    }

    /// All entries in the order of their first setting.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Values that others have replaced, in the order in which that happened.
    #[must_use]
    pub fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    /// Sets a raw value.
    pub fn insert(&mut self, name: &str, raw: &str, origin: Origin) {
        let key = folded(name);
        if let Some(&at) = self.index.get(&*key) {
            let entry = &mut self.entries[at as usize];
            self.replaced.push(Replaced {
                name: entry.name.clone(),
                raw: std::mem::replace(&mut entry.raw, raw.into()),
                origin: std::mem::replace(&mut entry.origin, origin),
            });
            return;
        }
        let at = self.entries.len() as u32;
        if let Some((prefix, _)) = key.split_once('.') {
            self.prefixes.insert(prefix.into());
        }
        self.index.insert(key.into(), at);
        self.entries.push(Entry {
            name: name.into(),
            raw: raw.into(),
            origin,
        });
    }

    /// Replaces a built-in default, for example LOG by a place below the pool's home.
    pub fn set_default(&mut self, name: &str, raw: &str) {
        self.overlay.insert(folded(name).into(), raw.into());
    }

    /// The built-in default of a name: the pool's, then the knob table's.
    #[must_use]
    pub fn default_of(&self, name: &str) -> Option<&str> {
        let key = folded(name);
        if let Some(raw) = self.overlay.get(&*key) {
            return Some(raw);
        }
        knobs::default_of_folded(&key)
    }
}

/// The settings as one daemon or tool reads them: its subsystem, its local name, its world.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The settings.
    pub set: &'a MacroSet,
    /// Subsystem, for example `STARTD`; prefix of settings for it alone.
    pub subsystem: Option<&'a str>,
    /// Local name, for example of a second schedd on the host.
    pub local_name: Option<&'a str>,
    /// The world.
    pub source: &'a dyn Source,
}

impl<'a> View<'a> {
    /// The entry that a lookup of `name` ends at, if it is not a built-in default.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&'a Entry> {
        [self.local_name, self.subsystem]
            .into_iter()
            .flatten()
            .find_map(|prefix| self.set.get_prefixed(prefix, name))
            .or_else(|| self.set.get(name))
    }

    /// The raw value of a name.
    #[must_use]
    pub fn raw_value(&self, name: &str) -> Option<&'a str> {
        for prefix in [self.local_name, self.subsystem].into_iter().flatten() {
            if let Some(entry) = self.set.get_prefixed(prefix, name) {
                return Some(&entry.raw);
            }
            if let Some(raw) = knobs::default_of_prefixed(prefix, name) {
                return Some(raw);
            }
        }
        if let Some(entry) = self.set.get(name) {
            return Some(&entry.raw);
        }
        self.set.default_of(name)
    }
}

impl Scope for View<'_> {
    fn raw(&self, name: &str) -> Option<Cow<'_, str>> {
        self.raw_value(name).map(Cow::Borrowed)
    }

    fn source(&self) -> &dyn Source {
        self.source
    }
}
