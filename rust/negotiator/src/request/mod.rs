//! What is asked for: submitters and their requests, in the order they are served.

mod demand;
mod queue;
mod significant;

pub use queue::submitter_of;
pub use significant::significant_attributes;

use crate::config::CycleConfig;
use crate::own_values::{own_number, own_text, own_value};
use classad::{Ad, Context, Expr, Value, evaluate};
use columns::Row;
use fairshare::{LimitRequest, parse_limits};

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

fn limit_spec(ad: &Ad, now: i64) -> LimitSpec {
    // An expression that gives a string without a slot is as good as the string.
    if let Some(text) = own_text(ad, "ConcurrencyLimits", now) {
        let text = text.to_ascii_lowercase();
        return LimitSpec::Fixed(parse_limits(&text), text);
    }
    match ad.get_str("ConcurrencyLimits") {
        None | Some(Expr::Lit(_)) => LimitSpec::None,
        Some(expr) => LimitSpec::BySlot(expr.clone()),
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

impl Submitter {
    /// What an access point would advertise of it.
    fn ad(&self) -> Ad {
        let mut ad = Ad::new();
        let mut set = |name: &str, value: Value| {
            ad.set(name, Expr::Lit(value));
        };
        set("MyType", Value::str("Submitter"));
        set("Name", Value::str(self.name.as_str()));
        set("ScheddName", Value::str(self.schedd.as_str()));
        for (name, amount) in [("IdleJobs", self.idle), ("RunningJobs", self.running)] {
            set(name, Value::Int(amount as i64));
        }
        set("WeightedIdleJobs", Value::Real(self.weighted_idle));
        set("WeightedRunningJobs", Value::Real(self.weighted_running));
        ad
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
            limits: limit_spec(&ad, now),
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
