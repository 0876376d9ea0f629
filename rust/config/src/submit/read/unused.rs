//! Warnings about keys and loop variables that nothing used, the last ones first, as in HTCondor; and about references
//! that stand for nothing.

use super::Reading;
use crate::submit::commands;

/// What condor_dagman gives to every job that it submits, whether its description reads it or not.
const OF_NODES: [&str; 4] = ["dag_status", "failed_count", "job", "retry"];
/// The command that decides before the description is read whether files are looked at.
const SKIPS_CHECKS: &str = "skip_filechecks";

impl Reading<'_> {
    /// HTCondor expands a reference to nothing in silence.
    pub(super) fn warn_missing(&self) {
        for name in &*self.missing.borrow() {
            self.warnings.borrow_mut().push(format!(
                "`$({name})` is not defined and expands to nothing; give it a value, or write $({name}:) if that is meant"
            ));
        }
    }

    pub(super) fn warn_unused(&self) {
        if self.made.clusters.is_empty() {
            return;
        }
        let used = self.used.borrow();
        let set: Vec<String> = self
            .set
            .entries()
            .iter()
            .map(|entry| entry.name.to_ascii_lowercase())
            .collect();
        for name in self.loop_names.iter().rev() {
            let lower = name.to_ascii_lowercase();
            if !(used.contains(&lower) || lower.starts_with("my.") || set.contains(&lower)) {
                self.warnings.borrow_mut().push(format!(
                    "the queue variable `{name}` was not used; is it a typo?"
                ));
            }
        }
        for entry in self.set.entries().iter().rev() {
            let lower = entry.name.to_ascii_lowercase();
            if used.contains(&lower)
                || lower.starts_with("my.")
                || OF_NODES.contains(&lower.as_str())
                || lower == SKIPS_CHECKS
            {
                continue;
            }
            let place = self.set.place(&entry.origin);
            let place = match place.line {
                0 => String::new(),
                line if place.file.is_empty() => format!("line {line}: "),
                line => format!("{}:{line}: ", place.file),
            };
            let mut text = format!("{place}`{} = {}` was not used", entry.name, entry.raw);
            if !commands::is_known(&entry.name) {
                match commands::similar(&entry.name) {
                    Some(name) => text.push_str(&format!("; did you mean {name}?")),
                    None => text.push_str("; is it a typo?"),
                }
            }
            self.warnings.borrow_mut().push(text);
        }
    }
}
