//! Binding of the crate `negotiator`: one call a cycle, results in bulk.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ::fairshare::AccountRecord;
use ::negotiator::explain::{Asked, explain};
use ::negotiator::outcome::{Outcome, SlotCounts};
use ::negotiator::reserve::Kept;
use ::negotiator::{
    Accounts, CycleConfig, CycleError, Demand, Knobs, Memory, Plan, Snapshot, Stopwatch, run_cycle,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rustc_hash::FxHashMap;

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
        CycleError::BadKnob { .. } => "ConfigError",
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

fn field<'py, T>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> PyErr: From<<T as FromPyObject<'a, 'py>>::Error>,
{
    match given.get_item(name)? {
        Some(value) if !value.is_none() => Ok(Some(value.extract::<T>().map_err(PyErr::from)?)),
        _ => Ok(None),
    }
}

fn record_from(given: &Bound<'_, PyDict>, now: i64) -> PyResult<AccountRecord> {
    let mut record = AccountRecord::new(now);
    let number = |name: &str| field::<f64>(given, name);
    if let Some(priority) = number("priority")? {
        record.priority = priority.max(::fairshare::MIN_PRIORITY);
    }
    record.factor = number("factor")?;
    record.ceiling = number("ceiling")?.filter(|c| *c >= 0.0).map(|c| c as i64);
    record.floor = number("floor")?.unwrap_or(0.0).max(0.0) as i64;
    record.resources_used = number("resources_used")?.unwrap_or(0.0);
    record.weighted_resources_used = number("weighted_resources_used")?.unwrap_or(0.0);
    record.accumulated_usage = number("accumulated_usage")?.unwrap_or(0.0);
    record.weighted_accumulated_usage = number("weighted_accumulated_usage")?.unwrap_or(0.0);
    record.uncharged_time = number("uncharged_time")?.unwrap_or(0.0);
    record.weighted_uncharged_time = number("weighted_uncharged_time")?.unwrap_or(0.0);
    record.begin_usage_time = number("begin_usage_time")?.unwrap_or(0.0) as i64;
    record.last_usage_time = number("last_usage_time")?.unwrap_or(0.0) as i64;
    record.last_update = number("last_update")?.map_or(now, |t| t as i64);
    Ok(record)
}

fn record_to<'py>(py: Python<'py>, record: &AccountRecord) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("priority", record.priority)?;
    out.set_item("factor", record.factor)?;
    out.set_item("ceiling", record.ceiling.unwrap_or(-1))?;
    out.set_item("floor", record.floor)?;
    out.set_item("resources_used", record.resources_used)?;
    out.set_item("weighted_resources_used", record.weighted_resources_used)?;
    out.set_item("accumulated_usage", record.accumulated_usage)?;
    out.set_item(
        "weighted_accumulated_usage",
        record.weighted_accumulated_usage,
    )?;
    out.set_item("uncharged_time", record.uncharged_time)?;
    out.set_item("weighted_uncharged_time", record.weighted_uncharged_time)?;
    out.set_item("begin_usage_time", record.begin_usage_time)?;
    out.set_item("last_usage_time", record.last_usage_time)?;
    out.set_item("last_update", record.last_update)?;
    Ok(out)
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

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a snapshot, as Python passes them"
    )]
    /// One cycle. With `submitters` None, `requests` are job ads as `condor_q -long` lists them.
    #[pyo3(signature = (slots, requests, submitters, knobs, accounting, now))]
    #[allow(clippy::too_many_arguments)] // What Python passes; taken apart at once.
    fn run(
        &self,
        py: Python<'_>,
        slots: &Bound<'_, PyAdTable>,
        requests: &Bound<'_, PyAdTable>,
        submitters: Option<&Bound<'_, PyAdTable>>,
        knobs: &CycleKnobs,
        accounting: &Bound<'_, PyDict>,
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
            let plan = Plan::make(&slots, &requests, config);
            let demand = match submitters {
                None => Demand::from_jobs(&requests, &plan, config, now)?,
                Some(table) => Demand::from_requests(&requests, &table.read(), &plan, config, now)?,
            };
            let demand = if config.selection.global_job_prios {
                demand.split_by_priority()
            } else {
                demand
            };
            let snapshot = Snapshot {
                slots: &slots,
                demand: &demand,
                accounts: &accounts,
                plan: &plan,
            };
            let ingest_s = clock.seconds();
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = run_cycle(&snapshot, config, &mut memory, now, &clock);
            let slot_keys = Keys::of(&slots, outcome.matches.iter().map(|m| m.row));
            let reserved_keys = Keys::of(&slots, outcome.reservations.iter().map(|r| r.row));
            let request_keys = Keys::of(&requests, demand.requests.iter().map(|r| r.row));
            let significant = ::negotiator::request::significant_attributes(&plan, config);
            let match_exprs = &config.selection.match_exprs;
            let match_exprs = match_exprs.iter().map(|(name, _)| name.clone()).collect();
            Ok::<_, CycleError>(CycleOutcome {
                outcome,
                demand,
                slot_keys,
                reserved_keys,
                request_keys,
                significant,
                match_exprs,
                plan_s: ingest_s,
            })
        });
        made.map_err(|error| refused(py, &error))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a snapshot, as Python passes them"
    )]
    /// Why a job does not run: clauses with counts of slots, and what became of slots that match.
    #[allow(clippy::too_many_arguments)] // What Python passes; taken apart at once.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        slots: &Bound<'_, PyAdTable>,
        jobs: &Bound<'_, PyAdTable>,
        job: &Bound<'_, PyAd>,
        knobs: &CycleKnobs,
        accounting: &Bound<'_, PyDict>,
        now: i64,
    ) -> PyResult<Bound<'py, PyDict>> {
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
        let out = PyDict::new(py);
        let told = &view.explanation;
        out.set_item("submitter", &view.submitter)?;
        out.set_item("slots", told.rows)?;
        out.set_item("job_accepts", told.job_accepts)?;
        out.set_item("slot_accepts", told.slot_accepts)?;
        out.set_item("matches", told.matches)?;
        let clauses = PyList::empty(py);
        for clause in &told.job_clauses {
            let row = PyDict::new(py);
            row.set_item("clause", &clause.text)?;
            row.set_item("passes", clause.passes)?;
            row.set_item("without", clause.without)?;
            clauses.append(row)?;
        }
        out.set_item("clauses", clauses)?;
        out.set_item("refused_by", told.refused_by.clone())?;
        out.set_item("excluded", view.excluded)?;
        out.set_item("free", view.free)?;
        out.set_item("held_by_submitter", view.held_by_submitter)?;
        out.set_item("preemptable", view.preemptable)?;
        out.set_item("protected", view.protected)?;
        out.set_item("offline", view.offline)?;
        out.set_item("trimmed", view.trimmed.clone())?;
        Ok(out)
    }
}

fn accounts_from(given: &Bound<'_, PyDict>, now: i64) -> PyResult<Accounts> {
    let mut accounts = Accounts::default();
    if let Some(records) = field::<Bound<'_, PyDict>>(given, "records")? {
        for (name, record) in records {
            let record = record_from(record.cast::<PyDict>()?, now)?;
            accounts.records.insert(name.extract()?, record);
        }
    }
    if let Some(times) = field::<Bound<'_, PyDict>>(given, "remainder_times")? {
        for (name, time) in times {
            accounts
                .remainder_times
                .insert(name.extract()?, time.extract()?);
        }
    }
    if let Some(kept) = field::<Bound<'_, PyList>>(given, "reservations")? {
        for one in kept {
            let (slot, submitter, job, starts_at) = one.extract()?;
            accounts.reservations.push(Kept {
                slot,
                submitter,
                job,
                starts_at,
            });
        }
    }
    Ok(accounts)
}

/// What a cycle decided.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct CycleOutcome {
    outcome: Outcome,
    demand: Demand,
    slot_keys: Keys,
    reserved_keys: Keys,
    request_keys: Keys,
    significant: Vec<String>,
    match_exprs: Vec<String>,
    plan_s: f64,
}

fn slot_counts<'py>(py: Python<'py>, counts: &SlotCounts) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("protected", counts.protected)?;
    out.set_item("prefer_running", counts.prefer_running)?;
    out.set_item("too_heavy", counts.too_heavy)?;
    out.set_item("limited", counts.limited)?;
    Ok(out)
}

#[pymethods]
impl CycleOutcome {
    fn __len__(&self) -> usize {
        self.outcome.matches.len()
    }

    /// Matches as dictionaries, in the order they were made.
    fn matches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for (made, slot) in self.outcome.matches.iter().zip(self.slot_keys.iter()) {
            let row = PyDict::new(py);
            let request = &self.demand.requests[made.request as usize];
            let submitter = &self.demand.submitters[request.submitter];
            row.set_item("job", made.job.map(|j| j.to_string()))?;
            row.set_item("slot", slot)?;
            row.set_item("request", self.request_keys.get(made.request as usize))?;
            row.set_item("autocluster", request.autocluster)?;
            row.set_item("submitter", &submitter.name)?;
            row.set_item("schedd", &submitter.schedd)?;
            row.set_item("rank", made.rank)?;
            row.set_item("cost", made.cost)?;
            let carve = PyDict::new(py);
            for (name, amount) in &made.carve {
                carve.set_item(name.to_text(), amount)?;
            }
            row.set_item("carve", carve)?;
            row.set_item("preempts", made.preempted.as_ref().map(|p| p.user.as_str()))?;
            row.set_item("preemption", made.preempted.as_ref().map(|p| p.kind.name()))?;
            let evicted = made.preempted.as_ref().map(|p| p.dynamic_slots.clone());
            row.set_item("evicts", evicted.unwrap_or_default())?;
            row.set_item("offline", made.offline)?;
            row.set_item("claimable", !made.unclaimable)?;
            row.set_item("limits", made.limits.as_deref())?;
            row.set_item("group", &self.outcome.groups[made.group as usize].name)?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// Matches as columns: (job cluster, job proc, rank, cost) as native-endian bytes, and slots.
    fn match_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let matches = &self.outcome.matches;
        let out = PyDict::new(py);
        let mut cluster = Vec::with_capacity(matches.len() * 4);
        let mut proc = Vec::with_capacity(matches.len() * 4);
        let mut rank = Vec::with_capacity(matches.len() * 8);
        let mut cost = Vec::with_capacity(matches.len() * 8);
        let mut request = Vec::with_capacity(matches.len() * 4);
        for made in matches {
            let (c, p) = made.job.map_or((-1, -1), |job| (job.cluster, job.proc));
            cluster.extend_from_slice(&c.to_ne_bytes());
            proc.extend_from_slice(&p.to_ne_bytes());
            rank.extend_from_slice(&made.rank.to_ne_bytes());
            cost.extend_from_slice(&made.cost.to_ne_bytes());
            request.extend_from_slice(&made.request.to_ne_bytes());
        }
        out.set_item("cluster", PyBytes::new(py, &cluster))?;
        out.set_item("proc", PyBytes::new(py, &proc))?;
        out.set_item("rank", PyBytes::new(py, &rank))?;
        out.set_item("cost", PyBytes::new(py, &cost))?;
        out.set_item("request", PyBytes::new(py, &request))?;
        out.set_item("slot", self.slot_keys.iter().collect::<Vec<_>>())?;
        let preempts = matches
            .iter()
            .map(|m| m.preempted.as_ref().map(|p| p.user.clone()));
        out.set_item("preempts", preempts.collect::<Vec<_>>())?;
        let names: Vec<&str> = self
            .demand
            .requests
            .iter()
            .map(|r| self.demand.submitters[r.submitter].name.as_str())
            .collect();
        out.set_item("request_submitter", names)?;
        let labels: Vec<String> = self
            .demand
            .requests
            .iter()
            .map(|r| r.first_job.to_string())
            .collect();
        out.set_item("request_autocluster", labels)?;
        Ok(out)
    }

    /// Rejections by autocluster and reason.
    fn rejections<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for rejection in &self.outcome.rejections {
            let request = &self.demand.requests[rejection.request as usize];
            let submitter = &self.demand.submitters[request.submitter];
            let row = PyDict::new(py);
            row.set_item("autocluster", request.first_job.to_string())?;
            row.set_item("autocluster_id", request.autocluster)?;
            row.set_item("submitter", &submitter.name)?;
            row.set_item("schedd", &submitter.schedd)?;
            row.set_item("request", self.request_keys.get(rejection.request as usize))?;
            row.set_item("reason", rejection.reason.to_string())?;
            row.set_item("count", rejection.count)?;
            row.set_item("slots", slot_counts(py, &rejection.slots)?)?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// Requests: first job, autocluster, submitter, jobs where they are named.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for (request, key) in self.demand.requests.iter().zip(self.request_keys.iter()) {
            let row = PyDict::new(py);
            row.set_item("request", key)?;
            row.set_item("autocluster", request.first_job.to_string())?;
            row.set_item("autocluster_id", request.autocluster)?;
            row.set_item("submitter", &self.demand.submitters[request.submitter].name)?;
            row.set_item("schedd", &self.demand.submitters[request.submitter].schedd)?;
            row.set_item("count", request.count)?;
            row.set_item(
                "jobs",
                request
                    .jobs
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// Submitters with share, limit and matches.
    fn submitters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for report in &self.outcome.submitters {
            let row = PyDict::new(py);
            row.set_item("name", &report.name)?;
            row.set_item("group", &report.group)?;
            row.set_item("priority", report.priority)?;
            row.set_item("factor", report.factor)?;
            row.set_item("effective_priority", report.priority * report.factor)?;
            row.set_item("share", report.share)?;
            row.set_item("limit", report.limit)?;
            row.set_item("matched", report.matched)?;
            row.set_item("usage", report.usage)?;
            row.set_item(
                "held_back",
                report.held_back.map(|(why, count)| (why.text(), count)),
            )?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// Groups with quota, allocation and usage.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for report in &self.outcome.groups {
            let row = PyDict::new(py);
            row.set_item("name", &report.name)?;
            row.set_item("quota", report.quota)?;
            row.set_item("config_quota", report.config_quota)?;
            row.set_item("static", report.is_static)?;
            row.set_item("subtree_quota", report.subtree_quota)?;
            row.set_item("requested", report.requested)?;
            row.set_item("allocated", report.allocated)?;
            row.set_item("usage", report.usage)?;
            row.set_item("matched", report.matched)?;
            let policy = match (report.autoregroup, report.accept_surplus) {
                (true, _) => "regroup",
                (false, true) => "byquota",
                (false, false) => "no",
            };
            row.set_item("surplus", policy)?;
            row.set_item("sort_key", report.sort_key)?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// Machines kept for large requests.
    fn reservations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for (kept, slot) in self
            .outcome
            .reservations
            .iter()
            .zip(self.reserved_keys.iter())
        {
            let row = PyDict::new(py);
            row.set_item(
                "job",
                self.demand.requests[kept.request as usize]
                    .first_job
                    .to_string(),
            )?;
            row.set_item("slot", slot)?;
            row.set_item("starts_at", kept.starts_at)?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// Accounting state to be stored.
    fn accounting<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let records = PyDict::new(py);
        let mut names: Vec<&String> = self.outcome.records.keys().collect();
        names.sort_unstable();
        for name in names {
            records.set_item(name, record_to(py, &self.outcome.records[name])?)?;
        }
        let out = PyDict::new(py);
        out.set_item("records", records)?;
        let times: std::collections::BTreeMap<_, _> = self.outcome.remainder_times.iter().collect();
        out.set_item("remainder_times", times)?;
        let kept = PyList::empty(py);
        for (one, slot) in self
            .outcome
            .reservations
            .iter()
            .zip(self.reserved_keys.iter())
        {
            let request = &self.demand.requests[one.request as usize];
            let submitter = &self.demand.submitters[request.submitter].name;
            kept.append((
                slot,
                submitter,
                request.first_job.to_string(),
                one.starts_at,
            ))?;
        }
        out.set_item("reservations", kept)?;
        Ok(out)
    }

    /// Counts for the negotiator ad.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let s = &self.outcome.statistics;
        let out = PyDict::new(py);
        out.set_item("total_slots", s.total_slots)?;
        out.set_item("trimmed_slots", s.trimmed_slots)?;
        out.set_item("candidate_slots", s.candidate_slots)?;
        out.set_item("slot_classes", s.slot_classes)?;
        out.set_item("rounds", s.rounds)?;
        out.set_item("pies", s.pies)?;
        out.set_item("spins", s.spins)?;
        out.set_item("jobs_considered", s.jobs_considered)?;
        out.set_item("idle_jobs", s.idle_jobs)?;
        out.set_item("matches", self.outcome.matches.len())?;
        out.set_item("rejections", s.rejections)?;
        out.set_item("active_submitters", s.active_submitters)?;
        out.set_item("active_schedds", s.active_schedds)?;
        out.set_item("pool_weight", s.pool_weight)?;
        out.set_item("submitters_out_of_time", &s.submitters_out_of_time)?;
        out.set_item("schedds_out_of_time", &s.schedds_out_of_time)?;
        out.set_item("submitters_share_limit", &s.submitters_share_limit)?;
        Ok(out)
    }

    /// Seconds by phase.
    fn timings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let t = &self.outcome.timings;
        let out = PyDict::new(py);
        out.set_item("prepare_s", t.prepare_s + self.plan_s)?;
        out.set_item("sort_s", t.sort_s)?;
        out.set_item("match_s", t.match_s)?;
        out.set_item("total_s", t.total_s + self.plan_s)?;
        Ok(out)
    }

    /// What was ignored, and why.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.outcome.warnings.clone()
    }

    /// Job attributes the cycle looked at: to be sent to access points.
    #[getter]
    fn significant_attributes(&self) -> Vec<String> {
        self.significant.clone()
    }

    /// Attributes of NEGOTIATOR_MATCH_EXPRS.
    #[getter]
    fn match_expressions(&self) -> Vec<String> {
        self.match_exprs.clone()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CycleKnobs>()?;
    module.add_class::<CycleEngine>()?;
    module.add_class::<CycleOutcome>()?;
    Ok(())
}
