//! The tree of accounting groups and the quota each node is assigned.
//!
//! Source: user manual, "Group accounting" and "Hierarchical group quotas".

use crate::names;
use rustc_hash::FxHashMap;

/// Name of the root group.
pub const ROOT: &str = "<none>";

/// How much a group may use, as configured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QuotaSetting {
    /// `GROUP_QUOTA_<g>`: weight units.
    Static(f64),
    /// `GROUP_QUOTA_DYNAMIC_<g>`: fraction of the parent's dynamic part.
    Dynamic(f64),
}

impl QuotaSetting {
    /// The configured number, whichever its kind.
    #[must_use]
    pub fn configured(self) -> f64 {
        match self {
            Self::Static(value) | Self::Dynamic(value) => value,
        }
    }

    /// Whether the quota is an absolute number.
    #[must_use]
    pub fn is_static(self) -> bool {
        matches!(self, Self::Static(_))
    }
}

/// One configured group, before the tree is built.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSetting {
    /// Full dotted name.
    pub name: String,
    /// Its quota; dynamic 0 when nothing is configured.
    pub quota: QuotaSetting,
    /// May use quota others leave.
    pub accept_surplus: bool,
    /// Its submitters also compete in the root group.
    pub autoregroup: bool,
    /// `GROUP_PRIO_FACTOR_<g>`; 0 for none.
    pub prio_factor: f64,
}

/// One node; numbers are those of the current cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Configuration of the node.
    pub setting: GroupSetting,
    /// Index of the parent; the root is its own.
    pub parent: usize,
    /// Indexes of the children, by name.
    pub children: Vec<usize>,
    /// What the node keeps for its own submitters.
    pub quota: f64,
    /// What was handed to the node and everything below it.
    pub subtree_quota: f64,
    /// Demand not (yet) allocated.
    pub requested: f64,
    /// Granted in this allocation round.
    pub allocated: f64,
    /// Demand of the node and of the children that accept surplus.
    pub subtree_requested: f64,
    /// Weighted usage of the node's own submitters.
    pub usage: f64,
    /// When the node last got a remainder slot (unweighted mode).
    pub round_robin_time: f64,
    /// Got a remainder slot in this cycle.
    pub got_remainder: bool,
}

/// The groups in breadth-first order; index 0 is the root.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupTree {
    groups: Vec<Group>,
    by_name: FxHashMap<String, usize>,
}

/// A configured group that cannot take part, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredGroup {
    /// Its name as configured.
    pub name: String,
    /// Why it is ignored.
    pub reason: &'static str,
}

impl Group {
    fn new(setting: GroupSetting, parent: usize) -> Self {
        Self {
            setting,
            parent,
            children: Vec::new(),
            quota: 0.0,
            subtree_quota: 0.0,
            requested: 0.0,
            allocated: 0.0,
            subtree_requested: 0.0,
            usage: 0.0,
            round_robin_time: 0.0,
            got_remainder: false,
        }
    }
}

impl GroupTree {
    /// Builds the tree: siblings by name, level by level.
    ///
    /// A group whose parent is not configured, and a second group of the same
    /// name, are ignored and returned with the reason.
    #[must_use]
    pub fn build(mut settings: Vec<GroupSetting>) -> (Self, Vec<IgnoredGroup>) {
        let mut ignored = Vec::new();
        let autoregroup = settings.iter().any(|s| s.autoregroup);
        settings.sort_by_cached_key(|s| (s.name.matches('.').count(), s.name.to_ascii_lowercase()));
        let root = GroupSetting {
            name: ROOT.to_owned(),
            quota: QuotaSetting::Dynamic(0.0),
            accept_surplus: true,
            autoregroup,
            prio_factor: 0.0,
        };
        let mut tree = Self {
            groups: vec![Group::new(root, 0)],
            by_name: FxHashMap::default(),
        };
        for setting in settings {
            let key = setting.name.to_ascii_lowercase();
            let parent = match key.rsplit_once('.') {
                None => Some(0),
                Some((parent, _)) => tree.by_name.get(parent).copied(),
            };
            let reason = if key.is_empty() || key == ROOT {
                Some("the name is reserved")
            } else if tree.by_name.contains_key(&key) {
                Some("the group is named twice")
            } else if parent.is_none() {
                Some("its parent group is not configured")
            } else {
                None
            };
            if let Some(reason) = reason {
                ignored.push(IgnoredGroup {
                    name: setting.name,
                    reason,
                });
                continue;
            }
            let parent = parent.unwrap_or(0);
            let index = tree.groups.len();
            tree.groups[parent].children.push(index);
            tree.groups.push(Group::new(setting, parent));
            tree.by_name.insert(key, index);
        }
        (tree, ignored)
    }

    /// Number of groups, the root included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Never: the root is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether quotas are in force at all.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.groups.len() > 1
    }

    /// Whether any group's submitters also compete in the root.
    #[must_use]
    pub fn autoregroup(&self) -> bool {
        self.groups[0].setting.autoregroup
    }

    /// Whether any group but the root accepts surplus.
    #[must_use]
    pub fn any_accepts_surplus(&self) -> bool {
        self.groups[1..].iter().any(|g| g.setting.accept_surplus)
    }

    /// Index of the group of that name, ignoring case.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<usize> {
        if name == ROOT {
            return Some(0);
        }
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    /// Group of a submitter: the configured one, else its nearest configured ancestor.
    #[must_use]
    pub fn group_of(&self, submitter: &str) -> usize {
        if !submitter.contains('@') {
            return 0;
        }
        let name = names::group_part(submitter).to_ascii_lowercase();
        let mut best = 0;
        let dots = name.match_indices('.').map(|(at, _)| at);
        for end in dots.chain([name.len()]) {
            match self.by_name.get(&name[..end]) {
                Some(index) if end > 0 => best = *index,
                _ => break,
            }
        }
        best
    }

    /// The node itself, its parent, and so on up to the root.
    pub fn lineage(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let mut next = Some(index);
        std::iter::from_fn(move || {
            let at = next?;
            next = (at != 0).then(|| self.groups[at].parent);
            Some(at)
        })
    }

    /// Usage of the node and everything below it.
    #[must_use]
    pub fn subtree_usage(&self, index: usize, usage_of: &dyn Fn(usize) -> f64) -> f64 {
        let below: f64 = self.groups[index]
            .children
            .iter()
            .map(|child| self.subtree_usage(*child, usage_of))
            .sum();
        usage_of(index) + below
    }

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
        } else {
            (handed - given).max(0.0)
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

impl std::ops::Index<usize> for GroupTree {
    type Output = Group;
    fn index(&self, index: usize) -> &Group {
        &self.groups[index]
    }
}

impl std::ops::IndexMut<usize> for GroupTree {
    fn index_mut(&mut self, index: usize) -> &mut Group {
        &mut self.groups[index]
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A group written as `name quota flags`: quota `20` static, `.5d` dynamic; flags `s` surplus, `r` autoregroup.
    pub(crate) fn tree(lines: &[&str]) -> GroupTree {
        let settings = lines
            .iter()
            .map(|line| {
                let mut words = line.split_whitespace();
                let name = words.next().unwrap().to_owned();
                let quota = words.next().unwrap();
                let quota = match quota.strip_suffix('d') {
                    Some(fraction) => QuotaSetting::Dynamic(fraction.parse().unwrap()),
                    None => QuotaSetting::Static(quota.parse().unwrap()),
                };
                let flags = words.next().unwrap_or("");
                GroupSetting {
                    name,
                    quota,
                    accept_surplus: flags.contains('s'),
                    autoregroup: flags.contains('r'),
                    prio_factor: 0.0,
                }
            })
            .collect();
        let (tree, ignored) = GroupTree::build(settings);
        assert_eq!(ignored, vec![]);
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::testing::tree;
    use super::*;

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
