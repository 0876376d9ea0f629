//! From job ads, or requests of access points, to submitters and their requests.

use super::queue::{JobFacts, Reader, in_group, passes, submitter_of};
use super::significant::significant;
use super::{Demand, JobId, Request, Submitter, limit_spec};
use crate::config::CycleConfig;
use crate::dependencies::Dependencies;
use crate::error::CycleError;
use crate::hash::hash_words;
use crate::own_values::{own_number, own_text};
use classad::Ad;
use columns::{AdTable, Row};
use rustc_hash::FxHashMap;

/// One idle job while they are sorted.
struct Idle {
    entry: usize,
    order: [f64; 5],
    id: JobId,
    key: u128,
    row: Row,
}

impl Demand {
    /// Sorts idle jobs (as `condor_q -long` lists them) into submitters and requests.
    ///
    /// # Errors
    /// [`CycleError::BadInput`] for a job without owner or ids.
    pub fn from_jobs(
        jobs: &AdTable,
        dependencies: &Dependencies,
        config: &CycleConfig,
        now: i64,
    ) -> Result<Self, CycleError> {
        let names = significant(dependencies, jobs, config);
        let columns: Vec<_> = names.iter().filter_map(|n| jobs.column_id(n)).collect();
        let mut demand = Self::default();
        let mut entries: FxHashMap<(String, String), usize> = FxHashMap::default();
        let mut idle = Vec::new();
        for row in jobs.rows() {
            let mut job = JobFacts::read(jobs, row, now)?;
            if config.selection.group_prefix {
                job.submitter = in_group(job.submitter, now);
            }
            if !job.wants_matching {
                continue;
            }
            let key = (job.submitter.clone(), job.schedd.clone());
            let entry = *entries.entry(key).or_insert_with(|| {
                demand.submitters.push(Submitter {
                    name: job.submitter.clone(),
                    schedd: job.schedd.clone(),
                    ..Submitter::default()
                });
                demand.submitters.len() - 1
            });
            let submitter = &mut demand.submitters[entry];
            if job.status == 2 {
                submitter.running += 1.0;
                submitter.weighted_running += job.weight;
            } else if job.status == 1 {
                submitter.idle += 1.0;
                submitter.weighted_idle += job.weight;
                // Jobs that may not be matched are demand like others: access points count all they have.
                if !passes(jobs, row, config, now) {
                    continue;
                }
                let key = hash_words(columns.iter().map(|c| jobs.cell(row, *c).word()));
                idle.push(Idle {
                    entry,
                    order: job.order,
                    id: job.id,
                    key,
                    row,
                });
            }
        }
        demand.keep_wanted(&mut idle, config, now);
        idle.sort_by(|a, b| {
            let by_order = || a.order.iter().zip(&b.order).map(|(x, y)| x.total_cmp(y));
            a.entry
                .cmp(&b.entry)
                .then_with(|| {
                    by_order()
                        .find(|o| o.is_ne())
                        .unwrap_or(std::cmp::Ordering::Equal)
                })
                .then_with(|| a.id.cmp(&b.id))
        });
        demand.merge(jobs, &idle, config, dependencies, now);
        Ok(demand)
    }

    /// Drops submitters that take no part: those without idle or running jobs, and those that
    /// NEGOTIATOR_SUBMITTER_CONSTRAINT leaves out, as their ads would say it.
    fn keep_wanted(&mut self, idle: &mut Vec<Idle>, config: &CycleConfig, now: i64) {
        let mut place = Vec::with_capacity(self.submitters.len());
        let mut kept = Vec::new();
        for submitter in std::mem::take(&mut self.submitters) {
            let wanted = submitter.idle + submitter.running > 0.0
                && (config.selection.submitter_constraint.is_none()
                    || Submitter::read(&submitter.ad(), config, now).is_some());
            place.push(wanted.then_some(kept.len()));
            kept.extend(wanted.then_some(submitter));
        }
        self.submitters = kept;
        idle.retain_mut(|job| match place[job.entry] {
            Some(entry) => {
                job.entry = entry;
                true
            }
            None => false,
        });
    }

    fn merge(
        &mut self,
        jobs: &AdTable,
        idle: &[Idle],
        config: &CycleConfig,
        dependencies: &Dependencies,
        now: i64,
    ) {
        let mut numbers: FxHashMap<(usize, u128), (i64, JobId)> = FxHashMap::default();
        let by_priority = config.selection.global_job_prios;
        let reader = Reader::new(jobs, dependencies);
        let same = |a: &Idle, b: &Idle| {
            a.entry == b.entry && a.key == b.key && (!by_priority || a.order[2] == b.order[2])
        };
        for run in idle.chunk_by(same) {
            let first = &run[0];
            let next = numbers.len() as i64 + 1;
            let (autocluster, first_job) = *numbers
                .entry((first.entry, first.key))
                .or_insert((next, first.id));
            let ad = reader.ad(first.row);
            self.submitters[first.entry]
                .requests
                .push(self.requests.len());
            self.requests.push(Request {
                submitter: first.entry,
                limits: limit_spec(&ad, now),
                signature: reader.signature(first.row),
                row: first.row,
                ad,
                jobs: run.iter().map(|job| job.id).collect(),
                count: run.len() as u32,
                autocluster,
                first_job,
                priority: -first.order[2] as i64,
            });
        }
    }

    /// Takes request ads of access points: representative jobs with ResourceRequestCount, AutoClusterId, Submitter and ScheddName.
    ///
    /// `submitters` are submitter ads; a request of a submitter without an ad is an error.
    ///
    /// # Errors
    /// [`CycleError::BadInput`].
    pub fn from_requests(
        requests: &AdTable,
        submitters: &AdTable,
        dependencies: &Dependencies,
        config: &CycleConfig,
        now: i64,
    ) -> Result<Self, CycleError> {
        let mut demand = Self::default();
        let mut entries: FxHashMap<(String, String), usize> = FxHashMap::default();
        for row in submitters.rows() {
            let ad = submitters.ad(row);
            let Some(entry) = Submitter::read(&ad, config, now) else {
                continue;
            };
            entries.insert(
                (entry.name.clone(), entry.schedd.clone()),
                demand.submitters.len(),
            );
            demand.submitters.push(entry);
        }
        let reader = Reader::new(requests, dependencies);
        let mut rows: Vec<(usize, i64, Row, Ad)> = Vec::new();
        for row in requests.rows() {
            if !passes(requests, row, config, now) {
                continue;
            }
            let ad = reader.ad(row);
            let name = own_text(&ad, "Submitter", now)
                .or_else(|| submitter_of(&requests.ad(row), now))
                .unwrap_or_default();
            let schedd = own_text(&ad, "ScheddName", now).unwrap_or_default();
            let Some(entry) = entries.get(&(name, schedd)) else {
                continue;
            };
            let order = own_number(&ad, "RequestOrder", now).unwrap_or(f64::from(row));
            rows.push((*entry, order as i64, row, ad));
        }
        rows.sort_by_key(|(entry, order, row, _)| (*entry, *order, *row));
        for (entry, _, row, ad) in rows {
            let request = Request::read(entry, row, ad, reader.signature(row), now);
            demand.submitters[entry]
                .requests
                .push(demand.requests.len());
            demand.requests.push(request);
        }
        Ok(demand)
    }

    /// With USE_GLOBAL_JOB_PRIOS: one entry per job priority, each with its own requests; of `most` priorities at most.
    #[must_use]
    pub fn split_by_priority(mut self, most: usize) -> Self {
        let old = std::mem::take(&mut self.submitters);
        for entry in old {
            let mut by_priority: FxHashMap<i64, Vec<usize>> = FxHashMap::default();
            for request in &entry.requests {
                by_priority
                    .entry(self.requests[*request].priority)
                    .or_default()
                    .push(*request);
            }
            let mut priorities: Vec<i64> = by_priority.keys().copied().collect();
            priorities.sort_unstable_by(|a, b| b.cmp(a));
            if priorities.is_empty() {
                self.submitters.push(entry);
                continue;
            }
            let unserved = priorities.split_off(most.min(priorities.len()));
            let last = self.submitters.len() + priorities.len() - 1;
            for request in unserved.iter().flat_map(|p| &by_priority[p]) {
                self.requests[*request].submitter = last;
            }
            for (at, priority) in priorities.iter().enumerate() {
                let requests = by_priority.remove(priority).unwrap_or_default();
                for request in &requests {
                    self.requests[*request].submitter = self.submitters.len();
                }
                let mut part = Submitter {
                    requests,
                    priorities: Some((*priority, *priority)),
                    ..entry.clone()
                };
                if at > 0 {
                    // Demand of the submitter counts once.
                    part.running = 0.0;
                    part.weighted_running = 0.0;
                    part.weighted_idle = 0.0;
                }
                self.submitters.push(part);
            }
        }
        self
    }
}
