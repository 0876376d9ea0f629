//! Clauses of a job's Requirements with their counts, for Python.

use ::classad::{Ad, Expr};
use ::columns::{AdTable, EvalSettings, Matcher, Relation};
use pyo3::prelude::*;

use crate::classad::convert::to_python;

/// A literal, converted when it is asked for.
#[derive(Clone, PartialEq)]
pub(crate) struct Literal(Expr);

impl<'py> IntoPyObject<'py> for &Literal {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match &self.0 {
            Expr::Lit(value) => to_python(py, value),
            _ => Ok(py.None().into_bound(py)),
        }
    }
}

/// A value of slots, and how many have it.
#[pyclass(frozen, get_all, eq, module = "slotwise._native")]
#[derive(Clone, PartialEq)]
pub(crate) struct NearestValue {
    /// The value.
    value: Literal,
    /// Slots that have it.
    slots: usize,
}

impl NearestValue {
    fn of(found: &::columns::Nearest) -> Self {
        Self {
            value: Literal(found.value.clone()),
            slots: found.rows,
        }
    }
}

/// What a clause that keeps a job from all slots would have to ask for instead.
#[pyclass(frozen, get_all, eq, module = "slotwise._native")]
#[derive(Clone, PartialEq)]
pub(crate) struct ClauseHint {
    /// Attribute of slots that the clause compares.
    attribute: String,
    /// What it is compared with.
    wanted: Literal,
    /// Attribute of the job that says what is wanted, if one does.
    job_attribute: Option<String>,
    /// What `nearest` is among the values: `largest`, `smallest` or `closest`.
    relation: &'static str,
    /// The clause wants more, or less, than what it names.
    strict: bool,
    /// Some slot has the attribute.
    known: bool,
    /// It is an attribute of the job, which the job lacks.
    of_job: bool,
    /// An attribute that is spelt much like one that is missing.
    alike: Option<String>,
    /// Of all slots; none unless no slot satisfies the clause.
    nearest: Option<NearestValue>,
    /// Of the slots that satisfy all other clauses.
    among_rest: Option<NearestValue>,
}

impl ClauseHint {
    fn of(hint: &::columns::Hint) -> Self {
        let asked = hint.asked.as_ref();
        Self {
            attribute: hint.attribute.to_text().into_owned(),
            wanted: Literal(hint.wanted.clone()),
            job_attribute: asked.map(|name| name.to_text().into_owned()),
            relation: match hint.relation {
                Relation::Largest => "largest",
                Relation::Smallest => "smallest",
                Relation::Closest => "closest",
            },
            strict: hint.strict,
            known: hint.known,
            of_job: hint.of_job,
            alike: hint.alike.as_ref().map(|name| name.to_text().into_owned()),
            nearest: hint.nearest.as_ref().map(NearestValue::of),
            among_rest: hint.among_rest.as_ref().map(NearestValue::of),
        }
    }
}

/// A clause of a job's Requirements over the slots of a table.
#[pyclass(frozen, get_all, eq, module = "slotwise._native")]
#[derive(Clone, PartialEq)]
pub(crate) struct ClauseCount {
    /// Its text.
    clause: String,
    /// Slots that satisfy it.
    passes: usize,
    /// Slots that satisfy all other clauses.
    without: usize,
    /// Of a clause that keeps the job from all slots and compares an attribute with a constant.
    hint: Option<ClauseHint>,
}

impl ClauseCount {
    pub(crate) fn of(counted: &::columns::ClauseCount) -> Self {
        Self {
            clause: counted.text.clone(),
            passes: counted.passes,
            without: counted.without,
            hint: counted.hint.as_ref().map(ClauseHint::of),
        }
    }
}

/// The clauses of a job's Requirements over all ads of a table.
pub(super) fn counted(table: &AdTable, job: &Ad, now: i64) -> Vec<ClauseCount> {
    let settings = EvalSettings {
        now,
        ..EvalSettings::default()
    };
    let mut matcher = Matcher::new(settings);
    matcher.refresh(table, settings);
    let counts = matcher.clause_counts(table, job);
    counts.iter().map(ClauseCount::of).collect()
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NearestValue>()?;
    module.add_class::<ClauseHint>()?;
    module.add_class::<ClauseCount>()
}
