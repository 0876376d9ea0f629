//! One expression, without the definitions of the attributes it reads.

use super::{Reads, distinct};
use crate::ad::Ad;
use crate::coerce::to_text;
use crate::expr::{Call, Expr, Select, Side};
use crate::fold::fold;
use crate::name::{Name, Special};
use crate::parser::{Syntax, parse_computed};
use crate::value::Value;
use std::sync::Arc;

/// The evaluator goes no deeper; what is deeper counts as unbounded.
const MAX_DEPTH: usize = 400;

/// What `expr` reads, as an expression of `my` if that is known.
pub(super) fn reads(expr: &Expr, my: Option<&Ad>) -> Reads {
    let mut walk = Walk {
        reads: Reads::default(),
        my,
        around: Vec::new(),
        place: Place::Here,
        depth: 0,
    };
    walk.value(expr);
    walk.finish()
}

struct Walk<'a> {
    reads: Reads,
    my: Option<&'a Ad>,
    /// Nested ads that names are looked up in first, from the outermost.
    around: Vec<&'a Ad>,
    place: Place,
    depth: usize,
}

/// Where a part of the expression is evaluated.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Where the expression is.
    Here,
    /// Where the list is used that it is an item of.
    List,
    /// In each ad of a list.
    Contexts,
}

/// What a scope word stands for outside nested ads.
enum Scope {
    My,
    Target,
    /// An ad around, or either ad.
    Other,
}

/// What a name stands for where no attribute has it, if that is an ad.
fn scope_word(name: &Name) -> Option<Scope> {
    match name.special()? {
        Special::CurrentTime => None,
        Special::My | Special::SelfAd | Special::Ad => Some(Scope::My),
        Special::Target | Special::Other => Some(Scope::Target),
        Special::Parent
        | Special::Root
        | Special::TopLevel
        | Special::Left
        | Special::Right
        | Special::LeftContext
        | Special::RightContext => Some(Scope::Other),
        // Conditions of the match ad: they read Requirements and Rank of both ads and all that these read.
        Special::SymmetricMatch
        | Special::LeftMatchesRight
        | Special::RightMatchesLeft
        | Special::LeftRank
        | Special::RightRank => None,
    }
}

/// The value of an expression that needs no ad.
fn constant(expr: &Expr) -> Option<Value> {
    match fold(expr).unparen() {
        Expr::Lit(value) => Some(value.clone()),
        _ => None,
    }
}

impl<'a> Walk<'a> {
    fn finish(self) -> Reads {
        let mut reads = self.reads;
        match self.my {
            // After a move, the words mean the ads that the evaluator has moved to.
            None if reads.moves || !reads.dereferenced.is_empty() => {
                reads.either.append(&mut reads.my);
                reads.either.append(&mut reads.target);
            }
            Some(my) if reads.moves_in(|name| my.contains(name)) => {
                let mine = reads.my.clone();
                reads.my.extend(reads.target.iter().cloned());
                reads.target.extend(mine);
            }
            _ => {}
        }
        for names in [
            &mut reads.my,
            &mut reads.target,
            &mut reads.either,
            &mut reads.scope_words,
            &mut reads.dereferenced,
        ] {
            distinct(names);
        }
        reads
    }

    fn deeper(&mut self, step: impl FnOnce(&mut Self)) {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            step(self);
        } else {
            self.reads.set_unbounded();
        }
        self.depth -= 1;
    }

    /// An expression whose value is used.
    fn value(&mut self, expr: &'a Expr) {
        self.deeper(|walk| walk.step(expr));
    }

    fn step(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lit(_) => {}
            Expr::Attr(name) => {
                self.ad_as_value(name);
                self.name(name);
            }
            Expr::AbsAttr(name) => {
                self.ad_as_value(name);
                self.either(name);
            }
            Expr::Select(select) => {
                self.ad_as_value(&select.attr);
                self.select(select);
            }
            Expr::Unary(unary) => self.value(&unary.arg),
            Expr::Binary(_) => {
                // Long chains lean to the left; go down them without recursing.
                let mut left = expr;
                let mut rights = Vec::new();
                while let Expr::Binary(binary) = left {
                    rights.push(&binary.right);
                    left = &binary.left;
                }
                self.value(left);
                for right in rights.into_iter().rev() {
                    self.value(right);
                }
            }
            Expr::Ternary(ternary) => {
                self.value(&ternary.cond);
                self.value(&ternary.then);
                self.value(&ternary.other);
            }
            Expr::Elvis(pair) => {
                self.value(&pair.0);
                self.value(&pair.1);
            }
            Expr::Subscript(pair) => self.subscript(&pair.0, &pair.1),
            Expr::Paren(inner) => self.value(inner),
            Expr::Call(call) => self.call(call),
            Expr::List(items) => {
                let place = match self.place {
                    Place::Contexts => Place::Contexts,
                    _ => Place::List,
                };
                self.at(place, |walk| items.iter().for_each(|item| walk.value(item)));
            }
            Expr::Ad(ad) => self.nested(ad),
        }
    }

    // ---- names ----

    fn is_nested(&self, name: &Name) -> bool {
        self.around.iter().any(|ad| ad.contains(name))
    }

    /// A name without scope word.
    fn name(&mut self, name: &Name) {
        if !self.is_nested(name) {
            self.either(name);
        }
    }

    fn either(&mut self, name: &Name) {
        self.clock(name);
        if scope_word(name).is_some() && self.my.is_none_or(|my| !my.contains(name)) {
            self.reads.scope_words.push(name.clone());
            return;
        }
        let Some(my) = self.my else {
            self.reads.either.push(name.clone());
            return;
        };
        let ours = my.contains(name);
        if ours {
            self.reads.my.push(name.clone());
        }
        if !ours || self.place == Place::Contexts {
            self.reads.target.push(name.clone());
        }
    }

    /// A name of an ad that is not known.
    fn anywhere(&mut self, name: &Name) {
        self.clock(name);
        if self.my.is_none() {
            self.reads.either.push(name.clone());
        } else {
            self.reads.my.push(name.clone());
            self.reads.target.push(name.clone());
        }
    }

    fn sided(&mut self, scope: &Scope, name: &Name) {
        self.clock(name);
        let here = self.place == Place::Here && self.around.is_empty();
        let known = self.my.is_some() && self.place != Place::Contexts;
        match scope {
            Scope::My if here => self.reads.my.push(name.clone()),
            Scope::My => self.either(name),
            Scope::Target if here || known => self.reads.target.push(name.clone()),
            Scope::Target | Scope::Other => self.anywhere(name),
        }
    }

    fn clock(&mut self, name: &Name) {
        self.reads.volatile |= name.special() == Some(Special::CurrentTime);
    }

    /// A name whose value may be an ad of the match, or what the match ad says of both.
    fn ad_as_value(&mut self, name: &Name) {
        let defined = self.is_nested(name) || self.my.is_some_and(|my| my.contains(name));
        let clock = name.special() == Some(Special::CurrentTime);
        if name.special().is_some() && !clock && !defined {
            self.reads.set_unbounded();
        }
    }

    // ---- selections ----

    fn select(&mut self, select: &'a Select) {
        if let Expr::Attr(word) = select.base.unparen()
            && let Some(scope) = scope_word(word)
        {
            self.word(word);
            self.sided(&scope, &select.attr);
            return;
        }
        if !self.has_part(&select.base, &select.attr) {
            // A name that the selected ad lacks is looked up around it, and that may be inside of the other ad.
            self.anywhere(&select.attr);
        }
        self.base(&select.base);
    }

    /// Whether `base` is known to be a nested ad with that attribute.
    fn has_part(&self, base: &Expr, name: &Name) -> bool {
        let definition = match (base.unparen().as_reference(), self.my) {
            (Some((Side::My | Side::Bare, base)), Some(my)) if self.around.is_empty() => {
                my.get(base)
            }
            _ => Some(base.unparen()),
        };
        matches!(definition, Some(Expr::Ad(ad)) if ad.contains(name))
    }

    fn word(&mut self, word: &Name) {
        if !self.is_nested(word) {
            self.reads.scope_words.push(word.clone());
        }
    }

    /// What an attribute is selected from: a scope word there is no value.
    fn base(&mut self, base: &'a Expr) {
        self.deeper(|walk| match base {
            Expr::Attr(word) | Expr::AbsAttr(word) if scope_word(word).is_some() => walk.word(word),
            Expr::Select(inner) if scope_word(&inner.attr).is_some() => {
                walk.word(&inner.attr);
                walk.base(&inner.base);
            }
            Expr::Paren(inner) => walk.base(inner),
            other => walk.step(other),
        });
    }

    fn subscript(&mut self, base: &'a Expr, index: &'a Expr) {
        self.value(index);
        let word = match base.unparen() {
            Expr::Attr(word) => scope_word(word).map(|scope| (word, scope)),
            _ => None,
        };
        let Some((word, scope)) = word else {
            self.value(base);
            return;
        };
        self.word(word);
        match constant(index) {
            Some(Value::Str(name)) => {
                let name = Name::new(name.as_bytes());
                self.ad_as_value(&name);
                self.sided(&scope, &name);
            }
            Some(_) => {}
            None => self.reads.set_unbounded(),
        }
    }

    // ---- what is evaluated elsewhere ----

    fn at(&mut self, place: Place, step: impl FnOnce(&mut Self)) {
        let around = std::mem::take(&mut self.around);
        let here = std::mem::replace(&mut self.place, place);
        step(self);
        self.place = here;
        self.around = around;
    }

    fn nested(&mut self, ad: &'a Ad) {
        self.around.push(ad);
        for (_, expr) in ad {
            self.value(expr);
        }
        self.around.pop();
    }

    // ---- functions ----

    fn call(&mut self, call: &'a Arc<Call>) {
        if let Some(builtin) = call.builtin {
            self.reads.volatile |= builtin.spec().volatile;
        }
        let is = |name: &str| call.name.is(name);
        match &*call.args {
            [arg] if is("eval") => self.text(arg),
            [arg, ..] if is("unparse") => {
                let written = Name::new(&crate::print::unparse(arg));
                self.name(&written);
                self.value(arg);
            }
            [first, rest @ ..] if is("evalInEachContext") || is("countMatches") => {
                let my = self.my;
                let name = self.dereference(first);
                if name.is_some_and(|name| my.is_some_and(|my| my.contains(name))) {
                    self.value(first);
                } else {
                    self.at(Place::Contexts, |walk| walk.value(first));
                }
                rest.iter().for_each(|arg| self.value(arg));
            }
            // Which names a definition leads to depends on which attributes there are.
            _ if is("unresolved") => self.reads.set_unbounded(),
            args => {
                self.reads.random |= is("random");
                args.iter().for_each(|arg| self.value(arg));
            }
        }
    }

    /// The argument of `eval`.
    fn text(&mut self, arg: &'a Expr) {
        self.value(arg);
        let Some(value) = constant(arg) else {
            self.reads.set_unbounded();
            return;
        };
        let text = to_text(&value);
        let parsed = text.and_then(|text| parse_computed(text.as_bytes(), Syntax::NORMAL).ok());
        let Some(expr) = parsed else { return };
        let mut inner = Walk {
            reads: std::mem::take(&mut self.reads),
            my: self.my,
            around: self.around.clone(),
            place: self.place,
            depth: self.depth,
        };
        inner.value(&expr);
        self.reads = inner.reads;
    }

    /// A reference whose definition is taken: its name, if it is one of MY. Where it is found is where the names after
    /// it are looked up.
    fn dereference(&mut self, expr: &'a Expr) -> Option<&'a Name> {
        if !matches!(expr, Expr::Attr(_) | Expr::AbsAttr(_) | Expr::Select(_)) {
            return None;
        }
        let here = self.around.is_empty() && self.place == Place::Here;
        match expr.as_reference() {
            Some((side, name)) if here && name.special().is_none() => {
                self.reads.dereferenced.push(name.clone());
                self.reads.moves |= side == Side::Target;
                (side != Side::Target).then_some(name)
            }
            // The definition of a part of a nested ad, taken out of it.
            _ => {
                self.reads.set_unbounded();
                None
            }
        }
    }
}
