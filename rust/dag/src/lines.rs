//! The logical lines of a DAG file.

use std::borrow::Cow;

/// A line of a file without comments, joined with those that continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its text, without blanks around it.
    pub text: Cow<'a, str>,
    /// The number of its last line in the file, from 1; HTCondor names this one in messages.
    pub number: u32,
}

/// The lines of a file.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a str,
    number: u32,
    /// The number of the last line of a command that the file's end leaves open.
    open: Option<u32>,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
}

fn is_skipped(line: &str) -> bool {
    line.is_empty() || line.starts_with('#') || line.starts_with("//")
}

impl<'a> Lines<'a> {
    /// The lines of a text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            number: 0,
            open: None,
        }
    }

    fn physical(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.number += 1;
        // HTCondor reads C strings, which end with their first NUL.
        let line = line.split_once('\0').map_or(line, |(before, _)| before);
        Some(line.trim_matches(is_blank))
    }

    /// The next line that is neither empty nor a comment, as it stands; for inline descriptions.
    pub fn raw(&mut self) -> Option<&'a str> {
        loop {
            let line = self.physical()?;
            if !is_skipped(line) {
                return Some(line);
            }
        }
    }

    /// The number of a command's last line that ends with a `\`, when the file ended there.
    #[must_use]
    pub fn left_open(&self) -> Option<u32> {
        self.open
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let first = self.raw()?;
        let Some(begun) = first.strip_suffix('\\') else {
            return Some(Line {
                text: Cow::Borrowed(first),
                number: self.number,
            });
        };
        let mut whole = begun.to_owned();
        let mut last = self.number;
        while let Some(line) = self.raw() {
            last = self.number;
            if !whole.is_empty() {
                whole.push(' ');
            }
            whole.push_str(line);
            if !whole.ends_with('\\') {
                return Some(Line {
                    text: Cow::Owned(whole),
                    number: self.number,
                });
            }
            whole.pop();
        }
        self.open = Some(last);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, u32)> {
        Lines::new(text)
            .map(|line| (line.text.into_owned(), line.number))
            .collect()
    }

    #[test]
    fn comments_and_continuations_are_as_in_htcondor() {
        let text =
            "  # no\n// no\nJOB A \\\n# between \\\n\n  a.sub\r\nJOB B b.sub # not a comment\n";
        let expected = vec![
            ("JOB A  a.sub".to_owned(), 6),
            ("JOB B b.sub # not a comment".to_owned(), 7),
        ];
        assert_eq!(all(text), expected);
    }

    #[test]
    fn a_command_that_the_end_leaves_open_is_known() {
        let mut lines = Lines::new("JOB A a\nPARENT A \\\n# comment\n");
        assert_eq!(lines.by_ref().count(), 1);
        assert_eq!(lines.left_open(), Some(2));
        let mut whole = Lines::new("JOB A a");
        assert_eq!(whole.by_ref().count(), 1);
        assert_eq!(whole.left_open(), None);
    }
}
