//! Which attributes an expression reads, of which ad, and whether that is all: found without evaluating it.
//!
//! [`Reads::of`] looks at one expression; [`reach`] goes on to the definitions of the attributes it reads, as far as the
//! caller has them (one ad, or all ads of a table). Both are safe to decide by: an evaluation never reads an attribute
//! that they do not name, unless they say `unbounded`, and then any attribute of either ad may be read.
//!
//! What makes an expression unbounded:
//!
//! - `eval(x)` where `x` is not constant (the text of a constant one is looked into);
//! - `TARGET[x]` where `x` is not constant (`TARGET["Memory"]` reads Memory);
//! - an ad as a value: `TARGET`, `MY`, `parent`, `root` and the like, other than left of a dot or a subscript;
//! - `unresolved(x)`.
//!
//! A name may be read of another ad than its scope word says where the evaluator moves: the items of a list are evaluated
//! where the list is used, an expression in the contexts that `evalInEachContext` and `countMatches` take, and a name in a
//! nested ad may be defined there. All those count as read of either ad.

mod reach;
#[cfg(test)]
mod tests;
mod walk;

pub use reach::{Definitions, reach, reads_in};

use crate::expr::Expr;
use crate::name::Name;

/// What evaluating an expression can read. Names are distinct, in the order first met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Attributes of the ad the expression belongs to, and of no other.
    pub my: Vec<Name>,
    /// Attributes of the other ad, and of no other.
    pub target: Vec<Name>,
    /// Attributes of either ad: names without a scope word (MY first, then TARGET), and those that may be looked up
    /// from somewhere else than where they are written.
    pub either: Vec<Name>,
    /// Scope words it uses (`TARGET`): an attribute of that name in the ad it belongs to would come first.
    pub scope_words: Vec<Name>,
    /// It may read any attribute of either ad. It is then volatile, random and moving as well.
    pub unbounded: bool,
    /// Equal ads may give different values: it depends on the time, on chance, or on facts of the host.
    pub volatile: bool,
    /// It draws random numbers, so how many were drawn before matters.
    pub random: bool,
    /// Names whose definition it takes rather than their value (`countMatches(x, ...)`): what the definition reads may
    /// be of either ad.
    pub dereferenced: Vec<Name>,
    /// Names evaluated after it, in the same expression, may be looked up in another ad than before, whatever the ads
    /// say. Ask [`Reads::moves_in`] where the ad is known.
    pub moves: bool,
}

impl Reads {
    /// What `expr` itself reads, definitions of attributes not followed.
    #[must_use]
    pub fn of(expr: &Expr) -> Self {
        walk::reads(expr, None)
    }

    /// What reading this attribute of either ad means.
    #[must_use]
    pub fn name(name: &Name) -> Self {
        Self {
            either: vec![name.clone()],
            ..Self::default()
        }
    }

    /// Every name, whatever its ad, without scope words.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.my.iter().chain(&self.target).chain(&self.either)
    }

    /// Names that may be read of the ad the expression belongs to.
    pub fn of_my(&self) -> impl Iterator<Item = &Name> {
        self.my.iter().chain(&self.either)
    }

    /// Names that may be read of the other ad.
    pub fn of_target(&self) -> impl Iterator<Item = &Name> {
        self.target.iter().chain(&self.either)
    }

    /// Whether an expression after this one in the same conjunction may look up its names elsewhere, in an ad that has
    /// the attributes `has` says. Such a conjunction must not be taken apart.
    pub fn moves_in(&self, has: impl Fn(&Name) -> bool) -> bool {
        let found = |names: &[Name]| names.iter().all(&has);
        self.moves
            || !self.dereferenced.is_empty()
                && (!found(&self.dereferenced) || self.scope_words.iter().any(has))
    }

    /// Adds what another expression reads.
    pub fn add(&mut self, other: &Reads) {
        let lists = [
            (&mut self.my, &other.my),
            (&mut self.target, &other.target),
            (&mut self.either, &other.either),
            (&mut self.scope_words, &other.scope_words),
            (&mut self.dereferenced, &other.dereferenced),
        ];
        for (names, more) in lists {
            if !more.is_empty() {
                names.extend(more.iter().cloned());
                distinct(names);
            }
        }
        self.add_flags(other);
    }

    fn add_flags(&mut self, other: &Reads) {
        self.unbounded |= other.unbounded;
        self.volatile |= other.volatile;
        self.random |= other.random;
        self.moves |= other.moves;
    }

    fn set_unbounded(&mut self) {
        self.unbounded = true;
        self.volatile = true;
        self.random = true;
        self.moves = true;
    }
}

/// Names up to which comparing each with each is cheaper than hashing.
const FEW: usize = 16;

/// Drops repeated names; the first of each stays where it is.
fn distinct(names: &mut Vec<Name>) {
    if names.len() <= FEW {
        let mut kept = 0;
        for at in 0..names.len() {
            if !names[..kept].contains(&names[at]) {
                names.swap(kept, at);
                kept += 1;
            }
        }
        names.truncate(kept);
    } else {
        let mut seen = rustc_hash::FxHashSet::default();
        names.retain(|name| seen.insert(name.clone()));
    }
}
