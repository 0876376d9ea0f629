//! The environment of a job: old and new syntax in, new syntax out, and `getenv`.

use crate::args;
use crate::submit::glob;

/// Variables in the order they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

impl Environment {
    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: &str) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.variables.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Whether a variable is set.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.variables.iter().any(|(known, _)| known == name)
    }

    /// Reads a description's value of either syntax.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        match args::unquote_v2(text)? {
            Some(inner) => {
                for word in args::split_v2(&inner)? {
                    self.add(&word)?;
                }
            }
            None => {
                for word in text.split(';').filter(|word| !word.trim().is_empty()) {
                    self.add(word.trim_start())?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, word: &str) -> Result<(), String> {
        let Some((name, value)) = word.split_once('=') else {
            return Err(format!("missing '=' after environment variable '{word}'"));
        };
        if name.is_empty() {
            return Err(format!("missing variable in '{word}'"));
        }
        self.set(name, value);
        Ok(())
    }

    /// Adds variables of the submitter that are not set yet and that the list of patterns lets in. `None` lets all
    /// in. Patterns with `!` keep out.
    pub fn import(&mut self, environment: &[(String, String)], patterns: Option<&str>) {
        let words: Vec<&str> = patterns
            .map(|text| {
                text.split([',', ' ', '\t'])
                    .filter(|word| !word.is_empty())
                    .collect()
            })
            .unwrap_or_default();
        let allowed = |name: &str| {
            if words.iter().any(|word| {
                word.strip_prefix('!')
                    .is_some_and(|deny| glob::fits(deny, name))
            }) {
                return false;
            }
            let mut wanted = words
                .iter()
                .filter(|word| !word.starts_with('!'))
                .peekable();
            wanted.peek().is_none() || wanted.any(|word| glob::fits(word, name))
        };
        let mut sorted: Vec<&(String, String)> = environment.iter().collect();
        sorted.sort();
        for (name, value) in sorted {
            if !self.has(name) && allowed(name) && !value.contains('\n') {
                self.set(name, value);
            }
        }
    }

    /// The text stored in the job ad.
    #[must_use]
    pub fn text(&self) -> String {
        let words: Vec<String> = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        args::join_v2(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let mut env = Environment::default();
        env.read(text).map(|()| env.text()).unwrap_or_else(|e| e)
    }

    #[test]
    fn both_syntaxes() {
        assert_eq!(read("A=1;B=x y"), "A=1 B=x' 'y");
        assert_eq!(read("\"A=1 B='x y' C=it''s\""), "A=1 B=x' 'y C=its");
        assert_eq!(
            read("\"A=say \"\"hi\"\"\""),
            "missing '=' after environment variable '\"hi\"'"
        );
        assert_eq!(read("A"), "missing '=' after environment variable 'A'");
    }
}
