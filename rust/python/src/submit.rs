//! Binding of the submit language: a description becomes packs of cluster ads and job deltas.

use std::sync::Arc;

use ::config::source::Unseen;
use ::config::submit::{self, Facts, Knobs, Submission};
use columns::pack::{PackHeader, PackWriter};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::classad::ad::PyAd;
use crate::config::{ConfigData, Host, refused};

/// A description that was read: clusters, their jobs, warnings. Frozen.
#[pyclass(frozen, module = "slotwise._native")]
pub struct SubmissionData {
    made: Submission,
}

impl SubmissionData {
    fn cluster(&self, at: usize) -> PyResult<&submit::Cluster> {
        self.made
            .clusters
            .get(at)
            .ok_or_else(|| PyIndexError::new_err(format!("there is no cluster {at}")))
    }
}

#[pymethods]
impl SubmissionData {
    /// What looks wrong but can be queued.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.made.warnings.clone()
    }

    /// Whether `$(Cluster)` was used.
    #[getter]
    fn mentions_cluster(&self) -> bool {
        self.made.mentions_cluster
    }

    /// Limit of late materialization, or None.
    #[getter]
    fn max_materialize(&self) -> Option<i64> {
        self.made.max_materialize
    }

    /// Jobs of each cluster.
    fn counts(&self) -> Vec<usize> {
        self.made
            .clusters
            .iter()
            .map(|cluster| cluster.jobs.len())
            .collect()
    }

    /// The ad that all jobs of a cluster share.
    fn cluster_ad(&self, at: usize) -> PyResult<PyAd> {
        Ok(PyAd::of(Arc::new(self.cluster(at)?.ad.clone())))
    }

    /// A job's whole ad.
    fn job_ad(&self, at: usize, proc: usize) -> PyResult<PyAd> {
        let cluster = self.cluster(at)?;
        let own = cluster
            .jobs
            .get(proc)
            .ok_or_else(|| PyIndexError::new_err(format!("there is no job {proc}")))?;
        let mut ad = cluster.ad.clone();
        ad.update(own);
        Ok(PyAd::of(Arc::new(ad)))
    }

    /// A cluster's ad as a pack of one ad.
    fn cluster_pack<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut pack = PackWriter::new(PackHeader::default());
        pack.ad(&self.cluster(at)?.ad);
        Ok(PyBytes::new(py, &pack.finish()))
    }

    /// What the description says about a cluster's set, as a pack of one ad; empty when that is nothing.
    fn job_set_pack<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyBytes>> {
        let ad = &self.cluster(at)?.job_set;
        if ad.is_empty() {
            return Ok(PyBytes::new(py, b""));
        }
        let mut pack = PackWriter::new(PackHeader::default());
        pack.ad(ad);
        Ok(PyBytes::new(py, &pack.finish()))
    }

    /// What jobs from `from` to `to` have of their own, one ad each; empty when none has anything.
    fn delta_pack<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        from: usize,
        to: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let jobs = &self.cluster(at)?.jobs;
        let part = &jobs[from.min(jobs.len())..to.min(jobs.len())];
        if part.iter().all(::classad::Ad::is_empty) {
            return Ok(PyBytes::new(py, b""));
        }
        let bytes = py.detach(|| {
            let mut pack = PackWriter::new(PackHeader::default());
            for delta in part {
                pack.ad(delta);
            }
            pack.finish()
        });
        Ok(PyBytes::new(py, &bytes))
    }
}

fn facts_of(dict: &Bound<'_, PyDict>) -> PyResult<Facts> {
    use crate::config::field;
    Ok(Facts {
        file: field(dict, "file")?,
        cwd: field(dict, "cwd")?,
        owner: field(dict, "owner")?,
        uid: field(dict, "uid")?,
        now: field(dict, "now")?,
        date: field(dict, "date")?,
        macros: field(dict, "macros")?,
        spool: field(dict, "spool")?,
        check_files: field(dict, "check_files")?,
        first_cluster: field(dict, "first_cluster")?,
        before: field(dict, "before")?,
        append: field(dict, "append")?,
        queue: field(dict, "queue")?,
        stdin: field(dict, "stdin")?,
        most_work: None,
    })
}

/// Reads a description. `facts` has file, cwd, owner, uid, now, date, macros, spool, check_files, elsewhere,
/// first_cluster, before, append, queue, stdin, environment and seed; see `slotwise.submit.parse`.
#[pyfunction]
fn parse_submit(
    py: Python<'_>,
    text: &str,
    facts: &Bound<'_, PyDict>,
    config: Option<&ConfigData>,
) -> PyResult<SubmissionData> {
    use crate::config::field;
    let mut what = facts_of(facts)?;
    let environment: Vec<(String, String)> = field(facts, "environment")?;
    let (elsewhere, seed): (bool, u64) = (field(facts, "elsewhere")?, field(facts, "seed")?);
    what.most_work = elsewhere.then_some(::config::expand::MAX_WORK_FOR_OTHERS);
    let host = Host::new(what.cwd.clone(), environment.into_iter().collect(), seed);
    let made = py.detach(|| {
        let nothing = submit::NoKnobs;
        let view = config.map(ConfigData::view);
        let knobs: &dyn Knobs = match &view {
            Some(view) => view,
            None => &nothing,
        };
        if elsewhere {
            return submit::parse(text, &what, knobs, &Unseen::new(seed));
        }
        submit::parse(text, &what, knobs, &host)
    });
    Ok(SubmissionData {
        made: made.map_err(refused)?,
    })
}

/// A statement of an outline: its key, its text, and its text with macros expanded.
type Statement = (String, String, Option<String>);

/// Reads a description up to its first queue statement: the statements (key, text, expanded text), the arguments of the
/// queue statement, its variables, and its items (None for a statement without items). `facts` as for `parse_submit`.
#[pyfunction]
#[allow(clippy::type_complexity)] // one tuple for each of them, given a shape in `slotwise.submit`
fn outline_submit(
    text: &str,
    facts: &Bound<'_, PyDict>,
    config: Option<&ConfigData>,
) -> PyResult<(
    Vec<Statement>,
    Option<String>,
    Vec<String>,
    Option<Vec<Vec<String>>>,
)> {
    use crate::config::field;
    let what = facts_of(facts)?;
    let environment: Vec<(String, String)> = field(facts, "environment")?;
    let host = Host::new(
        what.cwd.clone(),
        environment.into_iter().collect(),
        field(facts, "seed")?,
    );
    let nothing = submit::NoKnobs;
    let view = config.map(ConfigData::view);
    let knobs: &dyn Knobs = match &view {
        Some(view) => view,
        None => &nothing,
    };
    let made = submit::outline(text, &what, knobs, &host).map_err(refused)?;
    Ok((
        made.statements,
        made.queue,
        made.variables,
        made.has_items.then_some(made.items),
    ))
}

/// The submit commands: (name, attribute, kind).
#[pyfunction]
fn submit_commands() -> Vec<(&'static str, &'static str, &'static str)> {
    use ::config::submit::commands::{Kind, all};
    let kind = |kind| match kind {
        Kind::Text => "string",
        Kind::Expr => "expr",
        Kind::Bool => "bool",
        Kind::Int => "int",
        Kind::Count => "uint",
    };
    all()
        .iter()
        .map(|command| (command.name, command.attribute, kind(command.kind)))
        .collect()
}

/// The commands that a configuration adds, and what they take; those that it forbids have None there.
#[pyfunction]
fn extended_commands(config: &ConfigData) -> Vec<(String, Option<&'static str>)> {
    submit::extended::commands(&config.view())
        .into_iter()
        .map(|command| {
            (
                command.name,
                command.form.map(submit::extended::Form::words),
            )
        })
        .collect()
}

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SubmissionData>()?;
    module.add_function(wrap_pyfunction!(parse_submit, module)?)?;
    module.add_function(wrap_pyfunction!(outline_submit, module)?)?;
    module.add_function(wrap_pyfunction!(submit_commands, module)?)?;
    module.add_function(wrap_pyfunction!(extended_commands, module)?)?;
    Ok(())
}
