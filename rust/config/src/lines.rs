//! Joins physical lines into statements: continuations, comments inside them, blanks at the ends.
//!
//! Rules found by probing HTCondor. A backslash at the end of a line joins the next one with its leading
//! blanks removed. A comment line inside a continuation ends it, unless that comment ends in a backslash too; its
//! last character is all that stays of it. A last line without a newline is taken as it is.

use std::borrow::Cow;

/// How comments and continuations work together; `#opt:oldcomment` and `#opt:newcomment` switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentRule {
    /// Comments do not continue, and a comment within a continuation counts as blank.
    New,
    /// A comment is text like any other as far as continuations are concerned.
    Old,
}

/// An iterator over the joined lines of a text.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    pos: usize,
    line: u32,
    /// Rule in force for the lines still to come.
    pub rule: CommentRule,
}

pub(crate) fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

pub(crate) fn trim_start(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii() && is_space(c as u8))
}

pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii() && is_space(c as u8))
}

pub(crate) fn trim(text: &str) -> &str {
    trim_end(trim_start(text))
}

impl<'a> Lines<'a> {
    /// Lines of a whole text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            pos: 0,
            line: 0,
            rule: CommentRule::New,
        }
    }

    /// Number of complete physical lines taken so far.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Byte offset of the first line not yet taken.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.pos
    }

    fn physical(&mut self) -> Option<(&'a str, bool)> {
        if self.pos >= self.text.len() {
            return None;
        }
        let rest = &self.text[self.pos..];
        match memchr(rest) {
            Some(end) => {
                self.pos += end + 1;
                self.line += 1;
                Some((&rest[..end], true))
            }
            None => {
                self.pos = self.text.len();
                Some((rest, false))
            }
        }
    }
}

fn memchr(text: &str) -> Option<usize> {
    text.as_bytes().iter().position(|&b| b == b'\n')
}

impl<'a> Iterator for Lines<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Cow<'a, str>> {
        let mut joined: Option<String> = None;
        loop {
            let Some((raw, complete)) = self.physical() else {
                return joined.filter(|text| !text.is_empty()).map(Cow::Owned);
            };
            if !complete {
                return Some(match joined {
                    None => Cow::Borrowed(raw),
                    Some(mut text) => {
                        text.push_str(raw);
                        Cow::Owned(text)
                    }
                });
            }
            let mut piece = trim(raw);
            let mut comment = piece.starts_with('#');
            let first = joined.as_ref().is_none_or(String::is_empty);
            if comment && !first && self.rule == CommentRule::New {
                let last = piece.char_indices().next_back().map_or(0, |(at, _)| at);
                piece = &piece[last..];
                comment = false;
            }
            let continues = match &joined {
                Some(text) if piece.is_empty() => text.ends_with('\\'),
                _ => piece.ends_with('\\'),
            };
            if continues {
                let mut text = joined.take().unwrap_or_default();
                text.push_str(piece);
                text.pop();
                if comment && self.rule == CommentRule::New {
                    return Some(Cow::Owned(text));
                }
                joined = Some(text);
                continue;
            }
            return Some(match joined {
                None => Cow::Borrowed(piece),
                Some(mut text) => {
                    text.push_str(piece);
                    Cow::Owned(text)
                }
            });
        }
    }
}
