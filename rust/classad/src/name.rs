//! Attribute names: compared without case, cheap to clone, hashed once.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex};

/// How many distinct spellings the process-wide table keeps. A hostile stream of made-up names
/// cannot grow it further; later names simply live on their own.
const INTERN_LIMIT: usize = 1 << 17;
const SHARDS: usize = 16;

struct Inner {
    hash: u32,
    special: Option<Special>,
    text: Box<[u8]>,
}

/// Names that mean something of their own to scoping, so that all others can skip that question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Special {
    My,
    Target,
    Other,
    SelfAd,
    Parent,
    Root,
    TopLevel,
    CurrentTime,
    Ad,
    Left,
    Right,
    LeftContext,
    RightContext,
    SymmetricMatch,
    LeftMatchesRight,
    RightMatchesLeft,
    LeftRank,
    RightRank,
}

const SPECIAL: [(&str, Special); 18] = [
    ("my", Special::My),
    ("target", Special::Target),
    ("other", Special::Other),
    ("self", Special::SelfAd),
    ("parent", Special::Parent),
    ("root", Special::Root),
    ("toplevel", Special::TopLevel),
    ("currenttime", Special::CurrentTime),
    ("ad", Special::Ad),
    ("left", Special::Left),
    ("right", Special::Right),
    ("lctx", Special::LeftContext),
    ("rctx", Special::RightContext),
    ("symmetricmatch", Special::SymmetricMatch),
    ("leftmatchesright", Special::LeftMatchesRight),
    ("rightmatchesleft", Special::RightMatchesLeft),
    ("leftrankvalue", Special::LeftRank),
    ("rightrankvalue", Special::RightRank),
];

/// An attribute name as written. Equality and hash ignore ASCII case, as the language does.
#[derive(Clone)]
pub struct Name(Arc<Inner>);

type Shard = Mutex<HashMap<Box<[u8]>, Name, FxBuildHasher>>;
static TABLE: LazyLock<[Shard; SHARDS]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::new(HashMap::default())));

/// The case-blind hash of a name; [`Name::hash32`] keeps it ready.
#[must_use]
pub fn hash_name(text: &[u8]) -> u32 {
    let mut h: u64 = 0x9E37_79B9_7F4A_7C15 ^ (text.len() as u64);
    let mut chunks = text.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])) | 0x2020_2020_2020_2020;
        h = (h.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
    let mut last = [0x20u8; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    let word = u64::from_le_bytes(last) | 0x2020_2020_2020_2020;
    h = (h.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    (h >> 32) as u32
}

impl Name {
    /// The name spelled `text`; equal spellings share one allocation.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let hash = hash_name(text);
        let shard = &TABLE[hash as usize % SHARDS];
        let Ok(mut table) = shard.lock() else {
            return Self::fresh(text, hash);
        };
        if let Some(found) = table.get(text) {
            return found.clone();
        }
        let name = Self::fresh(text, hash);
        if table.len() < INTERN_LIMIT / SHARDS && text.len() <= 256 {
            table.insert(text.into(), name.clone());
        }
        name
    }

    fn fresh(text: &[u8], hash: u32) -> Self {
        let special = SPECIAL
            .iter()
            .find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text))
            .map(|(_, special)| *special);
        Self(Arc::new(Inner {
            hash,
            special,
            text: text.into(),
        }))
    }

    /// The name as it was spelled; any bytes are possible in a quoted name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.text
    }

    /// The name as text, invalid UTF-8 replaced; for messages.
    #[must_use]
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0.text)
    }

    /// The case-blind hash.
    #[must_use]
    pub fn hash32(&self) -> u32 {
        self.0.hash
    }

    /// What the name means to scoping, if anything.
    #[must_use]
    #[inline]
    pub fn special(&self) -> Option<Special> {
        self.0.special
    }

    /// Whether this is `text`, ignoring ASCII case.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.0.text.eq_ignore_ascii_case(text.as_bytes())
    }

    /// Whether both are spelled alike, case included.
    #[must_use]
    pub fn same_spelling(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }

    /// HTCondor's print order: shorter names first, then alphabetically without case.
    #[must_use]
    pub fn print_cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (a, b) = (&self.0.text, &other.0.text);
        a.len().cmp(&b.len()).then_with(|| {
            a.iter()
                .map(u8::to_ascii_lowercase)
                .cmp(b.iter().map(u8::to_ascii_lowercase))
        })
    }
}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash && self.0.text.eq_ignore_ascii_case(&other.0.text))
    }
}
impl Eq for Name {}
impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0.hash);
    }
}
impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}
