//! What each event does to a node, and what may begin.

use super::{Act, DagStatus, End, Event, Jobs, Kind, NodeId, Run, ScriptKind, Status, results};

impl Run {
    pub(super) fn note(&mut self, event: &Event) {
        if self.recovering {
            self.catch_up(event);
        }
        match *event {
            Event::Script {
                node,
                kind: ScriptKind::Pre,
                end,
            } => self.pre_ended(node, end),
            Event::Script { kind, .. } => self.free(kind),
            Event::Refused { node, for_good } => self.refused(node, for_good),
            Event::Submit { node, proc } => self.submitted(node, proc),
            Event::Execute { node, proc } => self.set_idle(node, proc, false),
            Event::Evicted { node, proc } => self.set_idle(node, proc, true),
            Event::Held { node, proc } => self.held(node, proc),
            Event::Released { node, proc } => self.set_held(node, proc, false),
            Event::Terminated { node, proc, end } => self.job_ended(node, proc, Some(end)),
            Event::Aborted { node, proc } => self.job_ended(node, proc, None),
            Event::PostEnded { node, end } => self.post_ended(node, end),
            Event::PreSkipped { node } => {
                self.counts.pre = self.counts.pre.saturating_sub(1);
                self.succeed(node, true);
            }
            Event::Provisioned => {
                if !self.provisioned {
                    self.provisioned = true;
                    self.start_free();
                }
            }
            Event::Withdrawn { node } => self.withdrawn(node),
            Event::Interval => self.submits = 0,
            Event::Halt => {
                if !self.halted {
                    self.halted = true;
                    self.covered = std::mem::replace(&mut self.status, DagStatus::Halted);
                }
            }
            Event::Remove => self.shut_down(2, DagStatus::Removed, self.rules.remove_jobs),
            Event::Resume => self.resume(),
            Event::Retry { node } => self.order(super::Order::Retry, node),
            Event::Skip { node } => self.order(super::Order::Skip, node),
        }
    }

    /// Begin what an event of a former runner says has begun.
    fn catch_up(&mut self, event: &Event) {
        match *event {
            Event::Submit { node, .. } if !self.jobs.contains_key(&node) => {
                self.begin_late_submission(node);
            }
            Event::Refused { node, .. } => self.begin_late_submission(node),
            Event::Script {
                node,
                kind: ScriptKind::Pre,
                ..
            } => {
                self.withdraw(node, ScriptKind::Pre);
            }
            Event::PreSkipped { node } => {
                self.begin_late_final(node);
                self.withdraw(node, ScriptKind::Pre);
            }
            Event::PostEnded { node, .. } => {
                self.begin_late_final(node);
                if self.withdraw(node, ScriptKind::Pre) {
                    self.counts.pre -= 1; // it has failed, and the POST script ran after it
                    self.run_post(node);
                }
                if self.withdraw(node, ScriptKind::Post) {
                    self.running[ScriptKind::Post as usize] += 1;
                }
            }
            _ => {}
        }
    }

    fn begin_late_submission(&mut self, node: NodeId) {
        self.begin_late_final(node);
        let status = self.states[node as usize].status;
        let waits = self.withdraw(node, ScriptKind::Pre);
        if waits {
            self.counts.pre -= 1;
            self.states[node as usize].pre_done = true;
        }
        // Without either it could not have been submitted by this DAG.
        if self.leave_queue(node) || (waits && status == Status::PreRun) {
            self.enter(node);
        }
    }

    /// Take a node out of those that wait for their submission; false if it is none of them.
    pub(super) fn leave_queue(&mut self, node: NodeId) -> bool {
        let place = self.place(node);
        self.ready.get(&place) == Some(&node) && self.ready.remove(&place).is_some()
    }

    fn begin_late_final(&mut self, node: NodeId) {
        if self.graph.last == Some(node) && !self.final_begun {
            self.begin_final();
        }
    }

    /// Take a node out of those that wait for a script; false if it is none of them.
    pub(super) fn withdraw(&mut self, node: NodeId, kind: ScriptKind) -> bool {
        let waiting = &mut self.waiting[kind as usize];
        let place = waiting.iter().position(|one| *one == node);
        place.and_then(|place| waiting.remove(place)).is_some()
    }

    // ------------------------------------------------------------------------------------------------ beginning

    pub(super) fn start(&mut self, node: NodeId, again: bool) {
        if !again
            && self
                .graph
                .extra(node)
                .is_some_and(|extra| extra.save_point.is_some())
        {
            self.acts.push(Act::SavePoint { node });
        }
        let has_pre = self.graph.script(node, ScriptKind::Pre).is_some();
        let state = &mut self.states[node as usize];
        if has_pre && !state.pre_done {
            state.status = Status::PreRun;
            self.counts.pre += 1;
            self.waiting[ScriptKind::Pre as usize].push_back(node);
        } else {
            let front = self.rules.depth_first || (again && self.rules.retry_first);
            self.enqueue(node, front);
        }
    }

    pub(super) fn enqueue(&mut self, node: NodeId, front: bool) {
        let turn = if front {
            self.turns.0 -= 1;
            self.turns.0
        } else {
            self.turns.1 += 1;
            self.turns.1
        };
        self.states[node as usize].turn = turn;
        self.ready.insert(self.place(node), node);
    }

    /// Begin what the throttles allow.
    pub(super) fn pump(&mut self) {
        for kind in [ScriptKind::Pre, ScriptKind::Post, ScriptKind::Hold] {
            let at = kind as usize;
            let most = self.rules.throttles.scripts[at];
            let stopped = kind == ScriptKind::Pre && self.halted && !self.final_begun;
            while !stopped && (most == 0 || self.running[at] < most) {
                let Some(node) = self.waiting[at].pop_front() else {
                    break;
                };
                self.running[at] += 1;
                self.acts.push(Act::Script { node, kind });
            }
        }
        if self.halted && !self.final_begun {
            return;
        }
        let (nodes, idle) = (self.rules.throttles.nodes, self.rules.throttles.idle);
        let submits = self.rules.throttles.submits;
        let mut deferred = Vec::new();
        while (nodes == 0 || self.counts.queued < nodes)
            && (idle == 0 || self.counts.jobs_idle + self.pending < idle)
            && (submits == 0 || self.submits < submits)
        {
            let Some((_, node)) = self.ready.pop_first() else {
                break;
            };
            let category = self.graph.nodes[node as usize].category;
            if let Some((now, most)) = self.categories.get(&category)
                && *now >= usize::try_from(*most).unwrap_or(0)
            {
                deferred.push(node);
                continue;
            }
            self.submit(node);
        }
        for node in deferred {
            self.enqueue(node, true); // as in HTCondor, the last of them first
        }
    }

    fn submit(&mut self, node: NodeId) {
        self.enter(node);
        self.submits += 1;
        self.acts.push(if self.graph.nodes[node as usize].noop {
            Act::LogNoop { node }
        } else {
            Act::Submit { node }
        });
    }

    /// A node has jobs in the queue from now on.
    fn enter(&mut self, node: NodeId) {
        let state = &mut self.states[node as usize];
        state.status = Status::Submitted;
        state.attempts = state.attempts.saturating_add(1);
        self.jobs.insert(node, Jobs::default());
        self.pending += 1;
        self.count_node(node, true);
    }

    /// Count a node among those with jobs in the queue, or no more.
    fn count_node(&mut self, node: NodeId, more: bool) {
        let about = &self.graph.nodes[node as usize];
        if about.kind == Kind::Service {
            return;
        }
        let step = |count: &mut usize| {
            *count = if more {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        };
        step(&mut self.counts.queued);
        if let Some((now, _)) = self.categories.get_mut(&about.category) {
            step(now);
        }
    }

    fn refused(&mut self, node: NodeId, for_good: bool) {
        if !self.take_back(node) {
            return;
        }
        let state = &mut self.states[node as usize];
        if !for_good && state.attempts < self.rules.submit_attempts {
            state.status = Status::Ready;
            self.enqueue(node, true);
            return;
        }
        state.retries = self.graph.nodes[node as usize].retries; // it was tried often enough
        state.result = results::NOT_SUBMITTED;
        if self.graph.script(node, ScriptKind::Post).is_some() {
            self.run_post(node);
        } else {
            self.fail(node);
        }
    }

    /// A node whose submission no event has told has no jobs after all; false if it was not submitted.
    pub(super) fn take_back(&mut self, node: NodeId) -> bool {
        let was = self.jobs.remove(&node).is_some();
        if was {
            self.pending = self.pending.saturating_sub(1);
            self.count_node(node, false);
        }
        was
    }

    /// A node waits again, unless the DAG is over but for its FINAL node.
    fn withdrawn(&mut self, node: NodeId) {
        if !self.take_back(node) {
            return;
        }
        let state = &mut self.states[node as usize];
        state.attempts = state.attempts.saturating_sub(1);
        if self.final_begun {
            state.status = Status::NotReady;
        } else {
            state.status = Status::Ready;
            self.enqueue(node, true);
        }
    }

    // ----------------------------------------------------------------------------------------------------- jobs

    fn submitted(&mut self, node: NodeId, proc: u32) {
        let Some(jobs) = self.jobs.get_mut(&node) else {
            return;
        };
        if jobs.procs.contains_key(&proc) {
            return;
        }
        if jobs.submitted == 0 {
            self.pending = self.pending.saturating_sub(1);
        }
        jobs.submitted += 1;
        jobs.queued += 1;
        jobs.procs.insert(proc, super::Proc::default());
        self.counts.jobs_submitted += 1;
        self.set_idle(node, proc, true);
    }

    fn set_idle(&mut self, node: NodeId, proc: u32, idle: bool) {
        let job = self
            .jobs
            .get_mut(&node)
            .and_then(|jobs| jobs.procs.get_mut(&proc));
        if let Some(job) = job
            && std::mem::replace(&mut job.idle, idle) != idle
        {
            self.counts.jobs_idle = if idle {
                self.counts.jobs_idle + 1
            } else {
                self.counts.jobs_idle - 1
            };
        }
    }

    fn set_held(&mut self, node: NodeId, proc: u32, held: bool) {
        let job = self
            .jobs
            .get_mut(&node)
            .and_then(|jobs| jobs.procs.get_mut(&proc));
        if let Some(job) = job
            && std::mem::replace(&mut job.held, held) != held
        {
            self.counts.jobs_held = if held {
                self.counts.jobs_held + 1
            } else {
                self.counts.jobs_held - 1
            };
        }
    }

    fn held(&mut self, node: NodeId, proc: u32) {
        self.set_held(node, proc, true);
        self.set_idle(node, proc, true);
        if self.graph.script(node, ScriptKind::Hold).is_some() {
            self.waiting[ScriptKind::Hold as usize].push_back(node);
        }
    }

    /// A job has left the queue: it ended, or was removed (None).
    fn job_ended(&mut self, node: NodeId, proc: u32, end: Option<End>) {
        self.set_idle(node, proc, false);
        self.set_held(node, proc, false);
        let tolerance = self.graph.extra(node).and_then(|extra| extra.tolerance);
        let Some(jobs) = self.jobs.get_mut(&node) else {
            return;
        };
        if jobs.procs.remove(&proc).is_none() {
            return; // told already
        }
        jobs.queued -= 1;
        self.counts.jobs_ended += 1;
        let value = end.map_or(results::REMOVED, End::value);
        let state = &mut self.states[node as usize];
        if end == Some(End::Exit(0)) {
            self.counts.jobs_succeeded += 1;
            if state.status != Status::Error {
                state.result = 0;
            }
        } else {
            jobs.failed += 1;
            if jobs.failed == 1 {
                state.result = value;
            }
        }
        let most = match tolerance {
            Some(given) => {
                let value = usize::try_from(given.value).unwrap_or(0);
                if given.percent {
                    jobs.submitted * value / 100
                } else {
                    value
                }
            }
            None => self.rules.tolerance,
        };
        let failed = jobs.failed > most;
        let queued = jobs.queued;
        if failed && state.status != Status::Error {
            state.status = Status::Error;
            if queued > 0 && self.rest_goes(node) {
                self.acts.push(Act::RemoveJobs { node });
            }
        }
        if self.graph.provisioner == Some(node) && !self.provisioned {
            self.finish(1); // it ended before it gave the go-ahead
            return;
        }
        let has_post = self.graph.script(node, ScriptKind::Post).is_some();
        if queued == 0 {
            self.jobs.remove(&node);
            self.count_node(node, false);
            if has_post {
                self.run_post(node);
            } else if failed {
                if self.may_retry(node) {
                    self.restart(node);
                } else if self.rules.holds_failed && !self.final_begun {
                    self.hold_failed(node);
                } else {
                    self.fail(node);
                }
            } else {
                self.succeed(node, true);
            }
        }
        if !has_post {
            self.look_for_abort(node);
        }
    }

    // -------------------------------------------------------------------------------------------------- scripts

    fn free(&mut self, kind: ScriptKind) {
        let running = &mut self.running[kind as usize];
        *running = running.saturating_sub(1);
    }

    fn pre_ended(&mut self, node: NodeId, end: End) {
        if self.states[node as usize].status != Status::PreRun {
            return;
        }
        self.free(ScriptKind::Pre);
        self.counts.pre = self.counts.pre.saturating_sub(1);
        let result = end.value();
        let pre_skip = self.graph.extra(node).and_then(|extra| extra.pre_skip);
        let state = &mut self.states[node as usize];
        state.result = result;
        state.pre_done = true;
        if end == End::Exit(0) {
            state.status = Status::Ready;
            self.enqueue(node, self.rules.depth_first);
        } else if pre_skip == Some(result) {
            state.result = 0;
            self.counts.pre += 1; // until the log says so
            self.acts.push(Act::LogPreSkip { node });
        } else if self.rules.always_post && self.graph.script(node, ScriptKind::Post).is_some() {
            self.run_post(node);
        } else if self.may_retry(node) {
            self.states[node as usize].status = Status::Error;
            self.restart(node);
        } else {
            self.fail(node);
        }
        self.look_for_abort(node);
    }

    fn run_post(&mut self, node: NodeId) {
        self.states[node as usize].status = Status::PostRun;
        self.counts.post += 1;
        self.waiting[ScriptKind::Post as usize].push_back(node);
    }

    fn post_ended(&mut self, node: NodeId, end: End) {
        if self.states[node as usize].status != Status::PostRun {
            return;
        }
        self.free(ScriptKind::Post);
        self.counts.post -= 1;
        self.states[node as usize].result = end.value();
        if end == End::Exit(0) {
            self.succeed(node, true);
        } else {
            self.states[node as usize].status = Status::Error;
            if self.may_retry(node) {
                self.restart(node);
            } else {
                self.fail(node);
            }
        }
        self.look_for_abort(node);
    }

    // ---------------------------------------------------------------------------------------------------- ends

    fn aborts(&self, node: NodeId) -> Option<Option<i32>> {
        let (value, exit) = self.graph.extra(node)?.abort?;
        (value == self.states[node as usize].result).then_some(exit)
    }

    fn may_retry(&self, node: NodeId) -> bool {
        self.aborts(node).is_none()
            && self.states[node as usize].retries < self.graph.nodes[node as usize].retries
    }

    fn restart(&mut self, node: NodeId) {
        let unless = self.graph.nodes[node as usize].unless;
        let state = &mut self.states[node as usize];
        if self.final_begun || (unless != 0 && unless == state.result) {
            self.count_failed(node);
            return;
        }
        state.status = Status::Ready;
        state.retries += 1;
        state.attempts = 0;
        state.pre_done = false;
        self.start(node, true);
    }

    /// Submit a node's jobs again, on hold: that is not one of its retries.
    fn hold_failed(&mut self, node: NodeId) {
        let state = &mut self.states[node as usize];
        state.status = Status::Ready;
        state.on_hold = true;
        state.retries += 1;
        state.attempts = 0;
        state.pre_done = false;
        self.start(node, true);
    }

    fn count_failed(&mut self, node: NodeId) {
        if self.graph.nodes[node as usize].kind != Kind::Service {
            self.counts.failed += 1;
        }
        self.set_status(DagStatus::NodeFailed);
    }

    fn set_status(&mut self, status: DagStatus) {
        let place = if self.halted {
            &mut self.covered
        } else {
            &mut self.status
        };
        if *place == DagStatus::Ok {
            *place = status;
        }
    }

    fn fail(&mut self, node: NodeId) {
        self.states[node as usize].status = Status::Error;
        self.count_failed(node);
        let children: Vec<(NodeId, bool)> = self.graph.children(node).collect();
        let mut futile = Vec::new();
        let told = std::mem::replace(&mut self.states[node as usize].weak_told, true);
        for (child, weak) in children {
            if weak && !told {
                self.parent_ended(child, true);
            } else if !weak {
                futile.push(child);
            }
        }
        while let Some(node) = futile.pop() {
            let state = &mut self.states[node as usize];
            match state.status {
                Status::Futile => continue,
                Status::Done => {} // by the user, before its parents; its children are as far as theirs
                _ => {
                    state.status = Status::Futile;
                    self.counts.futile += 1;
                }
            }
            futile.extend(self.graph.children(node).map(|(child, _)| child));
        }
    }

    fn parent_ended(&mut self, child: NodeId, start: bool) {
        let state = &mut self.states[child as usize];
        state.waits = state.waits.saturating_sub(1);
        if start && self.can_start(child) {
            self.start(child, false);
        }
    }

    pub(super) fn succeed(&mut self, node: NodeId, start: bool) {
        let state = &mut self.states[node as usize];
        state.status = Status::Done;
        if self.graph.nodes[node as usize].kind == Kind::Service
            || std::mem::replace(&mut state.counted, true)
        {
            return;
        }
        self.counts.done += 1;
        let told = state.weak_told;
        let children: Vec<(NodeId, bool)> = self.graph.children(node).collect();
        for (child, weak) in children {
            if !(weak && told) {
                self.parent_ended(child, start);
            }
        }
    }

    fn look_for_abort(&mut self, node: NodeId) {
        if self.aborted || self.over {
            return;
        }
        if let Some(exit) = self.aborts(node) {
            self.aborted = true;
            let status = match exit {
                Some(0) => DagStatus::Ok,
                _ => DagStatus::Abort,
            };
            let exit = exit.unwrap_or(self.states[node as usize].result);
            self.shut_down(exit, status, true);
        }
    }
}
