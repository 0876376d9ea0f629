//! What a cycle decided, told to Python in bulk.

use ::negotiator::Demand;
use ::negotiator::outcome::{Outcome, SlotCounts};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::accounts::record_to;
use crate::keys::Keys;

/// What a cycle decided.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct CycleOutcome {
    pub(super) outcome: Outcome,
    pub(super) demand: Demand,
    pub(super) slot_keys: Keys,
    pub(super) reserved_keys: Keys,
    /// Of all claims that reservations wait for, one list after the other.
    pub(super) waited_keys: Keys,
    /// Of all claims in excess, one list after the other.
    pub(super) excess_keys: Keys,
    pub(super) request_keys: Keys,
    pub(super) significant: Vec<String>,
    pub(super) match_exprs: Vec<String>,
    pub(super) plan_s: f64,
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

    /// Requests that were neither served to their end nor rejected, and why.
    fn waiting<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        for waiting in &self.outcome.waiting {
            let request = &self.demand.requests[waiting.request as usize];
            let row = PyDict::new(py);
            row.set_item("autocluster", request.first_job.to_string())?;
            row.set_item("submitter", &self.demand.submitters[request.submitter].name)?;
            row.set_item("request", self.request_keys.get(waiting.request as usize))?;
            row.set_item("reason", waiting.reason)?;
            row.set_item("count", waiting.count)?;
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
        let mut claims = self.waited_keys.iter();
        for (kept, slot) in self
            .outcome
            .reservations
            .iter()
            .zip(self.reserved_keys.iter())
        {
            let row = PyDict::new(py);
            let request = &self.demand.requests[kept.request as usize];
            row.set_item("job", request.first_job.to_string())?;
            row.set_item("slot", slot)?;
            row.set_item("submitter", &self.demand.submitters[request.submitter].name)?;
            row.set_item("starts_at", kept.starts_at)?;
            row.set_item("gives_up_at", kept.gives_up_at)?;
            let slots: Vec<&str> = claims.by_ref().take(kept.claims.len()).collect();
            row.set_item("claims", slots)?;
            out.append(row)?;
        }
        Ok(out)
    }

    /// What submitters are to give back between jobs: submitter, schedd, slots, their weights, weight to give back.
    fn excess<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        let mut keys = self.excess_keys.iter();
        for one in &self.outcome.excess {
            let slots: Vec<&str> = keys.by_ref().take(one.claims.len()).collect();
            let weights: Vec<f64> = one.claims.iter().map(|(_, weight)| *weight).collect();
            let row = PyDict::new(py);
            row.set_item("submitter", &one.user)?;
            row.set_item("schedd", &one.schedd)?;
            row.set_item("slots", slots)?;
            row.set_item("weights", weights)?;
            row.set_item("weight", one.weight)?;
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
                one.gives_up_at,
                false,
            ))?;
        }
        for one in &self.outcome.given_up {
            kept.append((
                &one.slot,
                &one.submitter,
                &one.job,
                one.starts_at,
                one.gives_up_at,
                true,
            ))?;
        }
        out.set_item("reservations", kept)?;
        let entitled = PyDict::new(py);
        for (name, weight) in &self.outcome.entitled {
            entitled.set_item(name, weight)?;
        }
        out.set_item("entitled", entitled)?;
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
