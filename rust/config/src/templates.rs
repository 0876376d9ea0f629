//! Configuration templates, `use CATEGORY : NAME(arguments)`, and the substitution of their arguments.

use std::sync::OnceLock;

use crate::lines::{is_space, trim};
use crate::scan::{self, Want};

/// One template.
#[derive(Clone, Debug)]
pub struct Template {
    /// ROLE, FEATURE, POLICY or SECURITY.
    pub category: &'static str,
    /// Its name within the category.
    pub name: &'static str,
    /// Its statements.
    pub text: String,
}

const DATA: &str = include_str!("../data/templates.txt");

/// All templates, by category and name as in the data file.
#[must_use]
pub fn all() -> &'static [Template] {
    static ALL: OnceLock<Vec<Template>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut found: Vec<Template> = Vec::new();
        for line in DATA
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let head = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            match head.and_then(|head| head.split_once(' ')) {
                Some((category, name)) => found.push(Template {
                    category,
                    name,
                    text: String::new(),
                }),
                None => {
                    if let Some(template) = found.last_mut() {
                        template.text.push_str(line);
                        template.text.push('\n');
                    }
                }
            }
        }
        found
    })
}

/// Whether a category exists.
#[must_use]
pub fn has_category(category: &str) -> bool {
    all()
        .iter()
        .any(|template| template.category.eq_ignore_ascii_case(category))
}

/// The template of this category and name.
#[must_use]
pub fn find(category: &str, name: &str) -> Option<&'static Template> {
    all()
        .iter()
        .find(|t| t.category.eq_ignore_ascii_case(category) && t.name.eq_ignore_ascii_case(name))
}

/// Names in a category, for messages.
#[must_use]
pub fn names(category: &str) -> Vec<&'static str> {
    all()
        .iter()
        .filter(|t| t.category.eq_ignore_ascii_case(category))
        .map(|t| t.name)
        .collect()
}

/// A template asked for, with the text between its parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'t> {
    /// Its name.
    pub name: &'t str,
    /// The arguments as written, or empty.
    pub arguments: &'t str,
}

/// Position of the `)` that closes the `(` at `open`.
fn closing(text: &[u8], open: usize, depth: u32) -> Option<usize> {
    let (opens, closes) = match text[open] {
        b'(' => (b'(', b')'),
        _ => (b'[', b']'),
    };
    let mut at = open + 1;
    while *text.get(at)? != closes {
        if (text[at] == opens || text[at] == b'(' || text[at] == b'[') && depth > 0 {
            at = closing(text, at, depth - 1)?;
        }
        at += 1;
    }
    Some(at)
}

/// Splits the right side of `use CATEGORY :` into templates.
///
/// # Errors
/// The name whose parenthesis does not close.
pub fn wanted(text: &str) -> Result<Vec<Wanted<'_>>, &str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).is_some_and(|&c| is_space(c) || c == b',') {
            at += 1;
        }
        let start = at;
        while bytes
            .get(at)
            .is_some_and(|&c| !is_space(c) && c != b',' && c != b'(')
        {
            at += 1;
        }
        if at == start {
            return Ok(found);
        }
        let name = &text[start..at];
        while bytes.get(at).is_some_and(|&c| is_space(c)) {
            at += 1;
        }
        let mut arguments = "";
        if bytes.get(at) == Some(&b'(') {
            let Some(close) = closing(bytes, at, 25) else {
                return Err(name);
            };
            arguments = &text[at + 1..close];
            at = close + 1;
        }
        found.push(Wanted { name, arguments });
    }
}

/// Arguments one by one. Like HTCondor, commas in a row count once.
struct Arguments<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Arguments<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.text.as_bytes();
        while bytes
            .get(self.at)
            .is_some_and(|&c| c == b',' || is_space(c))
        {
            self.at += 1;
        }
        let start = self.at;
        while bytes.get(self.at).is_some_and(|&c| c != b',') {
            self.at += 1;
        }
        (self.at > start).then(|| trim(&self.text[start..self.at]))
    }

    fn rest(&self) -> Option<&'t str> {
        (self.at < self.text.len()).then(|| &self.text[self.at..])
    }
}

fn argument(body: &str, arguments: &str) -> String {
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let index: usize = body[..digits].parse().unwrap_or(usize::MAX);
    let mut rest = &body[digits..];
    let mark = rest.chars().next().filter(|c| "?#+".contains(*c));
    if mark.is_some() {
        rest = &rest[1..];
    }
    let default = rest.strip_prefix(':');
    let counted = matches!(mark, Some('#' | '+'));
    let mut words = Arguments {
        text: arguments,
        at: 0,
    };
    let value = if index == 0 {
        if counted {
            let mut count = 0;
            while words.next().is_some() {
                count += 1;
            }
            count.to_string()
        } else {
            arguments.to_owned()
        }
    } else if counted {
        let mut left = words.rest();
        for _ in 1..index {
            if left.is_none() {
                break;
            }
            words.next();
            left = words.rest();
        }
        let left = left.map_or("", |left| left.strip_prefix(',').unwrap_or(left));
        if left.is_empty() {
            default.unwrap_or_default().to_owned()
        } else {
            left.to_owned()
        }
    } else {
        let mut word = words.next();
        for _ in 1..index {
            if word.is_none() {
                break;
            }
            word = words.next();
        }
        word.or(default).unwrap_or_default().to_owned()
    };
    let value = trim(&value);
    if mark == Some('?') {
        return if value.is_empty() {
            "0".into()
        } else {
            "1".into()
        };
    }
    value.to_owned()
}

/// A template's text with `$(1)`, `$(2?)`, `$(0#)`, `$(3+)`, `$(1:default)` filled in.
#[must_use]
pub fn with_arguments(text: &str, arguments: &str) -> String {
    let (mut text, mut looked) = (text.to_owned(), 0);
    for _ in 0..10_000 {
        let (Some(found), _) = scan::next(&text, 0, Want::Argument, &mut looked) else {
            break;
        };
        let value = argument(found.body(&text), arguments);
        text.replace_range(found.dollar..found.end, &value);
        looked += text.len();
        if text.len() > 1 << 20 || looked > 1 << 28 {
            break;
        }
    }
    text
}
