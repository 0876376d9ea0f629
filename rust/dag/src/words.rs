//! The words of a line, and `key = value` pairs.

use std::borrow::Cow;

/// A quote that is not closed.
const OPEN_QUOTE: &str = "Invalid quoting: no ending quote found";

/// Whether quotes around parts of a word are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// They stay part of the word.
    Kept,
    /// They are not part of it.
    Removed,
}

/// Words of a line, from left to right.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: &'a str,
    fault: Option<&'static str>,
}

fn is_delimiter(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r')
}

fn is_quote(c: u8) -> bool {
    matches!(c, b'"' | b'\'')
}

/// A word's text, given that it was cut between ASCII characters.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

impl<'a> Words<'a> {
    /// The words of a line.
    #[must_use]
    pub fn new(line: &'a str) -> Self {
        Self {
            rest: line,
            fault: None,
        }
    }

    /// What was wrong with a word; it matters more than what its command misses then.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// The next word; "" at the end, and for an empty pair of quotes that is taken away.
    pub fn next(&mut self, quotes: Quotes) -> Cow<'a, str> {
        let line = self.rest.trim_start_matches([' ', '\t', '\r']);
        let bytes = line.as_bytes();
        let plain = bytes
            .iter()
            .position(|c| is_delimiter(*c) || is_quote(*c))
            .unwrap_or(bytes.len());
        if plain == bytes.len() || is_delimiter(bytes[plain]) {
            self.rest = &line[plain..];
            return Cow::Borrowed(&line[..plain]);
        }
        let mut word = Vec::with_capacity(bytes.len().min(256));
        let (mut quote, mut escaped) = (None, false);
        let mut at = 0;
        while at < bytes.len() {
            let c = bytes[at];
            if escaped {
                word.push(c);
                escaped = false;
            } else if let Some(open) = quote {
                if c == b'\\' {
                    escaped = true;
                } else if c == open {
                    if quotes == Quotes::Kept {
                        word.push(c);
                    }
                    quote = None;
                } else {
                    word.push(c);
                }
            } else if is_delimiter(c) {
                if !word.is_empty() {
                    break;
                }
            } else if is_quote(c) {
                if quotes == Quotes::Kept {
                    word.push(c);
                }
                quote = Some(c);
            } else {
                word.push(c);
            }
            at += 1;
        }
        self.rest = &line[at..];
        if quote.is_some() {
            self.fault = Some(OPEN_QUOTE);
            return Cow::Borrowed("");
        }
        Cow::Owned(text_of(word))
    }

    /// The next word with its quotes.
    pub fn word(&mut self) -> Cow<'a, str> {
        self.next(Quotes::Kept)
    }

    /// The next word, which stays the next one.
    #[must_use]
    pub fn peek(&self) -> Cow<'a, str> {
        self.clone().word()
    }

    /// The rest of the line without blanks around it.
    pub fn remain(&mut self) -> &'a str {
        std::mem::take(&mut self.rest).trim_matches([' ', '\t', '\r', '\x0b', '\x0c'])
    }

    /// The next `key = value`, the value without quotes around it; None at the end, or with a [`Words::fault`].
    pub fn pair(&mut self) -> Option<(&'a str, String)> {
        let line = self.rest.trim_start_matches([' ', '\t', '\r']);
        self.rest = line;
        let bytes = line.as_bytes();
        let end = bytes
            .iter()
            .position(|c| is_delimiter(*c) || is_quote(*c) || *c == b'=')
            .unwrap_or(bytes.len());
        if bytes.get(end).copied().is_some_and(is_quote) {
            return self.wrong("Key contains quotation mark");
        }
        if bytes.is_empty() {
            return None;
        }
        if end == 0 {
            return self.wrong("Key value pair missing key");
        }
        let key = &line[..end];
        if end == bytes.len() {
            return self.wrong("Key value pair missing operator and value");
        }
        let blank = [' ', '\t', '\r'];
        let rest = line[end..].trim_start_matches(blank);
        let Some(rest) = rest.strip_prefix('=') else {
            return self.wrong(if rest.is_empty() {
                // A key with blanks behind it and nothing else.
                "Key value pair missing value: No value specified"
            } else {
                "Key value pair missing value: Failed to locate operator"
            });
        };
        let rest = rest.trim_start_matches(blank);
        if rest.is_empty() {
            return self.wrong("Key value pair missing value: No value specified");
        }
        if rest.starts_with('=') {
            return self.wrong("Key value pair missing value: Double operator");
        }
        self.rest = rest;
        let value = self.word();
        if self.fault.is_some() {
            return None;
        }
        let value = if is_quote(value.as_bytes()[0]) && value.len() >= 2 {
            value.get(1..value.len() - 1).unwrap_or_default().to_owned()
        } else {
            value.into_owned()
        };
        Some((key, value))
    }

    fn wrong<T>(&mut self, fault: &'static str) -> Option<T> {
        self.fault = Some(fault);
        None
    }
}

/// A number as C's `stoi` reads it: leading digits count.
#[must_use]
pub fn number(word: &str) -> Option<i32> {
    let word = word.trim_start_matches([' ', '\t', '\r', '\n', '\x0b', '\x0c']);
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    let end = digits
        .bytes()
        .position(|c| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let signed = &word[..word.len() - digits.len() + end];
    signed.strip_prefix('+').unwrap_or(signed).parse().ok()
}

/// Whether a word is a keyword, which is written with `_`, in capitals: letter case does not count, and `-` is `_`.
#[must_use]
pub fn is(word: &str, keyword: &str) -> bool {
    word.len() == keyword.len()
        && word
            .bytes()
            .zip(keyword.bytes())
            .all(|(c, k)| c.to_ascii_uppercase() == k || (c == b'-' && k == b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str, quotes: Quotes) -> Vec<String> {
        let mut words = Words::new(line);
        let mut found = Vec::new();
        loop {
            let word = words.next(quotes);
            if word.is_empty() {
                return found;
            }
            found.push(word.into_owned());
        }
    }

    #[test]
    fn quotes_group_and_back_slashes_count_in_them_alone() {
        assert_eq!(
            all(r#"a "b c"d 'e\'f' g\h"#, Quotes::Kept),
            ["a", "\"b c\"d", "'e'f'", "g\\h"]
        );
        assert_eq!(all(r#""b c"d"#, Quotes::Removed), ["b cd"]);
        let mut open = Words::new("'a b");
        assert_eq!(open.word(), "");
        assert_eq!(open.fault(), Some(OPEN_QUOTE));
    }

    fn pairs(line: &str) -> Result<Vec<(String, String)>, &'static str> {
        let mut words = Words::new(line);
        let mut found = Vec::new();
        while let Some((key, value)) = words.pair() {
            found.push((key.to_owned(), value));
        }
        words.fault().map_or(Ok(found), Err)
    }

    #[test]
    fn pairs_are_read_as_htcondor_reads_them() {
        let found = pairs(r#"a="x y" b = 'q' c=plain d="" e="\"t\t\"""#).unwrap();
        let values: Vec<&str> = found.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["x y", "q", "plain", "", "\"tt\""]);
        for (line, fault) in [
            ("a", "Key value pair missing operator and value"),
            ("a ", "Key value pair missing value: No value specified"),
            ("a=", "Key value pair missing value: No value specified"),
            ("a==b", "Key value pair missing value: Double operator"),
            (
                "a b",
                "Key value pair missing value: Failed to locate operator",
            ),
            ("=b", "Key value pair missing key"),
            ("a\"b\"=c", "Key contains quotation mark"),
            ("a=\"b", OPEN_QUOTE),
        ] {
            assert_eq!(pairs(line), Err(fault), "{line}");
        }
    }

    #[test]
    fn numbers_and_keywords() {
        assert_eq!(
            (number("3x"), number("-1"), number("+2")),
            (Some(3), Some(-1), Some(2))
        );
        assert_eq!(
            (number("x"), number(""), number("2147483648")),
            (None, None, None)
        );
        assert!(is("pre-Skip", "PRE_SKIP") && !is("PRE", "PRE_SKIP"));
    }
}
