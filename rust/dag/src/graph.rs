//! Nodes and dependencies, as the files of a DAG describe them.

use crate::command::{Output, Rest, ScriptKind};
use crate::names::{NONE, Names};

/// A node, in the order in which the files name them.
pub type NodeId = u32;

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// JOB and SUBDAG, and nodes that join others.
    #[default]
    Job,
    /// FINAL.
    Final,
    /// PROVISIONER.
    Provisioner,
    /// SERVICE.
    Service,
}

/// A script of a node. Strings are numbers of [`Graph::texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Program and arguments.
    pub line: u32,
    /// A status that means "again", and after how many seconds.
    pub defer: Option<(i32, i32)>,
    /// A file for its output.
    pub debug: Option<(u32, Output)>,
}

/// TOLERANCE of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Jobs, or percent of them, that may fail.
    pub value: i32,
    /// Whether it is percent.
    pub percent: bool,
    /// What becomes of the rest of the jobs.
    pub rest: Rest,
}

/// What few nodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// PRE, POST and HOLD scripts.
    pub scripts: [Option<Script>; 3],
    /// ABORT-DAG-ON: the value, and the exit status of the DAG.
    pub abort: Option<(i32, Option<i32>)>,
    /// PRE_SKIP.
    pub pre_skip: Option<i32>,
    /// TOLERANCE.
    pub tolerance: Option<Tolerance>,
    /// SAVE_POINT_FILE, a number of [`Graph::texts`].
    pub save_point: Option<u32>,
}

/// A node. Strings are numbers of [`Graph::texts`], or [`NONE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Submit file, or the name of a description in the DAG's files.
    pub description: u32,
    /// The file of a sub-DAG.
    pub dag_file: u32,
    /// Where it is submitted and its scripts run; relative to the DAG's job's directory, "" for that.
    pub directory: u32,
    /// CATEGORY, with the splices' names.
    pub category: u32,
    /// What it is.
    pub kind: Kind,
    /// NOOP, and nodes that join others.
    pub noop: bool,
    /// Whether it is done from the start: DONE, or the option of JOB.
    pub done: bool,
    /// Whether the option of JOB says so.
    pub done_by_job: bool,
    /// Whether it joins others.
    pub join: bool,
    /// Whether it has parents, and children.
    pub related: (bool, bool),
    /// PRIORITY; 0 without.
    pub priority: i32,
    /// RETRY; 0 without.
    pub retries: i32,
    /// UNLESS-EXIT; 0 without.
    pub unless: i32,
    /// The file and line of the command that makes it; the file as messages name it.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The level of files to which it belongs.
    pub(crate) scope: u32,
    /// Its place in [`Graph::extras`].
    pub(crate) extra: u32,
    /// Its last variable, in [`Graph::vars`].
    pub(crate) vars: u32,
}

/// One of a node's VARS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Var {
    /// Its name.
    pub key: u32,
    /// Its value.
    pub value: u32,
    /// Whether it comes behind the submit description, and wins.
    pub append: bool,
    pub(crate) before: u32,
}

/// DOT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dot {
    /// The file.
    pub file: String,
    /// UPDATE.
    pub update: bool,
    /// OVERWRITE.
    pub overwrite: bool,
    /// INCLUDE.
    pub header: Option<String>,
}

/// NODE_STATUS_FILE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFile {
    /// The file.
    pub file: String,
    /// Seconds between two writes at least, if given.
    pub seconds: Option<i32>,
    /// ALWAYS-UPDATE.
    pub always: bool,
}

/// What a DAG's files say about it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// DOT.
    pub dot: Option<Dot>,
    /// NODE_STATUS_FILE.
    pub status_file: Option<StatusFile>,
    /// JOBSTATE_LOG.
    pub jobstate_log: Option<String>,
    /// CONFIG: each file that is named, absolute.
    pub configs: Vec<String>,
    /// SET_JOB_ATTR: each line.
    pub attributes: Vec<String>,
    /// ENV: whether it sets, and the line.
    pub environment: Vec<(bool, String)>,
}

/// A DAG.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The names of the nodes; the number of a node is that of its name.
    pub names: Names,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// All nodes but SERVICE ones in the order of status files: a file's own before those of its splices.
    pub order: Vec<NodeId>,
    /// SERVICE nodes.
    pub services: Vec<NodeId>,
    /// The FINAL node.
    pub last: Option<NodeId>,
    /// The PROVISIONER node.
    pub provisioner: Option<NodeId>,
    /// All other strings.
    pub texts: Names,
    /// Submit descriptions in the files: name and text.
    pub descriptions: Vec<(u32, u32)>,
    /// Throttles of categories: name and nodes at once.
    pub throttles: Vec<(u32, i32)>,
    /// What the files say about the whole.
    pub settings: Settings,
    pub(crate) extras: Vec<Extra>,
    pub(crate) vars: Vec<Var>,
    /// Dependencies as they were made: parent, and child with [`WEAK`]; empty once they are in rows.
    pub(crate) made: Vec<(NodeId, u32)>,
    children: Rows,
    parents: Rows,
}

/// The bit of a dependency that is weak.
pub(crate) const WEAK: u32 = 1 << 31;

/// Numbers in rows, one for each node.
#[derive(Clone, Debug, Default)]
struct Rows {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    /// Rows of pairs, in the pairs' order, an item once in a row; a row's item is strong if one of its kind is.
    fn of(nodes: usize, pairs: &[(NodeId, u32)], turned: bool) -> Self {
        let sides = |pair: &(u32, u32)| {
            if turned {
                (pair.1 & !WEAK, pair.0 | (pair.1 & WEAK))
            } else {
                *pair
            }
        };
        let mut starts = vec![0u32; nodes + 1];
        for pair in pairs {
            starts[sides(pair).0 as usize + 1] += 1;
        }
        for at in 0..nodes {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut items = vec![0u32; pairs.len()];
        for pair in pairs {
            let (row, item) = sides(pair);
            items[next[row as usize] as usize] = item;
            next[row as usize] += 1;
        }
        // Where an item stands in the rows that are kept; what was noted for a former row lies before this one.
        let mut place = vec![NONE; nodes];
        let mut kept = 0usize;
        let mut ends = Vec::with_capacity(nodes);
        for row in 0..nodes {
            let begin = kept;
            for at in starts[row] as usize..starts[row + 1] as usize {
                let item = items[at];
                let known = place[(item & !WEAK) as usize];
                if known != NONE && known as usize >= begin {
                    items[known as usize] &= item | !WEAK;
                } else {
                    place[(item & !WEAK) as usize] = u32::try_from(kept).unwrap_or(NONE);
                    items[kept] = item;
                    kept += 1;
                }
            }
            ends.push(u32::try_from(kept).unwrap_or(NONE));
        }
        items.truncate(kept);
        items.shrink_to_fit();
        Self { ends, items }
    }

    fn row(&self, at: NodeId) -> &[u32] {
        let at = at as usize;
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.items[from as usize..self.ends[at] as usize]
    }
}

impl Graph {
    /// The name of a node.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        self.names.get(node)
    }

    /// A string of a node; "" for [`NONE`].
    #[must_use]
    pub fn text(&self, id: u32) -> &str {
        if id == NONE { "" } else { self.texts.get(id) }
    }

    /// The node of a full name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.find(name)
    }

    /// What few nodes have.
    #[must_use]
    pub fn extra(&self, node: NodeId) -> Option<&Extra> {
        self.extras.get(self.nodes[node as usize].extra as usize)
    }

    /// A script of a node.
    #[must_use]
    pub fn script(&self, node: NodeId, kind: ScriptKind) -> Option<&Script> {
        self.extra(node)?.scripts[kind as usize].as_ref()
    }

    /// The VARS of a node, in their order.
    #[must_use]
    pub fn vars_of(&self, node: NodeId) -> Vec<Var> {
        let mut found = Vec::new();
        let mut at = self.nodes[node as usize].vars;
        while at != NONE {
            let var = self.vars[at as usize];
            found.push(var);
            at = var.before;
        }
        found.reverse();
        found
    }

    /// The children of a node, and whether each dependency is weak.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = (NodeId, bool)> {
        self.children
            .row(node)
            .iter()
            .map(|item| (item & !WEAK, item & WEAK != 0))
    }

    /// The parents of a node.
    pub fn parents(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.parents.row(node).iter().map(|item| item & !WEAK)
    }

    /// The parents of a node, and whether each dependency is weak.
    pub fn dependencies(&self, node: NodeId) -> impl Iterator<Item = (NodeId, bool)> {
        self.parents
            .row(node)
            .iter()
            .map(|item| (item & !WEAK, item & WEAK != 0))
    }

    /// How many parents a node has.
    #[must_use]
    pub fn parent_count(&self, node: NodeId) -> usize {
        self.parents.row(node).len()
    }

    /// How many children a node has.
    #[must_use]
    pub fn child_count(&self, node: NodeId) -> usize {
        self.children.row(node).len()
    }

    /// Dependencies, each once.
    #[must_use]
    pub fn edge_count(&self) -> usize {
        self.children.items.len()
    }

    /// Brings the dependencies into rows, once all files are read.
    pub(crate) fn finish(&mut self) {
        let made = std::mem::take(&mut self.made);
        self.children = Rows::of(self.nodes.len(), &made, false);
        self.parents = Rows::of(self.nodes.len(), &made, true);
    }

    pub(crate) fn extra_mut(&mut self, node: NodeId) -> &mut Extra {
        let place = &mut self.nodes[node as usize].extra;
        if *place == NONE {
            *place = u32::try_from(self.extras.len()).unwrap_or(NONE);
            self.extras.push(Extra::default());
        }
        &mut self.extras[*place as usize]
    }

    /// The nodes of a cycle, each the parent of the next and the last of the first; None if there is none.
    #[must_use]
    pub fn cycle(&self) -> Option<Vec<NodeId>> {
        let mut waits: Vec<u32> = (0..self.nodes.len())
            .map(|node| u32::try_from(self.parents.row(node as NodeId).len()).unwrap_or(NONE))
            .collect();
        let mut free: Vec<NodeId> = (0..self.nodes.len() as NodeId)
            .filter(|node| waits[*node as usize] == 0)
            .collect();
        while let Some(node) = free.pop() {
            for (child, _) in self.children(node) {
                waits[child as usize] -= 1;
                if waits[child as usize] == 0 {
                    free.push(child);
                }
            }
        }
        let mut at = (0..self.nodes.len() as NodeId).find(|node| waits[*node as usize] > 0)?;
        // Whoever waits has a parent that waits: going up, one comes round at last.
        let mut step = vec![NONE; self.nodes.len()];
        let mut path = Vec::new();
        while step[at as usize] == NONE {
            step[at as usize] = u32::try_from(path.len()).unwrap_or(NONE);
            path.push(at);
            at = self.parents(at).find(|up| waits[*up as usize] > 0)?;
        }
        let mut round = path.split_off(step[at as usize] as usize);
        round.reverse();
        Some(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_few_bytes() {
        assert!(
            size_of::<Node>() <= 56,
            "a million of them: {} MB",
            size_of::<Node>()
        );
    }
}
