//! Binding of the crate `negotiator`: one call a cycle, results in bulk.

mod accounts;
mod explanation;
mod outcome;
mod rows;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ::negotiator::explain::{Asked, explain};
use ::negotiator::{
    CycleConfig, CycleError, Demand, Dependencies, Knobs, Memory, Snapshot, Stopwatch, run_cycle,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use accounts::{AccountingParts, accounts_from};
use explanation::JobExplanation;
use outcome::CycleOutcome;

use crate::classad::PyAd;
use crate::keys::Keys;
use crate::table::PyAdTable;

/// Seconds since the call began.
struct Clock(Instant);

impl Stopwatch for Clock {
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

fn refused(py: Python<'_>, error: &CycleError) -> PyErr {
    let class = match error {
        CycleError::BadKnob { .. } | CycleError::UnreadableKnob { .. } => "ConfigError",
        CycleError::BadInput { .. } => "CycleInputError",
    };
    let made = py
        .import("slotwise.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((error.to_string(),)));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(_) => PyValueError::new_err(error.to_string()),
    }
}

/// Knobs of a cycle, checked.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct CycleKnobs {
    inner: CycleConfig,
}

#[pymethods]
impl CycleKnobs {
    /// Reads knobs from name and expanded value; names in any case.
    #[new]
    fn new(py: Python<'_>, values: FxHashMapFromPy) -> PyResult<Self> {
        let values: FxHashMap<String, String> = values
            .0
            .into_iter()
            .map(|(k, v)| (k.to_ascii_uppercase(), v))
            .collect();
        let inner = CycleConfig::from_knobs(&Knobs::new(&values)).map_err(|e| refused(py, &e))?;
        Ok(Self { inner })
    }

    /// Seconds between cycles.
    #[getter]
    fn interval_s(&self) -> i64 {
        self.inner.interval_s
    }
}

/// A dict of strings.
struct FxHashMapFromPy(std::collections::HashMap<String, String>);
impl<'py> FromPyObject<'_, 'py> for FxHashMapFromPy {
    type Error = PyErr;
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(given.extract()?))
    }
}

/// Runs cycles and remembers what saves work in the next one.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct CycleEngine {
    memory: Mutex<Memory>,
}

#[pymethods]
impl CycleEngine {
    #[new]
    fn new() -> Self {
        Self {
            memory: Mutex::new(Memory::default()),
        }
    }

    /// One cycle. With `submitters` None, `requests` are job ads as `condor_q -long` lists them.
    #[pyo3(signature = (slots, requests, submitters, knobs, accounting, now))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a snapshot, as Python passes them"
    )]
    fn run(
        &self,
        py: Python<'_>,
        slots: &Bound<'_, PyAdTable>,
        requests: &Bound<'_, PyAdTable>,
        submitters: Option<&Bound<'_, PyAdTable>>,
        knobs: &CycleKnobs,
        accounting: AccountingParts<'_>,
        now: i64,
    ) -> PyResult<CycleOutcome> {
        let accounts = accounts_from(accounting, now)?;
        let (slots, requests) = (slots.get(), requests.get());
        let submitters = submitters.map(Bound::get);
        let config = &knobs.inner;
        let made = py.detach(|| {
            let clock = Clock(Instant::now());
            let slots = slots.read();
            let requests = requests.read();
            let dependencies = Dependencies::of(&slots, &requests, config);
            let demand = match submitters {
                None => Demand::from_jobs(&requests, &dependencies, config, now)?,
                Some(table) => {
                    Demand::from_requests(&requests, &table.read(), &dependencies, config, now)?
                }
            };
            let demand = if config.selection.global_job_prios {
                demand.split_by_priority(config.selection.global_job_prios_max)
            } else {
                demand
            };
            let snapshot = Snapshot {
                slots: &slots,
                demand: &demand,
                accounts: &accounts,
                dependencies: &dependencies,
            };
            let ingest_s = clock.seconds();
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = run_cycle(&snapshot, config, &mut memory, now, &clock);
            let slot_keys = Keys::of(&slots, outcome.matches.iter().map(|m| m.row));
            let reserved_keys = Keys::of(&slots, outcome.reservations.iter().map(|r| r.row));
            let waited: Vec<_> = outcome
                .reservations
                .iter()
                .flat_map(|kept| kept.claims.iter().copied())
                .collect();
            let waited_keys = Keys::of(&slots, waited.into_iter());
            let excess_rows: Vec<_> = outcome
                .excess
                .iter()
                .flat_map(|e| e.claims.iter().map(|(row, _)| *row))
                .collect();
            let excess_keys = Keys::of(&slots, excess_rows.into_iter());
            let request_keys = Keys::of(&requests, demand.requests.iter().map(|r| r.row));
            let significant = ::negotiator::request::significant_attributes(&dependencies, config);
            let match_exprs = &config.selection.match_exprs;
            let match_exprs = match_exprs.iter().map(|(name, _)| name.clone()).collect();
            Ok::<_, CycleError>(CycleOutcome {
                outcome,
                demand,
                slot_keys,
                reserved_keys,
                waited_keys,
                excess_keys,
                request_keys,
                significant,
                match_exprs,
                plan_s: ingest_s,
            })
        });
        made.map_err(|error| refused(py, &error))
    }

    /// Why a job does not run: clauses with counts of slots, and what became of slots that match.
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a snapshot, as Python passes them"
    )]
    fn explain(
        &self,
        py: Python<'_>,
        slots: &Bound<'_, PyAdTable>,
        jobs: &Bound<'_, PyAdTable>,
        job: &Bound<'_, PyAd>,
        knobs: &CycleKnobs,
        accounting: AccountingParts<'_>,
        now: i64,
    ) -> PyResult<JobExplanation> {
        let accounts = accounts_from(accounting, now)?;
        let (slots, jobs) = (slots.get(), jobs.get());
        let job = job.borrow().ad.clone();
        let config = &knobs.inner;
        let view = py.detach(|| {
            let slots = slots.read();
            let jobs = jobs.read();
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = Asked {
                slots: &slots,
                jobs: &jobs,
                job: &job,
            };
            explain(&asked, config, &accounts, &mut memory, now)
        });
        Ok(JobExplanation::of(view))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CycleKnobs>()?;
    module.add_class::<CycleEngine>()?;
    module.add_class::<CycleOutcome>()?;
    module.add_class::<JobExplanation>()?;
    rows::register(module)
}
