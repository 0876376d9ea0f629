//! The arguments of a queue statement: count, loop variables, keyword, slice, and where the items are.

use crate::error::{Code, ConfigError};
use crate::expr;
use crate::lines::{is_space, trim, trim_start};
use crate::submit::slice::Slice;
use crate::submit::table::Table;

/// How items are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No items: `queue N`.
    Plain,
    /// `in`: words.
    In,
    /// `from`: lines.
    From,
    /// `matching`: patterns of file names; by default what `submit_match_directories` says.
    Matching,
    /// `matching files`.
    MatchingFiles,
    /// `matching dirs`.
    MatchingDirectories,
    /// `matching any`.
    MatchingAny,
}

impl Mode {
    /// Whether items are file names that match patterns.
    #[must_use]
    pub fn is_matching(self) -> bool {
        !matches!(self, Self::Plain | Self::In | Self::From)
    }
}

/// Where the items are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the line itself.
    Here,
    /// On the lines that follow, up to one that starts with `)`.
    Below,
    /// In a file, or what a command prints when the text ends with `|`; `-` is standard input.
    File(String),
}

/// A queue statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Jobs per item.
    pub count: u32,
    /// Loop variables as written; `Item` when none is given and there are items.
    pub variables: Vec<String>,
    /// How items are found.
    pub mode: Mode,
    /// Which of them are taken.
    pub slice: Slice,
    /// How items in columns are read: `from table(...)`.
    pub table: Option<Table>,
    /// Items that stand on the line.
    pub items: Vec<String>,
    /// How many lines of a list of `from` had nothing on them. They are no items; HTCondor queues jobs for them, with
    /// the values of the line before.
    pub blank_lines: usize,
    /// Where the (other) items are.
    pub place: Place,
}

impl Queue {
    /// The values of the loop variables in one of the items.
    #[must_use]
    pub fn split(&self, item: &str) -> Vec<String> {
        let variables = self.variables.len();
        match &self.table {
            Some(table) => table.split(item, variables),
            None => split_item(item, variables),
        }
    }
}

fn bad(message: impl Into<String>) -> ConfigError {
    ConfigError::new(Code::BadQueue, message)
        .about("queue")
        .hint("forms are: queue [N] [vars] in|from|matching [slice] (items), queue [N]")
}

/// What follows `queue` on a line, or `None` when the line is none.
#[must_use]
pub fn arguments(line: &str) -> Option<&str> {
    for word in ["queue", "iterate", "iter", "itera", "iterat"] {
        let bytes = line.as_bytes();
        if bytes.len() >= word.len()
            && bytes[..word.len()].eq_ignore_ascii_case(word.as_bytes())
            && bytes.get(word.len()).is_none_or(|&c| is_space(c))
        {
            return Some(trim_start(&line[word.len()..]));
        }
    }
    None
}

/// Finds `in`, `from` or `matching` as a word before a blank or a parenthesis: its start, its end, its mode.
fn keyword(text: &str) -> Option<(usize, usize, Mode)> {
    let bytes = text.as_bytes();
    let mut start = None;
    for (at, &c) in bytes.iter().enumerate() {
        if !is_space(c) && c != b'(' {
            start.get_or_insert(at);
            continue;
        }
        if let Some(from) = start.take() {
            let mode = match text[from..at].to_ascii_lowercase().as_str() {
                "in" => Mode::In,
                "from" => Mode::From,
                "matching" => Mode::Matching,
                _ => continue,
            };
            return Some((from, at, mode));
        }
    }
    None
}

/// Splits what stands before the keyword into count and loop variables.
fn count_and_variables(before: &str) -> (&str, Vec<String>) {
    let bytes = before.as_bytes();
    let mut start = before.len();
    let mut at = before.len();
    while at > 0 {
        let mut c = bytes[at - 1];
        if c.is_ascii_digit() {
            // Digits belong to a variable only when a letter stands before them.
            at -= 1;
            while at > 0 {
                c = bytes[at - 1];
                if c.is_ascii_alphabetic() || c == b'_' {
                    break;
                }
                if !c.is_ascii_digit() {
                    c = b'!';
                    break;
                }
                at -= 1;
            }
            if at == 0 {
                break;
            }
        }
        if !(is_space(c) || c.is_ascii_alphabetic() || matches!(c, b',' | b'_' | b'.')) {
            break;
        }
        at -= 1;
        start = at;
    }
    let variables = before[start..]
        .split(|c: char| c == ',' || c.is_ascii_whitespace())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    (&before[..start], variables)
}

fn count(text: &str) -> Result<u32, ConfigError> {
    let text = trim(text);
    if text.is_empty() {
        return Ok(1);
    }
    let Some(number) = expr::integer(text, "CondorLong") else {
        return Err(bad(format!("{text:?} is not a number of jobs")));
    };
    u32::try_from(number)
        .ok()
        .filter(|&n| n < i32::MAX as u32)
        .ok_or_else(|| bad(format!("{number} is not a possible number of jobs")))
}

/// Qualifiers between the keyword and the items.
fn qualifiers<'t>(queue: &mut Queue, mut rest: &'t str) -> Result<&'t str, ConfigError> {
    loop {
        rest = trim_start(rest);
        if rest.starts_with('[') {
            // A bracket that nothing is set off from starts an item, such as the pattern [ab]*.
            let alone = !rest.contains(|c: char| c.is_ascii_whitespace() || c == '(');
            if alone && queue.mode != Mode::From {
                return Ok(rest);
            }
            let Some((slice, after)) = Slice::parse(rest) else {
                return Err(bad(format!(
                    "{rest:?} does not start with a slice [start:end:step]"
                )));
            };
            queue.slice = slice;
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '(');
        let word = rest[..end.unwrap_or(0)].to_ascii_lowercase();
        let mode = match word.as_str() {
            "files" => Mode::MatchingFiles,
            "dirs" => Mode::MatchingDirectories,
            "any" => Mode::MatchingAny,
            "table" if queue.mode == Mode::From => {
                let (table, after) = Table::parse(&rest[word.len()..])?;
                queue.table = Some(table);
                rest = after;
                continue;
            }
            _ => return Ok(rest),
        };
        if !queue.mode.is_matching() {
            return Err(bad(format!("`{word}` belongs behind `matching`")));
        }
        queue.mode = mode;
        rest = &rest[word.len()..];
    }
}

/// Reads the (expanded) arguments of a queue statement.
///
/// # Errors
/// [`Code::BadQueue`].
pub fn parse(text: &str) -> Result<Queue, ConfigError> {
    let text = trim(text);
    let mut queue = Queue {
        count: 1,
        variables: Vec::new(),
        mode: Mode::Plain,
        slice: Slice::default(),
        table: None,
        items: Vec::new(),
        blank_lines: 0,
        place: Place::Here,
    };
    let Some((start, end, mode)) = keyword(text) else {
        queue.count = count(text)?;
        return Ok(queue);
    };
    queue.mode = mode;
    let rest = qualifiers(&mut queue, &text[end..])?;
    let (number, variables) = count_and_variables(trim(&text[..start]));
    queue.count = count(number)?;
    queue.variables = variables;
    if queue.variables.is_empty() {
        queue.variables.push("Item".into());
    }
    items(&mut queue, rest)?;
    Ok(queue)
}

fn items(queue: &mut Queue, rest: &str) -> Result<(), ConfigError> {
    let from = queue.mode == Mode::From;
    if let Some(inner) = rest.strip_prefix('(') {
        if let Some(whole) = inner.strip_suffix(')') {
            if from {
                queue.items.push(trim(whole).to_owned());
            } else {
                queue.items.extend(words(whole));
            }
        } else {
            queue.place = Place::Below;
            let first = trim(inner);
            if !first.is_empty() {
                if from {
                    queue.items.push(first.to_owned());
                } else {
                    queue.items.extend(words(first));
                }
            }
        }
    } else if from {
        let name = trim(rest);
        if name.is_empty() {
            return Err(bad(
                "`from` needs a file, a command with |, or a list in parentheses",
            ));
        }
        queue.place = Place::File(name.to_owned());
    } else {
        queue.items.extend(words(rest));
    }
    Ok(())
}

/// Items of `in` and `matching`: separated by commas and blanks.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| c == ',' || (c.is_ascii() && is_space(c as u8)))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// Splits an item between the loop variables: at unit separators if there are any, else at commas, else at blanks;
/// the last variable takes the rest.
#[must_use]
pub(super) fn split_item(item: &str, variables: usize) -> Vec<String> {
    let item = item.trim_matches([' ', '\t', '\r', '\n']);
    let mut values = Vec::with_capacity(variables);
    let mut rest = item;
    let unit = item.contains('\u{1f}');
    while values.len() + 1 < variables {
        let end = if unit {
            rest.find('\u{1f}')
        } else {
            rest.find([',', ' ', '\t'])
        };
        let Some(end) = end else { break };
        let (value, after) = (
            rest[..end].trim_matches([' ', '\t']),
            rest[end + 1..].trim_matches([' ', '\t']),
        );
        values.push(value.to_owned());
        rest = after;
    }
    values.push(rest.to_owned());
    values.resize(variables, String::new());
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Queue {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn taken(text: &str, length: usize) -> Vec<usize> {
        let slice = read(text).slice;
        (0..length).filter(|at| slice.takes(*at, length)).collect()
    }

    #[test]
    fn counts() {
        assert_eq!(read("").count, 1);
        assert_eq!(read("2 * 3").count, 6);
        assert!(parse("many").is_err());
        assert!(parse("-1").is_err());
    }

    #[test]
    fn items_on_the_line() {
        let queue = read("3 name in (a, b c)");
        assert_eq!((queue.count, queue.mode), (3, Mode::In));
        assert_eq!(queue.variables, ["name"]);
        assert_eq!(queue.items, ["a", "b", "c"]);
        assert_eq!(read("in a b").variables, ["Item"]);
        assert_eq!(read("x, y from (1 2, 3)").items, ["1 2, 3"]);
    }

    #[test]
    fn items_elsewhere() {
        assert_eq!(
            read("a,b from list.txt").place,
            Place::File("list.txt".into())
        );
        assert_eq!(read("a from (").place, Place::Below);
        assert_eq!(read("matching dirs d*").mode, Mode::MatchingDirectories);
        assert!(parse("a from files x").is_err());
    }

    #[test]
    fn slices_are_those_of_python() {
        assert_eq!(taken("x in [1:3] (a)", 5), [1, 2]);
        assert_eq!(taken("x in [::2] (a)", 5), [0, 2, 4]);
        assert_eq!(taken("x in [-2:] (a)", 5), [3, 4]);
        assert!(parse("x in [a:b] (a)").is_err());
    }

    #[test]
    fn a_bracket_may_start_a_pattern() {
        let queue = read("f matching [ab]*.dat");
        assert_eq!(queue.items, ["[ab]*.dat"]);
        assert_eq!(queue.slice, Slice::default());
    }

    #[test]
    fn fields_of_items() {
        assert_eq!(split_item("a, b c, d", 2), ["a", "b c, d"]);
        assert_eq!(split_item(" a b ", 3), ["a", "b", ""]);
        assert_eq!(split_item("a b\u{1f}c", 2), ["a b", "c"]);
    }
}
