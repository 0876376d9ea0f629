//! From knob values to the configuration of a cycle.

use super::{
    CycleConfig, PartitionPolicy, PreemptionPolicy, SelectionPolicy, SharePolicy, TimeLimits,
};
use crate::error::CycleError;
use classad::{Context, Expr, Syntax, Value, evaluate, parse_expr};
use fairshare::{FactorPolicy, GroupSetting, LimitPolicy, QuotaSetting};
use rustc_hash::FxHashMap;

/// Default of `NEGOTIATOR_PRE_JOB_RANK`: slots that prefer the job, free slots, small slots.
const PRE_JOB_RANK: &str = "(10000000 * My.Rank) + (1000000 * (RemoteOwner =?= UNDEFINED)) \
     - (100000 * Cpus) - Memory";
/// Default of `NEGOTIATOR_POST_JOB_RANK`: fast free slots that are awake.
const POST_JOB_RANK: &str = "(RemoteOwner =?= UNDEFINED) * \
     (ifThenElse(isUndefined(KFlops), 1000, KFlops) - SlotID - 1.0e10 * (Offline =?= True))";
/// Default of `PREEMPTION_RANK`: users with a bad priority, jobs that have run least.
const PREEMPTION_RANK: &str =
    "(RemoteUserPrio * 1000000) - ifThenElse(isUndefined(TotalJobRuntime), 0, TotalJobRuntime)";
/// Default of `GROUP_SORT_EXPR`: most starved group first, the root last.
const GROUP_SORT_EXPR: &str = "ifThenElse(AccountingGroup =?= \"<none>\", 3.4e+38, \
     ifThenElse(GroupQuota > 0, GroupResourcesInUse / GroupQuota, 3.3e+38))";

/// Knob values by upper-case name, already expanded.
pub struct Knobs<'k>(&'k FxHashMap<String, String>);

impl<'k> Knobs<'k> {
    /// Wraps a map whose keys are upper case.
    #[must_use]
    pub fn new(values: &'k FxHashMap<String, String>) -> Self {
        Self(values)
    }

    fn text(&self, knob: &str) -> Option<&'k str> {
        let value = self.0.get(&knob.to_ascii_uppercase())?.trim();
        (!value.is_empty()).then_some(value)
    }

    fn expr(&self, knob: &str, default: &str) -> Result<Expr, CycleError> {
        let value = self.text(knob).unwrap_or(default);
        parse(knob, value)
    }

    /// An expression that is switched off by setting it to nothing: then it is `off`.
    fn policy(&self, knob: &str, default: &str, off: Value) -> Result<Expr, CycleError> {
        match self.0.get(&knob.to_ascii_uppercase()) {
            Some(value) if value.trim().is_empty() => Ok(Expr::Lit(off)),
            _ => self.expr(knob, default),
        }
    }

    fn optional_expr(&self, knob: &str) -> Result<Option<Expr>, CycleError> {
        self.text(knob).map(|value| parse(knob, value)).transpose()
    }

    fn value(&self, knob: &str) -> Result<Option<Value>, CycleError> {
        let Some(expr) = self.optional_expr(knob)? else {
            return Ok(None);
        };
        Ok(Some(evaluate(&expr, &Context::default())))
    }

    fn boolean(&self, knob: &str, default: bool) -> Result<bool, CycleError> {
        let Some(text) = self.text(knob) else {
            return Ok(default);
        };
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "t" | "y" => return Ok(true),
            "false" | "no" | "f" | "n" => return Ok(false),
            _ => {}
        }
        let value = self.value(knob)?;
        value
            .and_then(|v| v.truth())
            .ok_or_else(|| bad(knob, text, "is neither true nor false"))
    }

    fn number(&self, knob: &str, default: f64) -> Result<f64, CycleError> {
        Ok(self.optional_number(knob)?.unwrap_or(default))
    }

    fn optional_number(&self, knob: &str) -> Result<Option<f64>, CycleError> {
        let Some(text) = self.text(knob) else {
            return Ok(None);
        };
        let value = match text.parse::<f64>() {
            Ok(number) => Some(number),
            Err(_) => self.value(knob)?.and_then(|v| v.as_number()),
        };
        value
            .filter(|number| !number.is_nan())
            .map(Some)
            .ok_or_else(|| bad(knob, text, "is not a number"))
    }
}

fn bad(knob: &str, value: &str, problem: &str) -> CycleError {
    CycleError::BadKnob {
        knob: knob.to_owned(),
        value: value.to_owned(),
        problem: problem.to_owned(),
    }
}

fn parse(knob: &str, text: &str) -> Result<Expr, CycleError> {
    parse_expr(text.as_bytes(), Syntax::OLD)
        .map_err(|e| bad(knob, text, &e.render(text.as_bytes())))
}

impl CycleConfig {
    /// Reads the knobs; what is not set has the reference's default.
    ///
    /// # Errors
    /// [`CycleError::BadKnob`] for a value that cannot be used.
    pub fn from_knobs(knobs: &Knobs<'_>) -> Result<Self, CycleError> {
        Ok(Self {
            negotiator_name: knobs.text("NEGOTIATOR_NAME").unwrap_or("").to_owned(),
            time: TimeLimits {
                cycle_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_CYCLE", 1200.0)?,
                submitter_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_SUBMITTER", 60.0)?,
                schedd_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_SCHEDD", 120.0)?,
                spin_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_PIESPIN", 120.0)?,
            },
            preemption: preemption(knobs)?,
            selection: selection(knobs)?,
            partition: partition(knobs)?,
            share: share(knobs)?,
            limits: limits(knobs)?,
            interval_s: knobs.number("NEGOTIATOR_INTERVAL", 60.0)? as i64,
        })
    }
}

fn preemption(knobs: &Knobs<'_>) -> Result<PreemptionPolicy, CycleError> {
    Ok(PreemptionPolicy {
        consider: knobs.boolean("NEGOTIATOR_CONSIDER_PREEMPTION", true)?,
        consider_early: knobs.boolean("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION", false)?,
        requirements: knobs.policy("PREEMPTION_REQUIREMENTS", "False", Value::Bool(true))?,
        requirements_stable: knobs.boolean("PREEMPTION_REQUIREMENTS_STABLE", true)?,
        rank: if knobs.boolean("NEGOTIATOR_IGNORE_JOB_RANKS", false)? {
            // Slots are in order before any job is known, and none is preempted then.
            Expr::Lit(Value::Undefined)
        } else {
            knobs.policy("PREEMPTION_RANK", PREEMPTION_RANK, Value::Undefined)?
        },
        rank_stable: knobs.boolean("PREEMPTION_RANK_STABLE", true)?,
        partitionable: knobs.boolean("ALLOW_PSLOT_PREEMPTION", false)?,
    })
}

fn selection(knobs: &Knobs<'_>) -> Result<SelectionPolicy, CycleError> {
    let mut match_exprs = Vec::new();
    for name in words(knobs.text("NEGOTIATOR_MATCH_EXPRS").unwrap_or("")) {
        let Some(expr) = knobs.optional_expr(name)? else {
            continue;
        };
        let prefix = "NegotiatorMatchExpr";
        let prefixed = name.len() >= prefix.len()
            && name.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes());
        let attribute = if prefixed {
            name.to_owned()
        } else {
            format!("{prefix}{name}")
        };
        match_exprs.push((attribute, expr));
    }
    let mut given_to_slots = match_exprs.clone();
    given_to_slots.push(("MachineMatchCount".to_owned(), Expr::Lit(Value::Int(0))));
    given_to_slots.push(("OfflineMatches".to_owned(), Expr::Lit(Value::Undefined)));
    let removed = knobs
        .text("REMOVE_SIGNIFICANT_ATTRIBUTES")
        .unwrap_or("CpusUsage, DiskUsage, GPUsUsage, MemoryUsage, ResidentSetSize");
    Ok(SelectionPolicy {
        pre_job_rank: knobs.policy("NEGOTIATOR_PRE_JOB_RANK", PRE_JOB_RANK, Value::Undefined)?,
        post_job_rank: knobs.policy("NEGOTIATOR_POST_JOB_RANK", POST_JOB_RANK, Value::Undefined)?,
        ignore_job_ranks: knobs.boolean("NEGOTIATOR_IGNORE_JOB_RANKS", false)?,
        slot_constraint: knobs.optional_expr("NEGOTIATOR_SLOT_CONSTRAINT")?,
        pool_constraint: match knobs.optional_expr("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT")? {
            Some(expr) => Some(expr),
            None => knobs.optional_expr("GROUP_DYNAMIC_MACH_CONSTRAINT")?,
        },
        job_constraint: knobs.optional_expr("NEGOTIATOR_JOB_CONSTRAINT")?,
        submitter_constraint: knobs.optional_expr("NEGOTIATOR_SUBMITTER_CONSTRAINT")?,
        match_exprs,
        given_to_slots,
        group_prefix: words(
            knobs
                .text("NEGOTIATOR_CLASSAD_USER_MAP_NAMES")
                .unwrap_or(""),
        )
        .any(|name| name.eq_ignore_ascii_case("GROUP_PREFIX")),
        match_working_cm: knobs.boolean("MATCH_WORKING_CM_SLOTS", false)?,
        shutdown_threshold_s: knobs.number("NEGOTIATOR_TRIM_SHUTDOWN_THRESHOLD", 0.0)? as i64,
        cross_slot_prios: knobs.boolean("NEGOTIATOR_CROSS_SLOT_PRIOS", false)?,
        global_job_prios: knobs.boolean("USE_GLOBAL_JOB_PRIOS", false)?,
        global_job_prios_max: knobs.number("MAX_GLOBAL_JOB_PRIOS", 500.0)?.max(1.0) as usize,
        removed_significant: words(removed).map(str::to_ascii_lowercase).collect(),
        removed_pattern: knobs
            .text("REMOVE_SIGNIFICANT_ATTRIBUTES_REGEX")
            .map(str::to_owned),
    })
}

fn partition(knobs: &Knobs<'_>) -> Result<PartitionPolicy, CycleError> {
    let mut carve = FxHashMap::default();
    for (resource, default) in [
        ("cpus", "quantize(RequestCpus, {1})"),
        ("memory", "quantize(RequestMemory, {128})"),
        ("disk", "quantize(RequestDisk, {1024})"),
    ] {
        let knob = format!(
            "MODIFY_REQUEST_EXPR_REQUEST{}",
            resource.to_ascii_uppercase()
        );
        carve.insert(resource.to_owned(), knobs.expr(&knob, default)?);
    }
    for (name, value) in knobs.0 {
        if let Some(resource) = name.strip_prefix("MODIFY_REQUEST_EXPR_REQUEST")
            && !value.trim().is_empty()
        {
            carve.insert(resource.to_ascii_lowercase(), parse(name, value)?);
        }
    }
    Ok(PartitionPolicy {
        many_matches: knobs.boolean("NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT", true)?,
        depth_first: knobs.boolean("NEGOTIATOR_DEPTH_FIRST", false)?,
        carve,
        reserve: knobs.boolean("NEGOTIATOR_RESERVE_FOR_LARGE_JOBS", false)?,
        reserve_max: knobs.number("NEGOTIATOR_RESERVATION_MAX", 1.0)?.max(0.0) as usize,
    })
}

fn share(knobs: &Knobs<'_>) -> Result<SharePolicy, CycleError> {
    let defaults = FactorPolicy::default();
    let rounds = match knobs.optional_number("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS")? {
        Some(rounds) => rounds,
        None => knobs.number("HFS_MAX_ALLOCATION_ROUNDS", 3.0)?,
    };
    let rate = match knobs.optional_number("GROUP_QUOTA_ROUND_ROBIN_RATE")? {
        Some(rate) => rate,
        None => knobs.number("HFS_ROUND_ROBIN_RATE", 1e100)?,
    };
    Ok(SharePolicy {
        half_life_s: knobs.number("PRIORITY_HALFLIFE", 86400.0)?,
        factors: FactorPolicy {
            default: knobs.number("DEFAULT_PRIO_FACTOR", defaults.default)?,
            nice_user_group: knobs
                .text("NICE_USER_ACCOUNTING_GROUP_NAME")
                .unwrap_or(&defaults.nice_user_group)
                .to_owned(),
            nice_user: knobs.number("NICE_USER_PRIO_FACTOR", defaults.nice_user)?,
            local_domain: knobs
                .text("ACCOUNTANT_LOCAL_DOMAIN")
                .unwrap_or("")
                .to_owned(),
            remote: knobs.number("REMOTE_PRIO_FACTOR", defaults.remote)?,
        },
        weighted: knobs.boolean("NEGOTIATOR_USE_SLOT_WEIGHTS", true)?,
        slot_weight: knobs.expr("SLOT_WEIGHT", "Cpus")?,
        force_slot_weight: knobs.boolean("FORCE_NEGOTIATOR_SLOT_WEIGHT", false)?,
        discount_suspended: knobs.boolean("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES", false)?,
        ignore_priorities: knobs.boolean("NEGOTIATOR_IGNORE_USER_PRIORITIES", false)?,
        groups: groups(knobs)?,
        surplus_by_default: knobs.boolean("GROUP_ACCEPT_SURPLUS", false)?,
        regroup_by_default: knobs.boolean("GROUP_AUTOREGROUP", false)?,
        group_sort: knobs.expr("GROUP_SORT_EXPR", GROUP_SORT_EXPR)?,
        allocation_rounds: rounds.max(1.0) as u32,
        round_robin_rate: rate.max(1.0),
        oversubscribe: knobs.boolean("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION", true)?,
        strict_quota: knobs.boolean("NEGOTIATOR_STRICT_ENFORCE_QUOTA", true)?,
        between_jobs: knobs.boolean("SLOTWISE_CLAIM_FAIR_SHARE", true)?,
        weighted_demand: knobs.boolean("NEGOTIATOR_USE_WEIGHTED_DEMAND", true)?,
    })
}

fn groups(knobs: &Knobs<'_>) -> Result<Vec<GroupSetting>, CycleError> {
    let surplus = knobs.boolean("GROUP_ACCEPT_SURPLUS", false)?;
    let regroup = knobs.boolean("GROUP_AUTOREGROUP", false)?;
    let mut out = Vec::new();
    for name in words(knobs.text("GROUP_NAMES").unwrap_or("")) {
        let fixed = knobs.optional_number(&format!("GROUP_QUOTA_{name}"))?;
        let dynamic = knobs.optional_number(&format!("GROUP_QUOTA_DYNAMIC_{name}"))?;
        let quota = match (fixed, dynamic) {
            (Some(weight), _) if weight >= 0.0 => QuotaSetting::Static(weight),
            (_, Some(fraction)) if (0.0..=1.0).contains(&fraction) => {
                QuotaSetting::Dynamic(fraction)
            }
            (None, Some(fraction)) => {
                let knob = format!("GROUP_QUOTA_DYNAMIC_{name}");
                return Err(bad(&knob, &fraction.to_string(), "is not between 0 and 1"));
            }
            _ => QuotaSetting::Dynamic(0.0),
        };
        out.push(GroupSetting {
            name: name.to_owned(),
            quota,
            accept_surplus: knobs.boolean(&format!("GROUP_ACCEPT_SURPLUS_{name}"), surplus)?,
            autoregroup: knobs.boolean(&format!("GROUP_AUTOREGROUP_{name}"), regroup)?,
            prio_factor: knobs.number(&format!("GROUP_PRIO_FACTOR_{name}"), 0.0)?,
        });
    }
    Ok(out)
}

fn limits(knobs: &Knobs<'_>) -> Result<LimitPolicy, CycleError> {
    let mut policy = LimitPolicy::default();
    policy.default = knobs.number("CONCURRENCY_LIMIT_DEFAULT", policy.default)?;
    for name in knobs.0.keys() {
        if let Some(group) = name.strip_prefix("CONCURRENCY_LIMIT_DEFAULT_") {
            let value = knobs.number(name, policy.default)?;
            policy
                .group_defaults
                .insert(group.to_ascii_lowercase(), value);
        } else if let Some(limit) = name.strip_suffix("_LIMIT") {
            // Other daemons have knobs that end alike; only numbers can be limits.
            if let Ok(Some(value)) = knobs.optional_number(name) {
                policy.named.insert(limit.to_ascii_lowercase(), value);
            }
        }
    }
    Ok(policy)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
}
