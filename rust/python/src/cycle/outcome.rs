//! What a cycle decided, told to Python in bulk.

use std::collections::BTreeMap;

use ::negotiator::outcome::{self, Outcome};
use ::negotiator::{Demand, request};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::accounts::{KeptParts, record_to};
use super::rows::{
    Amounts, CycleStatistics, Excess, Group, KeptMachine, Match, MatchColumns, Rejection, Request,
    SlotCounts, Submitter, Waiting,
};
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

/// Accounting state as it crosses the boundary: records, times of remainder slots, kept machines (slot, submitter,
/// job, expected start, giving up, given up), and what submitters are entitled to.
type Accounting<'py> = (
    Bound<'py, PyDict>,
    BTreeMap<String, f64>,
    Vec<KeptParts>,
    BTreeMap<String, f64>,
);

fn owned<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<String> {
    keys.map(str::to_owned).collect()
}

impl CycleOutcome {
    fn request_of(&self, at: u32) -> (&request::Request, &request::Submitter) {
        let request = &self.demand.requests[at as usize];
        (request, &self.demand.submitters[request.submitter])
    }

    fn match_row(&self, made: &outcome::Match, slot: &str) -> Match {
        let (request, submitter) = self.request_of(made.request);
        let preempted = made.preempted.as_ref();
        let carve = made.carve.iter();
        Match {
            job: made.job.map(|job| job.to_string()),
            slot: slot.to_owned(),
            request: self.request_keys.get(made.request as usize).to_owned(),
            autocluster: request.autocluster,
            submitter: submitter.name.clone(),
            schedd: submitter.schedd.clone(),
            rank: made.rank,
            cost: made.cost,
            carve: Amounts(
                carve
                    .map(|(name, amount)| (name.to_text().into_owned(), *amount))
                    .collect(),
            ),
            preempts: preempted.map(|claim| claim.user.clone()),
            preemption: preempted.map(|claim| claim.kind.name().to_owned()),
            evicts: preempted.map_or_else(Vec::new, |claim| claim.dynamic_slots.clone()),
            offline: made.offline,
            claimable: !made.unclaimable,
            limits: made.limits.clone(),
            group: self.outcome.groups[made.group as usize].name.clone(),
        }
    }
}

#[pymethods]
impl CycleOutcome {
    fn __len__(&self) -> usize {
        self.outcome.matches.len()
    }

    /// Matches in the order they were made.
    fn matches(&self) -> Vec<Match> {
        let rows = self.outcome.matches.iter().zip(self.slot_keys.iter());
        rows.map(|(made, slot)| self.match_row(made, slot))
            .collect()
    }

    /// Matches as columns.
    fn match_columns(&self) -> MatchColumns {
        let matches = &self.outcome.matches;
        let (mut cluster, mut proc) = (Vec::new(), Vec::new());
        for made in matches {
            let (c, p) = made.job.map_or((-1, -1), |job| (job.cluster, job.proc));
            cluster.extend_from_slice(&c.to_ne_bytes());
            proc.extend_from_slice(&p.to_ne_bytes());
        }
        let preempted = |made: &outcome::Match| made.preempted.as_ref().map(|p| p.user.clone());
        let requests = &self.demand.requests;
        MatchColumns {
            cluster,
            proc,
            rank: matches.iter().flat_map(|m| m.rank.to_ne_bytes()).collect(),
            cost: matches.iter().flat_map(|m| m.cost.to_ne_bytes()).collect(),
            request: matches
                .iter()
                .flat_map(|m| m.request.to_ne_bytes())
                .collect(),
            slot: self.slot_keys.iter().map(str::to_owned).collect(),
            preempts: matches.iter().map(preempted).collect(),
            request_submitter: requests
                .iter()
                .map(|r| self.demand.submitters[r.submitter].name.clone())
                .collect(),
            request_autocluster: requests.iter().map(|r| r.first_job.to_string()).collect(),
        }
    }

    /// Rejections by autocluster and reason.
    fn rejections(&self) -> Vec<Rejection> {
        let row = |rejection: &outcome::Rejection| {
            let (request, submitter) = self.request_of(rejection.request);
            let slots = &rejection.slots;
            Rejection {
                autocluster: request.first_job.to_string(),
                autocluster_id: request.autocluster,
                submitter: submitter.name.clone(),
                schedd: submitter.schedd.clone(),
                request: self.request_keys.get(rejection.request as usize).to_owned(),
                reason: rejection.reason.to_string(),
                count: rejection.count,
                slots: SlotCounts {
                    protected: slots.protected,
                    prefer_running: slots.prefer_running,
                    too_heavy: slots.too_heavy,
                    limited: slots.limited,
                },
            }
        };
        self.outcome.rejections.iter().map(row).collect()
    }

    /// Requests that were neither served to their end nor rejected, and why.
    fn waiting(&self) -> Vec<Waiting> {
        let row = |waiting: &outcome::Waiting| {
            let (request, submitter) = self.request_of(waiting.request);
            Waiting {
                autocluster: request.first_job.to_string(),
                submitter: submitter.name.clone(),
                request: self.request_keys.get(waiting.request as usize).to_owned(),
                reason: waiting.reason.to_owned(),
                count: waiting.count,
            }
        };
        self.outcome.waiting.iter().map(row).collect()
    }

    /// Requests in the order they were served.
    fn requests(&self) -> Vec<Request> {
        let rows = self.demand.requests.iter().zip(self.request_keys.iter());
        rows.map(|(request, key)| {
            let submitter = &self.demand.submitters[request.submitter];
            Request {
                request: key.to_owned(),
                autocluster: request.first_job.to_string(),
                autocluster_id: request.autocluster,
                submitter: submitter.name.clone(),
                schedd: submitter.schedd.clone(),
                count: request.count,
                jobs: request.jobs.iter().map(ToString::to_string).collect(),
            }
        })
        .collect()
    }

    /// Submitters with share, limit and matches.
    fn submitters(&self) -> Vec<Submitter> {
        let row = |report: &outcome::SubmitterReport| Submitter {
            name: report.name.clone(),
            group: report.group.clone(),
            priority: report.priority,
            factor: report.factor,
            effective_priority: report.priority * report.factor,
            share: report.share,
            limit: report.limit,
            matched: report.matched,
            usage: report.usage,
            held_back: report
                .held_back
                .map(|(why, count)| (why.text().to_owned(), count)),
        };
        self.outcome.submitters.iter().map(row).collect()
    }

    /// Groups with quota, allocation and usage.
    fn groups(&self) -> Vec<Group> {
        let row = |report: &outcome::GroupReport| Group {
            name: report.name.clone(),
            quota: report.quota,
            config_quota: report.config_quota,
            r#static: report.is_static,
            subtree_quota: report.subtree_quota,
            requested: report.requested,
            allocated: report.allocated,
            usage: report.usage,
            matched: report.matched,
            surplus: match (report.autoregroup, report.accept_surplus) {
                (true, _) => "regroup",
                (false, true) => "byquota",
                (false, false) => "no",
            }
            .to_owned(),
            sort_key: report.sort_key,
        };
        self.outcome.groups.iter().map(row).collect()
    }

    /// Machines kept for large requests.
    fn reservations(&self) -> Vec<KeptMachine> {
        let mut claims = self.waited_keys.iter();
        let kept = self.outcome.reservations.iter();
        kept.zip(self.reserved_keys.iter())
            .map(|(kept, slot)| {
                let (request, submitter) = self.request_of(kept.request);
                KeptMachine {
                    job: request.first_job.to_string(),
                    slot: slot.to_owned(),
                    submitter: submitter.name.clone(),
                    starts_at: kept.starts_at,
                    gives_up_at: kept.gives_up_at,
                    claims: owned(claims.by_ref().take(kept.claims.len())),
                }
            })
            .collect()
    }

    /// What submitters are to give back between jobs.
    fn excess(&self) -> Vec<Excess> {
        let mut keys = self.excess_keys.iter();
        let row = |one: &outcome::Excess| Excess {
            submitter: one.user.clone(),
            schedd: one.schedd.clone(),
            slots: owned(keys.by_ref().take(one.claims.len())),
            weights: one.claims.iter().map(|(_, weight)| *weight).collect(),
            weight: one.weight,
        };
        self.outcome.excess.iter().map(row).collect()
    }

    /// Accounting state to be stored, in the form that `CycleEngine.run` takes.
    fn accounting<'py>(&self, py: Python<'py>) -> PyResult<Accounting<'py>> {
        let records = PyDict::new(py);
        let mut names: Vec<&String> = self.outcome.records.keys().collect();
        names.sort_unstable();
        for name in names {
            records.set_item(name, record_to(py, &self.outcome.records[name])?)?;
        }
        let times: BTreeMap<_, _> = self.outcome.remainder_times.clone().into_iter().collect();
        let kept = self.outcome.reservations.iter();
        let kept = kept.zip(self.reserved_keys.iter()).map(|(one, slot)| {
            let (request, submitter) = self.request_of(one.request);
            let job = request.first_job.to_string();
            let submitter = submitter.name.clone();
            let slot = slot.to_owned();
            (slot, submitter, job, one.starts_at, one.gives_up_at, false)
        });
        let given_up = self.outcome.given_up.iter().map(|one| {
            let (slot, submitter, job) = (&one.slot, &one.submitter, &one.job);
            let names = (slot.clone(), submitter.clone(), job.clone());
            (
                names.0,
                names.1,
                names.2,
                one.starts_at,
                one.gives_up_at,
                true,
            )
        });
        let reservations = kept.chain(given_up).collect();
        let entitled = self.outcome.entitled.clone().into_iter().collect();
        Ok((records, times, reservations, entitled))
    }

    /// Counts for the negotiator ad.
    fn statistics(&self) -> CycleStatistics {
        let s = &self.outcome.statistics;
        CycleStatistics {
            total_slots: s.total_slots,
            trimmed_slots: s.trimmed_slots,
            candidate_slots: s.candidate_slots,
            slot_classes: s.slot_classes,
            rounds: s.rounds,
            pies: s.pies,
            spins: s.spins,
            jobs_considered: s.jobs_considered,
            idle_jobs: s.idle_jobs,
            matches: self.outcome.matches.len(),
            rejections: s.rejections,
            active_submitters: s.active_submitters,
            active_schedds: s.active_schedds,
            pool_weight: s.pool_weight,
            submitters_out_of_time: s.submitters_out_of_time.clone(),
            schedds_out_of_time: s.schedds_out_of_time.clone(),
            submitters_share_limit: s.submitters_share_limit.clone(),
        }
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
