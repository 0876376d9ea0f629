//! Rescue files, save points and dot files, in HTCondor's formats.

use std::fmt::Write;

use super::{Kind, NodeId, Run, Status};

impl Run {
    /// A rescue file or, with another `heading`, a save point: the nodes that are done, to be read behind the DAG's files.
    ///
    /// `heading`: its first comments, whole lines. `created`: when, as `11/30/2026 05:58:00`. `keeps_retries`: retries
    /// that were used count in the next run, too (DAGMAN_RESET_RETRIES_UPON_RESCUE is false).
    #[must_use]
    pub fn rescue_text(&self, heading: &str, created: &str, keeps_retries: bool) -> String {
        let graph = &self.graph;
        let mut text = format!(
            "{heading}# Created {created} UTC\n# Rescue DAG version: 2.1.0\n#\n# Total number of Nodes: {}\n\
             # Nodes premarked DONE: {}\n# Nodes that failed: {}\n#   ",
            self.counts.total, self.counts.done, self.counts.failed
        );
        for node in &graph.order {
            if self.status_of(*node) == Status::Error {
                text.push_str(graph.name(*node));
                text.push(',');
            }
        }
        text.push_str("<ENDLIST>\n\n");
        for node in &graph.order {
            let (about, name) = (&graph.nodes[*node as usize], graph.name(*node));
            let status = self.status_of(*node);
            if about.kind != Kind::Final && status == Status::Done {
                let _ = writeln!(text, "DONE {name}");
            } else if about.kind != Kind::Final
                && status == Status::Error
                && self.has_weak_children_only(*node)
            {
                let _ = writeln!(
                    text,
                    "# Failed node with only weak child dependencies:\nDONE {name}"
                );
            }
            if about.retries > 0 && keeps_retries {
                let used = self.retries_of(*node);
                let left = about.retries - used;
                let _ = write!(
                    text,
                    "# {used} of {} retries already performed; {left} remaining\nRETRY {name} {left}",
                    about.retries
                );
                if about.unless != 0 {
                    let _ = write!(text, " UNLESS-EXIT {}", about.unless);
                }
                text.push('\n');
            }
        }
        text
    }

    fn has_weak_children_only(&self, node: NodeId) -> bool {
        self.graph.child_count(node) > 0 && self.graph.children(node).all(|(_, weak)| weak)
    }

    /// The DAG for dot. `date`: as `ctime` gives it; `included`: the name and the text of the file that DOT includes.
    #[must_use]
    pub fn dot_text(&self, date: &str, included: Option<(&str, &str)>) -> String {
        let graph = &self.graph;
        let mut text = format!("digraph DAG {{\n    label=\"DAGMan Job status at {date}\";\n\n");
        if let Some((name, commands)) = included {
            let _ = write!(
                text,
                "// Beginning of commands included from {name}.\n{commands}// End of commands included from {name}.\n\n"
            );
        }
        for node in &graph.order {
            let name = graph.name(*node);
            let (shape, state, more) = match self.status_of(*node) {
                Status::PreRun => ("ellipse", "Pre", " style=dotted"),
                Status::PostRun => ("ellipse", "Post", " style=dotted"),
                Status::Submitted => ("ellipse", "R", " peripheries=2"),
                Status::Done => ("ellipse", "Done", " style=bold"),
                Status::Error => ("box", "E", ""),
                Status::NotReady | Status::Ready | Status::Futile => ("ellipse", "I", ""),
            };
            let _ = writeln!(
                text,
                "    \"{name}\" [shape={shape} label=\"{name} ({state})\"{more}];"
            );
        }
        text.push('\n');
        for node in &graph.order {
            for (child, _) in graph.children(*node) {
                let _ = writeln!(
                    text,
                    "    \"{}\" -> \"{}\";",
                    graph.name(*node),
                    graph.name(child)
                );
            }
        }
        text.push_str("}\n");
        text
    }
}
