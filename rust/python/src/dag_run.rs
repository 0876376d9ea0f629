//! Binding of a DAG that runs: events in, acts out. What they mean is said in `slotwise.dag.acts`.

use ::dag::command::{Output, ScriptKind};
use ::dag::graph::Kind;
use ::dag::run::{Act, End, Event, Order, Rules, Run, Status, Throttles};
use ::dag::{Graph, NodeId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::config::field;
use crate::dag::DagData;

/// What is to be done, the node (0 where it is of none), and two numbers: of "finish" the exit status and DAG_Status.
type ActRow = (&'static str, NodeId, i32, i32);

/// Which script, program and arguments, DEFER's status and seconds, DEBUG's file and which output.
type ScriptRow = (
    &'static str,
    String,
    Option<(i32, i32)>,
    Option<(String, &'static str)>,
);

/// A DAG that runs.
#[pyclass(module = "slotwise._native")]
pub struct DagRun {
    run: Run,
}

fn script_name(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Pre => "pre",
        ScriptKind::Post => "post",
        ScriptKind::Hold => "hold",
    }
}

fn rows(acts: Vec<Act>) -> Vec<ActRow> {
    let row = |act| match act {
        Act::Script { node, kind } => (script_name(kind), node, 0, 0),
        Act::Submit { node } => ("submit", node, 0, 0),
        Act::LogNoop { node } => ("noop", node, 0, 0),
        Act::LogPreSkip { node } => ("pre_skip", node, 0, 0),
        Act::SavePoint { node } => ("save_point", node, 0, 0),
        Act::RemoveJobs { node } => ("remove_jobs", node, 0, 0),
        Act::RemoveAll => ("remove_all", 0, 0, 0),
        Act::Rescue => ("rescue", 0, 0, 0),
        Act::Finish { exit, status } => ("finish", 0, exit, status as i32),
    };
    acts.into_iter().map(row).collect()
}

/// An event by its name. `number`: the process in the cluster, or what the name says; `value`: an exit status, or a
/// signal's negative number.
fn event(name: &str, node: NodeId, number: u32, value: i32) -> PyResult<Event> {
    let proc = number;
    let end = if value < 0 {
        End::Signal(-value)
    } else {
        End::Exit(value)
    };
    Ok(match name {
        "pre_ended" => Event::Script {
            node,
            kind: ScriptKind::Pre,
            end,
        },
        "hold_ended" => Event::Script {
            node,
            kind: ScriptKind::Hold,
            end,
        },
        "refused" => Event::Refused {
            node,
            for_good: number != 0,
        },
        "submit" => Event::Submit { node, proc },
        "execute" => Event::Execute { node, proc },
        "evicted" => Event::Evicted { node, proc },
        "held" => Event::Held { node, proc },
        "released" => Event::Released { node, proc },
        "terminated" => Event::Terminated { node, proc, end },
        "aborted" => Event::Aborted { node, proc },
        "post_ended" => Event::PostEnded { node, end },
        "pre_skipped" => Event::PreSkipped { node },
        "provisioned" => Event::Provisioned,
        "withdrawn" => Event::Withdrawn { node },
        "interval" => Event::Interval,
        "halt" => Event::Halt,
        "remove" => Event::Remove,
        "resume" => Event::Resume,
        "retry" => Event::Retry { node },
        "skip" => Event::Skip { node },
        _ => return Err(PyValueError::new_err(format!("no event {name:?}"))),
    })
}

fn rules_of(dict: &Bound<'_, PyDict>) -> PyResult<Rules> {
    Ok(Rules {
        throttles: Throttles {
            nodes: field(dict, "max_jobs")?,
            idle: field(dict, "max_idle")?,
            scripts: [
                field(dict, "max_pre")?,
                field(dict, "max_post")?,
                field(dict, "max_hold")?,
            ],
            submits: field(dict, "max_submits")?,
        },
        always_post: field(dict, "always_post")?,
        depth_first: field(dict, "depth_first")?,
        retry_first: field(dict, "retry_first")?,
        submit_attempts: field(dict, "submit_attempts")?,
        tolerance: field(dict, "tolerance")?,
        remove_rest: field(dict, "remove_rest")?,
        remove_jobs: field(dict, "remove_jobs")?,
        rescues: field(dict, "rescues")?,
        holds_failed: field(dict, "holds_failed")?,
    })
}

impl DagRun {
    fn graph(&self) -> &Graph {
        self.run.graph()
    }

    fn check(&self, node: NodeId) -> PyResult<()> {
        if (node as usize) < self.graph().nodes.len() {
            Ok(())
        } else {
            Err(PyValueError::new_err(format!("no node {node}")))
        }
    }
}

#[pymethods]
impl DagRun {
    /// A DAG that has not begun; `rules`: see `slotwise.dag.rules`.
    #[new]
    fn new(dag: &DagData, rules: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Self {
            run: Run::new(dag.graph().clone(), rules_of(rules)?),
        })
    }

    fn begin(&mut self) -> Vec<ActRow> {
        rows(self.run.begin())
    }

    fn begin_recovery(&mut self) -> Vec<ActRow> {
        rows(self.run.begin_recovery())
    }

    fn recovered(&mut self) -> Vec<ActRow> {
        rows(self.run.recovered())
    }

    #[pyo3(signature = (name, node=0, number=0, value=0))]
    fn handle(
        &mut self,
        name: &str,
        node: NodeId,
        number: u32,
        value: i32,
    ) -> PyResult<Vec<ActRow>> {
        if !self.graph().nodes.is_empty() {
            self.check(node)?;
        }
        Ok(rows(self.run.handle(&event(name, node, number, value)?)))
    }

    fn find(&self, name: &str) -> Option<NodeId> {
        self.graph().find(name)
    }

    fn name(&self, node: NodeId) -> PyResult<&str> {
        self.check(node)?;
        Ok(self.graph().name(node))
    }

    /// All nodes but SERVICE ones, in the order of status files.
    fn order(&self) -> Vec<NodeId> {
        self.graph().order.clone()
    }

    fn services(&self) -> Vec<NodeId> {
        self.graph().services.clone()
    }

    /// The PROVISIONER node.
    #[getter]
    fn provisioner(&self) -> Option<NodeId> {
        self.graph().provisioner
    }

    /// The names of a node's parents.
    fn parents(&self, node: NodeId) -> PyResult<Vec<&str>> {
        self.check(node)?;
        let graph = self.graph();
        Ok(graph.parents(node).map(|one| graph.name(one)).collect())
    }

    /// What the files say of a node.
    fn about<'py>(&self, py: Python<'py>, node: NodeId) -> PyResult<Bound<'py, PyDict>> {
        self.check(node)?;
        let graph = self.graph();
        let about = &graph.nodes[node as usize];
        let made = PyDict::new(py);
        let text = |id: u32| graph.text(id);
        made.set_item("name", graph.name(node))?;
        made.set_item("description", text(about.description))?;
        made.set_item("dag_file", text(about.dag_file))?;
        made.set_item("directory", text(about.directory))?;
        let kind = match about.kind {
            Kind::Job => "job",
            Kind::Final => "final",
            Kind::Provisioner => "provisioner",
            Kind::Service => "service",
        };
        made.set_item("kind", kind)?;
        made.set_item("noop", about.noop)?;
        made.set_item("join", about.join)?;
        made.set_item("done_by_job", about.done_by_job)?;
        made.set_item("priority", about.priority)?;
        made.set_item("retries", about.retries)?;
        made.set_item("unless", about.unless)?;
        made.set_item("has_children", graph.child_count(node) > 0)?;
        let vars: Vec<(&str, &str, bool)> = graph
            .vars_of(node)
            .iter()
            .map(|var| (text(var.key), text(var.value), var.append))
            .collect();
        made.set_item("vars", vars)?;
        let kinds = [ScriptKind::Pre, ScriptKind::Post, ScriptKind::Hold];
        let scripts: Vec<ScriptRow> = kinds
            .iter()
            .filter_map(|kind| {
                let script = graph.script(node, *kind)?;
                let debug = script.debug.map(|(file, output)| {
                    let which = match output {
                        Output::Stdout => "STDOUT",
                        Output::Stderr => "STDERR",
                        Output::All => "ALL",
                    };
                    (text(file).to_owned(), which)
                });
                let line = text(script.line).to_owned();
                Some((script_name(*kind), line, script.defer, debug))
            })
            .collect();
        made.set_item("scripts", scripts)?;
        let extra = graph.extra(node);
        made.set_item("pre_skip", extra.and_then(|extra| extra.pre_skip))?;
        let save = extra.and_then(|extra| extra.save_point).map(text);
        made.set_item("save_point", save)?;
        Ok(made)
    }

    /// The text of a description in the DAG's files, by its name.
    fn description(&self, name: &str) -> Option<&str> {
        let graph = self.graph();
        let id = graph.texts.find(name)?;
        let found = graph.descriptions.iter().find(|(known, _)| *known == id)?;
        Some(graph.text(found.1))
    }

    /// The number of a node's status (NodeStatus), whether it waits for parents, retries that it has used, its value, and
    /// its jobs in the queue and on hold.
    fn state(&self, node: NodeId) -> PyResult<(i32, bool, i32, i32, usize, usize)> {
        self.check(node)?;
        let status = match self.run.status_of(node) {
            Status::NotReady => 0,
            Status::Ready => 1,
            Status::PreRun => 2,
            Status::Submitted => 3,
            Status::PostRun => 4,
            Status::Done => 5,
            Status::Error => 6,
            Status::Futile => 7,
        };
        let (queued, held) = self.run.jobs_of(node);
        Ok((
            status,
            self.run.waits(node),
            self.run.retries_of(node),
            self.run.result_of(node),
            queued,
            held,
        ))
    }

    /// The parents of a node, and whether each dependency is weak.
    fn dependencies(&self, node: NodeId) -> PyResult<Vec<(NodeId, bool)>> {
        self.check(node)?;
        Ok(self.graph().dependencies(node).collect())
    }

    /// The file and line of the command that makes a node.
    fn place(&self, node: NodeId) -> PyResult<(&str, u32)> {
        self.check(node)?;
        let graph = self.graph();
        let about = &graph.nodes[node as usize];
        Ok((graph.text(about.file), about.line))
    }

    /// The throttled category of a node: its name, how many of its nodes are submitted, and how many may be.
    fn category(&self, node: NodeId) -> PyResult<Option<(&str, usize, i32)>> {
        self.check(node)?;
        Ok(self.run.category_of(node))
    }

    /// Why an order ("retry" or "skip") cannot be carried out now; None if it can.
    fn refusal(&self, order: &str, node: NodeId) -> PyResult<Option<&'static str>> {
        self.check(node)?;
        let order = match order {
            "retry" => Order::Retry,
            "skip" => Order::Skip,
            _ => return Err(PyValueError::new_err(format!("no order {order:?}"))),
        };
        Ok(self.run.refusal(order, node))
    }

    fn is_on_hold(&self, node: NodeId) -> bool {
        (node as usize) < self.graph().nodes.len() && self.run.is_on_hold(node)
    }

    fn is_idle(&self, node: NodeId, proc: u32) -> bool {
        self.run.is_idle(node, proc)
    }

    /// DAG_Status.
    #[getter]
    fn status(&self) -> i32 {
        self.run.status() as i32
    }

    /// Numbers of nodes and jobs, by the names of `slotwise.dag.counts`.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.run.counts();
        let made = PyDict::new(py);
        let numbers = [
            ("total", counts.total),
            ("done", counts.done),
            ("pre", counts.pre),
            ("queued", counts.queued),
            ("post", counts.post),
            ("ready", counts.ready),
            ("unready", counts.unready),
            ("failed", counts.failed),
            ("futile", counts.futile),
            ("jobs_submitted", counts.jobs_submitted),
            ("jobs_ended", counts.jobs_ended),
            ("jobs_succeeded", counts.jobs_succeeded),
            ("jobs_idle", counts.jobs_idle),
            ("jobs_held", counts.jobs_held),
            ("hold", counts.hold),
        ];
        for (name, number) in numbers {
            made.set_item(name, number)?;
        }
        Ok(made)
    }

    fn rescue_text(&self, heading: &str, created: &str, keeps_retries: bool) -> String {
        self.run.rescue_text(heading, created, keeps_retries)
    }

    #[pyo3(signature = (date, included=None))]
    fn dot_text(&self, date: &str, included: Option<(String, String)>) -> String {
        let included = included
            .as_ref()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        self.run.dot_text(date, included)
    }

    /// DOT: file, UPDATE, OVERWRITE, INCLUDE.
    #[getter]
    fn dot(&self) -> Option<(String, bool, bool, Option<String>)> {
        let dot = self.graph().settings.dot.clone()?;
        Some((dot.file, dot.update, dot.overwrite, dot.header))
    }

    /// NODE_STATUS_FILE: file, seconds, ALWAYS-UPDATE.
    #[getter]
    fn status_file(&self) -> Option<(String, Option<i32>, bool)> {
        let file = self.graph().settings.status_file.clone()?;
        Some((file.file, file.seconds, file.always))
    }

    /// JOBSTATE_LOG.
    #[getter]
    fn jobstate_log(&self) -> Option<String> {
        self.graph().settings.jobstate_log.clone()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DagRun>()
}
