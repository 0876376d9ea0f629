//! Binding of job transforms.

use std::sync::Arc;

use ::classad::{Ad, Context, Expr, Name, Value, try_evaluate};
use ::config::Scope;
use ::config::transform::{self, Iteration, Outcome, Rules, Surroundings, Variables};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashSet;

use crate::classad::ad::PyAd;
use crate::classad::convert;
use crate::classad::expr::PyExpr;
use crate::config::{ConfigData, Host, field, refused};

/// One transform. Frozen.
#[pyclass(frozen, module = "slotwise._native")]
pub struct TransformRules {
    rules: Rules,
}

#[pymethods]
impl TransformRules {
    /// Reads the text of a transform; raises `ValueError` like the configuration.
    #[new]
    fn new(name: &str, text: &str) -> PyResult<Self> {
        let rules = Rules::parse(name, text).map_err(refused)?;
        Ok(Self { rules })
    }

    /// Its name: what NAME says, else what it was made with.
    #[getter]
    fn name(&self) -> &str {
        &self.rules.name
    }

    /// What UNIVERSE says, or None.
    #[getter]
    fn universe(&self) -> Option<&str> {
        self.rules.universe.as_deref()
    }

    /// Arguments of a TRANSFORM that iterates, or None.
    #[getter]
    fn iterates(&self) -> Option<&str> {
        self.rules.iterates.as_deref()
    }

    /// Whether it has macros only.
    #[getter]
    fn is_config(&self) -> bool {
        self.rules.is_config()
    }

    /// The macros of a file of macros only: names and values, in order.
    fn assignments(&self) -> Vec<(&str, &str)> {
        self.rules.assignments()
    }

    /// Lines and names of attributes that its statements change by name.
    fn writes(&self) -> Vec<(u32, &str)> {
        self.rules.writes()
    }
}

/// What transforms did to an ad.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub struct Transformed {
    /// The ad as it is now.
    ad: Py<PyAd>,
    /// Positions of the transforms that applied.
    applied: Vec<usize>,
    /// Attributes that were set or removed, sorted.
    changed: Vec<String>,
    /// Attributes that were read, in lower case, sorted; None when it may have been any, or when equal ads may be changed
    /// in other ways.
    read: Option<Vec<String>>,
    /// Statements that could not be carried out.
    problems: Vec<String>,
    /// Statements of which a part was ignored.
    doubts: Vec<String>,
    /// Statements as they were carried out, when asked for.
    steps: Vec<String>,
    /// Macros as they are now: names and raw values.
    variables: Vec<(String, String)>,
}

/// What transforms run in. The environment is empty in `transform_ad`: that of a daemon is not for jobs to see.
fn surroundings<'a>(
    facts: &Bound<'_, PyDict>,
    host: &'a Host,
    knobs: Option<&'a dyn Scope>,
) -> PyResult<Surroundings<'a>> {
    Ok(Surroundings {
        knobs,
        world: host,
        now: field(facts, "now")?,
        utc_offset_s: field(facts, "utc_offset_s")?,
        seed: field(facts, "seed")?,
        given: field(facts, "macros")?,
    })
}

/// Runs transforms on an ad, one after another; the given one is not changed. `facts` has now, utc_offset_s, seed, macros
/// (names in lower case), variables, items, row, step, number, iterating and explain.
#[pyfunction]
#[pyo3(signature = (rules, ad, facts, config=None))]
fn transform_ad(
    py: Python<'_>,
    rules: Vec<PyRef<'_, TransformRules>>,
    ad: &PyAd,
    facts: &Bound<'_, PyDict>,
    config: Option<&ConfigData>,
) -> PyResult<Transformed> {
    let host = Host::new(
        String::new(),
        std::collections::HashMap::new(),
        field(facts, "seed")?,
    );
    let view = config.map(ConfigData::view);
    let around = surroundings(facts, &host, view.as_ref().map(|view| view as &dyn Scope))?;
    let mut variables = variables_of(facts)?;
    let iteration = Iteration {
        items: field(facts, "items")?,
        row: field(facts, "row")?,
        step: field(facts, "step")?,
        number: field(facts, "number")?,
        iterating: field(facts, "iterating")?,
    };
    let explain = field(facts, "explain")?;
    let mut outcome = Outcome::default();
    let mut applied = Vec::new();
    let mut changed = Arc::unwrap_or_clone(Arc::clone(&ad.ad));
    for (at, one) in rules.iter().enumerate() {
        let rules = &one.rules;
        let done = transform::apply(
            rules,
            &mut changed,
            &mut variables,
            &iteration,
            &around,
            &mut outcome,
            explain,
        );
        if done.map_err(refused)? {
            applied.push(at);
        }
    }
    let mut names: Vec<String> = outcome
        .changed
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect();
    names.sort_unstable();
    let fixed = !outcome.unbounded && !outcome.volatile && !host.was_random();
    let read = fixed.then(|| {
        let mut read: Vec<String> = outcome.read.into_iter().collect();
        read.sort_unstable();
        read
    });
    Ok(Transformed {
        ad: Py::new(py, PyAd::of(Arc::new(changed)))?,
        applied,
        changed: names,
        read,
        problems: outcome.problems,
        doubts: outcome.doubts,
        steps: outcome.steps,
        variables: variables
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    })
}

/// The ads that a TRANSFORM makes of each ad: (row, step, loop variables with their values). `facts` is that of
/// `transform_ad`, with `cwd` and `environment` besides.
#[pyfunction]
#[pyo3(signature = (rules, facts, config=None))]
fn transform_rows(
    rules: &TransformRules,
    facts: &Bound<'_, PyDict>,
    config: Option<&ConfigData>,
) -> PyResult<Vec<Row>> {
    let environment: Vec<(String, String)> = field(facts, "environment")?;
    let host = Host::new(
        field(facts, "cwd")?,
        environment.into_iter().collect(),
        field(facts, "seed")?,
    );
    let view = config.map(ConfigData::view);
    let around = surroundings(facts, &host, view.as_ref().map(|view| view as &dyn Scope))?;
    let rows = transform::rows(&rules.rules, &variables_of(facts)?, &around).map_err(refused)?;
    Ok(rows
        .into_iter()
        .map(|row| (row.row, row.step, row.items))
        .collect())
}

/// One of the jobs of a cluster: ProcId, JobStatus, GlobalJobId, and what else the schedd says of it alone.
#[derive(FromPyObject)]
struct OneJob<'py>(i64, i64, String, Option<PyRef<'py, PyAd>>);

/// New jobs of one cluster: what they share, and what each has besides.
struct ClusterJobs<'a, 'py> {
    shared: &'a Ad,
    jobs: &'a [OneJob<'py>],
    deltas: Option<&'a [PyRef<'py, PyAd>]>,
    names: [Name; 3],
}

impl<'a, 'py> ClusterJobs<'a, 'py> {
    fn new(
        shared: &'a Ad,
        jobs: &'a [OneJob<'py>],
        deltas: Option<&'a [PyRef<'py, PyAd>]>,
    ) -> PyResult<Self> {
        if deltas.is_some_and(|deltas| deltas.len() != jobs.len()) {
            return Err(pyo3::exceptions::PyValueError::new_err(
                "there are not as many deltas as jobs",
            ));
        }
        Ok(Self {
            shared,
            jobs,
            deltas,
            names: ["ProcId", "JobStatus", "GlobalJobId"].map(Name::from),
        })
    }

    fn delta(&self, at: usize) -> Option<&Ad> {
        self.deltas.map(|deltas| &*deltas[at].ad)
    }

    /// The whole ad of one of them.
    fn whole(&self, at: usize) -> Ad {
        let OneJob(proc, status, global, own) = &self.jobs[at];
        let mut ad = self.shared.clone();
        if let Some(delta) = self.delta(at) {
            ad.update(delta);
        }
        if let Some(own) = own {
            ad.update(&own.ad);
        }
        let [proc_id, job_status, global_job_id] = &self.names;
        ad.insert(proc_id.clone(), Expr::Lit(Value::Int(*proc)));
        ad.insert(job_status.clone(), Expr::Lit(Value::Int(*status)));
        ad.insert(
            global_job_id.clone(),
            Expr::Lit(Value::from(global.as_str())),
        );
        ad
    }

    /// What the job says in place of the cluster's ad once its attributes `changed` are as in `now`. One that is gone
    /// from the job and not from the cluster is undefined.
    fn differing(&self, at: usize, now: &Ad, changed: &FxHashSet<Name>) -> Ad {
        let mut delta = self.delta(at).cloned().unwrap_or_default();
        for name in changed {
            let (own, common) = (now.get(name), self.shared.get(name));
            if own == common {
                delta.remove(name);
            } else {
                let own = own.cloned().unwrap_or(Expr::Lit(Value::Undefined));
                delta.insert(name.clone(), own);
            }
        }
        delta
    }
}

/// What transforms did to the jobs of a cluster.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub struct TransformedJobs {
    /// For each job, what its ad says now in place of the cluster's.
    deltas: Vec<Py<PyAd>>,
    /// Attributes that were set or removed in any of them, sorted.
    changed: Vec<String>,
    /// Statements that could not be carried out, and those of which a part was ignored, each once.
    problems: Vec<String>,
}

/// Runs transforms on each job of a cluster, as `transform_ad` does on one ad: those of job N with the seed N higher. The
/// given ads are not changed. `jobs` are (ProcId, JobStatus, GlobalJobId, further attributes or None).
#[pyfunction]
#[pyo3(signature = (rules, shared, jobs, deltas, facts, config=None))]
fn transform_jobs(
    py: Python<'_>,
    rules: Vec<PyRef<'_, TransformRules>>,
    shared: &PyAd,
    jobs: Vec<OneJob<'_>>,
    deltas: Option<Vec<PyRef<'_, PyAd>>>,
    facts: &Bound<'_, PyDict>,
    config: Option<&ConfigData>,
) -> PyResult<TransformedJobs> {
    let first: u64 = field(facts, "seed")?;
    let view = config.map(ConfigData::view);
    let given = variables_of(facts)?;
    let iteration = Iteration::default();
    let cluster = ClusterJobs::new(&shared.ad, &jobs, deltas.as_deref())?;
    let mut made = Vec::with_capacity(jobs.len());
    let (mut changed, mut problems) = (FxHashSet::default(), Vec::new());
    let mut known: FxHashSet<String> = FxHashSet::default();
    for at in 0..jobs.len() {
        let seed = first.wrapping_add(at as u64);
        let host = Host::new(String::new(), std::collections::HashMap::new(), seed);
        let mut around = surroundings(facts, &host, view.as_ref().map(|view| view as &dyn Scope))?;
        around.seed = seed;
        let (mut outcome, mut variables) = (Outcome::default(), given.clone());
        let mut ad = cluster.whole(at);
        for one in &rules {
            let (rules, none) = (&one.rules, &iteration);
            transform::apply(
                rules,
                &mut ad,
                &mut variables,
                none,
                &around,
                &mut outcome,
                false,
            )
            .map_err(refused)?;
        }
        let delta = cluster.differing(at, &ad, &outcome.changed);
        made.push(Py::new(py, PyAd::of(Arc::new(delta)))?);
        changed.extend(outcome.changed);
        for problem in outcome.problems.into_iter().chain(outcome.doubts) {
            if known.insert(problem.clone()) {
                problems.push(problem);
            }
        }
    }
    let mut changed: Vec<String> = changed
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect();
    changed.sort_unstable();
    Ok(TransformedJobs {
        deltas: made,
        changed,
        problems,
    })
}

/// The positions of those jobs of a cluster for which not all of the expressions are true, MY being the schedd's ad and
/// TARGET the job's. `jobs` is that of `transform_jobs`.
#[pyfunction]
#[pyo3(signature = (expressions, schedd, shared, jobs, deltas, now))]
fn jobs_that_fail(
    expressions: Vec<PyRef<'_, PyExpr>>,
    schedd: &PyAd,
    shared: &PyAd,
    jobs: Vec<OneJob<'_>>,
    deltas: Option<Vec<PyRef<'_, PyAd>>>,
    now: i64,
) -> PyResult<Vec<usize>> {
    let cluster = ClusterJobs::new(&shared.ad, &jobs, deltas.as_deref())?;
    let failing = (0..jobs.len()).filter(|&at| {
        let ad = cluster.whole(at);
        let context = Context {
            my: Some(&schedd.ad),
            target: Some(&ad),
            now,
            utc_offset_s: convert::utc_offset_s(now),
            seed: convert::next_seed(now),
            ..Context::default()
        };
        let holds = |one: &PyRef<'_, PyExpr>| {
            try_evaluate(&one.expr, &context).is_ok_and(|value| value.is_true())
        };
        !expressions.iter().all(holds)
    });
    Ok(failing.collect())
}

type Row = (u32, u32, Vec<(String, String)>);

fn variables_of(facts: &Bound<'_, PyDict>) -> PyResult<Variables> {
    let mut variables = Variables::default();
    for (name, value) in field::<Vec<(String, String)>>(facts, "variables")? {
        variables.set(&name, &value);
    }
    Ok(variables)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TransformRules>()?;
    module.add_class::<Transformed>()?;
    module.add_class::<TransformedJobs>()?;
    module.add_function(wrap_pyfunction!(transform_ad, module)?)?;
    module.add_function(wrap_pyfunction!(transform_jobs, module)?)?;
    module.add_function(wrap_pyfunction!(jobs_that_fail, module)?)?;
    module.add_function(wrap_pyfunction!(transform_rows, module)?)
}
