//! What is asked for: submitters and their requests, in the order they are served.

use crate::config::CycleConfig;
use crate::error::CycleError;
use crate::index::hash_words;
use crate::plan::{JOB_FACTS, Plan};
use crate::slot::{own_number, own_text, own_value};
use classad::{Ad, Context, Expr, Name, Value, evaluate};
use columns::{AdTable, ColumnId, Row};
use fairshare::{LimitRequest, parse_limits};
use rustc_hash::FxHashMap;

/// Attributes that never make jobs different (they change all the time or mean nothing to a match).
const NEVER_SIGNIFICANT: [&str; 16] = [
    "CurrentTime",
    "LastHeardFrom",
    "TotalJobRunTime",
    "MachineLastMatchTime",
    "JobCurrentStartDate",
    "JobState",
    "Mips",
    "KFlops",
    "SlotID",
    "DSlotId",
    "PartitionableSlot",
    "DynamicSlot",
    "Offline",
    "PelicanPluginVersion",
    "SubmittorPrio",
    "SubmitterUserPrio",
];

/// What a request says of itself.
const REQUEST_FACTS: [&str; 8] = [
    "Submitter",
    "ScheddName",
    "RequestOrder",
    "ResourceRequestCount",
    "AutoClusterId",
    "ClusterId",
    "ProcId",
    "JobPrio",
];

/// A job's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    /// ClusterId.
    pub cluster: i32,
    /// ProcId.
    pub proc: i32,
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.cluster, self.proc)
    }
}

/// Concurrency limits of a request.
#[derive(Debug, Clone)]
pub enum LimitSpec {
    /// Asks for none.
    None,
    /// The same for every slot.
    Fixed(Vec<LimitRequest>, String),
    /// Depends on the slot.
    BySlot(Expr),
}

/// A number of like jobs of one submitter.
#[derive(Debug, Clone)]
pub struct Request {
    /// Index of the submitter entry.
    pub submitter: usize,
    /// Row of the representative in the table of jobs or requests.
    pub row: Row,
    /// The representative job.
    pub ad: Ad,
    /// Like jobs, in the order they are served. A request from an access
    /// point names only the first and has `count` of them.
    pub jobs: Vec<JobId>,
    /// How many.
    pub count: u32,
    /// Number that like requests of a submitter share.
    pub autocluster: i64,
    /// First job of the autocluster: its name in reports.
    pub first_job: JobId,
    /// JobPrio.
    pub priority: i64,
    /// Concurrency limits.
    pub limits: LimitSpec,
    /// Equal for requests that no expression of the cycle can tell apart.
    pub signature: u128,
}

/// One submitter at one access point.
#[derive(Debug, Clone, Default)]
pub struct Submitter {
    /// Accounting name.
    pub name: String,
    /// Name of the access point.
    pub schedd: String,
    /// Its contact address; may be empty.
    pub address: String,
    /// Idle and running jobs.
    pub idle: f64,
    /// Running jobs.
    pub running: f64,
    /// Weight of idle jobs.
    pub weighted_idle: f64,
    /// Weight of running jobs.
    pub weighted_running: f64,
    /// When the ad was heard of: spreads equals.
    pub last_heard_from: i64,
    /// Seconds already spent on it in this cycle (fetching).
    pub time_used_s: f64,
    /// Requests in the order they are served.
    pub requests: Vec<usize>,
    /// With USE_GLOBAL_JOB_PRIOS: the job priorities it is limited to.
    pub priorities: Option<(i64, i64)>,
}

/// Submitters and requests of a cycle.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    /// One entry per submitter and access point.
    pub submitters: Vec<Submitter>,
    /// All requests.
    pub requests: Vec<Request>,
}

/// Accounting name of a job: AccountingGroup, else AcctGroup with its user, else Owner; with the domain of User.
#[must_use]
pub fn submitter_of(ad: &Ad, now: i64) -> Option<String> {
    let text = |name: &str| own_text(ad, name, now).filter(|t| !t.is_empty());
    let user = text("User");
    let owner = || {
        let local = user
            .as_deref()
            .map(|u| u.rsplit_once('@').map_or(u, |(l, _)| l).to_owned());
        text("Owner").or(local)
    };
    let name = match (text("AccountingGroup"), text("AcctGroup")) {
        (Some(name), _) => name,
        (None, Some(group)) => {
            format!("{group}.{}", text("AcctGroupUser").or_else(owner)?)
        }
        (None, None) => text("AcctGroupUser").or_else(owner)?,
    };
    if name.contains('@') {
        return Some(name);
    }
    let domain = user.as_deref().map_or("", fairshare::names::domain_of);
    Some(format!("{name}@{domain}"))
}

/// Names that decide whether jobs are alike.
fn significant(plan: &Plan, jobs: &AdTable, config: &CycleConfig) -> Vec<Name> {
    let removed = |name: &Name| {
        let lower = name.to_text().to_ascii_lowercase();
        NEVER_SIGNIFICANT
            .iter()
            .any(|n| n.eq_ignore_ascii_case(&lower))
            || config.selection.removed_significant.contains(&lower)
            || is_slot_prefixed(&lower)
    };
    let mut names: Vec<Name> = plan
        .job_names
        .iter()
        .filter(|n| !removed(n))
        .cloned()
        .collect();
    for fact in JOB_FACTS {
        let name = Name::from(fact);
        if !plan.names.contains(&name) {
            names.push(name);
        }
    }
    names.retain(|name| jobs.column_id(name).is_some());
    names.sort_by(Name::print_cmp);
    names
}

fn is_slot_prefixed(lower: &str) -> bool {
    lower.strip_prefix("slot").is_some_and(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && rest[digits..].starts_with('_')
    })
}

/// Job attributes the cycle looks at, to be sent to access points.
#[must_use]
pub fn significant_attributes(plan: &Plan, config: &CycleConfig) -> Vec<String> {
    let mut names: Vec<String> = plan
        .job_names
        .iter()
        .map(|n| n.to_text().into_owned())
        .filter(|n| {
            let lower = n.to_ascii_lowercase();
            !NEVER_SIGNIFICANT.iter().any(|x| x.eq_ignore_ascii_case(n))
                && !config.selection.removed_significant.contains(&lower)
                && !is_slot_prefixed(&lower)
                && !lower.starts_with("remote")
        })
        .collect();
    names.sort_unstable_by_key(|n| n.to_ascii_lowercase());
    names
}

fn limit_spec(ad: &Ad) -> LimitSpec {
    match ad.get_str("ConcurrencyLimits") {
        None => LimitSpec::None,
        Some(Expr::Lit(Value::Str(text))) => {
            let text = text.to_text().to_ascii_lowercase();
            LimitSpec::Fixed(parse_limits(&text), text)
        }
        Some(Expr::Lit(_)) => LimitSpec::None,
        Some(expr) => LimitSpec::BySlot(expr.clone()),
    }
}

/// One idle job while they are sorted.
struct Idle {
    entry: usize,
    order: [f64; 6],
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
        plan: &Plan,
        config: &CycleConfig,
        now: i64,
    ) -> Result<Self, CycleError> {
        let names = significant(plan, jobs, config);
        let columns: Vec<_> = names.iter().filter_map(|n| jobs.column_id(n)).collect();
        let mut demand = Self::default();
        let mut entries: FxHashMap<(String, String), usize> = FxHashMap::default();
        let mut idle = Vec::new();
        for row in jobs.rows() {
            let job = JobFacts::read(jobs, row, now)?;
            if !job.wants_matching || !passes(jobs, row, config, now) {
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
        demand.merge(jobs, &idle, config, plan);
        Ok(demand)
    }

    fn merge(&mut self, jobs: &AdTable, idle: &[Idle], config: &CycleConfig, plan: &Plan) {
        let mut numbers: FxHashMap<(usize, u128), (i64, JobId)> = FxHashMap::default();
        let by_priority = config.selection.global_job_prios;
        let reader = Reader::new(jobs, plan);
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
                limits: limit_spec(&ad),
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
        plan: &Plan,
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
        let reader = Reader::new(requests, plan);
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

    /// With USE_GLOBAL_JOB_PRIOS: one entry per job priority, each with its own requests.
    #[must_use]
    pub fn split_by_priority(mut self) -> Self {
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

impl Submitter {
    /// Reads a submitter ad; `None` for one that takes no part.
    #[must_use]
    pub fn read(ad: &Ad, config: &CycleConfig, now: i64) -> Option<Self> {
        let name = own_text(ad, "Name", now)?;
        if name.is_empty() || name.chars().any(char::is_whitespace) {
            return None;
        }
        let number = |attr: &str| own_number(ad, attr, now);
        let (idle, running) = (
            number("IdleJobs").unwrap_or(0.0),
            number("RunningJobs").unwrap_or(0.0),
        );
        let skipped = own_value(ad, "SkipMatchmaking", now).is_true();
        let context = Context {
            my: Some(ad),
            now,
            ..Context::default()
        };
        let wanted = config.selection.submitter_constraint.as_ref();
        if skipped
            || idle + running <= 0.0
            || wanted.is_some_and(|e| !evaluate(e, &context).is_true())
        {
            return None;
        }
        Some(Self {
            name,
            schedd: own_text(ad, "ScheddName", now).unwrap_or_default(),
            address: own_text(ad, "ScheddIpAddr", now).unwrap_or_default(),
            idle,
            running,
            weighted_idle: number("WeightedIdleJobs").unwrap_or(idle),
            weighted_running: number("WeightedRunningJobs").unwrap_or(running),
            last_heard_from: number("LastHeardFrom").unwrap_or(0.0) as i64,
            time_used_s: number("TotalTimeInCycle").unwrap_or(0.0),
            requests: Vec::new(),
            priorities: None,
        })
    }
}

impl Request {
    fn read(entry: usize, row: Row, ad: Ad, signature: u128, now: i64) -> Self {
        let number = |name: &str| own_number(&ad, name, now);
        let id = JobId {
            cluster: number("ClusterId").unwrap_or(0.0) as i32,
            proc: number("ProcId").unwrap_or(0.0) as i32,
        };
        Self {
            submitter: entry,
            row,
            jobs: vec![id],
            count: number("ResourceRequestCount").unwrap_or(1.0).max(0.0) as u32,
            autocluster: number("AutoClusterId").unwrap_or(f64::from(id.cluster)) as i64,
            first_job: id,
            priority: number("JobPrio").unwrap_or(0.0) as i64,
            limits: limit_spec(&ad),
            signature,
            ad,
        }
    }

    /// The `n`-th job of the request, if it is named.
    #[must_use]
    pub fn job(&self, n: usize) -> Option<JobId> {
        self.jobs.get(n).copied()
    }
}

/// What is read of each job or request: the attributes the cycle looks at.
struct Reader<'t> {
    table: &'t AdTable,
    kept: Vec<(Name, ColumnId)>,
    seen: Vec<ColumnId>,
}

impl<'t> Reader<'t> {
    fn new(table: &'t AdTable, plan: &Plan) -> Self {
        let all = 0..table.column_count() as ColumnId;
        let known = |column: &ColumnId| {
            let name = table.column_name(*column);
            plan.unbounded || plan.names.contains(name)
        };
        let seen: Vec<ColumnId> = all.clone().filter(known).collect();
        let own = |column: &ColumnId| {
            let name = table.column_name(*column);
            JOB_FACTS
                .iter()
                .chain(&REQUEST_FACTS)
                .any(|fact| name.is(fact))
        };
        let kept = all.filter(|column| known(column) || own(column));
        Self {
            table,
            kept: kept
                .map(|column| (table.column_name(column).clone(), column))
                .collect(),
            seen,
        }
    }

    /// The job, without what nobody looks at.
    fn ad(&self, row: Row) -> Ad {
        let mut ad = Ad::with_capacity(self.kept.len());
        for (name, column) in &self.kept {
            if let Some(expr) = self.table.expr_at(row, *column) {
                ad.insert(name.clone(), expr);
            }
        }
        ad
    }

    /// Hash of everything of a job that the cycle can see.
    fn signature(&self, row: Row) -> u128 {
        hash_words(
            self.seen
                .iter()
                .map(|column| self.table.cell(row, *column).word()),
        )
    }
}

fn passes(jobs: &AdTable, row: Row, config: &CycleConfig, now: i64) -> bool {
    let Some(constraint) = &config.selection.job_constraint else {
        return true;
    };
    let ad = jobs.ad(row);
    let context = Context {
        my: Some(&ad),
        now,
        ..Context::default()
    };
    evaluate(constraint, &context).is_true()
}

/// What of a job decides its place in the queue.
struct JobFacts {
    id: JobId,
    submitter: String,
    schedd: String,
    status: i64,
    wants_matching: bool,
    weight: f64,
    order: [f64; 6],
}

impl JobFacts {
    fn read(jobs: &AdTable, row: Row, now: i64) -> Result<Self, CycleError> {
        let names = [
            "User",
            "Owner",
            "AccountingGroup",
            "AcctGroup",
            "AcctGroupUser",
            "GlobalJobId",
            "ClusterId",
            "ProcId",
            "JobStatus",
            "JobUniverse",
            "JobPrio",
            "PreJobPrio1",
            "PreJobPrio2",
            "PostJobPrio1",
            "PostJobPrio2",
            "QDate",
        ];
        let mut ad = Ad::with_capacity(names.len());
        for name in names {
            let name = Name::from(name);
            if let Some(expr) = jobs.column_id(&name).and_then(|c| jobs.expr_at(row, c)) {
                ad.insert(name, expr);
            }
        }
        let number = |name: &str| own_number(&ad, name, now);
        let bad = |problem: &str| CycleError::BadInput {
            what: "job",
            name: String::from_utf8_lossy(jobs.key(row)).into_owned(),
            problem: problem.to_owned(),
        };
        let id = match (number("ClusterId"), number("ProcId")) {
            (Some(cluster), proc) => JobId {
                cluster: cluster as i32,
                proc: proc.unwrap_or(0.0) as i32,
            },
            _ => return Err(bad("has no ClusterId")),
        };
        let submitter = submitter_of(&ad, now).ok_or_else(|| bad("has neither Owner nor User"))?;
        let schedd = own_text(&ad, "GlobalJobId", now);
        let universe = number("JobUniverse").unwrap_or(5.0) as i64;
        let down = |name: &str| -number(name).unwrap_or(0.0);
        let request =
            jobs.column_named("RequestCpus")
                .and_then(|c| match jobs.expr_at(row, c)? {
                    Expr::Lit(value) => value.as_number(),
                    _ => own_number(&jobs.ad(row), "RequestCpus", now),
                });
        Ok(Self {
            id,
            submitter,
            schedd: schedd
                .and_then(|g| g.split('#').next().map(str::to_owned))
                .unwrap_or_default(),
            status: number("JobStatus").unwrap_or(1.0) as i64,
            wants_matching: !matches!(universe, 7 | 9 | 12),
            weight: request.unwrap_or(1.0),
            order: [
                down("PreJobPrio1"),
                down("PreJobPrio2"),
                down("JobPrio"),
                down("PostJobPrio1"),
                down("PostJobPrio2"),
                number("QDate").unwrap_or(0.0),
            ],
        })
    }
}
