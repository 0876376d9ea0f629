//! Dependencies: PARENT and CHILD, and the pins of splices.

use super::{Cow, Kind, NONE, Node, NodeId, Reader, Step, WEAK, limits};

impl Reader<'_> {
    pub(super) fn dependencies(
        &mut self,
        parents: &[Cow<'_, str>],
        children: &[Cow<'_, str>],
        weak: bool,
        scope: usize,
    ) -> Step {
        let (Some(mut from), Some(to)) = (
            self.ends(parents, true, scope),
            self.ends(children, false, scope),
        ) else {
            return Ok(());
        };
        let mut weak = if weak { WEAK } else { 0 };
        if self.options.join && from.len() > 1 && to.len() > 1 {
            let name = format!("_condor_join_node{}", self.joined);
            self.joined += 1;
            let full = format!("{}{name}", self.scopes[scope].prefix);
            if self.out.graph.find(&full).is_some() {
                let text = format!("Join node name {name} already in use in DAG!!!");
                self.wrong(&[format!("ERROR: {text}")], &text, "");
                return Ok(());
            }
            let (description, directory) = (
                self.out.graph.texts.intern("DNE.sub"),
                self.out.graph.texts.intern(""),
            );
            let join = Node {
                description,
                dag_file: NONE,
                directory,
                category: NONE,
                kind: Kind::Job,
                noop: true,
                done: false,
                done_by_job: false,
                join: true,
                related: (false, false),
                priority: 0,
                retries: 0,
                unless: 0,
                file: NONE,
                line: 0,
                scope: scope as u32,
                extra: NONE,
                vars: NONE,
            };
            self.add(&full, join, scope)?;
            let Some(join) = self.out.graph.find(&full) else {
                return Ok(());
            };
            if !self.link(&from, &[join], weak)? {
                return Ok(());
            }
            from = vec![join];
            weak = 0; // the node that joins cannot fail
        }
        self.link(&from, &to, weak).map(|_| ())
    }

    /// The nodes that names stand for, each once, in the order of their definition.
    fn ends(&mut self, names: &[Cow<'_, str>], out: bool, scope: usize) -> Option<Vec<NodeId>> {
        let mut found = Vec::with_capacity(names.len());
        let mut all_known = true;
        for name in names {
            if let Some(splice) = self.scopes[scope].splices.get(&*self.munged(name)) {
                let inner = &self.scopes[*splice];
                found.extend_from_slice(if out { &inner.last } else { &inner.first });
            } else if let Some(node) = self.find(scope, name) {
                found.push(node);
            } else {
                let side = if out { "parent" } else { "child" };
                let said = format!("Unknown {side} node {name} specified");
                self.unknown_node(scope, name, &said);
                all_known = false;
            }
        }
        if !found.is_sorted_by(|a, b| a < b) {
            found.sort_unstable();
            found.dedup();
        }
        all_known.then_some(found)
    }

    /// Makes each of some nodes a parent of each of others; false if one may not be.
    fn link(
        &mut self,
        parents: &[NodeId],
        children: &[NodeId],
        weak: u32,
    ) -> Result<bool, super::Stop> {
        const FAILED: &str = "ERROR: failed to add dependency between nodes";
        let missing = match (parents.is_empty(), children.is_empty()) {
            (true, true) => "parent nor child",
            (true, false) => "parent",
            (false, true) => "child",
            (false, false) => "",
        };
        if !missing.is_empty() {
            let text = format!("No {missing} nodes provided for dependency creation");
            let log = [format!("ERROR: {text}"), FAILED.to_owned()];
            self.wrong(
                &log,
                &text,
                "a splice that is named has no nodes at that end",
            );
            return Ok(false);
        }
        let barred =
            |kind: Kind, (last, first, service): (&'static str, &'static str, &'static str)| {
                match kind {
                    Kind::Job => None,
                    Kind::Final => Some(last),
                    Kind::Provisioner => Some(first),
                    Kind::Service => Some(service),
                }
            };
        let as_parent = (
            "Tried to add a child to a Final node",
            "Tried to add child to the PROVISIONER node",
            "Tried to add a child to a SERVICE node",
        );
        let as_child = (
            "Tried to add a parent to a Final node",
            "Tried to add parent to the PROVISIONER node",
            "Tried to add a parent to a SERVICE node",
        );
        let refused = parents
            .iter()
            .find_map(|node| barred(self.kind(*node), as_parent).map(|why| (why, *node)))
            .or_else(|| {
                children
                    .iter()
                    .find_map(|node| barred(self.kind(*node), as_child).map(|why| (why, *node)))
            });
        if let Some((why, node)) = refused {
            let text = format!("{why} {}", self.out.graph.name(node));
            let log = [format!("ERROR: {text}"), FAILED.to_owned()];
            self.wrong(
                &log,
                &text,
                "it has a time of its own and takes no part in dependencies",
            );
            return Ok(false);
        }
        let more = parents.len().saturating_mul(children.len());
        if self.out.graph.made.len().saturating_add(more) > limits::EDGES {
            self.bound(&format!("{} dependencies", limits::EDGES))?;
        }
        let graph = &mut self.out.graph;
        for parent in parents {
            graph.nodes[*parent as usize].related.1 = true;
            for child in children {
                graph.made.push((*parent, *child | weak));
            }
        }
        for child in children {
            graph.nodes[*child as usize].related.0 = true;
        }
        Ok(true)
    }

    // -------------------------------------------------------------------------------------------------- pins

    pub(super) fn pin(&mut self, out: bool, name: &str, pin: i32, scope: usize) {
        let Some(node) = self.find(scope, name) else {
            let shown = self.munged(name).into_owned();
            let log = [
                format!("ERROR: Node {shown} not found!"),
                format!("ERROR: node {shown} not found!"),
            ];
            let hint = self.like(scope, name);
            self.wrong(&log, &format!("Unknown node {shown} referenced"), &hint);
            return;
        };
        if pin > limits::PINS {
            let text = format!("pin {pin} is beyond {}, the most", limits::PINS);
            self.wrong(&[format!("ERROR: {text}")], &text, "number pins from 1");
            return;
        }
        let pins = &mut self.scopes[scope].pins[usize::from(out)];
        let at = usize::try_from(pin - 1).unwrap_or(0);
        if pins.len() <= at {
            pins.resize(at + 1, Vec::new());
        }
        pins[at].push(node);
    }

    pub(super) fn connect(&mut self, from: &str, to: &str, scope: usize) -> Step {
        let splice = |reader: &Self, name: &str| {
            reader.scopes[scope]
                .splices
                .get(&*reader.munged(name))
                .copied()
        };
        let (parent, child) = (splice(self, from), splice(self, to));
        let mut log = Vec::new();
        for (side, name, found) in [("parent", from, parent), ("child", to, child)] {
            if found.is_none() {
                log.push(format!(
                    "ERROR: Connect {side} splice {name} does not exist"
                ));
            }
        }
        let (Some(parent), Some(child)) = (parent, child) else {
            let text = log.join("; ").replace("ERROR: ", "");
            self.wrong(&log, &text, "CONNECT takes splices of this file");
            return Ok(());
        };
        let name = |reader: &Self, at: usize| {
            reader.scopes[at]
                .prefix
                .trim_end_matches('+')
                .rsplit('+')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let (parent_name, child_name) = (name(self, parent), name(self, child));
        let (outs, ins) = (
            self.scopes[parent].pins[1].clone(),
            self.scopes[child].pins[0].clone(),
        );
        let empty = |pins: &[Vec<NodeId>]| pins.iter().position(Vec::is_empty).map(|at| at + 1);
        let fault = if outs.is_empty() {
            format!("parent splice {parent_name} has 0 pin_outs")
        } else if ins.is_empty() {
            format!("child splice {child_name} has 0 pin_ins")
        } else if outs.len() != ins.len() {
            format!(
                "pin_in/out mismatch:  parent splice {parent_name} has {} pin_outs; child splice {child_name} has {} pin_ins",
                outs.len(),
                ins.len()
            )
        } else if let Some(pin) = empty(&outs) {
            format!("parent splice {parent_name} has no node for pin_out {pin}")
        } else if let Some(pin) = empty(&ins) {
            format!("child splice {child_name} has no node for pin_in {pin}")
        } else {
            String::new()
        };
        if !fault.is_empty() {
            self.wrong(&[format!("ERROR: {fault}")], &fault, "");
            return Ok(());
        }
        for (out, into) in outs.iter().zip(&ins) {
            for from in out {
                for to in into {
                    if !self.link(&[*from], &[*to], 0)? {
                        return Ok(());
                    }
                }
            }
        }
        let graph = &self.out.graph;
        let alone = self.scopes[child]
            .nodes
            .iter()
            .find(|node| !graph.nodes[**node as usize].related.0);
        if let Some(node) = alone {
            let full = graph.name(*node);
            let text = format!(
                "child splice node {full} has no parents after making pin connections; add pin_in or parent"
            );
            self.wrong(&[format!("ERROR: {text}")], &text, "");
        }
        Ok(())
    }
}
