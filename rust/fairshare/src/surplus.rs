//! Allocation of a round: each group's own quota, then surplus through the tree.

use crate::groups::GroupTree;
use crate::tolerance;

/// Who takes part in a division at one node: its children and itself (last).
struct Table {
    members: Vec<usize>,
    quotas: Vec<f64>,
    wanted: Vec<f64>,
    granted: Vec<f64>,
}

impl Table {
    fn at(tree: &GroupTree, node: usize) -> Self {
        let mut members = tree[node].children.clone();
        members.push(node);
        let last = members.len() - 1;
        let pick = |of_child: &dyn Fn(usize) -> f64, own: f64| -> Vec<f64> {
            members
                .iter()
                .enumerate()
                .map(|(j, m)| if j == last { own } else { of_child(*m) })
                .collect()
        };
        let wanted = pick(
            &|child| {
                if tree[child].setting.accept_surplus {
                    tree[child].subtree_requested
                } else {
                    0.0
                }
            },
            tree[node].requested,
        );
        let quotas = pick(&|child| tree[child].subtree_quota, tree[node].quota);
        let granted = vec![0.0; members.len()];
        Self {
            members,
            quotas,
            wanted,
            granted,
        }
    }

    /// Divides `surplus` in proportion to `weights`, each capped by what it wants.
    fn divide(&mut self, mut surplus: f64, weights: &[f64]) -> f64 {
        while surplus > 0.0 {
            let outstanding: f64 = (0..weights.len())
                .filter(|j| self.wanted[*j] > 0.0)
                .map(|j| weights[j])
                .sum();
            if outstanding <= 0.0 {
                break;
            }
            let (mut handed, mut capped) = (0.0, false);
            for (j, weight) in weights.iter().enumerate() {
                if self.wanted[j] <= 0.0 {
                    continue;
                }
                let fair = surplus * (weight / outstanding);
                let part = fair.min(self.wanted[j]);
                capped |= fair > self.wanted[j];
                self.granted[j] += part;
                self.wanted[j] -= part;
                handed += part;
            }
            surplus = if capped {
                (surplus - handed).max(0.0)
            } else {
                0.0
            };
        }
        surplus
    }
}

impl GroupTree {
    /// Allocates to every group; `requested` becomes what stays unmet.
    ///
    /// Returns the surplus nobody can use.
    pub fn allocate(&mut self) -> f64 {
        for i in 0..self.len() {
            self[i].allocated = 0.0;
            self[i].subtree_requested = 0.0;
            self[i].got_remainder = false;
        }
        self.allocate_below(0)
    }

    fn allocate_below(&mut self, node: usize) -> f64 {
        let group = &mut self[node];
        group.allocated = group.requested.min(group.quota);
        group.requested -= group.allocated;
        group.subtree_requested = group.requested;
        let mut surplus = group.quota - group.allocated;
        for child in group.children.clone() {
            surplus += self.allocate_below(child);
            if self[child].setting.accept_surplus {
                self[node].subtree_requested += self[child].subtree_requested;
            }
        }
        if self[node].children.is_empty() {
            return surplus;
        }
        self.hand_down(node, surplus)
    }

    fn hand_down(&mut self, node: usize, surplus: f64) -> f64 {
        let demand = self[node].subtree_requested;
        if surplus <= 0.0 {
            return 0.0;
        }
        if demand <= 0.0 {
            return surplus;
        }
        let mut table = Table::at(self, node);
        let left = if surplus >= demand {
            table.granted.clone_from(&table.wanted);
            surplus - demand
        } else {
            let by_quota = table.quotas.clone();
            let left = table.divide(surplus, &by_quota);
            let equal: Vec<f64> = by_quota.iter().map(|_| 1.0).collect();
            table.divide(left, &equal)
        };
        let last = table.members.len() - 1;
        for j in 0..last {
            if table.granted[j] > 0.0 {
                self.hand_down(table.members[j], table.granted[j]);
            }
        }
        let own = table.granted[last];
        self[node].allocated += own;
        self[node].requested -= own;
        self[node].subtree_requested = (demand - table.granted.iter().sum::<f64>()).max(0.0);
        left
    }

    /// Floors every allocation and deals the whole slots recovered round-robin,
    /// oldest `round_robin_time` first (unweighted mode).
    ///
    /// Returns what is left over.
    pub fn recover_remainders(&mut self) -> f64 {
        let mut times = vec![f64::INFINITY; self.len()];
        self.floor_below(0, &mut times)
    }

    fn floor_below(&mut self, node: usize, times: &mut [f64]) -> f64 {
        let group = &mut self[node];
        let whole = tolerance::whole_part(group.allocated);
        let mut surplus = (group.allocated - whole).max(0.0);
        group.requested = (group.requested + surplus).round();
        group.allocated = whole;
        group.subtree_requested = group.requested;
        if group.requested > 0.0 {
            times[node] = group.round_robin_time;
        }
        for child in group.children.clone() {
            surplus += self.floor_below(child, times);
            let below = &self[child];
            if below.setting.accept_surplus {
                let wanted = below.subtree_requested;
                self[node].subtree_requested += wanted;
                if wanted > 0.0 {
                    times[node] = times[node].min(times[child]);
                }
            }
        }
        if self[node].children.is_empty() {
            return surplus;
        }
        self.deal(node, surplus, times)
    }

    fn deal(&mut self, node: usize, surplus: f64, times: &[f64]) -> f64 {
        let mut left = surplus;
        let mut table = Table::at(self, node);
        let last = table.members.len() - 1;
        let own_time = self[node].round_robin_time;
        let mut order: Vec<usize> = (0..=last).collect();
        let time_of = |j: usize| {
            if j == last {
                own_time
            } else {
                times[table.members[j]]
            }
        };
        // Who waits as long as another goes first with the larger quota, then with the larger demand.
        order.sort_by(|a, b| {
            let more = |of: &[f64]| of[*b].total_cmp(&of[*a]);
            time_of(*a)
                .total_cmp(&time_of(*b))
                .then_with(|| more(&table.quotas))
                .then_with(|| more(&table.wanted))
        });
        while tolerance::reached(left, 1.0) && table.wanted.iter().any(|w| *w > 0.0) {
            let takers = table.wanted.iter().filter(|w| **w > 0.0).count() as f64;
            let most = tolerance::whole_part(left / takers).max(1.0);
            for &j in &order {
                if table.wanted[j] <= 0.0 || !tolerance::reached(left, 1.0) {
                    continue;
                }
                let part = table.wanted[j].min(most).min(tolerance::whole_part(left));
                table.granted[j] += part;
                table.wanted[j] -= part;
                left -= part;
                self[table.members[j]].got_remainder = true;
            }
        }
        for j in 0..last {
            if table.granted[j] > 0.0 {
                self.deal_into(table.members[j], table.granted[j], times);
            }
        }
        let own = table.granted[last];
        self[node].allocated += own;
        self[node].requested -= own;
        self[node].subtree_requested -= table.granted.iter().sum::<f64>();
        left.max(0.0)
    }

    fn deal_into(&mut self, node: usize, slots: f64, times: &[f64]) {
        if self[node].children.is_empty() {
            self[node].allocated += slots;
            self[node].requested -= slots;
            self[node].subtree_requested -= slots;
        } else {
            self.deal(node, slots, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::groups::GroupTree;
    use crate::groups::testing::tree;
    use proptest::prelude::*;

    fn demand(tree: &mut GroupTree, wants: &[(&str, f64)]) {
        for (name, want) in wants {
            let index = tree.index_of(name).unwrap();
            tree[index].requested = *want;
        }
    }

    /// Allocations of the groups named in `wants`.
    fn allocated(
        lines: &[&str],
        pool: f64,
        oversubscribe: bool,
        wants: &[(&str, f64)],
    ) -> Vec<f64> {
        let mut tree = tree(lines);
        tree.assign_quotas(pool, oversubscribe);
        demand(&mut tree, wants);
        tree.allocate();
        wants
            .iter()
            .map(|(name, _)| tree[tree.index_of(name).unwrap()].allocated)
            .collect()
    }

    fn close(left: &[f64], right: &[f64]) {
        assert_eq!(left.len(), right.len());
        for (l, r) in left.iter().zip(right) {
            assert!((l - r).abs() < 1e-9, "{left:?} is not {right:?}");
        }
    }

    #[test]
    fn quota_caps_a_group_that_takes_no_surplus() {
        let got = allocated(
            &["a 20", "b 30"],
            100.0,
            true,
            &[("a", 50.0), ("b", 0.0), ("<none>", 0.0)],
        );
        close(&got, &[20.0, 0.0, 0.0]);
        let got = allocated(
            &["a 20", "b 30"],
            100.0,
            true,
            &[("a", 50.0), ("<none>", 500.0)],
        );
        close(&got, &[20.0, 80.0]);
    }

    #[test]
    fn surplus_goes_to_who_accepts_it() {
        let got = allocated(
            &["a 20 s", "b 30"],
            100.0,
            true,
            &[("a", 50.0), ("b", 0.0), ("<none>", 0.0)],
        );
        close(&got, &[50.0, 0.0, 0.0]);
        let got = allocated(
            &["a .5d s", "b .5d s"],
            100.0,
            true,
            &[("a", 90.0), ("b", 20.0)],
        );
        close(&got, &[80.0, 20.0]);
    }

    #[test]
    fn surplus_is_divided_by_quota_with_the_node_as_one_of_its_children() {
        let got = allocated(
            &["sci 15 s", "eng .4d"],
            50.0,
            true,
            &[("sci", 60.0), ("eng", 5.0), ("<none>", 60.0)],
        );
        close(&got, &[18.75, 5.0, 26.25]);
    }

    #[test]
    fn groups_without_quota_share_equally_what_is_left() {
        let got = allocated(
            &["a 0 s", "b 0 s", "c 10 s"],
            40.0,
            true,
            &[("a", 30.0), ("b", 30.0), ("c", 20.0)],
        );
        close(&got, &[10.0, 10.0, 20.0]);
    }

    #[test]
    fn unmet_demand_is_hidden_behind_a_parent_that_takes_no_surplus() {
        let lines = ["p 20", "p.x 5 s", "q 20"];
        let got = allocated(
            &lines,
            40.0,
            false,
            &[("p.x", 100.0), ("p", 0.0), ("q", 0.0)],
        );
        close(&got, &[20.0, 0.0, 0.0]);
    }

    #[test]
    fn remainders_rotate_between_groups() {
        let lines = ["a .3333d s", "b .3333d s", "c .3333d s"];
        let mut times = [0.0; 4];
        let mut extra = [0; 4];
        for cycle in 1..=3 {
            let mut tree = tree(&lines);
            tree.assign_quotas(10.0, true);
            demand(&mut tree, &[("a", 10.0), ("b", 10.0), ("c", 10.0)]);
            for i in 0..4 {
                tree[i].round_robin_time = times[i];
            }
            tree.allocate();
            let left = tree.recover_remainders();
            assert!(left < 1.0);
            let total: f64 = (0..4).map(|i| tree[i].allocated).sum();
            assert_eq!(total, 10.0);
            for i in 1..4 {
                if tree[i].allocated > 3.0 {
                    extra[i] += 1;
                }
                if tree[i].got_remainder {
                    times[i] = f64::from(cycle);
                }
            }
        }
        assert_eq!(&extra[1..], &[1, 1, 1]);
    }

    proptest! {
        #[test]
        fn allocation_is_bounded_by_demand_and_pool(
            wants in prop::collection::vec(0.0_f64..200.0, 5),
            quotas in prop::collection::vec(0.0_f64..60.0, 4),
            flags in prop::collection::vec(any::<bool>(), 4),
            pool in 1.0_f64..300.0,
        ) {
            let names = ["a", "b", "a.x", "a.y"];
            let lines: Vec<String> = (0..4)
                .map(|i| format!("{} {} {}", names[i], quotas[i], if flags[i] { "s" } else { "" }))
                .collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let all = ["<none>", "a", "b", "a.x", "a.y"];
            let wanted: Vec<_> = all.iter().copied().zip(wants.iter().copied()).collect();
            let got = allocated(&lines, pool, false, &wanted);
            for (g, w) in got.iter().zip(&wants) {
                prop_assert!(*g <= w + 1e-6 && *g >= 0.0);
            }
            prop_assert!(got.iter().sum::<f64>() <= pool + 1e-6);
        }
    }
}
