//! `queue from table(...)`: items in columns, whose names a heading of the table gives.
//!
//! Options, as HTCondor 25.14 reads them: `header=N` (the row with the names; 0), `header=none`, `skip=N` (with a header
//! behind the first row: so many further rows are left out), `sep=C`, `comma_sep=BOOL`, `trim=BOOL`, `csv` (no header),
//! `standard` (no header, and columns as those of `from` without `table`). Blanks around a row never count; `trim=false`
//! keeps those around its values.

use crate::error::{Code, ConfigError};
use crate::expr;
use crate::lines::trim;
use crate::submit::queue::{Mode, Queue, split_item};

/// How the items of a table are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The row with the names of the columns, from 0.
    header: Option<usize>,
    /// Rows in front of the header that are left out, beyond its own number less one.
    skip: usize,
    /// None: blanks and commas, as without `table`.
    separator: Option<char>,
    /// Whether values lose the blanks around them.
    trim: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            header: Some(0),
            skip: 0,
            separator: Some(','),
            trim: true,
        }
    }
}

fn bad(message: String) -> ConfigError {
    ConfigError::new(Code::BadQueue, message)
        .about("queue")
        .hint("options of table are csv, standard, header=N|none, skip=N, sep=C, comma_sep=BOOL, trim=BOOL")
}

impl Table {
    /// Reads options in parentheses at the start of a text; returns what follows them.
    ///
    /// # Errors
    /// For an option that does not exist or has no such value, and where no parenthesis closes.
    pub(super) fn parse(text: &str) -> Result<(Self, &str), ConfigError> {
        let mut table = Self::default();
        let Some(inner) = text.strip_prefix('(') else {
            return Ok((table, text));
        };
        let Some((options, rest)) = inner.split_once(')') else {
            return Err(bad("invalid TABLE options: no ) ends them".into()));
        };
        for option in options.split(',').map(trim).filter(|word| !word.is_empty()) {
            table
                .set(option)
                .ok_or_else(|| bad(format!("invalid TABLE option {option:?}")))?;
        }
        Ok((table, rest))
    }

    fn set(&mut self, option: &str) -> Option<()> {
        match option.to_ascii_lowercase().as_str() {
            "csv" => {
                *self = Self {
                    header: None,
                    ..Self::default()
                }
            }
            "standard" => {
                *self = Self {
                    header: None,
                    separator: None,
                    ..Self::default()
                }
            }
            _ => {
                let (name, value) = option.split_once('=')?;
                let value = trim(value);
                match trim(name).to_ascii_lowercase().as_str() {
                    "header" if value.eq_ignore_ascii_case("none") => self.header = None,
                    "header" => self.header = Some(value.parse().ok()?),
                    "skip" => self.skip = value.parse().ok()?,
                    "trim" => self.trim = expr::boolean(value, "x")?,
                    "comma_sep" => self.separator = expr::boolean(value, "x")?.then_some(','),
                    "sep" => self.separator = Some(value.chars().next()?),
                    _ => return None,
                }
            }
        }
        Some(())
    }

    /// The columns of a row, of which the last takes the rest.
    pub(super) fn split(&self, row: &str, columns: usize) -> Vec<String> {
        if self.trim && self.separator.is_none() {
            return split_item(row, columns);
        }
        let blanks: &[char] = if self.trim { &[' ', '\t'] } else { &[] };
        let ends = |c: char| match self.separator {
            Some(separator) => c == separator,
            None => matches!(c, ',' | ' ' | '\t'),
        };
        let mut values: Vec<String> = trim(row)
            .splitn(columns, ends)
            .map(|value| value.trim_matches(blanks).to_owned())
            .collect();
        values.resize(columns, String::new());
        values
    }

    /// Names the variables of a queue statement by the header of its items.
    ///
    /// # Errors
    /// When there is no such row, or a column's name is none of a variable.
    pub fn apply(&self, queue: &mut Queue) -> Result<(), ConfigError> {
        let separator = self.separator.unwrap_or(' ');
        if let Some(header) = self.header {
            if queue.items.is_empty() {
                return Ok(());
            }
            if header >= queue.items.len() {
                return Err(bad(format!(
                    "row {header} of the table has the headings, but it has {} rows",
                    queue.items.len()
                )));
            }
            let row = queue.items.remove(header);
            let names: Vec<&str> = row.split(separator).map(trim).collect();
            if let Some(odd) = names.iter().find(|name| !is_variable(name)) {
                return Err(bad(format!(
                    "{odd:?} in row {header} of the table cannot be the name of a column"
                )));
            }
            queue.variables = names.into_iter().map(str::to_owned).collect();
            if header > 0 {
                let left_out = (header - 1 + self.skip).min(queue.items.len());
                queue.items.drain(..left_out);
            }
        }
        Ok(())
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.'))
}

/// Reads the items of a statement as its `table` says, if it has one.
///
/// # Errors
/// Those of [`Table::apply`].
pub fn apply(queue: &mut Queue) -> Result<(), ConfigError> {
    match queue.table {
        Some(table) if queue.mode == Mode::From => table.apply(queue),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::queue::parse;

    /// What HTCondor 25.14 gives for `queue ... from table... FILE` with these lines in the file.
    fn read(arguments: &str) -> (Vec<String>, Vec<Vec<String>>) {
        let mut queue = parse(arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        queue.items = ["a,b", "1,2", " 3 , 4 5", "5", "6,7,8"]
            .map(str::to_owned)
            .into();
        apply(&mut queue).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        let rows = queue.items.iter().map(|item| queue.split(item)).collect();
        (queue.variables, rows)
    }

    #[test]
    fn a_header_names_the_columns() {
        let rows = [["1", "2"], ["3", "4 5"], ["5", ""], ["6", "7,8"]]
            .map(|row| row.map(str::to_owned).to_vec());
        for arguments in [
            "from table u.csv",
            "x,y from TABLE u.csv",
            "from table(header=0,skip=1) u.csv",
            "from table(csv, header=0) u.csv",
            "from table [:] u.csv",
        ] {
            assert_eq!(
                read(arguments),
                (vec!["a".into(), "b".into()], rows.to_vec()),
                "{arguments}"
            );
        }
        let (names, rows) = read("from table(header=1) u.csv");
        assert_eq!(
            (names, rows[0].clone()),
            (vec!["1".into(), "2".into()], vec!["a".into(), "b".into()])
        );
        assert_eq!(read("from table(header=1,skip=1) u.csv").1[0], ["3", "4 5"]);
    }

    #[test]
    fn without_a_header_the_statement_names_them() {
        let (names, rows) = read("x,y from table(csv) u.csv");
        assert_eq!(
            (names, rows[2].clone()),
            (vec!["x".into(), "y".into()], vec!["3".into(), "4 5".into()])
        );
        assert_eq!(read("x,y from table(standard) u.csv").1[2], ["3", ", 4 5"]);
        assert_eq!(read("from table(header=none) u.csv").1[1], ["1,2"]);
        assert_eq!(read("x,y from table(csv,sep=5) u.csv").1[2], ["3 , 4", ""]);
    }

    #[test]
    fn blanks_around_values_stay_where_they_are_not_trimmed() {
        for (arguments, row) in [
            ("from table(trim=false) u.csv", ["3 ", " 4 5"]),
            ("from table(trim=0) u.csv", ["3 ", " 4 5"]),
            ("x,y from table(csv,trim=false) u.csv", ["3 ", " 4 5"]),
            ("from table(header=1,trim=false) u.csv", ["3 ", " 4 5"]),
            ("from table(trim=false,trim=true) u.csv", ["3", "4 5"]),
        ] {
            let rows = read(arguments).1;
            assert!(
                rows.contains(&row.map(str::to_owned).to_vec()),
                "{arguments}: {rows:?}"
            );
        }
        let rows = read("x,y from table(standard,trim=false) u.csv").1;
        assert_eq!(rows[2], ["3", ", 4 5"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for arguments in [
            "from table(nonsense=1) u",
            "from table(csv u",
            "in table u",
            "from table(header=x) u",
            "from table(trim=no) u",
        ] {
            let refused = parse(arguments).is_err() || arguments.starts_with("in ");
            assert!(refused, "{arguments}");
        }
        for options in ["header=9", "header=2", "sep=;"] {
            let mut queue = parse(&format!("from table({options}) u.csv")).expect(options);
            queue.items = ["a,b", "1,2", " 3 , 4 5"].map(str::to_owned).into();
            assert!(apply(&mut queue).is_err(), "{options}");
        }
    }
}
