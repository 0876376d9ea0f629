//! What an expression reads through the definitions of the attributes it names.

use super::{Reads, distinct, walk};
use crate::ad::Ad;
use crate::expr::{Expr, Side};
use crate::name::Name;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// The definitions that attributes may have, as far as they are to be followed.
pub trait Definitions {
    /// Calls `visit` with what each expression reads that `name` may be defined as: in the ad the first expression
    /// belongs to if `ours`, else in the other ad. Literals need not be visited. Scope words are asked for like names.
    fn visit(&mut self, ours: bool, name: &Name, visit: &mut dyn FnMut(&Reads));

    /// Which ad a name without scope word is read of when it stands in an expression of our own ad; `Bare` where it
    /// may be either. (Only for those who follow no definition of the other ad: one of those might use a list of ours.)
    fn place(&self, _name: &Name) -> Side {
        Side::Bare
    }
}

/// What is still to be followed.
struct Step {
    ours: bool,
    name: Name,
    /// Its definition is evaluated elsewhere than in its ad.
    dereferenced: bool,
}

/// Everything an expression reads, those of the definitions it uses included. `my` has what is read of our own ad,
/// `target` what is read of the other, both without scope words; `either` is empty.
pub fn reach(start: &Reads, definitions: &mut impl Definitions) -> Reads {
    let mut all = Reads::default();
    let mut seen: FxHashSet<(bool, bool, Name)> = FxHashSet::default();
    let mut open: VecDeque<Step> = VecDeque::new();
    follow(start, true, false, definitions, &mut all, &mut open);
    while let Some(step) = open.pop_front() {
        let Step {
            ours,
            name,
            dereferenced,
        } = step;
        if !seen.insert((ours, dereferenced, name.clone())) {
            continue;
        }
        if !all.scope_words.contains(&name) {
            let names = if ours { &mut all.my } else { &mut all.target };
            names.push(name.clone());
        }
        let mut found: Vec<Reads> = Vec::new();
        definitions.visit(ours, &name, &mut |reads| found.push(reads.clone()));
        for reads in &found {
            follow(reads, ours, dereferenced, definitions, &mut all, &mut open);
        }
    }
    distinct(&mut all.my);
    distinct(&mut all.target);
    all
}

/// Puts the names of one expression on the list.
fn follow(
    reads: &Reads,
    ours: bool,
    dereferenced: bool,
    definitions: &impl Definitions,
    all: &mut Reads,
    open: &mut VecDeque<Step>,
) {
    all.add_flags(reads);
    for word in &reads.scope_words {
        if !all.scope_words.contains(word) {
            all.scope_words.push(word.clone());
        }
    }
    let sided = [(&reads.my, Side::My), (&reads.target, Side::Target)];
    let sided = sided
        .into_iter()
        .flat_map(|(names, side)| names.iter().map(move |name| (name, side)));
    let either = reads.either.iter().map(|name| {
        let place = if ours {
            definitions.place(name)
        } else {
            Side::Bare
        };
        (name, place)
    });
    let words = reads.scope_words.iter().map(|word| (word, Side::Bare));
    for (name, side) in sided.chain(either).chain(words) {
        let both = side == Side::Bare || dereferenced;
        for (wanted, of_ours) in [(Side::My, ours), (Side::Target, !ours)] {
            if both || side == wanted {
                open.push_back(Step {
                    ours: of_ours,
                    name: name.clone(),
                    dereferenced: reads.dereferenced.contains(name),
                });
            }
        }
    }
}

/// What `expr` reads as an expression of `my`, the definitions it uses included; what the other ad defines is not
/// followed. A name without scope word counts as MY's if `my` has it, else as TARGET's.
#[must_use]
pub fn reads_in(expr: &Expr, my: &Ad) -> Reads {
    reach(&walk::reads(expr, Some(my)), &mut One(my))
}

/// The definitions of one ad.
struct One<'a>(&'a Ad);

impl Definitions for One<'_> {
    fn visit(&mut self, ours: bool, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        if ours && let Some(definition) = self.0.get(name) {
            visit(&walk::reads(definition, Some(self.0)));
        }
    }
}
