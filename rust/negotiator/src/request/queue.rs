//! Job ads as a queue lists them: whose they are, their order, and what the cycle reads of them.

use crate::config::CycleConfig;
use crate::dependencies::{Dependencies, JOB_FACTS};
use crate::error::CycleError;
use crate::hash::hash_words;
use crate::own_values::{own_number, own_text};
use crate::request::JobId;
use classad::{Ad, Context, Expr, Name, Value, evaluate};
use columns::{AdTable, ColumnId, Row};

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

/// The name under which a submitter is served: with the group that the user map GROUP_PREFIX gives its domain.
pub(super) fn in_group(submitter: String, now: i64) -> String {
    let Some((_, domain)) = submitter.rsplit_once('@') else {
        return submitter;
    };
    let text = |s: &str| Expr::Lit(Value::str(s));
    let call = Expr::call("userMap", vec![text("GROUP_PREFIX"), text(domain)]);
    let context = Context {
        now,
        ..Context::default()
    };
    match evaluate(&call, &context).as_str() {
        Some(group) => format!("{}.{submitter}", String::from_utf8_lossy(group)),
        None => submitter,
    }
}

/// What is read of each job or request: the attributes the cycle looks at.
pub(super) struct Reader<'t> {
    table: &'t AdTable,
    kept: Vec<(Name, ColumnId)>,
    seen: Vec<ColumnId>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(table: &'t AdTable, dependencies: &Dependencies) -> Self {
        let all: Vec<ColumnId> = table.column_ids().collect();
        let known = |column: &ColumnId| dependencies.names.contains(table.column_name(*column));
        let tells = |column: &ColumnId| {
            let name = table.column_name(*column);
            dependencies.job_names.contains(name) || !dependencies.unbounded && known(column)
        };
        let seen: Vec<ColumnId> = all.iter().copied().filter(tells).collect();
        let own = |column: &ColumnId| {
            let name = table.column_name(*column);
            JOB_FACTS
                .iter()
                .chain(&REQUEST_FACTS)
                .any(|fact| name.is(fact))
        };
        let kept = all
            .into_iter()
            .filter(|column| known(column) || own(column));
        Self {
            table,
            kept: kept
                .map(|column| (table.column_name(column).clone(), column))
                .collect(),
            seen,
        }
    }

    /// The job, without what nobody looks at.
    pub(super) fn ad(&self, row: Row) -> Ad {
        let mut ad = Ad::with_capacity(self.kept.len());
        for (name, column) in &self.kept {
            if let Some(expr) = self.table.expr_at(row, *column) {
                ad.insert(name.clone(), expr);
            }
        }
        ad
    }

    /// Hash of everything of a job that the cycle can see.
    pub(super) fn signature(&self, row: Row) -> u128 {
        hash_words(
            self.seen
                .iter()
                .map(|column| self.table.cell(row, *column).word()),
        )
    }
}

pub(super) fn passes(jobs: &AdTable, row: Row, config: &CycleConfig, now: i64) -> bool {
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
pub(super) struct JobFacts {
    pub(super) id: JobId,
    pub(super) submitter: String,
    pub(super) schedd: String,
    pub(super) status: i64,
    pub(super) wants_matching: bool,
    pub(super) weight: f64,
    /// The five priorities, highest first; jobs alike in all go by their ids.
    pub(super) order: [f64; 5],
}

impl JobFacts {
    pub(super) fn read(jobs: &AdTable, row: Row, now: i64) -> Result<Self, CycleError> {
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
            ],
        })
    }
}
