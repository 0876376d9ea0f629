//! Ads: attributes in the order they were first set, looked up without case.

use crate::expr::Expr;
use crate::name::{Name, hash_name};

/// Below this many attributes a scan beats the index.
const SCAN_LIMIT: usize = 8;

/// An ad: a map from names to expressions. The first spelling of a name stays when it is set again.
#[derive(Clone, Debug, Default)]
pub struct Ad {
    entries: Vec<(Name, Expr)>,
    /// Open addressing: high half the name's hash, low half the entry's place plus one; 0 is free.
    index: Vec<u64>,
    /// Whether an attribute was ever set whose name means something to scoping (`my`, `target`, ...).
    special: bool,
}

impl Ad {
    /// An empty ad.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty ad with room for `n` attributes.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        let mut ad = Self {
            entries: Vec::with_capacity(n),
            index: Vec::new(),
            special: false,
        };
        if n > SCAN_LIMIT {
            ad.index = vec![0; (n * 2).next_power_of_two()];
        }
        ad
    }

    /// The number of attributes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    fn place(&self, hash: u32, same: impl Fn(&Name) -> bool) -> Option<usize> {
        if self.index.is_empty() {
            return self
                .entries
                .iter()
                .position(|(n, _)| n.hash32() == hash && same(n));
        }
        let mask = self.index.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let word = self.index[slot];
            if word == 0 {
                return None;
            }
            if (word >> 32) as u32 == hash {
                let at = (word as u32 - 1) as usize;
                if same(&self.entries[at].0) {
                    return Some(at);
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Whether an attribute may hide a scope word such as `TARGET`.
    #[must_use]
    #[inline]
    pub fn may_shadow(&self) -> bool {
        self.special
    }

    /// The place of an attribute in [`Ad::iter`]'s order.
    #[must_use]
    #[inline]
    pub fn position(&self, name: &Name) -> Option<usize> {
        self.place(name.hash32(), |n| n == name)
    }

    /// The expression of an attribute.
    #[must_use]
    #[inline]
    pub fn get(&self, name: &Name) -> Option<&Expr> {
        self.position(name).map(|at| &self.entries[at].1)
    }

    /// The expression of an attribute, by text.
    #[must_use]
    pub fn get_bytes(&self, name: &[u8]) -> Option<&Expr> {
        self.place(hash_name(name), |n| n.as_bytes().eq_ignore_ascii_case(name))
            .map(|at| &self.entries[at].1)
    }

    /// The expression of an attribute, by text.
    #[must_use]
    pub fn get_str(&self, name: &str) -> Option<&Expr> {
        self.get_bytes(name.as_bytes())
    }

    /// Whether the attribute is set.
    #[must_use]
    pub fn contains(&self, name: &Name) -> bool {
        self.position(name).is_some()
    }

    /// Sets an attribute; gives back what it was.
    pub fn insert(&mut self, name: Name, expr: Expr) -> Option<Expr> {
        if let Some(at) = self.position(&name) {
            return Some(std::mem::replace(&mut self.entries[at].1, expr));
        }
        let hash = name.hash32();
        self.special |= name.special().is_some();
        self.entries.push((name, expr));
        if self.index.is_empty() && self.entries.len() <= SCAN_LIMIT {
            return None;
        }
        if self.entries.len() * 4 > self.index.len() * 3 {
            self.rebuild();
        } else {
            place_in(&mut self.index, hash, self.entries.len());
        }
        None
    }

    /// Sets an attribute named by text.
    pub fn set(&mut self, name: &str, expr: impl Into<Expr>) {
        self.insert(name.into(), expr.into());
    }

    fn rebuild(&mut self) {
        self.index.clear();
        if self.entries.len() <= SCAN_LIMIT {
            return;
        }
        self.index
            .resize((self.entries.len() * 2).next_power_of_two(), 0);
        for (at, (name, _)) in self.entries.iter().enumerate() {
            place_in(&mut self.index, name.hash32(), at + 1);
        }
    }

    /// Takes an attribute out; the order of the others stays.
    pub fn remove(&mut self, name: &Name) -> Option<Expr> {
        let at = self.position(name)?;
        let (_, expr) = self.entries.remove(at);
        self.rebuild();
        Some(expr)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
    }

    /// All attributes, in the order they were first set.
    pub fn iter(&self) -> std::slice::Iter<'_, (Name, Expr)> {
        self.entries.iter()
    }

    /// The attribute at a place of that order.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<&(Name, Expr)> {
        self.entries.get(place)
    }

    /// All attributes in HTCondor's print order: shorter names first, then alphabetically.
    #[must_use]
    pub fn sorted(&self) -> Vec<&(Name, Expr)> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by(|a, b| a.0.print_cmp(&b.0));
        all
    }

    /// Sets every attribute of `other` here.
    pub fn update(&mut self, other: &Ad) {
        for (name, expr) in other.iter() {
            self.insert(name.clone(), expr.clone());
        }
    }
}

fn place_in(index: &mut [u64], hash: u32, entry: usize) {
    let mask = index.len() - 1;
    let mut slot = hash as usize & mask;
    while index[slot] != 0 {
        slot = (slot + 1) & mask;
    }
    index[slot] = (u64::from(hash) << 32) | entry as u64;
}

/// Equal names (without case) with equal expressions, whatever the order.
impl PartialEq for Ad {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .all(|(name, expr)| other.get(name).is_some_and(|e| e == expr))
    }
}

impl<'a> IntoIterator for &'a Ad {
    type Item = &'a (Name, Expr);
    type IntoIter = std::slice::Iter<'a, (Name, Expr)>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<(Name, Expr)> for Ad {
    fn from_iter<T: IntoIterator<Item = (Name, Expr)>>(iter: T) -> Self {
        let mut ad = Ad::new();
        for (name, expr) in iter {
            ad.insert(name, expr);
        }
        ad
    }
}
