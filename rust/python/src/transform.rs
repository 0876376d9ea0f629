//! Binding of job transforms.

use std::sync::Arc;

use ::config::Scope;
use ::config::transform::{self, Iteration, Outcome, Rules, Surroundings, Variables};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::classad::ad::PyAd;
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
    module.add_function(wrap_pyfunction!(transform_ad, module)?)?;
    module.add_function(wrap_pyfunction!(transform_rows, module)?)
}
