//! Strings that are kept once, each with a number.

use rustc_hash::FxHashMap;
use std::hash::{DefaultHasher, Hasher};

/// No string.
pub const NONE: u32 = u32::MAX;

/// Strings, numbered from 0 in the order in which they came; in one piece of memory.
#[derive(Clone, Debug, Default)]
pub struct Names {
    text: String,
    /// Where each ends.
    ends: Vec<u32>,
    /// The last string of each hash, and the one before it with the same hash.
    last: FxHashMap<u64, u32>,
    before: FxHashMap<u32, u32>,
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new(); // its keys are the same in every process
    hasher.write(name.as_bytes());
    hasher.finish()
}

impl Names {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The string of a number that [`Names::intern`] gave.
    #[must_use]
    pub fn get(&self, id: u32) -> &str {
        let at = id as usize;
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[from as usize..self.ends[at] as usize]
    }

    /// The number of a string, if it is known.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        let mut at = *self.last.get(&hash(name))?;
        loop {
            if self.get(at) == name {
                return Some(at);
            }
            at = *self.before.get(&at)?;
        }
    }

    /// The number of a string, a new one if it is not known.
    ///
    /// The caller sees to it that all strings together have less than 4 GiB.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(known) = self.find(name) {
            return known;
        }
        let id = u32::try_from(self.ends.len()).unwrap_or(NONE);
        self.text.push_str(name);
        self.ends
            .push(u32::try_from(self.text.len()).unwrap_or(NONE));
        if let Some(former) = self.last.insert(hash(name), id) {
            self.before.insert(id, former);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_has_one_number() {
        let mut names = Names::default();
        let (a, empty, b) = (names.intern("a"), names.intern(""), names.intern("b"));
        assert_eq!((a, empty, b), (0, 1, 2));
        assert_eq!(names.intern("a"), a);
        assert_eq!(
            (names.get(a), names.get(empty), names.get(b)),
            ("a", "", "b")
        );
        assert_eq!((names.find("c"), names.len(), names.bytes()), (None, 3, 2));
    }
}
