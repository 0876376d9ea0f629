//! What a user orders while a DAG runs: a node that failed to run once more, a node to count as done, to go on after a halt.

use rustc_hash::FxHashSet;

use super::{DagStatus, Kind, NodeId, Run, ScriptKind, Status};

/// What may be ordered for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It has failed, and is to run once more.
    Retry,
    /// It is to count as done, so that its children may start.
    Skip,
}

impl Run {
    /// Why an order cannot be carried out now; None if it can.
    #[must_use]
    pub fn refusal(&self, order: Order, node: NodeId) -> Option<&'static str> {
        if self.graph.nodes[node as usize].kind != Kind::Job {
            return Some("FINAL, PROVISIONER and SERVICE nodes are neither retried nor skipped");
        }
        if self.over || self.final_begun {
            return Some("the DAG has come to its end");
        }
        if self.jobs.contains_key(&node) {
            return Some("it has jobs in the queue; remove them first");
        }
        match (order, self.states[node as usize].status) {
            (_, Status::Done) => Some("it is done"),
            (_, Status::PostRun) => Some("its POST script has not ended"),
            (Order::Skip, Status::PreRun) if !self.waits_for_pre(node) => {
                Some("its PRE script is running")
            }
            (Order::Retry, Status::Futile) => Some("an ancestor has failed; retry that one"),
            (Order::Skip, _) | (Order::Retry, Status::Error) => None,
            (Order::Retry, _) => Some("it has not failed"),
        }
    }

    fn waits_for_pre(&self, node: NodeId) -> bool {
        self.waiting[ScriptKind::Pre as usize].contains(&node)
    }

    /// Carry out an order, if it can be.
    pub(super) fn order(&mut self, order: Order, node: NodeId) {
        if self.refusal(order, node).is_some() {
            return;
        }
        let former = self.states[node as usize].status;
        match former {
            Status::Error => self.forget_failure(),
            Status::Futile => self.counts.futile -= 1,
            Status::PreRun => {
                self.withdraw(node, ScriptKind::Pre);
                self.counts.pre -= 1;
            }
            _ => {
                self.leave_queue(node);
            }
        }
        let state = &mut self.states[node as usize];
        state.status = Status::Ready;
        state.pre_done = false;
        state.attempts = 0;
        state.result = 0;
        match order {
            Order::Retry => self.start(node, true),
            Order::Skip => self.succeed(node, true),
        }
        if matches!(former, Status::Error | Status::Futile) {
            self.revive_below(node);
        }
    }

    fn forget_failure(&mut self) {
        self.counts.failed -= 1;
        let place = if self.halted {
            &mut self.covered
        } else {
            &mut self.status
        };
        if self.counts.failed == 0 && *place == DagStatus::NodeFailed {
            *place = DagStatus::Ok;
        }
    }

    /// Futile descendants of a node that is no longer failed or futile can run again, unless another ancestor bars them.
    fn revive_below(&mut self, node: NodeId) {
        let mut passed = FxHashSet::default();
        let mut look: Vec<NodeId> = self.graph.children(node).map(|(child, _)| child).collect();
        while let Some(node) = look.pop() {
            match self.states[node as usize].status {
                Status::Futile if !self.is_barred(node) => {
                    self.states[node as usize].status = Status::Ready;
                    self.counts.futile -= 1;
                    if self.can_start(node) {
                        self.start(node, false);
                    }
                }
                // By the user, before its parents: its children were as futile as it would have been.
                Status::Done if passed.insert(node) => {}
                _ => continue,
            }
            look.extend(self.graph.children(node).map(|(child, _)| child));
        }
    }

    fn is_barred(&self, node: NodeId) -> bool {
        self.graph.dependencies(node).any(|(parent, weak)| {
            match self.states[parent as usize].status {
                Status::Futile => true,
                Status::Error => !weak,
                _ => false,
            }
        })
    }

    pub(super) fn resume(&mut self) {
        if std::mem::take(&mut self.halted) && self.status == DagStatus::Halted {
            self.status = self.covered;
        }
    }

    /// The category of a node with a throttle: its name, how many of its nodes are submitted, and how many may be.
    #[must_use]
    pub fn category_of(&self, node: NodeId) -> Option<(&str, usize, i32)> {
        let category = self.graph.nodes[node as usize].category;
        let (now, most) = self.categories.get(&category)?;
        Some((self.graph.text(category), *now, *most))
    }
}
