//! What a condition says of groups and rows: true, false, undefined, or anything else, which counts as error.

use classad::Value;

use crate::bitmap::Bitmap;
use crate::register::Val;

/// One of the things a condition can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// True, or a number other than 0.
    True,
    /// False, or 0.
    False,
    /// Undefined.
    Undefined,
    /// Error, or a value that is not a condition.
    Error,
}

/// Each verdict in its place.
pub(crate) const VERDICTS: [Verdict; 4] = [
    Verdict::True,
    Verdict::False,
    Verdict::Undefined,
    Verdict::Error,
];

impl Verdict {
    /// What a value says as a condition.
    pub fn of(value: &Value) -> Verdict {
        match (value, value.truth()) {
            (_, Some(true)) => Verdict::True,
            (_, Some(false)) => Verdict::False,
            (Value::Undefined, None) => Verdict::Undefined,
            (_, None) => Verdict::Error,
        }
    }
}

/// Verdicts by group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts {
    yes: Bitmap,
    no: Bitmap,
    undefined: Bitmap,
    error: Bitmap,
}

impl Verdicts {
    /// Number of groups there is room for.
    pub fn len(&self) -> usize {
        self.yes.len()
    }

    /// Makes room.
    pub fn resize(&mut self, groups: usize) {
        for bits in [
            &mut self.yes,
            &mut self.no,
            &mut self.undefined,
            &mut self.error,
        ] {
            bits.resize(groups);
        }
    }

    /// The groups of which a verdict was given.
    pub fn groups(&self, verdict: Verdict) -> &Bitmap {
        match verdict {
            Verdict::True => &self.yes,
            Verdict::False => &self.no,
            Verdict::Undefined => &self.undefined,
            Verdict::Error => &self.error,
        }
    }

    /// Whether a verdict of a group was given.
    pub fn has(&self, group: usize) -> bool {
        VERDICTS
            .iter()
            .any(|verdict| self.groups(*verdict).get(group))
    }

    /// Notes what a value says.
    pub fn set_value(&mut self, group: usize, value: &Value) {
        self.set(group, Verdict::of(value));
    }

    /// Notes what a word says.
    #[inline]
    pub fn set_word(&mut self, group: usize, word: Val) {
        self.set(
            group,
            match (word, word.truth()) {
                (_, Some(true)) => Verdict::True,
                (_, Some(false)) => Verdict::False,
                (Val::Undefined, None) => Verdict::Undefined,
                (_, None) => Verdict::Error,
            },
        );
    }

    #[inline]
    fn set(&mut self, group: usize, verdict: Verdict) {
        let bits = match verdict {
            Verdict::True => &mut self.yes,
            Verdict::False => &mut self.no,
            Verdict::Undefined => &mut self.undefined,
            Verdict::Error => &mut self.error,
        };
        bits.set(group, true);
    }

    /// Notes a condition that is true in the groups of `members` that `fill` sets and false in the others of them.
    pub fn set_comparison(&mut self, members: &[u32], fill: impl FnOnce(&mut Bitmap)) {
        fill(&mut self.yes);
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return;
        };
        let (first, end) = (*first as usize, *last as usize + 1);
        let consecutive = end - first == members.len();
        if consecutive && first.is_multiple_of(64) {
            let yes = self.yes.words();
            for (at, no) in self.no.words_mut().iter_mut().enumerate() {
                if at * 64 >= first && at * 64 < end {
                    let tail = end - at * 64;
                    let mask = if tail < 64 { (1 << tail) - 1 } else { u64::MAX };
                    *no |= !yes[at] & mask;
                }
            }
            return;
        }
        for group in members {
            let group = *group as usize;
            if !self.yes.get(group) {
                self.no.set(group, true);
            }
        }
    }

    /// The groups of which there is a verdict.
    pub fn known(&self) -> Bitmap {
        let mut out = self.yes.clone();
        for bits in [&self.no, &self.undefined, &self.error] {
            out.or(bits);
        }
        out
    }

    /// Bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.yes.heap_bytes() * 4
    }
}
