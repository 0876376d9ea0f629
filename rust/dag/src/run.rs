//! What becomes of a DAG's nodes: events in, acts out. Pure, so that a run can be tested and replayed without a pool.
//!
//! As in HTCondor, a node's state changes by what its jobs' event log says. What the runner does itself for a node that
//! has no job (NOOP, PRE_SKIP) and the ends of POST scripts go into that log first, as acts, and come back as events.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::command::{Rest, ScriptKind};
use crate::graph::{Graph, Kind, NodeId};

mod orders;
mod settle;
mod steps;
mod texts;

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// A FINAL node whose time has not come.
    NotReady,
    /// It waits: for parents, or for its submission.
    #[default]
    Ready,
    /// Its PRE script waits or runs.
    PreRun,
    /// Its jobs are in the queue.
    Submitted,
    /// Its POST script waits or runs.
    PostRun,
    /// It has succeeded.
    Done,
    /// It has failed.
    Error,
    /// It cannot run, since an ancestor failed.
    Futile,
}

/// DAG_Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DagStatus {
    /// Nothing is wrong.
    #[default]
    Ok = 0,
    /// An error of the DAG's files, or of its host.
    Error = 1,
    /// A node has failed.
    NodeFailed = 2,
    /// ABORT-DAG-ON.
    Abort = 3,
    /// The DAG's job was removed.
    Removed = 4,
    /// Nodes wait for each other.
    Cycle = 5,
    /// The DAG was halted.
    Halted = 6,
}

/// How a script or a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an exit status.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

impl End {
    /// The value of a node that ended so: a signal counts as its negative number.
    #[must_use]
    pub fn value(self) -> i32 {
        match self {
            Self::Exit(status) => status,
            Self::Signal(signal) => -signal,
        }
    }
}

/// What `$RETURN` is when a job has no exit status.
pub mod results {
    /// Its submission failed.
    pub const NOT_SUBMITTED: i32 = -1001;
    /// It was removed.
    pub const REMOVED: i32 = -1002;
    /// Its PRE script failed.
    pub const SKIPPED: i32 = -1004;
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are a node, its process in the cluster, and what its name says"
)]
pub enum Event {
    /// A PRE or HOLD script of a node has ended, and is not to run again later (DEFER); the end of a POST script is told
    /// by the log.
    Script {
        node: NodeId,
        kind: ScriptKind,
        end: End,
    },
    /// A submission was refused, for good or for now. Of one refused for now this is told once it may be tried again.
    Refused { node: NodeId, for_good: bool },
    /// A job is in the queue, idle.
    Submit { node: NodeId, proc: u32 },
    /// A job runs.
    Execute { node: NodeId, proc: u32 },
    /// A job is idle again.
    Evicted { node: NodeId, proc: u32 },
    /// A job is held.
    Held { node: NodeId, proc: u32 },
    /// A job is held no more.
    Released { node: NodeId, proc: u32 },
    /// A job has ended.
    Terminated { node: NodeId, proc: u32, end: End },
    /// A job was removed.
    Aborted { node: NodeId, proc: u32 },
    /// The log says how a POST script ended.
    PostEnded { node: NodeId, end: End },
    /// The log says that a node's PRE script has made it done.
    PreSkipped { node: NodeId },
    /// The PROVISIONER node's job says that what it provides is there.
    Provisioned,
    /// A node's jobs, which were asked for, were not submitted, and are not going to be.
    Withdrawn { node: NodeId },
    /// The time is over in which so many nodes may be submitted.
    Interval,
    /// Nothing new is to be begun.
    Halt,
    /// The DAG's job was removed.
    Remove,
    /// What was halted goes on.
    Resume,
    /// The user wants a node that has failed to run once more.
    Retry { node: NodeId },
    /// The user wants a node to count as done.
    Skip { node: NodeId },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are a node, and what its name says")]
pub enum Act {
    /// Run a script.
    Script { node: NodeId, kind: ScriptKind },
    /// Submit a node's jobs.
    Submit { node: NodeId },
    /// Write the submission and the end of a job that does nothing into the log.
    LogNoop { node: NodeId },
    /// Write into the log that a node's PRE script has made it done.
    LogPreSkip { node: NodeId },
    /// Write the save point of a node that starts.
    SavePoint { node: NodeId },
    /// Remove the jobs of a node that has failed.
    RemoveJobs { node: NodeId },
    /// Remove all jobs of the DAG, and its scripts.
    RemoveAll,
    /// Write a rescue file.
    Rescue,
    /// The DAG is over.
    Finish { exit: i32, status: DagStatus },
}

pub use orders::Order;

/// How much may go on at once; 0 is no limit. DAGMAN_MAX_... and the options of condor_submit_dag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttles {
    /// Nodes with jobs in the queue.
    pub nodes: usize,
    /// Idle jobs; looked at before each submission.
    pub idle: usize,
    /// PRE, POST and HOLD scripts.
    pub scripts: [usize; 3],
    /// Nodes that are submitted in an interval.
    pub submits: usize,
}

impl Default for Throttles {
    fn default() -> Self {
        Self {
            nodes: 0,
            idle: 1000,
            scripts: [20; 3],
            submits: 0,
        }
    }
}

/// How a DAG is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How much at once.
    pub throttles: Throttles,
    /// -AlwaysRunPost: POST scripts run when PRE scripts have failed.
    pub always_post: bool,
    /// DAGMAN_SUBMIT_DEPTH_FIRST.
    pub depth_first: bool,
    /// DAGMAN_RETRY_NODE_FIRST.
    pub retry_first: bool,
    /// DAGMAN_MAX_SUBMIT_ATTEMPTS.
    pub submit_attempts: u8,
    /// DAGMAN_NODE_JOB_FAILURE_TOLERANCE.
    pub tolerance: usize,
    /// DAGMAN_REMOVE_JOB_LIST_ON_FAILURE.
    pub remove_rest: bool,
    /// DAGMAN_REMOVE_NODE_JOBS.
    pub remove_jobs: bool,
    /// DAGMAN_MAX_RESCUE_NUM is not 0.
    pub rescues: bool,
    /// DAGMAN_PUT_FAILED_JOBS_ON_HOLD: jobs that have failed for good are submitted again, on hold.
    pub holds_failed: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            throttles: Throttles::default(),
            always_post: false,
            depth_first: false,
            retry_first: false,
            submit_attempts: 6,
            tolerance: 0,
            remove_rest: true,
            remove_jobs: true,
            rescues: true,
            holds_failed: false,
        }
    }
}

/// Of each node.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    status: Status,
    pre_done: bool,
    /// Whether it counts among those done, and has told its children.
    counted: bool,
    /// Whether its failure has told its weak children that it has ended.
    weak_told: bool,
    attempts: u8,
    /// Its jobs are submitted on hold: they have failed for good.
    on_hold: bool,
    /// Its place among the ready nodes of its priority.
    turn: i64,
    /// Parents that have not ended.
    waits: u32,
    /// Retries that were used.
    retries: i32,
    /// Its value: that of the job, PRE or POST script that ended last.
    result: i32,
}

/// The jobs of a node that is submitted.
#[derive(Clone, Debug, Default)]
struct Jobs {
    submitted: usize,
    queued: usize,
    failed: usize,
    procs: FxHashMap<u32, Proc>,
}

/// A job in the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Proc {
    idle: bool,
    held: bool,
}

/// Numbers of nodes, as DAG_Nodes... has them, and of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the attributes")]
pub struct Counts {
    pub total: usize,
    pub done: usize,
    pub pre: usize,
    pub queued: usize,
    pub post: usize,
    pub ready: usize,
    pub unready: usize,
    pub failed: usize,
    pub futile: usize,
    pub jobs_submitted: usize,
    pub jobs_ended: usize,
    pub jobs_succeeded: usize,
    pub jobs_idle: usize,
    pub jobs_held: usize,
    /// HOLD scripts that wait or run.
    pub hold: usize,
}

/// A DAG that runs.
#[derive(Debug)]
pub struct Run {
    graph: Graph,
    rules: Rules,
    states: Vec<State>,
    jobs: FxHashMap<NodeId, Jobs>,
    /// Nodes to submit: higher priority first, then by turn.
    ready: BTreeMap<(i64, i64), NodeId>,
    /// Turns that were given at the front and at the back.
    turns: (i64, i64),
    /// Scripts that wait, and how many run, of each kind.
    waiting: [std::collections::VecDeque<NodeId>; 3],
    running: [usize; 3],
    /// Nodes of each category that are submitted, and the limits.
    categories: FxHashMap<u32, (usize, i32)>,
    counts: Counts,
    /// Nodes whose submission no event has told yet; each counts as an idle job.
    pending: usize,
    /// Nodes that were submitted in this interval.
    submits: usize,
    status: DagStatus,
    /// The status that a halt has covered.
    covered: DagStatus,
    halted: bool,
    aborted: bool,
    /// The exit status, once the DAG ends early or has failed.
    exit: i32,
    final_begun: bool,
    provisioned: bool,
    over: bool,
    /// What happened before is being told: nothing begins by itself.
    recovering: bool,
    acts: Vec<Act>,
}

impl Run {
    /// A DAG that has not begun.
    #[must_use]
    pub fn new(graph: Graph, rules: Rules) -> Self {
        let states = (0..graph.nodes.len()).map(|at| {
            let node = NodeId::try_from(at).unwrap_or(NodeId::MAX);
            State {
                status: match graph.nodes[at].kind {
                    Kind::Final => Status::NotReady,
                    _ => Status::Ready,
                },
                waits: u32::try_from(graph.parent_count(node)).unwrap_or(u32::MAX),
                ..State::default()
            }
        });
        let states = states.collect();
        let limits = graph
            .throttles
            .iter()
            .map(|(name, limit)| (*name, (0, *limit)));
        Self {
            categories: limits.collect(),
            provisioned: graph.provisioner.is_none(),
            counts: Counts {
                total: graph.order.len(),
                ..Counts::default()
            },
            graph,
            rules,
            states,
            jobs: FxHashMap::default(),
            ready: BTreeMap::new(),
            turns: (0, 0),
            waiting: Default::default(),
            running: [0; 3],
            pending: 0,
            submits: 0,
            status: DagStatus::Ok,
            covered: DagStatus::Ok,
            halted: false,
            aborted: false,
            exit: 0,
            final_begun: false,
            over: false,
            recovering: false,
            acts: Vec::new(),
        }
    }

    /// The DAG.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What a node does.
    #[must_use]
    pub fn status_of(&self, node: NodeId) -> Status {
        self.states[node as usize].status
    }

    /// Whether a node waits for parents.
    #[must_use]
    pub fn waits(&self, node: NodeId) -> bool {
        self.states[node as usize].waits > 0
    }

    /// How many of a node's jobs are in the queue, and how many of them are held.
    #[must_use]
    pub fn jobs_of(&self, node: NodeId) -> (usize, usize) {
        self.jobs.get(&node).map_or((0, 0), |jobs| {
            let held = jobs.procs.values().filter(|job| job.held).count();
            (jobs.queued, held)
        })
    }

    /// Whether a job of a node is idle.
    #[must_use]
    pub fn is_idle(&self, node: NodeId, proc: u32) -> bool {
        let jobs = self.jobs.get(&node);
        jobs.and_then(|jobs| jobs.procs.get(&proc))
            .is_some_and(|job| job.idle)
    }

    /// How many retries a node has used.
    #[must_use]
    pub fn retries_of(&self, node: NodeId) -> i32 {
        self.states[node as usize].retries
    }

    /// A node's value: `$RETURN`, once its jobs have left the queue.
    #[must_use]
    pub fn result_of(&self, node: NodeId) -> i32 {
        self.states[node as usize].result
    }

    /// DAG_Status.
    #[must_use]
    pub fn status(&self) -> DagStatus {
        self.status
    }

    /// The numbers of now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.ready = self.ready_nodes();
        let hold = ScriptKind::Hold as usize;
        counts.hold = self.running[hold] + self.waiting[hold].len();
        let elsewhere = counts.done
            + counts.pre
            + counts.queued
            + counts.post
            + counts.ready
            + counts.failed
            + counts.futile;
        counts.unready = counts.total.saturating_sub(elsewhere);
        counts
    }

    /// Nodes that wait for their submission, without SERVICE nodes.
    fn ready_nodes(&self) -> usize {
        let apart = |node: &&NodeId| {
            let state = &self.states[**node as usize];
            state.status == Status::Ready && self.ready.get(&self.place(**node)) == Some(*node)
        };
        self.ready.len() - self.graph.services.iter().filter(apart).count()
    }

    /// Where a node stands among the ready ones.
    fn place(&self, node: NodeId) -> (i64, i64) {
        let priority = i64::from(self.graph.nodes[node as usize].priority);
        (-priority, self.states[node as usize].turn)
    }

    /// Whether a node's jobs are submitted on hold.
    #[must_use]
    pub fn is_on_hold(&self, node: NodeId) -> bool {
        self.states[node as usize].on_hold
    }

    /// Begin: nodes that are done free their children, and those that wait for nothing start.
    pub fn begin(&mut self) -> Vec<Act> {
        self.lay_out();
        self.go_on()
    }

    /// Begin with events of a former runner, which [`Run::handle`] is told next: until [`Run::recovered`] nothing starts
    /// but what they say has started.
    pub fn begin_recovery(&mut self) -> Vec<Act> {
        self.recovering = true;
        self.lay_out();
        std::mem::take(&mut self.acts)
    }

    /// All that happened before has been told: go on from there. PRE scripts of nodes that were not submitted and POST
    /// scripts whose end was not told run again.
    pub fn recovered(&mut self) -> Vec<Act> {
        self.recovering = false;
        self.go_on()
    }

    fn lay_out(&mut self) {
        for node in self.graph.order.clone() {
            if self.graph.nodes[node as usize].done {
                self.states[node as usize].status = Status::Done;
            }
        }
        for node in self.graph.order.clone() {
            if self.states[node as usize].status == Status::Done {
                self.succeed(node, false);
            }
        }
        for node in self.graph.services.clone() {
            self.start(node, false);
        }
        if let Some(first) = self.graph.provisioner {
            self.start(first, false);
        } else {
            self.start_free();
        }
    }

    /// Take note of something, and say what is to be done now.
    pub fn handle(&mut self, event: &Event) -> Vec<Act> {
        if !self.over {
            self.note(event);
        }
        self.go_on()
    }

    fn start_free(&mut self) {
        for node in self.graph.order.clone() {
            if self.can_start(node) {
                self.start(node, false);
            }
        }
    }

    fn can_start(&self, node: NodeId) -> bool {
        let state = &self.states[node as usize];
        state.status == Status::Ready && state.waits == 0
    }

    fn rest_goes(&self, node: NodeId) -> bool {
        let tolerance = self.graph.extra(node).and_then(|extra| extra.tolerance);
        match tolerance.map(|tolerance| tolerance.rest) {
            Some(Rest::Removed) => true,
            Some(Rest::Left) => false,
            _ => self.rules.remove_rest,
        }
    }
}

#[cfg(test)]
mod tests;
