//! Distinct byte strings, stored once, named by small ids.
//!
//! Texts live in blocks of a megabyte; an open-addressed index finds them. Nothing counts references:
//! the owner marks what it still uses and the pool copies those texts to fresh blocks, keeping their ids.

use std::hash::Hasher;

use rustc_hash::FxHasher;

const BLOCK: usize = 1 << 20;
const FREE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    block: u32,
    start: u32,
    len: u32,
    hash: u32,
}

const HOLE: Entry = Entry {
    block: u32::MAX,
    start: 0,
    len: 0,
    hash: 0,
};

/// Interned texts.
#[derive(Clone, Debug, Default)]
pub struct TextPool {
    blocks: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    holes: Vec<u32>,
    /// Open addressing, a power of two of slots, ids or `FREE`.
    index: Vec<u32>,
}

/// The hash by which the pool finds a text.
#[inline]
pub(crate) fn text_hash(text: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

impl TextPool {
    /// Number of texts held.
    pub fn len(&self) -> usize {
        self.entries.len() - self.holes.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One past the largest id.
    pub fn id_end(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The text with this id.
    #[inline]
    pub fn get(&self, id: u32) -> &[u8] {
        self.bytes(&self.entries[id as usize])
    }

    #[inline]
    fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.blocks[entry.block as usize][entry.start as usize..(entry.start + entry.len) as usize]
    }

    /// The id of a text already held.
    #[inline]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        let hash = text_hash(text);
        let mask = self.index.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let id = self.index[slot];
            if id == FREE {
                return None;
            }
            let entry = &self.entries[id as usize];
            if entry.hash == hash && self.bytes(entry) == text {
                return Some(id);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The id of a text, which is stored if it is new.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if self.entries.len() * 2 >= self.index.len() {
            self.grow_index();
        }
        let hash = text_hash(text);
        let mask = self.index.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let id = self.index[slot];
            if id == FREE {
                break;
            }
            let entry = &self.entries[id as usize];
            if entry.hash == hash && self.bytes(entry) == text {
                return id;
            }
            slot = (slot + 1) & mask;
        }
        let entry = self.store(text, hash);
        let id = match self.holes.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.index[slot] = id;
        id
    }

    fn store(&mut self, text: &[u8], hash: u32) -> Entry {
        let fits = self
            .blocks
            .last()
            .is_some_and(|block| block.len() + text.len() <= block.capacity());
        if !fits {
            let first = self.blocks.is_empty();
            let size = if first { 4096 } else { BLOCK };
            // A small table stays small: the first block grows by doubling up to the full size.
            let grown = first || self.blocks.len() > 1 || self.blocks[0].capacity() >= BLOCK;
            if grown {
                self.blocks.push(Vec::with_capacity(size.max(text.len())));
            } else {
                self.blocks[0].reserve(text.len());
            }
        }
        let at = self.blocks.len() - 1;
        let block = &mut self.blocks[at];
        let start = block.len();
        block.extend_from_slice(text);
        Entry {
            block: at as u32,
            start: start as u32,
            len: text.len() as u32,
            hash,
        }
    }

    /// Makes room for `more` texts.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
        let slots = ((self.entries.len() + more) * 3).next_power_of_two();
        if slots > self.index.len() {
            self.rebuild_index(slots);
        }
    }

    fn grow_index(&mut self) {
        let slots = (self.entries.len() * 4).next_power_of_two().max(64);
        self.rebuild_index(slots);
    }

    fn rebuild_index(&mut self, slots: usize) {
        self.index.clear();
        self.index.resize(slots, FREE);
        let mask = slots - 1;
        for (id, entry) in self.entries.iter().enumerate() {
            if entry.block == u32::MAX {
                continue;
            }
            let mut slot = entry.hash as usize & mask;
            while self.index[slot] != FREE {
                slot = (slot + 1) & mask;
            }
            self.index[slot] = id as u32;
        }
    }

    /// Forgets every text whose id is not marked; ids of the others stay.
    pub fn retain(&mut self, marked: &[bool]) {
        let old = std::mem::take(&mut self.blocks);
        self.holes.clear();
        for id in 0..self.entries.len() {
            let entry = self.entries[id];
            if entry.block != u32::MAX && marked.get(id).copied().unwrap_or(false) {
                let text = &old[entry.block as usize]
                    [entry.start as usize..(entry.start + entry.len) as usize];
                self.entries[id] = self.store(text, entry.hash);
            } else {
                self.entries[id] = HOLE;
                self.holes.push(id as u32);
            }
        }
        let slots = (self.entries.len() * 4).next_power_of_two().max(64);
        self.rebuild_index(slots);
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.index.capacity() * 4
            + self.holes.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_id_and_survives_collection() {
        let mut pool = TextPool::default();
        let ids: Vec<u32> = (0..5000)
            .map(|i| pool.intern(format!("text number {i}").as_bytes()))
            .collect();
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(pool.get(*id), format!("text number {i}").as_bytes());
            assert_eq!(pool.find(format!("text number {i}").as_bytes()), Some(*id));
            assert_eq!(pool.intern(format!("text number {i}").as_bytes()), *id);
        }
        assert_eq!(pool.find(b"absent"), None);
        let marked: Vec<bool> = (0..5000).map(|i| i % 10 == 0).collect();
        pool.retain(&marked);
        assert_eq!(pool.len(), 500);
        assert_eq!(pool.get(ids[4990]), b"text number 4990");
        assert_eq!(pool.find(b"text number 4991"), None);
        let before = pool.id_end();
        for i in 0..4500 {
            pool.intern(format!("later {i}").as_bytes());
        }
        assert_eq!(
            pool.id_end(),
            before,
            "ids of forgotten texts are used again"
        );
        let big = vec![b'x'; 3 << 20];
        let id = pool.intern(&big);
        assert_eq!(pool.get(id), big);
    }
}
