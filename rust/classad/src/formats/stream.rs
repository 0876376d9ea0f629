//! Streams of ads in any of the formats.

use super::json::{JsonRules, parse_object};
use super::old::{OldReader, Rules};
use super::xml::XmlReader;
use crate::ad::Ad;
use crate::error::{Code, ParseError, Span};
use crate::lexer::is_space;
use crate::parser::{Syntax, parse_ad_reaching};

/// A text format of ads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One attribute a line (`condor_status -long`).
    Old,
    /// `[ name = value; ... ]`
    New,
    /// `{"name": value, ...}`
    Json,
    /// `<c><a n="name">...</a></c>`
    Xml,
}

/// The format a text seems to be in, judged by how it begins.
#[must_use]
pub fn detect(text: &[u8]) -> Format {
    let mut solid = text.iter().filter(|b| !is_space(**b));
    match (solid.next(), solid.next()) {
        (Some(b'<'), _) => Format::Xml,
        (Some(b'['), Some(b'{')) => Format::Json,
        (Some(b'{'), Some(b'[')) => Format::New,
        (Some(b'{'), _) => Format::Json,
        (Some(b'[' | b'/'), _) => Format::New,
        _ => Format::Old,
    }
}

/// Reads ads from a text, one after the other: bare, one below the other, or as a list.
pub struct AdReader<'t> {
    text: &'t [u8],
    at: usize,
    source: Source<'t>,
}

enum Source<'t> {
    Old(OldReader<'t>),
    Xml(XmlReader<'t>),
    Bracketed(Format),
    Failed,
}

impl<'t> AdReader<'t> {
    /// A reader at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'t [u8], format: Format, rules: Rules) -> Self {
        let source = match format {
            Format::Old => Source::Old(OldReader::new(text, rules)),
            Format::Xml => Source::Xml(XmlReader::new(text, rules.strict)),
            other => Source::Bracketed(other),
        };
        Self {
            text,
            at: 0,
            source,
        }
    }

    /// The next ad; `None` at the end.
    ///
    /// # Errors
    /// For text that is not an ad. In the old format reading can go on after that, in others it is the end.
    pub fn next_ad(&mut self) -> Option<Result<Ad, ParseError>> {
        let result = match &mut self.source {
            Source::Old(reader) => return reader.next_ad(),
            Source::Xml(reader) => reader.next_ad().transpose(),
            Source::Bracketed(format) => {
                let format = *format;
                self.bracketed(format)
            }
            Source::Failed => None,
        };
        if matches!(result, Some(Err(_))) {
            self.source = Source::Failed;
        }
        result
    }

    fn bracketed(&mut self, format: Format) -> Option<Result<Ad, ParseError>> {
        let (list, close) = if format == Format::New {
            (b'{', b'}')
        } else {
            (b'[', b']')
        };
        while let Some(&b) = self.text.get(self.at) {
            if !is_space(b) && b != b',' && b != list && b != close {
                break;
            }
            self.at += 1;
        }
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let parsed = match format {
            Format::New => parse_ad_reaching(rest, Syntax::NORMAL),
            _ => parse_object(rest, JsonRules::default()),
        };
        Some(match parsed {
            Ok((ad, end)) => {
                self.at += end;
                Ok(ad)
            }
            Err((mut error, _)) => {
                error.span.start += self.at;
                error.span.end += self.at;
                Err(error)
            }
        })
    }
}

/// Reads all ads of a text exactly as HTCondor's `parseAds` does, oddities included: text that cannot be
/// read to its end fails, text that was read to its end without finding an ad is the end of the stream. Without
/// a format, each ad is taken for new or old by its first byte. `strict` is the strict mode.
///
/// # Errors
/// [`ParseError`] where HTCondor refuses the text.
pub fn read_as_reference(
    text: &[u8],
    format: Option<Format>,
    strict: bool,
) -> Result<Vec<Ad>, ParseError> {
    let mut ads = Vec::new();
    let mut at = 0;
    loop {
        while at < text.len() && is_space(text[at]) {
            at += 1;
        }
        let rest = &text[at..];
        let guess = if matches!(rest.first(), Some(b'/' | b'[')) {
            Format::New
        } else {
            Format::Old
        };
        let (found, used) = next_as_reference(rest, format.unwrap_or(guess), strict);
        match found {
            Some(ad) if !ad.is_empty() => {
                at += used;
                ads.push(ad);
            }
            _ if at + used >= text.len() => return Ok(ads),
            _ => {
                let span = Span {
                    start: at,
                    end: (at + used).min(text.len()),
                };
                return Err(ParseError::new(
                    Code::BadLine,
                    span,
                    "this is not an ad",
                    "",
                ));
            }
        }
    }
}

/// The ad a text begins with, if any, and how much of the text was used or looked at.
fn next_as_reference(text: &[u8], format: Format, strict: bool) -> (Option<Ad>, usize) {
    let syntax = Syntax {
        strict,
        ..Syntax::NORMAL
    };
    if text.is_empty() {
        return (None, 0);
    }
    let (parsed, used) = match format {
        Format::Old => (Some(Ad::new()), 0),
        Format::New => inside_list(text, b'{', |t| parse_ad_reaching(t, syntax)),
        Format::Json => {
            let rules = JsonRules {
                reference_escapes: true,
                strict,
            };
            inside_list(text, b'[', |t| parse_object(t, rules))
        }
        Format::Xml => {
            let mut reader = XmlReader::new(text, strict);
            let ad = reader.next_ad().ok().flatten();
            (ad, reader.position())
        }
    };
    match parsed {
        // An empty ad counts as none, and HTCondor goes on as if the text were in the old syntax.
        Some(ad) if ad.is_empty() => {
            let rules = Rules {
                lenient: true,
                strict,
                ..Rules::default()
            };
            let mut reader = OldReader::new(&text[used..], rules);
            let ad = Some(reader.one_ad(format == Format::Old));
            (ad, used + reader.position())
        }
        other => (other, used),
    }
}

/// Parses at the beginning, or one list bracket further.
fn inside_list(
    text: &[u8],
    bracket: u8,
    parse: impl Fn(&[u8]) -> Result<(Ad, usize), (ParseError, usize)>,
) -> (Option<Ad>, usize) {
    match parse(text) {
        Ok((ad, end)) => (Some(ad), end),
        // The token it failed at is the bracket of a list: go on behind it.
        Err((error, _))
            if error.span.end == error.span.start + 1
                && text.get(error.span.start) == Some(&bracket) =>
        {
            let inside = error.span.end;
            match parse(&text[inside..]) {
                Ok((ad, end)) => (Some(ad), inside + end),
                Err((_, reach)) => (None, inside + reach),
            }
        }
        Err((_, reach)) => (None, reach),
    }
}
