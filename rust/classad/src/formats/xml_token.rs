//! The pieces of XML: tags and what is between them.

use crate::lexer::is_space;
use memchr::memchr;

/// Whether a tag opens, closes, or does both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Start,
    End,
    Empty,
}

#[derive(Clone, Debug)]
pub(super) enum Token {
    Tag {
        name: Vec<u8>,
        shape: Shape,
        attributes: Vec<(Vec<u8>, Vec<u8>)>,
        broken: bool,
    },
    Text(Vec<u8>),
}

impl Token {
    pub(super) fn is(&self, wanted: &[u8]) -> Option<Shape> {
        match self {
            Token::Tag { name, shape, .. } if name == wanted => Some(*shape),
            _ => None,
        }
    }
}

pub(super) fn entity_text(entity: &[u8]) -> Option<&'static [u8]> {
    match entity {
        b"&amp;" => Some(b"&"),
        b"&lt;" => Some(b"<"),
        b"&gt;" => Some(b">"),
        _ => None,
    }
}

/// Takes the inside of a tag apart.
pub(super) fn split_tag(tag: &[u8]) -> Token {
    let (shape, body) = match (tag.first(), tag.last()) {
        (Some(b'/'), _) => (Shape::End, &tag[1..]),
        (_, Some(b'/')) => (Shape::Empty, &tag[..tag.len() - 1]),
        _ => (Shape::Start, tag),
    };
    let name_end = body.iter().position(|b| is_space(*b)).unwrap_or(body.len());
    let mut attributes = Vec::new();
    let mut broken = false;
    let mut rest = &body[name_end..];
    while !rest.is_empty() {
        rest = rest.trim_ascii_start();
        let end = rest
            .iter()
            .position(|b| is_space(*b) || *b == b'=')
            .unwrap_or(rest.len());
        let key = &rest[..end];
        rest = &rest[end..];
        let start = rest
            .iter()
            .position(|b| !is_space(*b) && *b != b'=')
            .unwrap_or(rest.len());
        // One past the quote, whatever it is.
        rest = rest.get(start + 1..).unwrap_or(b"");
        let mut end = 0;
        while end < rest.len() && (rest[end] != b'"' || (end > 0 && rest[end - 1] == b'\\')) {
            end += 1;
        }
        let value = crate::escape::from_new(&plain_text(&rest[..end]));
        rest = rest.get(end..).unwrap_or(b"");
        if value.contains(&0) {
            broken = true;
        } else if !key.is_empty() && !value.is_empty() {
            attributes.push((key.to_vec(), value));
        }
        // The closing quote begins the next round, as a name of no value.
        if rest.first() == Some(&b'"') {
            rest = &rest[1..];
        }
    }
    Token::Tag {
        name: body[..name_end].to_vec(),
        shape,
        attributes,
        broken,
    }
}

/// A text with its entities replaced.
pub(super) fn plain_text(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let end = memchr(b';', &raw[at..]).map(|e| at + e + 1);
        match (
            raw[at],
            end.and_then(|end| entity_text(&raw[at..end]).map(|text| (text, end))),
        ) {
            (b'&', Some((text, end))) => {
                out.extend_from_slice(text);
                at = end;
            }
            (b, _) => {
                out.push(b);
                at += 1;
            }
        }
    }
    out
}
