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
    pub(crate) groups: Vec<Group>,
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
        settings.sort_by_cached_key(|s| {
            let name = s.name.to_ascii_lowercase();
            let path: Vec<String> = name.split('.').map(str::to_owned).collect();
            (path.len(), path)
        });
        let root = GroupSetting {
            name: ROOT.to_owned(),
            quota: QuotaSetting::Dynamic(0.0),
            accept_surplus: true,
            autoregroup: false,
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
            tree.groups[0].setting.autoregroup |= setting.autoregroup;
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
