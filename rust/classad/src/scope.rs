//! The ads an evaluation can see, and how they are nested.
//!
//! In a match HTCondor puts both ads into an ad of its own: MY is `.LEFT` under a context ad with
//! the names MY, TARGET, other and ad, TARGET is `.RIGHT` under another. Those ads are seldom looked at
//! as such, so here they are kinds of scope and only become real ads when somebody wants their value.

use crate::ad::Ad;
use crate::expr::{BinaryOp, Expr};
use crate::name::{Name, Special};
use crate::value::Scope;
use std::sync::{Arc, LazyLock};

/// The ad of a scope.
#[derive(Clone)]
pub(crate) enum Held<'a> {
    Borrowed(&'a Ad),
    Shared(Arc<Ad>),
    LeftContext,
    RightContext,
    MatchRoot,
}

pub(crate) struct Node<'a> {
    held: Held<'a>,
    parent: Scope,
    /// Where bare names are looked up that neither this ad nor those around it have.
    alternate: Scope,
}

pub(crate) const MY: Scope = Scope(0);
pub(crate) const TARGET: Scope = Scope(1);
const LEFT_CONTEXT: Scope = Scope(2);
const RIGHT_CONTEXT: Scope = Scope(3);
pub(crate) const ROOT: Scope = Scope(4);
/// The first scope that is not one of the five above.
const FIRST_NESTED: u32 = 5;

/// What a name stands for.
pub(crate) enum Found<'a> {
    /// An expression of an ad of the context.
    Borrowed(&'a Expr),
    /// An expression of a temporary ad: a copy, and the address that identifies it.
    Copied(Expr, usize),
    /// An ad that is a scope here.
    Scope(Scope),
    /// `CurrentTime`
    Time,
}

/// All scopes of one evaluation; nested ones are only ever added.
pub(crate) struct Scopes<'a> {
    my: Option<&'a Ad>,
    target: Option<&'a Ad>,
    nested: Vec<Node<'a>>,
    /// MY and TARGET as values, made when first asked for.
    shared: [Option<Arc<Ad>>; 2],
    pub(crate) matching: bool,
    strict: bool,
}

impl<'a> Scopes<'a> {
    #[inline]
    pub(crate) fn new(my: Option<&'a Ad>, target: Option<&'a Ad>, strict: bool) -> Self {
        let matching = target.is_some();
        let my = if matching {
            Some(my.unwrap_or_else(|| empty_ad()))
        } else {
            my
        };
        Self {
            my,
            target,
            nested: Vec::new(),
            shared: [None, None],
            matching,
            strict,
        }
    }

    /// The scope of MY, or none.
    #[inline]
    pub(crate) fn first(&self) -> Scope {
        if self.my.is_none() { Scope::NONE } else { MY }
    }

    fn push(&mut self, held: Held<'a>, parent: Scope, alternate: Scope) -> Scope {
        self.nested.push(Node {
            held,
            parent,
            alternate,
        });
        Scope(FIRST_NESTED + self.nested.len() as u32 - 1)
    }

    /// The scope of a nested ad; the same ad in the same place gets the same scope again, if recent.
    pub(crate) fn nested(&mut self, ad: &Arc<Ad>, parent: Scope) -> Scope {
        for (i, node) in self.nested.iter().enumerate().rev().take(8) {
            if let Held::Shared(other) = &node.held
                && Arc::ptr_eq(ad, other)
                && node.parent == parent
                && node.alternate == Scope::NONE
            {
                return Scope(FIRST_NESTED + i as u32);
            }
        }
        self.push(Held::Shared(ad.clone()), parent, Scope::NONE)
    }

    /// A copy of a scope that looks further in `alternate`.
    pub(crate) fn with_alternate(&mut self, scope: Scope, alternate: Scope) -> Scope {
        if self.alternate(scope) == alternate {
            return scope;
        }
        match self.held(scope) {
            Some(held) => {
                let parent = self.parent(scope);
                self.push(held, parent, alternate)
            }
            None => scope,
        }
    }

    #[inline]
    fn node(&self, scope: Scope) -> Option<&Node<'a>> {
        self.nested
            .get((scope.0).wrapping_sub(FIRST_NESTED) as usize)
    }

    fn held(&self, scope: Scope) -> Option<Held<'a>> {
        match scope {
            MY => self.my.map(Held::Borrowed),
            TARGET => self.target.map(Held::Borrowed),
            LEFT_CONTEXT | RIGHT_CONTEXT | ROOT if !self.matching => None,
            LEFT_CONTEXT => Some(Held::LeftContext),
            RIGHT_CONTEXT => Some(Held::RightContext),
            ROOT => Some(Held::MatchRoot),
            _ => self.node(scope).map(|n| n.held.clone()),
        }
    }

    #[inline]
    pub(crate) fn parent(&self, scope: Scope) -> Scope {
        match scope {
            MY if self.matching => LEFT_CONTEXT,
            TARGET => RIGHT_CONTEXT,
            LEFT_CONTEXT | RIGHT_CONTEXT => ROOT,
            MY | ROOT => Scope::NONE,
            _ => self.node(scope).map_or(Scope::NONE, |n| n.parent),
        }
    }

    #[inline]
    pub(crate) fn alternate(&self, scope: Scope) -> Scope {
        match scope {
            MY if self.matching && !self.strict => TARGET,
            TARGET if self.matching && !self.strict => MY,
            _ => self.node(scope).map_or(Scope::NONE, |n| n.alternate),
        }
    }

    /// Whether a scope is one of the ads that give scope words their meaning.
    pub(crate) fn is_context(&self, scope: Scope) -> bool {
        self.matching && matches!(scope, LEFT_CONTEXT | RIGHT_CONTEXT)
    }

    /// What a context's name for a side of the match is defined as, which matters where definitions are followed: the
    /// side is found in the outermost ad then.
    pub(crate) fn side_definition(&self, context: Scope, side: Scope) -> Option<Expr> {
        match side {
            MY if self.is_context(context) => Some(Expr::AbsAttr("LEFT".into())),
            TARGET if self.is_context(context) => Some(Expr::AbsAttr("RIGHT".into())),
            _ => None,
        }
    }

    /// The outermost ad around a scope.
    pub(crate) fn root_of(&self, scope: Scope) -> Scope {
        let mut at = scope;
        while at != Scope::NONE {
            let around = self.parent(at);
            if around == Scope::NONE {
                return at;
            }
            at = around;
        }
        Scope::NONE
    }

    /// The ad of a scope as a value.
    pub(crate) fn ad(&mut self, scope: Scope) -> Option<Arc<Ad>> {
        if let Some(Some(ad)) = self.shared.get(scope.0 as usize) {
            return Some(ad.clone());
        }
        let ad = match self.held(scope)? {
            Held::Shared(ad) => return Some(ad),
            Held::Borrowed(ad) => Arc::new(ad.clone()),
            Held::LeftContext => Arc::new(context_ad("LEFT", "RIGHT")),
            Held::RightContext => Arc::new(context_ad("RIGHT", "LEFT")),
            Held::MatchRoot => {
                let mut ad = MATCH_RULES.clone();
                ad.set("lCtx", Expr::Ad(Arc::new(context_ad("LEFT", "RIGHT"))));
                ad.set("rCtx", Expr::Ad(Arc::new(context_ad("RIGHT", "LEFT"))));
                for (name, side) in [("LEFT", MY), ("RIGHT", TARGET)] {
                    if let Some(side) = self.ad(side) {
                        ad.set(name, Expr::Ad(side));
                    }
                }
                Arc::new(ad)
            }
        };
        if let Some(place) = self.shared.get_mut(scope.0 as usize) {
            *place = Some(ad.clone());
        }
        Some(ad)
    }

    /// A name in one ad alone.
    #[inline]
    pub(crate) fn own(&self, scope: Scope, name: &Name) -> Option<Found<'a>> {
        match scope {
            MY => self.my?.get(name).map(Found::Borrowed),
            TARGET => self.target?.get(name).map(Found::Borrowed),
            LEFT_CONTEXT => context_name(name.special()?, MY, TARGET).map(Found::Scope),
            RIGHT_CONTEXT => context_name(name.special()?, TARGET, MY).map(Found::Scope),
            ROOT => match name.special()? {
                Special::Left => Some(Found::Scope(MY)),
                Special::Right => Some(Found::Scope(TARGET)),
                Special::LeftContext => Some(Found::Scope(LEFT_CONTEXT)),
                Special::RightContext => Some(Found::Scope(RIGHT_CONTEXT)),
                _ => MATCH_RULES.get(name).map(Found::Borrowed),
            },
            _ => match &self.node(scope)?.held {
                Held::Borrowed(ad) => ad.get(name).map(Found::Borrowed),
                Held::Shared(ad) => ad
                    .get(name)
                    .map(|e| Found::Copied(e.clone(), std::ptr::from_ref(e) as usize)),
                _ => None,
            },
        }
    }

    /// A name of MY or TARGET whose definition is at hand.
    #[inline]
    pub(crate) fn direct(&self, scope: Scope, name: &Name) -> Option<&'a Expr> {
        match scope {
            MY => self.my?.get(name),
            TARGET => self.target?.get(name),
            _ => None,
        }
    }

    /// Whether scope words mean what they say in MY or TARGET.
    #[inline]
    pub(crate) fn unshadowed(&self, scope: Scope) -> bool {
        match scope {
            MY => self.my.is_some_and(|ad| !ad.may_shadow()),
            TARGET => self.target.is_some_and(|ad| !ad.may_shadow()),
            _ => false,
        }
    }

    /// A name in an ad or those around it. `at` moves to the ad that has it, or to the last one asked.
    #[inline]
    pub(crate) fn find(
        &self,
        start: Scope,
        name: &Name,
        root: Scope,
        at: &mut Scope,
    ) -> Option<Found<'a>> {
        let mut here = start;
        loop {
            *at = here;
            if let Some(found) = self.own(here, name) {
                return Some(found);
            }
            let around = if here == root {
                Scope::NONE
            } else {
                self.parent(here)
            };
            if let Some(special) = name.special() {
                match special {
                    Special::Root | Special::TopLevel => return Some(Found::Scope(root)),
                    Special::SelfAd => return Some(Found::Scope(here)),
                    Special::My if !self.strict => return Some(Found::Scope(here)),
                    Special::Parent => {
                        return (around != Scope::NONE).then_some(Found::Scope(around));
                    }
                    Special::CurrentTime if !self.strict => return Some(Found::Time),
                    _ => {}
                }
            }
            here = around;
            if here == Scope::NONE || here == start {
                return None;
            }
        }
    }
}

fn context_name(special: Special, mine: Scope, other: Scope) -> Option<Scope> {
    match special {
        Special::My | Special::Ad => Some(mine),
        Special::Target | Special::Other => Some(other),
        _ => None,
    }
}

fn context_ad(mine: &str, other: &str) -> Ad {
    let mut ad = Ad::new();
    for (name, side) in [
        ("other", other),
        ("target", other),
        ("my", mine),
        ("ad", mine),
    ] {
        ad.set(name, Expr::AbsAttr(side.into()));
    }
    ad
}

static MATCH_RULES: LazyLock<Ad> = LazyLock::new(|| {
    let of = |side: &str, name: &str| Expr::select(Expr::attr(side), name.into());
    let mut ad = Ad::new();
    let both = Expr::binary(
        BinaryOp::And,
        of("RIGHT", "requirements"),
        of("LEFT", "requirements"),
    );
    ad.set("symmetricMatch", both);
    ad.set("leftMatchesRight", of("RIGHT", "requirements"));
    ad.set("rightMatchesLeft", of("LEFT", "requirements"));
    ad.set("leftRankValue", of("LEFT", "rank"));
    ad.set("rightRankValue", of("RIGHT", "rank"));
    ad
});

fn empty_ad() -> &'static Ad {
    static EMPTY: LazyLock<Ad> = LazyLock::new(Ad::new);
    &EMPTY
}
