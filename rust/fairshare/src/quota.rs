//! How much of the pool each group is assigned, and how far it may go.
//!
//! Source: user manual, "Hierarchical group quotas".

use crate::groups::{GroupTree, QuotaSetting};
use crate::tolerance;

impl GroupTree {
    /// Hands `pool` to the root and quotas down the tree.
    pub fn assign_quotas(&mut self, pool: f64, allow_oversubscription: bool) {
        for group in &mut self.groups {
            group.quota = 0.0;
            group.subtree_quota = 0.0;
        }
        self.assign(0, pool, allow_oversubscription);
    }

    fn assign(&mut self, index: usize, handed: f64, oversubscribe: bool) {
        if handed <= 0.0 {
            return;
        }
        let children = self.groups[index].children.clone();
        let (mut fixed, mut fractions) = (0.0, 0.0_f64);
        for child in &children {
            match self.groups[*child].setting.quota {
                QuotaSetting::Static(value) => fixed += value,
                QuotaSetting::Dynamic(fraction) => fractions += fraction,
            }
        }
        let fixed_given = if oversubscribe {
            fixed
        } else {
            fixed.min(handed)
        };
        let dynamic_given = (handed - fixed_given).max(0.0);
        let mut given = 0.0;
        for child in children {
            let part = match self.groups[child].setting.quota {
                QuotaSetting::Static(_) if fixed <= 0.0 => 0.0,
                QuotaSetting::Static(value) => value * (fixed_given / fixed),
                QuotaSetting::Dynamic(fraction) => fraction * (dynamic_given / fractions.max(1.0)),
            };
            self.assign(child, part.max(0.0), oversubscribe);
            given += part.max(0.0);
        }
        let keeps_all = oversubscribe && index != 0;
        let group = &mut self.groups[index];
        group.subtree_quota = handed;
        group.quota = if keeps_all {
            handed
        } else if tolerance::reached(given, handed) {
            // Rounding noise is not a quota: it would put the group ahead of all that have one.
            0.0
        } else {
            handed - given
        };
    }

    /// Most a group may reach without carrying itself or an ancestor that does
    /// not accept surplus over its quota (`NEGOTIATOR_STRICT_ENFORCE_QUOTA`).
    ///
    /// `amount` is the usage aimed at; `usage_of` gives live usage.
    #[must_use]
    pub fn strictly_capped(
        &self,
        index: usize,
        amount: f64,
        usage_of: &dyn Fn(usize) -> f64,
    ) -> f64 {
        let held = usage_of(index);
        let mut growth = amount - held;
        for node in self.lineage(index) {
            let group = &self.groups[node];
            if group.setting.accept_surplus {
                continue;
            }
            let cap = match group.setting.quota {
                QuotaSetting::Static(value) => value,
                QuotaSetting::Dynamic(_) => group.subtree_quota,
            };
            let available = (cap - self.subtree_usage(node, usage_of)).max(0.0);
            growth = growth.min(available);
        }
        held + growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::testing::tree;
    use crate::groups::{GroupSetting, ROOT};

    fn quotas(lines: &[&str], pool: f64, oversubscribe: bool) -> Vec<f64> {
        let mut tree = tree(lines);
        tree.assign_quotas(pool, oversubscribe);
        (0..tree.len()).map(|i| tree[i].quota).collect()
    }

    #[test]
    fn static_quotas_oversubscribe_or_shrink() {
        let two = ["a 80", "b 80"];
        assert_eq!(quotas(&two, 100.0, true), vec![0.0, 80.0, 80.0]);
        assert_eq!(quotas(&two, 100.0, false), vec![0.0, 50.0, 50.0]);
    }

    #[test]
    fn dynamic_children_divide_what_statics_leave() {
        let nested = ["a 60", "a.x .5d", "a.y .25d"];
        assert_eq!(quotas(&nested, 100.0, false), vec![40.0, 15.0, 30.0, 15.0]);
        assert_eq!(quotas(&nested, 100.0, true), vec![40.0, 60.0, 30.0, 15.0]);
        assert_eq!(
            quotas(&["sci 15", "eng .4d"], 50.0, true),
            vec![21.0, 14.0, 15.0],
            "siblings stand in the order of their names"
        );
        assert_eq!(
            quotas(&["a .8d", "b .8d"], 100.0, true),
            vec![0.0, 50.0, 50.0]
        );
    }

    #[test]
    fn submitters_fall_to_the_nearest_configured_ancestor() {
        let tree = tree(&["a 1", "a.b 1"]);
        let name = |s: &str| tree[tree.group_of(s)].setting.name.clone();
        assert_eq!(name("a.b.joe@x"), "a.b");
        assert_eq!(name("A.c.joe@x"), "a");
        assert_eq!(name("a.b.c.joe@x"), "a.b");
        assert_eq!(name("joe@x"), ROOT);
        assert_eq!(name("other.joe@x"), ROOT);
        assert_eq!(name("a.joe"), ROOT);
    }

    #[test]
    fn orphans_and_duplicates_are_ignored_with_a_reason() {
        let setting = |name: &str| GroupSetting {
            name: name.to_owned(),
            quota: QuotaSetting::Static(1.0),
            accept_surplus: false,
            autoregroup: false,
            prio_factor: 0.0,
        };
        let (tree, ignored) = GroupTree::build(vec![
            setting("x.y"),
            setting("a"),
            setting("A"),
            setting("a.b"),
        ]);
        assert_eq!(tree.len(), 3);
        let names: Vec<_> = ignored.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, vec!["A", "x.y"]);
    }

    #[test]
    fn strict_enforcement_counts_the_whole_subtree() {
        let mut tree = tree(&["a 10", "a.x 8 s", "a.y 8 s"]);
        tree.assign_quotas(100.0, true);
        let x = tree.index_of("a.x").unwrap();
        let y = tree.index_of("a.y").unwrap();
        let usage = move |i: usize| if i == x { 7.0 } else { 0.0 };
        assert_eq!(tree.strictly_capped(y, 8.0, &usage), 3.0);
        assert_eq!(tree.strictly_capped(x, 20.0, &usage), 10.0);
    }
}
