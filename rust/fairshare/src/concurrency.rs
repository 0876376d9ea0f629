//! Concurrency limits: named counters that cap how many claims use something.

use rustc_hash::FxHashMap;

/// One parsed entry of a `ConcurrencyLimits` string.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRequest {
    /// Name in lower case, possibly `group.name`.
    pub name: String,
    /// Tokens asked for; 1 when absent, unreadable or not positive.
    pub count: f64,
}

/// Parses `name`, `name:count` entries separated by commas or white space.
///
/// Entries with an invalid name are left out, as the manual says they are ignored.
#[must_use]
pub fn parse_limits(text: &str) -> Vec<LimitRequest> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|item| !item.is_empty())
        .filter_map(|item| {
            let (name, count) = item.split_once(':').unwrap_or((item, ""));
            let count = leading_number(count).filter(|c| *c > 0.0).unwrap_or(1.0);
            is_valid_name(name).then(|| LimitRequest {
                name: name.to_ascii_lowercase(),
                count,
            })
        })
        .collect()
}

fn leading_number(text: &str) -> Option<f64> {
    let end = text
        .char_indices()
        .find(|(_, c)| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E')))
        .map_or(text.len(), |(at, _)| at);
    text[..end].parse().ok().filter(|n: &f64| n.is_finite())
}

fn is_valid_name(name: &str) -> bool {
    let mut dots = 0;
    let mut start_of_part = true;
    for c in name.chars() {
        match c {
            '.' => {
                dots += 1;
                if start_of_part {
                    return false;
                }
                start_of_part = true;
            }
            c if c.is_ascii_alphabetic() || c == '_' => start_of_part = false,
            c if c.is_ascii_digit() && !start_of_part => {}
            _ => return false,
        }
    }
    dots <= 1 && !start_of_part
}

/// Maxima from configuration, keyed by lower-cased name.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitPolicy {
    /// `<NAME>_LIMIT`.
    pub named: FxHashMap<String, f64>,
    /// `CONCURRENCY_LIMIT_DEFAULT_<group>`.
    pub group_defaults: FxHashMap<String, f64>,
    /// `CONCURRENCY_LIMIT_DEFAULT`.
    pub default: f64,
}

impl Default for LimitPolicy {
    fn default() -> Self {
        Self {
            named: FxHashMap::default(),
            group_defaults: FxHashMap::default(),
            default: 2_308_032.0,
        }
    }
}

impl LimitPolicy {
    /// Largest count `name` may reach.
    #[must_use]
    pub fn maximum(&self, name: &str) -> f64 {
        if let Some(limit) = self.named.get(name) {
            return *limit;
        }
        name.rsplit_once('.')
            .and_then(|(group, _)| self.group_defaults.get(group))
            .copied()
            .unwrap_or(self.default)
    }
}

/// Tokens in use, by lower-cased name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LimitCounts {
    counts: FxHashMap<String, f64>,
}

impl LimitCounts {
    /// Tokens of `name` in use.
    #[must_use]
    pub fn count(&self, name: &str) -> f64 {
        self.counts.get(name).copied().unwrap_or(0.0)
    }

    /// Takes the tokens of every request.
    pub fn take(&mut self, requests: &[LimitRequest]) {
        for request in requests {
            *self.counts.entry(request.name.clone()).or_default() += request.count;
        }
    }

    /// The first of `requests` that does not fit under `policy`.
    #[must_use]
    pub fn first_over<'r>(
        &self,
        policy: &LimitPolicy,
        requests: &'r [LimitRequest],
    ) -> Option<&'r LimitRequest> {
        requests.iter().find(|request| {
            !crate::tolerance::at_most(
                self.count(&request.name) + request.count,
                policy.maximum(&request.name),
            )
        })
    }

    /// All counts in the order of their names.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&str, f64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(b.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> (String, f64) {
        let parsed = parse_limits(text);
        assert_eq!(parsed.len(), 1, "{text}");
        (parsed[0].name.clone(), parsed[0].count)
    }

    #[test]
    fn counts_default_to_one() {
        assert_eq!(one("Lic"), ("lic".into(), 1.0));
        assert_eq!(one("lic:2.5"), ("lic".into(), 2.5));
        assert_eq!(one("lic:-3"), ("lic".into(), 1.0));
        assert_eq!(one("lic:many"), ("lic".into(), 1.0));
        assert_eq!(one("sw.Lic:3"), ("sw.lic".into(), 3.0));
    }

    #[test]
    fn invalid_names_are_left_out() {
        assert!(parse_limits("1x, .a, a., a.b.c, a-b, :2").is_empty());
        assert_eq!(parse_limits(" a , b:2,, c ").len(), 3);
    }

    #[test]
    fn dotted_names_have_their_own_default() {
        let mut policy = LimitPolicy::default();
        policy.named.insert("lic".into(), 5.0);
        policy.group_defaults.insert("sw".into(), 2.0);
        assert_eq!(policy.maximum("lic"), 5.0);
        assert_eq!(policy.maximum("sw.anything"), 2.0);
        assert_eq!(policy.maximum("other"), 2_308_032.0);
    }

    #[test]
    fn the_first_limit_over_its_maximum_is_named() {
        let mut policy = LimitPolicy::default();
        policy.named.insert("lic".into(), 5.0);
        let mut counts = LimitCounts::default();
        let two = parse_limits("big, lic:2");
        counts.take(&two);
        counts.take(&two);
        assert_eq!(counts.first_over(&policy, &two).unwrap().name, "lic");
        assert!(counts.first_over(&policy, &parse_limits("lic")).is_none());
        assert_eq!(counts.sorted(), vec![("big", 2.0), ("lic", 4.0)]);
    }
}
