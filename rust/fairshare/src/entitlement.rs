//! What each of several submitters, or groups, may hold of an amount that all of them want.

use crate::groups::GroupTree;

/// One who wants part of an amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Want {
    /// Its part of what is contended for is in proportion to this, above 0.
    pub weight: f64,
    /// Given before anything is divided.
    pub least: f64,
    /// What it can use, `least` at the least.
    pub most: f64,
}

/// Divides `amount` in proportion to weights, between each one's `least` and `most`.
///
/// What one cannot use goes to the others, so all of `amount` is given away as long as somebody can use it. An amount
/// smaller than everybody's `least` is divided in proportion to those.
#[must_use]
pub fn entitlements(wants: &[Want], amount: f64) -> Vec<f64> {
    let at = |level: f64| {
        move |want: &Want| {
            let part = level * want.weight;
            part.min(want.most).max(want.least)
        }
    };
    let least: f64 = wants.iter().map(|want| want.least).sum();
    if amount <= least {
        let part = if least > 0.0 {
            amount.max(0.0) / least
        } else {
            0.0
        };
        return wants.iter().map(|want| want.least * part).collect();
    }
    // What is given away grows with the level, along straight lines between the levels at which somebody begins to get
    // more than its least, or has all it can use.
    let mut bends: Vec<(f64, f64)> = Vec::with_capacity(2 * wants.len());
    for want in wants.iter().filter(|want| want.most > want.least) {
        bends.push((want.least / want.weight, want.weight));
        bends.push((want.most / want.weight, -want.weight));
    }
    bends.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut level, mut given, mut slope) = (0.0, least, 0.0_f64);
    for (next, change) in bends {
        let grown = given + slope * (next - level);
        if grown >= amount {
            level += (amount - given) / slope;
            return wants.iter().map(at(level)).collect();
        }
        (level, given) = (next, grown);
        slope = (slope + change).max(0.0);
    }
    wants.iter().map(at(f64::INFINITY)).collect()
}

/// What each group should hold of what all groups use together.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupTargets {
    /// By its quota and the surplus it is allotted.
    pub allotted: Vec<f64>,
    /// What it should hold: groups beyond their allotment give up as much as those short of theirs can use.
    pub held: Vec<f64>,
}

impl GroupTree {
    /// The targets of groups whose own submitters use `usage`, and could use `demand` in all.
    #[must_use]
    pub fn targets(
        &self,
        usage: &[f64],
        demand: &[f64],
        pool: f64,
        oversubscribe: bool,
    ) -> GroupTargets {
        let mut tree = self.clone();
        tree.assign_quotas(pool, oversubscribe);
        for (index, demand) in demand.iter().enumerate() {
            tree[index].requested = *demand;
        }
        tree.allocate();
        let allotted: Vec<f64> = (0..tree.len()).map(|index| tree[index].allocated).collect();
        let over: f64 = usage
            .iter()
            .zip(&allotted)
            .map(|(used, own)| (used - own).max(0.0))
            .sum();
        let short: f64 = usage
            .iter()
            .zip(&allotted)
            .map(|(used, own)| (own - used).max(0.0))
            .sum();
        let moved = over.min(short);
        let part = |of: f64, all: f64| if all > 0.0 { moved * of / all } else { 0.0 };
        let held = usage
            .iter()
            .zip(&allotted)
            .map(|(used, own)| {
                used - part((used - own).max(0.0), over) + part((own - used).max(0.0), short)
            })
            .collect();
        GroupTargets { allotted, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::testing::tree;
    use proptest::prelude::*;

    fn want(weight: f64, least: f64, most: f64) -> Want {
        Want {
            weight,
            least,
            most,
        }
    }

    #[test]
    fn equals_get_halves_and_others_in_proportion() {
        assert_eq!(
            entitlements(&[want(1.0, 0.0, 99.0), want(1.0, 0.0, 99.0)], 8.0),
            [4.0, 4.0]
        );
        assert_eq!(
            entitlements(&[want(3.0, 0.0, 99.0), want(1.0, 0.0, 99.0)], 8.0),
            [6.0, 2.0]
        );
    }

    #[test]
    fn what_one_cannot_use_goes_to_the_others() {
        let wants = [
            want(1.0, 0.0, 1.0),
            want(1.0, 0.0, 99.0),
            want(2.0, 0.0, 99.0),
        ];
        assert_eq!(entitlements(&wants, 10.0), [1.0, 3.0, 6.0]);
        assert_eq!(entitlements(&[want(1.0, 0.0, 2.0)], 10.0), [2.0]);
    }

    #[test]
    fn the_least_is_given_first() {
        let wants = [want(1.0, 6.0, 9.0), want(1.0, 0.0, 9.0)];
        assert_eq!(entitlements(&wants, 8.0), [6.0, 2.0]);
        assert_eq!(
            entitlements(&[want(1.0, 6.0, 9.0), want(1.0, 2.0, 9.0)], 4.0),
            [3.0, 1.0]
        );
    }

    #[test]
    fn a_group_beyond_its_quota_gives_up_what_one_short_of_its_own_can_use() {
        let groups = tree(&["a 4 s", "b 4"]);
        let targets =
            |usage: [f64; 3], demand: [f64; 3]| groups.targets(&usage, &demand, 8.0, false).held;
        assert_eq!(targets([0.0, 8.0, 0.0], [0.0, 20.0, 9.0]), [0.0, 4.0, 4.0]);
        assert_eq!(targets([0.0, 8.0, 0.0], [0.0, 20.0, 2.0]), [0.0, 6.0, 2.0]);
        assert_eq!(targets([0.0, 8.0, 0.0], [0.0, 20.0, 0.0]), [0.0, 8.0, 0.0]);
        // It has what it is allotted: who waits in it waits for others of its own group.
        assert_eq!(targets([0.0, 4.0, 4.0], [0.0, 20.0, 9.0]), [0.0, 4.0, 4.0]);
    }

    #[test]
    fn nobody_and_nothing() {
        assert!(entitlements(&[], 3.0).is_empty());
        assert_eq!(entitlements(&[want(1.0, 0.0, 5.0)], 0.0), [0.0]);
        assert_eq!(entitlements(&[want(1.0, 0.0, 0.0)], 3.0), [0.0]);
    }

    fn any_wants() -> impl Strategy<Value = Vec<Want>> {
        let one = (1e-6_f64..1e3, 0.0_f64..10.0, 0.0_f64..100.0);
        let one = one.prop_map(|(weight, least, more)| want(weight, least, least + more));
        prop::collection::vec(one, 0..12)
    }

    proptest! {
        #[test]
        fn all_that_can_be_used_is_given_and_no_more(wants in any_wants(), amount in 0.0_f64..500.0) {
            let parts = entitlements(&wants, amount);
            let most: f64 = wants.iter().map(|w| w.most).sum();
            let sum: f64 = parts.iter().sum();
            prop_assert!((sum - amount.min(most)).abs() < 1e-6, "{sum} of {amount}, {most} wanted");
            for (part, want) in parts.iter().zip(&wants) {
                prop_assert!(*part <= want.most + 1e-9);
            }
        }

        #[test]
        fn who_has_less_for_its_weight_can_use_no_more(wants in any_wants(), amount in 0.0_f64..500.0) {
            let parts = entitlements(&wants, amount);
            let least: f64 = wants.iter().map(|w| w.least).sum();
            prop_assume!(amount > least);
            for (a, want) in parts.iter().zip(&wants) {
                for (b, other) in parts.iter().zip(&wants) {
                    let behind = a / want.weight < b / other.weight - 1e-6;
                    let full = *a >= want.most - 1e-6;
                    let given = *b <= other.least + 1e-6;
                    prop_assert!(!behind || full || given);
                }
            }
        }

        #[test]
        fn more_to_divide_is_less_for_nobody(wants in any_wants(), amount in 0.0_f64..500.0, more in 0.0_f64..50.0) {
            let before = entitlements(&wants, amount);
            let after = entitlements(&wants, amount + more);
            for (a, b) in before.iter().zip(&after) {
                prop_assert!(*b >= a - 1e-6);
            }
        }
    }
}
