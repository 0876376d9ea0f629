//! Slices of a pie and the rounding rule of a limit.

use crate::tolerance;

/// One entry of the submitter list in a spin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claimant {
    /// Distinguishes submitters: entries of one name from several access
    /// points carry the same number and count once in the shares.
    pub name: usize,
    /// Effective priority (RUP x factor), above 0.
    pub effective_priority: f64,
}

/// Share of each entry's name: `1/P_i` over the sum for distinct names.
///
/// Returned per entry; entries of one name get the same (undivided) share.
#[must_use]
pub fn shares(entries: &[Claimant]) -> Vec<f64> {
    let mut seen = rustc_hash::FxHashSet::default();
    let total: f64 = entries
        .iter()
        .filter(|entry| seen.insert(entry.name))
        .map(|entry| 1.0 / entry.effective_priority)
        .sum();
    entries
        .iter()
        .map(|entry| (1.0 / entry.effective_priority) / total)
        .collect()
}

/// What a submitter may still take in a spin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bound on everything matched, preemptions for priority included.
    pub total: f64,
    /// Bound on what is taken from free slots.
    pub unclaimed: f64,
}

/// What the limits of a spin are computed from.
#[derive(Debug, Clone, Copy)]
pub struct Pie {
    /// Weight that may be handed out, busy slots included.
    pub weight: f64,
    /// Headroom of the group (quota - usage at the start of the spin), when
    /// the pie belongs to a named group.
    pub group_headroom: Option<f64>,
    /// `NEGOTIATOR_CONSIDER_PREEMPTION`.
    pub consider_preemption: bool,
    /// `NEGOTIATOR_IGNORE_USER_PRIORITIES`.
    pub ignore_priorities: bool,
}

impl Pie {
    /// Limits of a submitter with `share` that already uses `usage`.
    #[must_use]
    pub fn limits(&self, share: f64, usage: f64) -> Limits {
        let total = if self.ignore_priorities {
            f64::INFINITY
        } else if usage <= 0.0 && share * self.weight > 0.0 {
            // A slice that nothing was taken of is not noise, however small: it is worth a slot.
            (share * self.weight).max(tolerance::LEAST)
        } else {
            slice_left(share * self.weight, usage)
        };
        let unclaimed = match self.group_headroom {
            Some(headroom) => total.min(slice_left(headroom, 0.0)),
            None => total,
        };
        let total = if self.consider_preemption {
            total
        } else {
            unclaimed
        };
        Limits { total, unclaimed }
    }
}

/// What is left of a slice; rounding noise is nothing, or it would be worth a slot.
#[must_use]
pub fn slice_left(slice: f64, usage: f64) -> f64 {
    if tolerance::reached(usage, slice) {
        0.0
    } else {
        slice - usage
    }
}

/// Whether a match of `cost` fits: under the limit, or the first of a spin
/// for anybody whose limit is not zero (so that no slice is too small for a slot).
#[must_use]
pub fn permits(used: f64, cost: f64, limit: f64) -> bool {
    tolerance::at_most(used + cost, limit) || (used <= 0.0 && !tolerance::reached(0.0, limit))
}

/// Whether `used` has reached `limit`; a limit of zero is reached at once.
#[must_use]
pub fn exhausted(used: f64, limit: f64) -> bool {
    tolerance::reached(used, limit)
}

/// Starvation of a submitter: the smaller, the earlier it is served among equals.
#[must_use]
pub fn starvation(usage: f64, limit: f64) -> f64 {
    // Without limits those who use least are still first.
    let denominator = usage + limit.min(f64::MAX);
    if denominator > 0.0 {
        usage / denominator
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: usize, effective_priority: f64) -> Claimant {
        Claimant {
            name,
            effective_priority,
        }
    }

    fn pie(weight: f64) -> Pie {
        Pie {
            weight,
            group_headroom: None,
            consider_preemption: true,
            ignore_priorities: false,
        }
    }

    #[test]
    fn half_the_priority_is_double_the_share() {
        let shares = shares(&[entry(0, 500.0), entry(1, 1000.0)]);
        assert!((shares[0] - 2.0 / 3.0).abs() < 1e-12);
        assert!((pie(31.0).limits(shares[1], 0.0).total - 31.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn one_name_from_two_access_points_counts_once() {
        assert_eq!(
            shares(&[entry(0, 500.0), entry(0, 500.0), entry(1, 500.0)]),
            vec![0.5, 0.5, 0.5]
        );
    }

    #[test]
    fn what_is_held_is_subtracted() {
        assert_eq!(pie(40.0).limits(0.5, 15.0).total, 5.0);
        assert_eq!(pie(40.0).limits(0.5, 25.0).total, 0.0);
    }

    #[test]
    fn a_group_caps_what_is_taken_from_free_slots() {
        let pie = Pie {
            group_headroom: Some(3.0),
            ..pie(40.0)
        };
        let limits = pie.limits(0.5, 0.0);
        assert_eq!((limits.total, limits.unclaimed), (20.0, 3.0));
        let no_preemption = Pie {
            consider_preemption: false,
            ..pie
        };
        assert_eq!(no_preemption.limits(0.5, 0.0).total, 3.0);
    }

    #[test]
    fn a_slice_under_one_slot_gets_one_slot() {
        assert!(permits(0.0, 1.0, 0.1));
        assert!(!permits(1.0, 1.0, 0.1));
        assert!(!permits(0.0, 1.0, 0.0));
        assert!(permits(9.0, 1.0, 9.999_999_999_99));
        assert!(!permits(0.0, 1.0, 4e-16), "rounding noise is not a slice");
    }

    #[test]
    fn a_slice_is_worth_a_slot_however_small() {
        let limit = pie(10.0).limits(1e-14, 0.0).total;
        assert!(permits(0.0, 8.0, limit) && !exhausted(0.0, limit));
        let used_up = pie(10.0).limits(0.1 + 0.2, 3.0).total;
        assert!(!permits(0.0, 8.0, used_up));
    }

    #[test]
    fn starvation_without_any_claim_is_infinite() {
        assert_eq!(starvation(0.0, 0.0), f64::INFINITY);
        assert_eq!(starvation(5.0, 5.0), 0.5);
    }

    proptest! {
        #[test]
        fn shares_of_distinct_names_sum_to_one(
            priorities in prop::collection::vec(0.5_f64..1e9, 1..40)
        ) {
            let entries: Vec<_> = priorities.iter().enumerate().map(|(i, p)| entry(i, *p)).collect();
            let sum: f64 = shares(&entries).iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-9);
        }

        #[test]
        fn whole_limits_are_whole(slots in 1_u32..500, factor in 1_u32..9) {
            // The better of two users with factors 1 : factor; slots a multiple of the parts.
            let weight = f64::from(slots * (factor + 1));
            let shares = shares(&[entry(0, 0.5), entry(1, 0.5 * f64::from(factor))]);
            let limit = pie(weight).limits(shares[0], 0.0).total;
            let whole = f64::from(slots * factor);
            prop_assert!(permits(whole - 1.0, 1.0, limit) && !permits(whole, 1.0, limit));
        }
    }
}
