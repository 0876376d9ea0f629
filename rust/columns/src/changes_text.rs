//! Picks attributes out of changes of jobs as the schedd stores them: a JSON object whose values are literals, or
//! `{"$": "text"}` for expressions.
//!
//! Reports read a few attributes of millions of jobs. Each text is gone through once, and what nobody asks for is
//! stepped over.

use memchr::{memchr, memchr2};

/// A value as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Written<'a> {
    /// A string, between its quotes.
    Str(&'a [u8]),
    /// The text of an expression, between its quotes.
    Expr(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Plain(&'a [u8]),
    /// Anything else.
    Other,
}

impl Written<'_> {
    /// The number, if it is a finite one.
    #[must_use]
    pub fn number(self) -> Option<f64> {
        let Written::Plain(text) = self else {
            return None;
        };
        let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        number.is_finite().then_some(number)
    }

    /// The text of a string or of an expression.
    #[must_use]
    pub fn text(self) -> Option<String> {
        match self {
            Written::Str(text) | Written::Expr(text) => Some(unescaped(text)),
            Written::Plain(_) | Written::Other => None,
        }
    }
}

/// Hands each attribute of an object with its value to `seen`, in order; ends where the text is not JSON.
pub fn each_attribute<'a>(text: &'a [u8], mut seen: impl FnMut(&'a [u8], Written<'a>)) {
    let mut left = Left { text, at: 0 };
    if !left.take(b'{') {
        return;
    }
    while let Some(name) = left.string() {
        if !left.take(b':') {
            return;
        }
        let Some(value) = left.value() else { return };
        seen(name, value);
        if !left.take(b',') {
            return;
        }
    }
}

/// What is left of a text.
struct Left<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Left<'a> {
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !byte.is_ascii_whitespace() {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// What stands between the quotes of a string.
    fn string(&mut self) -> Option<&'a [u8]> {
        if !self.take(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            let rest = self.text.get(self.at..)?;
            let next = memchr2(b'"', b'\\', rest)?;
            self.at += next + 1;
            if rest[next] == b'"' {
                return Some(&self.text[start..self.at - 1]);
            }
            self.at += 1; // what the backslash stands before
        }
    }

    fn value(&mut self) -> Option<Written<'a>> {
        match self.peek()? {
            b'"' => self.string().map(Written::Str),
            b'{' => {
                let start = self.at;
                if let Some(text) = self.expression() {
                    return Some(Written::Expr(text));
                }
                self.at = start;
                self.nested()
            }
            b'[' => self.nested(),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
                self.at += end;
                Some(Written::Plain(rest[..end].trim_ascii()))
            }
        }
    }

    fn expression(&mut self) -> Option<&'a [u8]> {
        let marked = self.take(b'{') && self.string() == Some(b"$") && self.take(b':');
        let text = if marked { self.string() } else { None };
        text.filter(|_| self.take(b'}'))
    }

    /// A list or an object, stepped over.
    fn nested(&mut self) -> Option<Written<'a>> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(Written::Other);
            }
        }
    }
}

/// The text that a JSON string stands for; half a pair of surrogates becomes a replacement character.
fn unescaped(text: &[u8]) -> String {
    if memchr(b'\\', text).is_none() {
        return String::from_utf8_lossy(text).into_owned();
    }
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let unit = (text[at] == b'\\' && text.get(at + 1) == Some(&b'u'))
            .then(|| hexadecimal(text.get(at + 2..at + 6)?))
            .flatten();
        if let Some(unit) = unit {
            units.push(unit);
            at += 6;
            continue;
        }
        flush(&mut units, &mut out);
        if text[at] != b'\\' {
            out.push(text[at]);
            at += 1;
            continue;
        }
        out.push(match text.get(at + 1) {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(other) => *other,
            None => b'\\',
        });
        at += 2;
    }
    flush(&mut units, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn hexadecimal(digits: &[u8]) -> Option<u16> {
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn flush(units: &mut Vec<u16>, out: &mut Vec<u8>) {
    out.extend_from_slice(String::from_utf16_lossy(units).as_bytes());
    units.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, String)> {
        let mut out = Vec::new();
        each_attribute(text.as_bytes(), |name, value| {
            let shown = match value {
                Written::Plain(text) => String::from_utf8_lossy(text).into_owned(),
                Written::Other => "other".to_owned(),
                Written::Str(_) | Written::Expr(_) => format!("{:?}", value.text().unwrap()),
            };
            out.push((String::from_utf8_lossy(name).into_owned(), shown));
        });
        out
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        expected.iter().map(own).collect()
    }

    #[test]
    fn literals_and_expressions_are_told_apart() {
        let text = r#"{"A":1,"B":-2.5e3,"C":"x\"y\\","D":{"$":"A + 1"},"E":true,"F":null,"G":[1,{"A":"]"}],"H":""}"#;
        let expected = [
            ("A", "1"),
            ("B", "-2.5e3"),
            ("C", r#""x\"y\\""#),
            ("D", r#""A + 1""#),
            ("E", "true"),
            ("F", "null"),
            ("G", "other"),
            ("H", r#""""#),
        ];
        assert_eq!(all(text), pairs(&expected));
    }

    #[test]
    fn what_looks_like_an_attribute_in_a_text_is_none() {
        let text = r#"{"Note":"\"QDate\":5,{","QDate":7}"#;
        let expected = [("Note", r#""\"QDate\":5,{""#), ("QDate", "7")];
        assert_eq!(all(text), pairs(&expected));
    }

    #[test]
    fn escapes_stand_for_characters() {
        let value = Written::Str(br"\u00fc \ud83d\ude00 \n \/ \ud83d \u12");
        assert_eq!(
            value.text().as_deref(),
            Some("\u{fc} \u{1f600} \n / \u{fffd} u12")
        );
    }

    #[test]
    fn only_finite_numbers_are_numbers() {
        let number = |text: &'static str| Written::Plain(text.as_bytes()).number();
        assert_eq!(number("4e2"), Some(400.0));
        for text in ["NaN", "Infinity", "true", "null", ""] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn text_that_breaks_off_ends_the_attributes() {
        for text in [
            "",
            "{",
            r#"{"A""#,
            r#"{"A":"#,
            r#"{"A":1"#,
            r#"{"A":"x\"#,
            "[1]",
            r#"{"A":[[1]"#,
            r#"{"A":{"$":"x""#,
        ] {
            assert_eq!(all(text), pairs(&[]), "{text}");
        }
        assert_eq!(all(r#"{"A":1,"B"#), pairs(&[("A", "1")]));
    }
}
