//! Where an attribute of an ad is defined in the ad's text, for those who show the text to people.

use super::old::{split, value_spanned};
use super::stream::{Format, detect};
use crate::expr::Expr;
use crate::lexer::is_space;
use crate::name::Name;
use crate::parser::{Syntax, parse_ad_spanned};
use crate::spans::Spans;

/// The definition of an attribute in the first ad of a text, with the places of its nodes in that text.
/// `None` if there is no such attribute, the text is not an ad, or in a format that is not written by hand (JSON, XML).
#[must_use]
pub fn definition(text: &[u8], name: &Name) -> Option<(Expr, Spans)> {
    match detect(text) {
        Format::Old => in_lines(text, name),
        Format::New => in_brackets(text, name),
        Format::Json | Format::Xml => None,
    }
}

fn in_brackets(text: &[u8], name: &Name) -> Option<(Expr, Spans)> {
    let opening = memchr::memchr(b'[', text)?;
    let start = if text[..opening].iter().all(|b| is_space(*b) || *b == b'{') {
        opening
    } else {
        crate::lexer::blank(text)
    };
    let (ad, spans) = parse_ad_spanned(&text[start..], Syntax::NORMAL).ok()?;
    let place = ad.position(name)?;
    let (_, expr) = ad.at(place)?;
    let node = spans.children(0).nth(place)?;
    Some((expr.clone(), spans.subtree(node).moved(start)))
}

fn in_lines(text: &[u8], name: &Name) -> Option<(Expr, Spans)> {
    let mut found = None;
    let (mut at, mut begun) = (0, false);
    for line in text.split_inclusive(|b| *b == b'\n') {
        let start = at;
        at += line.len();
        let line = line.trim_ascii_end();
        if line.is_empty() {
            if begun {
                break;
            }
            continue;
        }
        let Ok((key, head)) = split(line) else {
            continue;
        };
        begun = true;
        if Name::new(key) == *name
            && let Ok((expr, places)) = value_spanned(&line[head..])
        {
            found = Some((expr, places.moved(start + head)));
        }
    }
    found
}
