//! The ads an evaluation can see, and how they are nested.
//!
//! In a match the reference puts both ads into an ad of its own: MY is `.LEFT` under a context ad with
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
    pub(crate) held: Held<'a>,
    pub(crate) parent: Scope,
    /// Where bare names are looked up that neither this ad nor those around it have.
    pub(crate) alternate: Scope,
    /// The ad as a value, made when first asked for.
    shared: Option<Arc<Ad>>,
}

pub(crate) const MY: Scope = Scope(0);
pub(crate) const TARGET: Scope = Scope(1);
const LEFT_CONTEXT: Scope = Scope(2);
const RIGHT_CONTEXT: Scope = Scope(3);
pub(crate) const ROOT: Scope = Scope(4);

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

/// All scopes of one evaluation; nodes are only ever added.
pub(crate) struct Scopes<'a> {
    nodes: smallvec::SmallVec<[Node<'a>; 6]>,
    pub(crate) matching: bool,
    strict: bool,
}

impl<'a> Scopes<'a> {
    pub(crate) fn new(my: Option<&'a Ad>, target: Option<&'a Ad>, strict: bool) -> Self {
        let mut scopes = Self {
            nodes: smallvec::SmallVec::new(),
            matching: false,
            strict,
        };
        match (my, target) {
            (None, None) => {}
            (Some(my), None) => {
                scopes.push(Held::Borrowed(my), Scope::NONE, Scope::NONE);
            }
            (my, Some(target)) => {
                scopes.matching = true;
                let my = my.unwrap_or_else(|| empty_ad());
                let (left_alternate, right_alternate) = if strict {
                    (Scope::NONE, Scope::NONE)
                } else {
                    (TARGET, MY)
                };
                scopes.push(Held::Borrowed(my), LEFT_CONTEXT, left_alternate);
                scopes.push(Held::Borrowed(target), RIGHT_CONTEXT, right_alternate);
                scopes.push(Held::LeftContext, ROOT, Scope::NONE);
                scopes.push(Held::RightContext, ROOT, Scope::NONE);
                scopes.push(Held::MatchRoot, Scope::NONE, Scope::NONE);
            }
        }
        scopes
    }

    /// The scope of MY, or none.
    pub(crate) fn first(&self) -> Scope {
        if self.nodes.is_empty() {
            Scope::NONE
        } else {
            MY
        }
    }

    fn push(&mut self, held: Held<'a>, parent: Scope, alternate: Scope) -> Scope {
        self.nodes.push(Node {
            held,
            parent,
            alternate,
            shared: None,
        });
        Scope(self.nodes.len() as u32 - 1)
    }

    /// The scope of a nested ad; the same ad in the same place gets the same scope again, if recent.
    pub(crate) fn nested(&mut self, ad: &Arc<Ad>, parent: Scope) -> Scope {
        for (i, node) in self.nodes.iter().enumerate().rev().take(8) {
            if let Held::Shared(other) = &node.held
                && Arc::ptr_eq(ad, other)
                && node.parent == parent
                && node.alternate == Scope::NONE
            {
                return Scope(i as u32);
            }
        }
        self.push(Held::Shared(ad.clone()), parent, Scope::NONE)
    }

    /// A copy of a scope that looks further in `alternate`.
    pub(crate) fn with_alternate(&mut self, scope: Scope, alternate: Scope) -> Scope {
        let Some(node) = self.get(scope) else {
            return scope;
        };
        if node.alternate == alternate {
            return scope;
        }
        let (held, parent) = (node.held.clone(), node.parent);
        self.push(held, parent, alternate)
    }

    #[inline]
    pub(crate) fn get(&self, scope: Scope) -> Option<&Node<'a>> {
        self.nodes.get(scope.0 as usize)
    }

    pub(crate) fn parent(&self, scope: Scope) -> Scope {
        self.get(scope).map_or(Scope::NONE, |n| n.parent)
    }

    pub(crate) fn alternate(&self, scope: Scope) -> Scope {
        self.get(scope).map_or(Scope::NONE, |n| n.alternate)
    }

    /// The outermost ad around a scope.
    pub(crate) fn root_of(&self, scope: Scope) -> Scope {
        let mut at = scope;
        while let Some(node) = self.get(at) {
            if node.parent == Scope::NONE {
                return at;
            }
            at = node.parent;
        }
        Scope::NONE
    }

    /// The ad of a scope as a value.
    pub(crate) fn ad(&mut self, scope: Scope) -> Option<Arc<Ad>> {
        let node = self.get(scope)?;
        if let Some(ad) = &node.shared {
            return Some(ad.clone());
        }
        let ad = match &node.held {
            Held::Shared(ad) => return Some(ad.clone()),
            Held::Borrowed(ad) => Arc::new((*ad).clone()),
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
        if let Some(node) = self.nodes.get_mut(scope.0 as usize) {
            node.shared = Some(ad.clone());
        }
        Some(ad)
    }

    /// A name in one ad alone.
    #[inline]
    pub(crate) fn own(&self, scope: Scope, name: &Name) -> Option<Found<'a>> {
        let node = self.get(scope)?;
        match &node.held {
            Held::Borrowed(ad) => ad.get(name).map(Found::Borrowed),
            Held::Shared(ad) => ad
                .get(name)
                .map(|e| Found::Copied(e.clone(), std::ptr::from_ref(e) as usize)),
            Held::LeftContext => context_name(name.special()?, MY, TARGET).map(Found::Scope),
            Held::RightContext => context_name(name.special()?, TARGET, MY).map(Found::Scope),
            Held::MatchRoot => match name.special()? {
                Special::Left => Some(Found::Scope(MY)),
                Special::Right => Some(Found::Scope(TARGET)),
                Special::LeftContext => Some(Found::Scope(LEFT_CONTEXT)),
                Special::RightContext => Some(Found::Scope(RIGHT_CONTEXT)),
                _ => MATCH_RULES.get(name).map(Found::Borrowed),
            },
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
            let node = self.get(here)?;
            *at = here;
            if let Some(found) = self.own(here, name) {
                return Some(found);
            }
            let around = if here == root {
                Scope::NONE
            } else {
                node.parent
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
