//! Where expressions stand in the text they were read from.

use super::convert::with_bytes;
use super::expr::PyExpr;
use ::classad::formats::place::definition;
use ::classad::{Expr, Name, Span, Spans, spans};
use pyo3::prelude::*;
use std::sync::Arc;

struct Source {
    text: Vec<u8>,
    spans: Spans,
}

/// A node of a tree, and the text with the places of all its nodes.
#[derive(Clone)]
pub struct Place {
    source: Arc<Source>,
    node: usize,
}

impl Place {
    /// The place of a whole tree.
    pub fn whole(text: &[u8], spans: Spans) -> Self {
        let text = text.to_vec();
        Self {
            source: Arc::new(Source { text, spans }),
            node: 0,
        }
    }

    fn at(&self, node: usize) -> Self {
        Self {
            source: self.source.clone(),
            node,
        }
    }

    fn span(&self) -> Span {
        self.source.spans.get(self.node).unwrap_or_default()
    }

    pub fn text(&self) -> &[u8] {
        &self.source.text
    }

    /// The span counted in characters, as Python counts.
    pub fn characters(&self) -> (usize, usize) {
        let span = self.span();
        let before = characters(&self.text()[..span.start]);
        let inside = characters(&self.text()[span.start..span.end]);
        (before, before + inside)
    }

    pub fn line_column(&self) -> (usize, usize) {
        let span = self.span();
        let (line, column) = span.line_column(self.text());
        let line_text = &self.text()[span.start + 1 - column..span.start];
        (line, characters(line_text) + 1)
    }

    pub fn excerpt(&self) -> String {
        self.span().excerpt(self.text())
    }

    pub fn nodes(&self, expr: &Expr) -> Vec<(Expr, Self)> {
        let nodes = spans::nodes(expr, &self.source.spans, self.node).into_iter();
        nodes.map(|(e, node)| (e.clone(), self.at(node))).collect()
    }

    pub fn conjuncts(&self, expr: &Expr) -> Vec<(Expr, Self)> {
        let clauses = spans::conjuncts(expr, &self.source.spans, self.node).into_iter();
        clauses
            .map(|(e, node)| (e.clone(), self.at(node)))
            .collect()
    }
}

/// How many characters of a `str` some bytes become: a byte that is not UTF-8 is one.
fn characters(bytes: &[u8]) -> usize {
    let chunks = bytes.utf8_chunks();
    chunks
        .map(|c| c.valid().chars().count() + c.invalid().len())
        .sum()
}

/// The definition of an attribute in the text of an ad, with its spans in that text; None if the text is not an ad,
/// has no such attribute, or is JSON or XML. Of several ads, the first.
#[pyfunction]
pub fn definition_in(text: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<PyExpr>> {
    with_bytes(text, |bytes| {
        let (expr, spans) = definition(bytes, &Name::from(name))?;
        Some(PyExpr::placed(expr, Place::whole(bytes, spans)))
    })
}
