//! User maps: what `userMap()` answers from.
//!
//! Lines of `METHOD PRINCIPAL CANONICAL`, the rules of HTCondor's map files ("The Authentication Map File" in its
//! manual, with hash keys assumed): the principal is a text to be met exactly, or a pattern between slashes; the first
//! line that fits wins. In a map of prefixes it is the beginning of the input, a longer one before its own beginning.

use crate::regex::{Match, Options, Pattern};
use rustc_hash::FxHashMap;
use std::sync::Mutex;

/// Beginnings that are compared in a step.
const PREFIXES_A_STEP: usize = 8;

/// What lines of a map next to each other are kept as.
enum Entry {
    /// Exact principals and what they become.
    Exact(FxHashMap<Vec<u8>, Vec<u8>>),
    /// A pattern and what its matches become. One thread at a time can match with it.
    Pattern(Mutex<Pattern>, Vec<u8>),
    /// Beginnings, those that come last in the alphabet first.
    Prefixes(Vec<(Vec<u8>, Vec<u8>)>),
}

/// What the principals of a map are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Principals {
    /// Texts, and patterns where they stand between slashes.
    Texts,
    /// All of them patterns (CERTIFICATE_MAPFILE_ASSUME_HASH_KEYS is false).
    Patterns,
    /// Beginnings (CLASSAD_USER_MAP_PREFIX_<name>).
    Prefixes,
}

/// What is wrong with a line of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It lacks a principal or a canonical name.
    Incomplete,
    /// Its principal is not a regular expression.
    NoPattern,
    /// More follows where a field, or the line, should end: a principal with blanks or slashes lacks its quotes.
    GoesOn,
}

/// A line, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Named maps; names ignore case.
#[derive(Default)]
pub struct UserMaps {
    /// By name, then by method (a submap's name, mostly `*`), both in lower case.
    maps: FxHashMap<Vec<u8>, FxHashMap<Vec<u8>, Vec<Entry>>>,
}

impl UserMaps {
    /// Reads a map from text and keeps it under `name`. A line that says too little, or whose pattern is none, maps
    /// nobody; the numbers of such lines come back, and of those that may not mean what they say.
    pub fn define(&mut self, name: &[u8], text: &[u8], principals: Principals) -> Vec<BadLine> {
        let mut methods: FxHashMap<Vec<u8>, Vec<Entry>> = FxHashMap::default();
        let mut bad = Vec::new();
        for (number, text) in text.split(|b| *b == b'\n').enumerate() {
            let mut report = |reason| {
                let line = number + 1;
                bad.push(BadLine { line, reason });
            };
            let mut line = match parse_line(text, principals == Principals::Texts) {
                Parsed::Nothing => continue,
                Parsed::Incomplete => {
                    report(Reason::Incomplete);
                    continue;
                }
                Parsed::Line(line) => line,
            };
            if line.goes_on {
                report(Reason::GoesOn);
            }
            if principals == Principals::Patterns {
                line.pattern = Some(Options::default());
            }
            let entries = methods.entry(line.method.to_ascii_lowercase()).or_default();
            if !add(entries, line, principals == Principals::Prefixes) {
                report(Reason::NoPattern);
            }
        }
        for entry in methods.values_mut().flatten() {
            if let Entry::Prefixes(list) = entry {
                list.sort_by(|a, b| b.0.cmp(&a.0));
            }
        }
        self.maps.insert(name.to_ascii_lowercase(), methods);
        bad
    }

    /// Forgets a map.
    pub fn forget(&mut self, name: &[u8]) {
        self.maps.remove(&name.to_ascii_lowercase());
    }

    /// Forgets all maps.
    pub fn clear(&mut self) {
        self.maps.clear();
    }

    /// What a map makes of an input. The map's name may be followed by `.METHOD`, else the method is `*`. What it does is
    /// taken from `steps`; where those are not enough they are less than nothing afterwards, and nothing is found.
    #[must_use]
    pub fn lookup(&self, map: &[u8], input: &[u8], steps: &mut i64) -> Option<Vec<u8>> {
        let (name, method) = match memchr::memchr(b'.', map) {
            Some(at) => (&map[..at], &map[at + 1..]),
            None => (map, &b"*"[..]),
        };
        let methods = self.maps.get(&name.to_ascii_lowercase())?;
        let entries = methods.get(&method.to_ascii_lowercase())?;
        let mut found = None;
        for entry in entries {
            if *steps < 0 {
                return None;
            }
            found = entry.apply(input, steps);
            if found.is_some() {
                break;
            }
        }
        found.filter(|_| *steps >= 0)
    }
}

/// Adds a line; false when its pattern is none.
fn add(entries: &mut Vec<Entry>, line: Line, prefixes: bool) -> bool {
    if let Some(options) = line.pattern {
        let pattern = Pattern::new(&line.principal, options);
        let usable = pattern.is_some();
        entries.extend(pattern.map(|pattern| Entry::Pattern(Mutex::new(pattern), line.canonical)));
        return usable;
    }
    if prefixes {
        let known = matches!(entries.last(), Some(Entry::Prefixes(_)));
        if !known {
            entries.push(Entry::Prefixes(Vec::new()));
        }
        if let Some(Entry::Prefixes(list)) = entries.last_mut()
            && list.iter().all(|(prefix, _)| *prefix != line.principal)
        {
            list.push((line.principal, line.canonical));
        }
        return true;
    }
    if !matches!(entries.last(), Some(Entry::Exact(_))) {
        entries.push(Entry::Exact(FxHashMap::default()));
    }
    if let Some(Entry::Exact(names)) = entries.last_mut() {
        names.entry(line.principal).or_insert(line.canonical);
    }
    true
}

impl Entry {
    fn apply(&self, input: &[u8], steps: &mut i64) -> Option<Vec<u8>> {
        match self {
            Entry::Exact(names) => Some(substituted(names.get(input)?, &[input])),
            Entry::Prefixes(list) => {
                *steps -= (list.len() / PREFIXES_A_STEP) as i64;
                let (prefix, canonical) = list.iter().find(|(p, _)| input.starts_with(p))?;
                Some(substituted(canonical, &[prefix]))
            }
            Entry::Pattern(pattern, canonical) => {
                let found = pattern.lock().ok()?.find(input, 0, false, steps);
                let Match::Found(groups) = found else {
                    return None;
                };
                let part =
                    |place: &Option<(usize, usize)>| place.map_or(&b""[..], |(a, b)| &input[a..b]);
                let parts: Vec<&[u8]> = groups.iter().map(part).collect();
                Some(substituted(canonical, &parts))
            }
        }
    }
}

/// The canonical text with `\N` replaced by what group N matched; of a group that there is not, it stays.
fn substituted(canonical: &[u8], groups: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(canonical.len());
    let mut rest = canonical.iter().copied().peekable();
    while let Some(b) = rest.next() {
        let digit = rest.peek().filter(|d| b == b'\\' && d.is_ascii_digit());
        match digit.and_then(|d| groups.get(usize::from(d - b'0'))) {
            Some(group) => {
                out.extend_from_slice(group);
                rest.next();
            }
            None => {
                out.push(b);
                // What follows a backslash is not looked at again.
                out.extend((b == b'\\').then(|| rest.next()).flatten());
            }
        }
    }
    out
}

struct Line {
    method: Vec<u8>,
    principal: Vec<u8>,
    /// How the principal matches, if it is a pattern.
    pattern: Option<Options>,
    canonical: Vec<u8>,
    /// Whether there is more than three fields, or a field does not end where its quotes or slashes do.
    goes_on: bool,
}

enum Parsed {
    /// An empty line, or a comment.
    Nothing,
    Incomplete,
    Line(Line),
}

fn parse_line(line: &[u8], patterns: bool) -> Parsed {
    let (method, rest) = field(line, false);
    if method.text.is_empty() || method.text[0] == b'#' {
        return Parsed::Nothing;
    }
    let (principal, rest) = field(rest, patterns);
    let joined = rest.first().is_some_and(|b| !is_blank(b));
    let (canonical, rest) = field(rest, false);
    if principal.text.is_empty() || canonical.text.is_empty() {
        return Parsed::Incomplete;
    }
    let after = rest.iter().find(|b| !is_blank(b));
    Parsed::Line(Line {
        method: method.text,
        principal: principal.text,
        pattern: principal.pattern,
        canonical: canonical.text,
        goes_on: joined || after.is_some_and(|b| *b != b'#'),
    })
}

fn is_blank(b: &u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r')
}

struct Field {
    text: Vec<u8>,
    pattern: Option<Options>,
}

/// The next field of a line: a word, a text in quotes, or (where allowed) a pattern in slashes with flags.
fn field(line: &[u8], patterns: bool) -> (Field, &[u8]) {
    let start = line.iter().position(|b| !is_blank(b)).unwrap_or(line.len());
    let line = &line[start..];
    let end = match line.first() {
        Some(b'"') => b'"',
        Some(b'/') if patterns => b'/',
        _ => {
            let end = line.iter().position(is_blank).unwrap_or(line.len());
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
    use super::{BadLine, Principals, Reason, UserMaps};

    #[test]
    fn the_first_line_that_fits_wins() {
        let mut maps = UserMaps::default();
        maps.define(
            b"groups",
            b"# users and their groups\n* alice physics,bio\n* alice later\n* /^(.*)@example\\.org$/i \\1-group\\7\n\
              * /(/ bad\n* /q*/ \"no group\"\nSSL bob x\nssl carol y\n",
            Principals::Texts,
        );
        maps.define(
            b"Homes",
            b"* /home a\n* /home/x b\n* /ho c\n* /ho later\n",
            Principals::Prefixes,
        );
        let look = |map: &str, input: &str| {
            maps.lookup(map.as_bytes(), input.as_bytes(), &mut 10_000)
                .map(|v| String::from_utf8_lossy(&v).into_owned())
        };
        assert_eq!(look("groups", "alice").as_deref(), Some("physics,bio"));
        assert_eq!(
            look("groups", "Bob@Example.ORG").as_deref(),
            Some("Bob-group\\7")
        );
        assert_eq!(look("groups", "eve").as_deref(), Some("no group"));
        assert_eq!(look("Groups.ssl", "bob").as_deref(), Some("x"));
        assert_eq!(look("groups.SSL", "carol").as_deref(), Some("y"));
        assert_eq!(look("homes", "/home/x/y").as_deref(), Some("b"));
        assert_eq!(look("homes", "/home/z").as_deref(), Some("a"));
        assert_eq!(look("homes", "/hoo").as_deref(), Some("c"));
        assert_eq!(look("homes", "/x"), None);
        assert_eq!(look("groups.SSL", "eve"), None);
        assert_eq!(look("nosuch", "alice"), None);
    }

    #[test]
    fn principals_may_all_be_patterns() {
        let mut maps = UserMaps::default();
        let text = b"SSL /CN=(.*)$ \\1@pool\n# c\nSSL ( x\nSSL \"a b\" blank\nSCITOKENS ^https://i\\.org,(\\w+)$ \\1@i.org\n";
        let bad = maps.define(b"m", text, Principals::Patterns);
        assert_eq!(
            bad,
            [BadLine {
                line: 3,
                reason: Reason::NoPattern
            }]
        );
        let look = |map: &str, input: &str| {
            maps.lookup(map.as_bytes(), input.as_bytes(), &mut 10_000)
                .map(|v| String::from_utf8_lossy(&v).into_owned())
        };
        assert_eq!(
            look("m.ssl", "/O=x/CN=node1").as_deref(),
            Some("node1@pool")
        );
        assert_eq!(look("m.SSL", "xa by").as_deref(), Some("blank"));
        assert_eq!(
            look("m.SCITOKENS", "https://i.org,bob").as_deref(),
            Some("bob@i.org")
        );
        assert_eq!(look("m.SCITOKENS", "https://i.org,bob,eve"), None);
    }

    #[test]
    fn lines_that_map_nobody_or_somebody_else_come_back() {
        let mut maps = UserMaps::default();
        let text = b"# fine\nSSL /(/ x\n\nSSL alice\nSSL /C=US/CN=alice alice@pool\nSSL \"/C=US/CN=alice\" alice@pool # her\n\
            SSL John Doe john@pool\nSSL /^x$/i y\n";
        let bad = maps.define(b"m", text, Principals::Texts);
        let found: Vec<_> = bad.iter().map(|bad| (bad.line, bad.reason)).collect();
        assert_eq!(
            found,
            [
                (2, Reason::NoPattern),
                (4, Reason::Incomplete),
                (5, Reason::GoesOn),
                (7, Reason::GoesOn)
            ]
        );
        assert_eq!(
            maps.lookup(b"m.ssl", b"X", &mut 10_000).as_deref(),
            Some(&b"y"[..])
        );
    }
}
