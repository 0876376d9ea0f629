//! File name patterns as `glob(3)`: `*`, `?`, `[a-z]`, `[!a]`; names that start with a point need one in the
//! pattern; directories get a slash at their end; matches of one pattern come sorted.

use crate::source::Source;

/// Whether a text has characters that make it a pattern.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Names that match a pattern.
#[must_use]
pub fn matches(world: &dyn Source, pattern: &str) -> Vec<String> {
    let absolute = pattern.starts_with('/');
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let directories_only = pattern.ends_with('/');
    let mut found = Vec::new();
    let start = if absolute {
        "/".to_owned()
    } else {
        String::new()
    };
    walk(world, start, &parts, directories_only, &mut found);
    found.sort_unstable();
    found
}

fn walk(
    world: &dyn Source,
    base: String,
    parts: &[&str],
    directories_only: bool,
    found: &mut Vec<String>,
) {
    let Some((part, rest)) = parts.split_first() else {
        return;
    };
    let directory = if base.is_empty() { "." } else { base.as_str() };
    for (name, is_directory) in world.entries(directory) {
        let hidden_fits = !name.starts_with('.') || part.starts_with('.');
        let fits = if is_pattern(part) {
            hidden_fits && fits(part, &name)
        } else {
            name == *part
        };
        if !fits {
            continue;
        }
        let path = format!("{base}{name}");
        if rest.is_empty() {
            if is_directory {
                found.push(path + "/");
            } else if !directories_only {
                found.push(path);
            }
        } else if is_directory {
            walk(world, path + "/", rest, directories_only, found);
        }
    }
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
            Some('\\') if pattern.get(p + 1) == Some(&name[n]) => Some(p + 2),
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

/// The position behind a bracket expression that takes `c`.
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
        let range =
            pattern.get(at + 1) == Some(&'-') && pattern.get(at + 2).is_some_and(|c| *c != ']');
        let high = if range { pattern[at + 2] } else { low };
        taken |= (low..=high).contains(&c);
        at += if range { 3 } else { 1 };
    }
    (c == '[').then_some(open + 1)
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
    }
}
