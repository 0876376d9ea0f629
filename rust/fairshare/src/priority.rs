//! Real and effective user priority: decay, usage and factors.
//!
//! Source: user manual, "User priorities and negotiation"; the decay is
//! `beta = 0.5 ^ (dt / half-life)`.

use crate::names;

/// Smallest real user priority; also that of a submitter never seen before.
pub const MIN_PRIORITY: f64 = 0.5;
/// Smallest priority factor.
pub const MIN_FACTOR: f64 = 1.0;

/// What is stored of a submitter or group between cycles.
///
/// Usages are in weighted resource-seconds (`weighted_*`) or plain
/// slot-seconds; times are epoch seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountRecord {
    /// Real user priority (RUP); never under [`MIN_PRIORITY`].
    pub priority: f64,
    /// Stored factor; `None` until somebody sets or first uses one.
    pub factor: Option<f64>,
    /// Most weighted usage; `None` is unlimited.
    pub ceiling: Option<i64>,
    /// Weighted usage to reach before anybody else is served.
    pub floor: i64,
    /// Slots in use.
    pub resources_used: f64,
    /// Weight of the slots in use.
    pub weighted_resources_used: f64,
    /// Slot-seconds used so far.
    pub accumulated_usage: f64,
    /// Weighted slot-seconds used so far.
    pub weighted_accumulated_usage: f64,
    /// Slot-seconds used between updates that the next update must charge
    /// (negative: charged too much, for slots matched since the last update).
    pub uncharged_time: f64,
    /// The weighted twin of `uncharged_time`.
    pub weighted_uncharged_time: f64,
    /// When usage first became positive; 0 when it never has.
    pub begin_usage_time: i64,
    /// Last time there was usage; 0 when there never was.
    pub last_usage_time: i64,
    /// Time of the last update.
    pub last_update: i64,
}

impl AccountRecord {
    /// A record for a name first seen at `now`.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self {
            priority: MIN_PRIORITY,
            factor: None,
            ceiling: None,
            floor: 0,
            resources_used: 0.0,
            weighted_resources_used: 0.0,
            accumulated_usage: 0.0,
            weighted_accumulated_usage: 0.0,
            uncharged_time: 0.0,
            weighted_uncharged_time: 0.0,
            begin_usage_time: 0,
            last_usage_time: 0,
            last_update: now,
        }
    }

    /// Ages the priority and charges usage up to `now`.
    ///
    /// `hierarchical_usage` is the weighted usage of a group with all its
    /// subgroups; it replaces the record's own when positive (and is zero for
    /// a submitter). A clock that moved back only resets `last_update`.
    pub fn age(&mut self, now: i64, half_life_s: f64, hierarchical_usage: f64) {
        let elapsed = (now - self.last_update) as f64;
        if elapsed == 0.0 {
            return;
        }
        self.last_update = now;
        if elapsed < 0.0 {
            return;
        }
        let in_use = if hierarchical_usage > 0.0 {
            hierarchical_usage
        } else {
            self.weighted_resources_used
        };
        let recent = in_use + self.weighted_uncharged_time / elapsed;
        let beta = 0.5_f64.powf(elapsed / half_life_s.max(1.0));
        self.priority = (self.priority * beta + recent * (1.0 - beta)).max(MIN_PRIORITY);

        let used_before = self.accumulated_usage;
        self.accumulated_usage += self.resources_used * elapsed + self.uncharged_time;
        self.weighted_accumulated_usage +=
            self.weighted_resources_used * elapsed + self.weighted_uncharged_time;
        if used_before <= 0.0 && self.accumulated_usage > 0.0 && self.begin_usage_time == 0 {
            self.begin_usage_time = now;
        }
        if recent > 0.0 {
            self.last_usage_time = now;
        }
        self.uncharged_time = 0.0;
        self.weighted_uncharged_time = 0.0;
    }

    /// Books a match made at `now`: charged from now on, not from the last update.
    pub fn book_match(&mut self, now: i64, weight: f64) {
        let elapsed = (now - self.last_update).max(0) as f64;
        self.resources_used += 1.0;
        self.weighted_resources_used += weight;
        self.uncharged_time -= elapsed;
        self.weighted_uncharged_time -= elapsed * weight;
    }
}

/// Knobs that decide the factor of a submitter without a stored one.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorPolicy {
    /// `DEFAULT_PRIO_FACTOR`.
    pub default: f64,
    /// `NICE_USER_ACCOUNTING_GROUP_NAME`.
    pub nice_user_group: String,
    /// `NICE_USER_PRIO_FACTOR`.
    pub nice_user: f64,
    /// `ACCOUNTANT_LOCAL_DOMAIN`; empty means every domain is local.
    pub local_domain: String,
    /// `REMOTE_PRIO_FACTOR`.
    pub remote: f64,
}

impl Default for FactorPolicy {
    fn default() -> Self {
        Self {
            default: 1000.0,
            nice_user_group: "nice-user".to_owned(),
            nice_user: 1e10,
            local_domain: String::new(),
            remote: 1e7,
        }
    }
}

impl FactorPolicy {
    /// The factor of `submitter`: the first rule that applies, at least 1.
    ///
    /// `group_factor` is `GROUP_PRIO_FACTOR_<g>` of its group (0 for none).
    #[must_use]
    pub fn factor_of(&self, submitter: &str, stored: Option<f64>, group_factor: f64) -> f64 {
        if let Some(factor) = stored.filter(|f| *f >= MIN_FACTOR) {
            return factor;
        }
        let nice = &self.nice_user_group;
        let is_nice = !nice.is_empty()
            && submitter.len() >= nice.len()
            && submitter.as_bytes()[..nice.len()].eq_ignore_ascii_case(nice.as_bytes());
        let factor = if is_nice {
            self.nice_user
        } else if group_factor != 0.0 {
            group_factor
        } else if !self.local_domain.is_empty()
            && !names::domain_of(submitter).eq_ignore_ascii_case(&self.local_domain)
        {
            self.remote
        } else {
            self.default
        };
        factor.max(MIN_FACTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: f64 = 86400.0;

    fn used(weight: f64) -> AccountRecord {
        AccountRecord {
            resources_used: weight,
            weighted_resources_used: weight,
            ..AccountRecord::new(0)
        }
    }

    #[test]
    fn one_half_life_of_hundred_units_gives_50_25() {
        let mut record = used(100.0);
        record.age(86400, DAY, 0.0);
        assert!((record.priority - 50.25).abs() < 1e-9);
        assert_eq!(record.accumulated_usage, 100.0 * DAY);
        assert_eq!(
            (record.begin_usage_time, record.last_usage_time),
            (86400, 86400)
        );
    }

    #[test]
    fn unused_priority_halves_down_to_the_floor() {
        let mut record = AccountRecord {
            priority: 10.0,
            ..AccountRecord::new(0)
        };
        record.age(86400, DAY, 0.0);
        assert!((record.priority - 5.0).abs() < 1e-9);
        record.age(86400 * 30, DAY, 0.0);
        assert_eq!(record.priority, MIN_PRIORITY);
    }

    #[test]
    fn a_clock_that_moved_back_charges_nothing() {
        let mut record = used(4.0);
        record.last_update = 100;
        let before = record.clone();
        record.age(100, DAY, 0.0);
        assert_eq!(record, before);
        record.age(40, DAY, 0.0);
        assert_eq!(record.last_update, 40);
        assert_eq!(record.accumulated_usage, 0.0);
    }

    #[test]
    fn a_match_is_charged_from_its_own_time() {
        let mut record = AccountRecord::new(0);
        record.book_match(60, 2.0);
        record.age(100, DAY, 0.0);
        assert_eq!(record.accumulated_usage, 40.0);
        assert_eq!(record.weighted_accumulated_usage, 80.0);
    }

    #[test]
    fn groups_age_by_the_usage_of_their_subtree() {
        let mut record = AccountRecord::new(0);
        record.age(86400, DAY, 40.0);
        assert!((record.priority - 20.25).abs() < 1e-9);
    }

    #[test]
    fn factor_rules_apply_in_order() {
        let policy = FactorPolicy {
            local_domain: "here".to_owned(),
            ..FactorPolicy::default()
        };
        assert_eq!(policy.factor_of("a@here", Some(7.0), 5.0), 7.0);
        assert_eq!(policy.factor_of("nice-user.a@here", None, 5.0), 1e10);
        assert_eq!(policy.factor_of("g.a@there", Some(0.0), 5.0), 5.0);
        assert_eq!(policy.factor_of("a@there", None, 0.0), 1e7);
        assert_eq!(policy.factor_of("a@HERE", None, 0.0), 1000.0);
        assert_eq!(policy.factor_of("g.a@here", None, 0.2), 1.0);
    }

    proptest! {
        #[test]
        fn steady_use_converges_on_the_usage(weight in 0.5_f64..1e5, start in 0.5_f64..1e5) {
            let mut record = AccountRecord { priority: start, ..used(weight) };
            record.age((60.0 * DAY) as i64, DAY, 0.0);
            prop_assert!((record.priority - weight).abs() < 1e-6 * weight.max(start));
        }

        #[test]
        fn splitting_an_interval_changes_nothing(weight in 0.0_f64..1e4, cut in 1_i64..9999) {
            let mut whole = used(weight);
            let mut split = used(weight);
            whole.priority = 8.0;
            split.priority = 8.0;
            whole.age(10000, DAY, 0.0);
            split.age(cut, DAY, 0.0);
            split.age(10000, DAY, 0.0);
            prop_assert!((whole.priority - split.priority).abs() < 1e-9 * whole.priority);
        }
    }
}
