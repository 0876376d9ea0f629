//! When a DAG is over, and how.

use super::{Act, DagStatus, NodeId, Run, ScriptKind, Status};

impl Run {
    /// Begin what may begin, and end the DAG when nothing can go on; gives what is to be done.
    pub(super) fn go_on(&mut self) -> Vec<Act> {
        if self.recovering {
            return std::mem::take(&mut self.acts);
        }
        loop {
            if !self.over {
                self.pump();
            }
            if self.over || !self.settle() {
                return std::mem::take(&mut self.acts);
            }
        }
    }

    /// Whether nothing runs; with a FINAL node that has yet to run it is not so.
    fn rests(&self, with_final: bool) -> bool {
        if with_final && self.graph.last.is_some() && !self.final_begun {
            return false;
        }
        if self.halted {
            return self.counts.queued == 0 && self.running == [0; 3];
        }
        let holds =
            self.running[ScriptKind::Hold as usize] + self.waiting[ScriptKind::Hold as usize].len();
        self.counts.queued == 0
            && self.counts.pre + self.counts.post + holds == 0
            && self.ready_nodes() == 0
    }

    fn final_is_done(&self) -> bool {
        self.graph
            .last
            .is_some_and(|last| self.states[last as usize].status == Status::Done)
    }

    fn has_succeeded(&self, with_final: bool) -> bool {
        if !self.rests(with_final) {
            return false;
        }
        let apart = usize::from(!with_final && self.graph.last.is_some());
        let done = self.counts.done - usize::from(!with_final && self.final_is_done());
        done == self.counts.total - apart
            || (with_final && self.final_is_done())
            || (self.aborted && self.status == DagStatus::Ok)
    }

    fn has_failed(&self, with_final: bool) -> bool {
        if !self.rests(with_final)
            || (with_final && self.final_is_done())
            || (self.aborted && self.status == DagStatus::Ok)
        {
            return false;
        }
        self.halted || self.counts.failed > 0
    }

    /// Whether the FINAL node has begun, so that there is more to do.
    fn settle(&mut self) -> bool {
        if self.has_succeeded(true) {
            self.finish(0);
        } else if self.has_failed(true) {
            self.shut_down(1, self.status, true);
        } else if self.has_succeeded(false) {
            return self.begin_final();
        } else if self.halted
            && self.counts.queued == 0
            && self.counts.post == 0
            && !self.final_begun
        {
            self.shut_down(1, DagStatus::Halted, true);
            return self.final_begun;
        } else if self.rests(false) && !self.final_begun {
            let status = if self.has_failed(false) {
                DagStatus::NodeFailed
            } else if self.graph.cycle().is_some() {
                DagStatus::Cycle
            } else {
                DagStatus::Error
            };
            self.shut_down(1, status, true);
            return self.final_begun;
        }
        false
    }

    /// End the DAG early: a rescue file, the jobs removed, and the FINAL node, if it has one that has not run.
    pub(super) fn shut_down(&mut self, exit: i32, status: DagStatus, removes: bool) {
        if self.over {
            return;
        }
        self.status = status;
        self.exit = exit;
        if exit != 0 && self.rules.rescues {
            self.acts.push(Act::Rescue);
        }
        if removes {
            self.acts.push(Act::RemoveAll);
        }
        if !self.begin_final() {
            self.finish(exit);
        }
    }

    /// Start the FINAL node in place of all that waits; false if there is none, or it has begun.
    pub(super) fn begin_final(&mut self) -> bool {
        let Some(last) = self.graph.last else {
            return false;
        };
        if self.states[last as usize].status != Status::NotReady {
            return false;
        }
        let waiting = std::mem::take(&mut self.waiting[ScriptKind::Pre as usize]);
        self.counts.pre -= waiting.len();
        let others: Vec<NodeId> = self.ready.values().copied().chain(waiting).collect();
        self.ready.clear();
        for node in others {
            self.states[node as usize].status = Status::NotReady;
        }
        self.states[last as usize].status = Status::Ready;
        self.start(last, false);
        self.final_begun = true;
        true
    }

    pub(super) fn finish(&mut self, exit: i32) {
        self.over = true;
        self.exit = exit;
        if exit == 0 && !self.graph.services.is_empty() {
            self.acts.push(Act::RemoveAll);
        }
        self.acts.push(Act::Finish {
            exit,
            status: self.status,
        });
    }
}
