//! Binding of the DAG language: files become a DAG, and a list of what is wrong with them.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use ::config::bytes::{hold, release};
use ::dag::read::{self, Options, Outcome, Severity};
use ::dag::{Fault, Files, Graph};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::config::field;

/// The files of this host; ordinary ones alone, so that nothing is waited for.
struct Host;

impl Files for Host {
    fn read(&self, path: &str, most: u64) -> Result<String, Fault> {
        let bytes = release(path);
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(&bytes));
        let fault = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Fault::Missing,
            _ => Fault::Unreadable(error.to_string()),
        };
        let about = std::fs::metadata(path).map_err(fault)?;
        if !about.is_file() {
            return Err(Fault::NotAFile);
        }
        if about.len() > most {
            return Err(Fault::TooLarge);
        }
        let file = std::fs::File::open(path).map_err(fault)?;
        let mut text = Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0));
        file.take(most).read_to_end(&mut text).map_err(fault)?;
        Ok(match String::from_utf8(text) {
            Ok(text) => text,
            Err(error) => hold(error.as_bytes()).into_owned(),
        })
    }
}

/// A DAG as its files describe it, and what is wrong with them. Frozen.
#[pyclass(frozen, module = "slotwise._native")]
pub struct DagData {
    outcome: Outcome,
}

impl DagData {
    pub(crate) fn graph(&self) -> &Graph {
        &self.outcome.graph
    }
}

/// Severity, file, line, text, hint, and the lines of HTCondor's log.
type ProblemRow<'a> = (&'static str, &'a str, u32, &'a str, &'a str, &'a [String]);

#[pymethods]
impl DagData {
    /// What is wrong, in the order in which HTCondor would meet it: "error" or "warning", file, line (0 for the file as
    /// a whole), text, hint, and the lines that HTCondor writes into its log.
    fn problems(&self) -> Vec<ProblemRow<'_>> {
        let rows = self.outcome.problems.iter().map(|problem| {
            let severity = match problem.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            (
                severity,
                problem.file.as_str(),
                problem.line,
                problem.text.as_str(),
                problem.hint.as_str(),
                problem.log.as_slice(),
            )
        });
        rows.collect()
    }

    /// Errors beyond those in the list.
    #[getter]
    fn more_errors(&self) -> usize {
        self.outcome.more
    }

    /// Whether it can be run.
    #[getter]
    fn is_valid(&self) -> bool {
        self.outcome.is_valid()
    }

    /// Nodes, without SERVICE ones.
    #[getter]
    fn node_count(&self) -> usize {
        self.graph().order.len()
    }

    /// Dependencies, each once.
    #[getter]
    fn edge_count(&self) -> usize {
        self.graph().edge_count()
    }

    /// Nodes of a cycle by name, each a parent of the next, the last one of the first; empty if there is none.
    fn cycle(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| {
            let graph = self.graph();
            let round = graph.cycle().unwrap_or_default();
            round
                .iter()
                .map(|node| graph.name(*node).to_owned())
                .collect()
        })
    }

    /// Files that nodes need, each once: the first node that names it, its directory ("": the DAG's job's), the kind
    /// ("submit", "dag", "script") and the path, or the script's line. NOOP nodes need no submit file.
    fn files(&self) -> Vec<(String, String, &'static str, String)> {
        let graph = self.graph();
        let mut seen = std::collections::HashSet::new();
        let mut found = Vec::new();
        let described: std::collections::HashSet<u32> =
            graph.descriptions.iter().map(|(name, _)| *name).collect();
        for (number, node) in graph.nodes.iter().enumerate() {
            let id = u32::try_from(number).unwrap_or(u32::MAX);
            let mut add = |kind: &'static str, text: u32| {
                if text != ::dag::names::NONE && seen.insert((node.directory, kind, text)) {
                    found.push((
                        graph.name(id).to_owned(),
                        graph.text(node.directory).to_owned(),
                        kind,
                        graph.text(text).to_owned(),
                    ));
                }
            };
            if node.dag_file != ::dag::names::NONE {
                add("dag", node.dag_file);
            } else if !node.noop && !described.contains(&node.description) {
                add("submit", node.description);
            }
            for script in graph
                .extra(id)
                .iter()
                .flat_map(|extra| extra.scripts.iter().flatten())
            {
                add("script", script.line);
            }
        }
        found
    }

    /// CONFIG: the files that are named, absolute.
    #[getter]
    fn configs(&self) -> Vec<String> {
        self.graph().settings.configs.clone()
    }

    /// SET_JOB_ATTR: each line.
    #[getter]
    fn job_attributes(&self) -> Vec<String> {
        self.graph().settings.attributes.clone()
    }

    /// ENV: whether it sets (or else gets), and what.
    #[getter]
    fn environment(&self) -> Vec<(bool, String)> {
        self.graph().settings.environment.clone()
    }
}

fn options_of(dict: &Bound<'_, PyDict>) -> PyResult<Options> {
    Ok(Options {
        directory: field(dict, "directory")?,
        use_dag_dir: field(dict, "use_dag_dir")?,
        munge: field(dict, "munge")?,
        any_name: field(dict, "any_name")?,
        join: field(dict, "join")?,
        append_vars: field(dict, "append_vars")?,
        strict: field(dict, "strict")?,
    })
}

/// Reads the files of a DAG. `options` has directory, use_dag_dir, munge, any_name, join, append_vars and strict; see
/// `slotwise.dag.reading`.
#[pyfunction]
fn read_dag(py: Python<'_>, paths: Vec<String>, options: &Bound<'_, PyDict>) -> PyResult<DagData> {
    let options = options_of(options)?;
    let outcome = py.detach(|| read::read(&Host, &paths, &options));
    Ok(DagData { outcome })
}

/// What one file says about its DAG's job: `configs`, `job_attributes`, `environment` and the first problem; see
/// `slotwise.dag.reading`.
#[pyfunction]
fn read_dag_header(
    py: Python<'_>,
    label: &str,
    text: &str,
    options: &Bound<'_, PyDict>,
) -> PyResult<DagData> {
    let options = options_of(options)?;
    let outcome = py.detach(|| read::read_header(label, text, &options));
    Ok(DagData { outcome })
}

/// A DAG with what a rescue file or save point says of its nodes; `label` names that in messages.
#[pyfunction]
fn read_dag_rescue(
    py: Python<'_>,
    dag: &DagData,
    label: &str,
    text: &str,
    options: &Bound<'_, PyDict>,
) -> PyResult<DagData> {
    let options = options_of(options)?;
    let graph = dag.graph().clone();
    let outcome = py.detach(|| read::read_rescue(graph, label, text, &options));
    Ok(DagData { outcome })
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DagData>()?;
    module.add_function(wrap_pyfunction!(read_dag, module)?)?;
    module.add("DAG_BYTES_MOST", dag::limits::BYTES)?;
    module.add_function(wrap_pyfunction!(read_dag_header, module)?)?;
    module.add_function(wrap_pyfunction!(read_dag_rescue, module)?)?;
    Ok(())
}
