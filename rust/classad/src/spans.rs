//! Where the nodes of a tree stand in its text.
//!
//! Trees carry no places: bulk parsing pays neither time nor memory for them. Who wants them asks the parser to
//! note each node, and gets a table beside the tree, by node in pre-order (a node, then its children from the
//! left; see [`Expr::children`]).

use crate::error::Span;
use crate::expr::{BinaryOp, Expr};

/// The places of a tree's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    nodes: Vec<Noted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    span: Span,
    /// Nodes of the subtree, this one included.
    size: u32,
}

impl Spans {
    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The place of a node; the tree itself is node 0.
    #[must_use]
    pub fn get(&self, node: usize) -> Option<Span> {
        self.nodes.get(node).map(|noted| noted.span)
    }

    /// The children of a node, from the left.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let end = node + self.nodes.get(node).map_or(0, |noted| noted.size as usize);
        let mut next = node + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next += self.nodes[child].size as usize;
            Some(child)
        })
    }

    /// The table of a node and what is below it.
    #[must_use]
    pub fn subtree(&self, node: usize) -> Self {
        let size = self.nodes.get(node).map_or(0, |noted| noted.size as usize);
        Self {
            nodes: self.nodes[node..node + size].to_vec(),
        }
    }

    /// The same places in a text where this one begins at `offset`.
    #[must_use]
    pub fn moved(mut self, offset: usize) -> Self {
        for noted in &mut self.nodes {
            noted.span.start += offset;
            noted.span.end += offset;
        }
        self
    }
}

/// Notes nodes as the parser completes them, children before parents.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    nodes: Vec<Noted>,
}

impl Recorder {
    pub(crate) fn noted(&self) -> usize {
        self.nodes.len()
    }

    /// Notes a node; what was noted since `first` is below it.
    pub(crate) fn note(&mut self, span: Span, first: usize) {
        let size = (self.nodes.len() - first + 1) as u32;
        self.nodes.push(Noted { span, size });
    }

    /// The node noted last is not a node of its own: a call that is a literal took it in.
    pub(crate) fn forget_last(&mut self) {
        self.nodes.pop();
    }

    /// The node noted last is an attribute of an ad whose first one was noted at `first`; it replaces the
    /// attribute at `place`, if there is one of its name.
    pub(crate) fn attribute(&mut self, first: usize, place: Option<usize>) {
        let Some(place) = place else { return };
        let mut roots = Vec::new();
        let mut at = self.nodes.len();
        while at > first {
            roots.push(at);
            at -= self.nodes[at - 1].size as usize;
        }
        let latest = self.nodes.len() - self.nodes[self.nodes.len() - 1].size as usize;
        let new = self.nodes.split_off(latest);
        let end = roots[roots.len() - 1 - place];
        let begin = end - self.nodes[end - 1].size as usize;
        self.nodes.splice(begin..end, new);
    }

    /// The table, parents first.
    pub(crate) fn finish(self) -> Spans {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut todo: Vec<usize> = self.nodes.len().checked_sub(1).into_iter().collect();
        while let Some(at) = todo.pop() {
            let noted = self.nodes[at];
            nodes.push(noted);
            let mut left = noted.size as usize - 1;
            let mut child = at;
            while left > 0 {
                child -= 1;
                todo.push(child);
                let size = self.nodes[child].size as usize;
                child -= size - 1;
                left -= size;
            }
        }
        Spans { nodes }
    }
}

impl Expr {
    /// The expressions an expression is made of, from the left; those of an ad in its order.
    #[must_use]
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Lit(_) | Expr::Attr(_) | Expr::AbsAttr(_) => Vec::new(),
            Expr::Select(s) => vec![&s.base],
            Expr::Unary(u) => vec![&u.arg],
            Expr::Binary(b) => vec![&b.left, &b.right],
            Expr::Ternary(t) => vec![&t.cond, &t.then, &t.other],
            Expr::Elvis(e) | Expr::Subscript(e) => vec![&e.0, &e.1],
            Expr::Paren(inner) => vec![inner],
            Expr::Call(call) => call.args.iter().collect(),
            Expr::List(items) => items.iter().collect(),
            Expr::Ad(ad) => ad.iter().map(|(_, expr)| expr).collect(),
        }
    }
}

/// The nodes of a tree with their numbers in its table.
#[must_use]
pub fn nodes<'e>(expr: &'e Expr, spans: &Spans, root: usize) -> Vec<(&'e Expr, usize)> {
    let mut out = Vec::new();
    let mut todo = vec![(expr, root)];
    while let Some((expr, node)) = todo.pop() {
        out.push((expr, node));
        let below = expr.children().into_iter().zip(spans.children(node));
        let from = todo.len();
        todo.extend(below);
        todo[from..].reverse();
    }
    out
}

/// The clauses of `a && (b && c) && ...`, as [`crate::fold::conjuncts`], with their numbers in the table.
#[must_use]
pub fn conjuncts<'e>(expr: &'e Expr, spans: &Spans, root: usize) -> Vec<(&'e Expr, usize)> {
    let mut out = Vec::new();
    let mut todo = vec![(expr, root)];
    while let Some((clause, node)) = todo.pop() {
        let (mut inner, mut inside) = (clause, Some(node));
        while let (Expr::Paren(next), Some(at)) = (inner, inside) {
            inner = next;
            inside = spans.children(at).next();
        }
        match (inner, inside) {
            (Expr::Binary(b), Some(at)) if b.op == BinaryOp::And => {
                let mut sides = spans.children(at);
                if let (Some(left), Some(right)) = (sides.next(), sides.next()) {
                    todo.push((&b.right, right));
                    todo.push((&b.left, left));
                }
            }
            _ => out.push((clause, node)),
        }
    }
    out
}
