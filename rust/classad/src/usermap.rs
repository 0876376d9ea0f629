//! User maps: what `userMap()` answers from. Lines of `METHOD PRINCIPAL CANONICAL`, the principal a text, or
//! a pattern between slashes; the first line that fits wins.

use crate::regex::{Match, Options, Pattern};
use rustc_hash::FxHashMap;

struct Line {
    method: Vec<u8>,
    principal: Principal,
    canonical: Vec<u8>,
}

enum Principal {
    Exact(Vec<u8>),
    Pattern(Vec<u8>, Options),
}

/// Named maps.
#[derive(Default)]
pub struct UserMaps {
    maps: FxHashMap<Vec<u8>, Vec<Line>>,
}

impl UserMaps {
    /// Reads a map from text and keeps it under `name`; a line that says too little is passed over.
    pub fn define(&mut self, name: &[u8], text: &[u8]) {
        let lines = text.split(|b| *b == b'\n').filter_map(parse_line).collect();
        self.maps.insert(name.to_vec(), lines);
    }

    /// Forgets a map.
    pub fn forget(&mut self, name: &[u8]) {
        self.maps.remove(name);
    }

    /// What a map makes of an input. The map's name may be followed by `.METHOD`, else the method is `*`.
    #[must_use]
    pub fn lookup(&self, map: &[u8], input: &[u8]) -> Option<Vec<u8>> {
        let (name, method) = match memchr::memchr(b'.', map) {
            Some(at) => (&map[..at], &map[at + 1..]),
            None => (map, &b"*"[..]),
        };
        let lines = self.maps.get(name)?.iter();
        lines
            .filter(|line| line.method.eq_ignore_ascii_case(method))
            .find_map(|line| line.apply(input))
    }
}

impl Line {
    fn apply(&self, input: &[u8]) -> Option<Vec<u8>> {
        let groups = match &self.principal {
            Principal::Exact(text) => (text == input).then(|| vec![Some((0, input.len()))])?,
            Principal::Pattern(pattern, options) => {
                match Pattern::new(pattern, *options)?.find_nonempty(input) {
                    Match::Found(groups) => groups,
                    Match::None | Match::Failed => return None,
                }
            }
        };
        let mut out = Vec::new();
        let mut at = 0;
        while at < self.canonical.len() {
            let digit = self.canonical.get(at + 1).filter(|d| d.is_ascii_digit());
            match (self.canonical[at], digit) {
                (b'\\', Some(d)) => {
                    if let Some(Some((start, end))) = groups.get(usize::from(d - b'0')) {
                        out.extend_from_slice(&input[*start..*end]);
                    }
                    at += 2;
                }
                (b, _) => {
                    out.push(b);
                    at += 1;
                }
            }
        }
        Some(out)
    }
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let (method, rest) = field(line, false);
    if method.text.is_empty() || method.text[0] == b'#' {
        return None;
    }
    let (principal, rest) = field(rest, true);
    let (canonical, _) = field(rest, false);
    if principal.text.is_empty() || canonical.text.is_empty() {
        return None;
    }
    let principal = match principal.pattern {
        Some(options) => Principal::Pattern(principal.text, options),
        None => Principal::Exact(principal.text),
    };
    Some(Line {
        method: method.text,
        principal,
        canonical: canonical.text,
    })
}

struct Field {
    text: Vec<u8>,
    pattern: Option<Options>,
}

/// The next field of a line: a word, a text in quotes, or (where allowed) a pattern in slashes with flags.
fn field(line: &[u8], patterns: bool) -> (Field, &[u8]) {
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r');
    let start = line.iter().position(|b| !blank(b)).unwrap_or(line.len());
    let line = &line[start..];
    let end = match line.first() {
        Some(b'"') => b'"',
        Some(b'/') if patterns => b'/',
        _ => {
            let end = line.iter().position(blank).unwrap_or(line.len());
            return (
                Field {
                    text: line[..end].to_vec(),
                    pattern: None,
                },
                &line[end..],
            );
        }
    };
    let mut text = Vec::new();
    let mut at = 1;
    while let Some(&b) = line.get(at) {
        at += 1;
        match (b, line.get(at)) {
            (b, _) if b == end => break,
            (b'\\', Some(next)) if *next == end || *next == b'\\' => {
                text.push(*next);
                at += 1;
            }
            (b, _) => text.push(b),
        }
    }
    let mut options = Options::default();
    if end == b'/' {
        while let Some(flag @ (b'i' | b'U')) = line.get(at) {
            options.caseless |= *flag == b'i';
            options.ungreedy |= *flag == b'U';
            at += 1;
        }
    }
    let pattern = (end == b'/').then_some(options);
    (Field { text, pattern }, line.get(at..).unwrap_or(b""))
}

#[cfg(test)]
mod tests {
    use super::UserMaps;

    #[test]
    fn the_first_line_that_fits_wins() {
        let mut maps = UserMaps::default();
        maps.define(
            b"groups",
            b"# users and their groups\n* alice physics,bio\n* /^(.*)@example\\.org$/i \\1-group\n* /.*/ \"no group\"\nSSL bob x\n",
        );
        let look = |map: &str, input: &str| {
            maps.lookup(map.as_bytes(), input.as_bytes())
                .map(|v| String::from_utf8_lossy(&v).into_owned())
        };
        assert_eq!(look("groups", "alice").as_deref(), Some("physics,bio"));
        assert_eq!(
            look("groups", "Bob@Example.ORG").as_deref(),
            Some("Bob-group")
        );
        assert_eq!(look("groups", "eve").as_deref(), Some("no group"));
        assert_eq!(look("groups.SSL", "bob").as_deref(), Some("x"));
        assert_eq!(look("groups.SSL", "eve"), None);
        assert_eq!(look("nosuch", "alice"), None);
    }
}
