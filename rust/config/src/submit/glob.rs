//! File name patterns as `glob(3)`: `*`, `?`, `[a-z]`, `[!a]`, `[[:digit:]]`, a backslash before what stands for itself;
//! names that start with a point need one in the pattern; directories get a slash at their end; matches of one pattern
//! come sorted. What is no pattern stands in the names as it was written (`./a`, `..//a`).

use crate::source::Source;

/// Whether a text has characters that make it a pattern.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Names that match a pattern.
#[must_use]
pub fn matches(world: &dyn Source, pattern: &str) -> Vec<String> {
    let mut found = Vec::new();
    let after = pattern.trim_start_matches('/');
    let root = &pattern[..pattern.len() - after.len()];
    walk(world, root, after, &mut found);
    found.sort_unstable();
    found
}

/// Adds the names below `base`, which ends in a slash or is empty, that fit `pattern`, which does not begin with one.
fn walk(world: &dyn Source, base: &str, pattern: &str, found: &mut Vec<String>) {
    let end = pattern.find('/').unwrap_or(pattern.len());
    let (part, rest) = pattern.split_at(end);
    if part.is_empty() {
        return;
    }
    let below = rest.trim_start_matches('/');
    let slashes = &rest[..rest.len() - below.len()];
    for (name, is_directory) in those(world, base, part) {
        if !slashes.is_empty() && !is_directory {
            continue;
        }
        if below.is_empty() {
            let slash = if is_directory { "/" } else { "" };
            found.push(format!("{base}{name}{slash}"));
        } else {
            walk(world, &format!("{base}{name}{slashes}"), below, found);
        }
    }
}

/// The names in a directory that fit one part of a pattern, and whether each is a directory itself.
fn those(world: &dyn Source, base: &str, part: &str) -> Vec<(String, bool)> {
    let directory = if base.is_empty() { "." } else { base };
    let plain = unescaped(part);
    if !is_pattern(part) && (plain == "." || plain == "..") {
        return vec![(plain, true)];
    }
    let hidden = part.trim_start_matches('\\').starts_with('.');
    let points = [".", ".."].map(|name| (name.to_owned(), true));
    let entries = world.entries(directory).into_iter();
    let named = entries.filter(|(name, _)| name != "." && name != "..");
    points
        .into_iter()
        .filter(|_| hidden)
        .chain(named)
        .filter(|(name, _)| (hidden || !name.starts_with('.')) && fits(part, name))
        .collect()
}

/// A part of a pattern without the backslashes before characters that stand for themselves.
fn unescaped(part: &str) -> String {
    let mut letters = part.chars();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => letters.next().unwrap_or(letter),
            _ => letter,
        });
    }
    out
}

/// Whether a name fits one part of a pattern.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => class(&pattern, p, name[n]),
            Some('\\') if p + 1 < pattern.len() => (pattern[p + 1] == name[n]).then_some(p + 2),
            Some(c) if *c == name[n] => Some(p + 1),
            _ => None,
        };
        if let Some(next) = step {
            p = next;
            n += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            n = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The position behind a bracket expression that takes `c`; a bracket that nothing closes stands for itself.
fn class(pattern: &[char], open: usize, c: char) -> Option<usize> {
    let mut at = open + 1;
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    if negated {
        at += 1;
    }
    let first = at;
    let mut taken = false;
    while let Some(&low) = pattern.get(at) {
        if low == ']' && at > first {
            return (taken != negated).then_some(at + 1);
        }
        if let Some((is_member, end)) = named_class(pattern, at) {
            taken |= is_member(c);
            at = end;
            continue;
        }
        let (low, next) = member(pattern, at)?;
        let range =
            pattern.get(next) == Some(&'-') && pattern.get(next + 1).is_some_and(|c| *c != ']');
        let (high, next) = if range {
            member(pattern, next + 1)?
        } else {
            (low, next)
        };
        taken |= (low..=high).contains(&c);
        at = next;
    }
    (c == '[').then_some(open + 1)
}

/// One character in brackets, and where what follows it begins.
fn member(pattern: &[char], at: usize) -> Option<(char, usize)> {
    match (pattern.get(at)?, pattern.get(at + 1)) {
        ('\\', Some(next)) => Some((*next, at + 2)),
        (c, _) => Some((*c, at + 1)),
    }
}

type IsMember = fn(char) -> bool;

/// `[:digit:]` and its like in brackets, and where what follows it begins.
fn named_class(pattern: &[char], at: usize) -> Option<(IsMember, usize)> {
    let rest: String = pattern.get(at..)?.iter().collect();
    let (name, _) = rest.strip_prefix("[:")?.split_once(":]")?;
    let is_member: IsMember = match name {
        "alnum" => char::is_alphanumeric,
        "alpha" => char::is_alphabetic,
        "blank" => |c| c == ' ' || c == '\t',
        "cntrl" => char::is_control,
        "digit" => |c| c.is_ascii_digit(),
        "graph" => |c| !c.is_control() && !c.is_whitespace(),
        "lower" => char::is_lowercase,
        "print" => |c| !c.is_control(),
        "punct" => |c| c.is_ascii_punctuation(),
        "space" => char::is_whitespace,
        "upper" => char::is_uppercase,
        "xdigit" => |c| c.is_ascii_hexdigit(),
        _ => |_| false,
    };
    Some((is_member, at + name.chars().count() + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(fits("*.dat", "a.dat"));
        assert!(!fits("*.dat", "a.date"));
        assert!(fits("a?c", "abc"));
        assert!(fits("[a-c]x*y", "bx12y"));
        assert!(!fits("[!a-c]x", "bx"));
        assert!(fits("*", ""));
        assert!(fits("a*b*c", "aXbYbZc"));
        assert!(fits(r"\[x\]\*", "[x]*"));
        assert!(!fits(r"a\*", "ab"));
        assert!(fits("[[:digit:]][![:digit:]]", "1a"));
        assert!(!fits("[[:digit:]]", "a"));
        assert!(fits("[[:upper:]_][]]", "_]"));
        assert!(!fits("[[:nothing:]]", "n"));
        assert!(fits(r"[\]]", "]"));
        assert!(fits("[a.dat", "[a.dat"));
    }
}
