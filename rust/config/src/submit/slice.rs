//! Which items of a queue statement are taken.

use crate::lines::trim;

/// A slice as in Python: `[start:end:step]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// `[n]` alone: that item only.
    given: bool,
}

impl Slice {
    /// Reads a slice at the start of a text; returns what follows it.
    pub(super) fn parse(text: &str) -> Option<(Self, &str)> {
        let inner = text.strip_prefix('[')?;
        let close = inner.find(']')?;
        let mut numbers = [None; 3];
        let fields: Vec<&str> = inner[..close].split(':').collect();
        if fields.len() > 3 {
            return None;
        }
        for (at, field) in fields.iter().enumerate() {
            let field = trim(field);
            if !field.is_empty() {
                numbers[at] = Some(field.parse::<i64>().ok()?);
            }
        }
        if numbers[2].is_some_and(|step| step <= 0) {
            return None;
        }
        let [start, end, step] = numbers;
        Some((
            Self {
                start,
                end,
                step,
                given: true,
            },
            &inner[close + 1..],
        ))
    }

    /// Whether the item at a position of a list of this length is taken.
    #[must_use]
    pub fn takes(&self, at: usize, length: usize) -> bool {
        if !self.given {
            return true;
        }
        let (at, length) = (at as i64, length as i64);
        let absolute = |number: i64| if number < 0 { number + length } else { number };
        let start = self.start.map_or(0, absolute);
        let end = self.end.map_or(length, absolute);
        at >= start && at < end && self.step.is_none_or(|step| (at - start) % step == 0)
    }
}
