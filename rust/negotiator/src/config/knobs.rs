//! From knob values to the configuration of a cycle.

use super::{
    CycleConfig, PartitionPolicy, PreemptionPolicy, SelectionPolicy, SharePolicy, TimeLimits,
};
use crate::error::CycleError;
use ::config::set::{Origin, RUNTIME};
use ::config::source::Nothing;
use ::config::{ConfigError, MacroSet, View};
use classad::{Expr, Syntax, Value, parse_expr};
use fairshare::{FactorPolicy, GroupSetting, LimitPolicy, QuotaSetting};
use rustc_hash::FxHashMap;

/// The knobs of a cycle: values that are already expanded, and the knob table's defaults for all others.
pub struct Knobs {
    set: MacroSet,
    world: Nothing,
}

impl Knobs {
    /// The given values, by name in any case.
    #[must_use]
    pub fn new(values: &FxHashMap<String, String>) -> Self {
        let mut set = MacroSet::default();
        let origin = Origin {
            source: RUNTIME,
            ..Origin::default()
        };
        for (name, value) in values {
            set.insert(name, &value.replace('$', "$(DOLLAR)"), origin.clone());
        }
        Self {
            set,
            world: Nothing::default(),
        }
    }

    fn view(&self) -> View<'_> {
        View {
            set: &self.set,
            subsystem: Some("NEGOTIATOR"),
            local_name: None,
            source: &self.world,
        }
    }

    /// What stands between `prefix` and `suffix` in the names of the given values.
    fn given(&self, prefix: &str, suffix: &str) -> Vec<String> {
        let names = self.set.entries().iter().map(|entry| &entry.name);
        names
            .filter_map(|name| {
                let name = name.to_ascii_uppercase();
                let part = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
                (!part.is_empty()).then(|| part.to_owned())
            })
            .collect()
    }

    fn is_given(&self, knob: &str) -> bool {
        self.set
            .get(knob)
            .is_some_and(|entry| !entry.raw.trim().is_empty())
    }

    /// The text of a knob, or of its default; empty when there is neither.
    fn text(&self, knob: &str) -> Result<String, CycleError> {
        let text = self.view().text_or_default(knob);
        let text = text.map_err(|error| refused(knob, &error))?;
        Ok(text.unwrap_or_default().trim().to_owned())
    }

    fn expr(&self, knob: &str) -> Result<Option<Expr>, CycleError> {
        let text = self.text(knob)?;
        if text.is_empty() {
            return Ok(None);
        }
        parse(knob, &text).map(Some)
    }

    /// An expression that the table has a default for.
    fn policy(&self, knob: &str) -> Result<Expr, CycleError> {
        self.expr(knob)?.ok_or_else(|| missing(knob))
    }

    /// The same, which is switched off by setting it to nothing: then it is `off`.
    fn policy_or_off(&self, knob: &str, off: Value) -> Result<Expr, CycleError> {
        match self.set.get(knob) {
            Some(entry) if entry.raw.trim().is_empty() => Ok(Expr::Lit(off)),
            _ => self.policy(knob),
        }
    }

    fn boolean(&self, knob: &str) -> Result<bool, CycleError> {
        self.optional_boolean(knob)?.ok_or_else(|| missing(knob))
    }

    fn optional_boolean(&self, knob: &str) -> Result<Option<bool>, CycleError> {
        self.view()
            .boolean(knob)
            .map_err(|error| refused(knob, &error))
    }

    fn number(&self, knob: &str) -> Result<f64, CycleError> {
        self.optional_number(knob)?.ok_or_else(|| missing(knob))
    }

    /// A number; `None` when it is not set and the table has no default.
    fn optional_number(&self, knob: &str) -> Result<Option<f64>, CycleError> {
        let number = self
            .view()
            .real(knob)
            .map_err(|error| refused(knob, &error))?;
        match number {
            Some(number) if number.is_nan() => Err(bad(knob, "nan", "is not a number")),
            number => Ok(number),
        }
    }
}

fn missing(knob: &str) -> CycleError {
    bad(knob, "", "is not set, and has no default")
}

fn refused(knob: &str, error: &ConfigError) -> CycleError {
    CycleError::UnreadableKnob {
        knob: knob.to_owned(),
        problem: error.message.clone(),
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
    /// Reads the knobs; what is not set has the knob table's default.
    ///
    /// # Errors
    /// [`CycleError::BadKnob`] for a value that cannot be used.
    pub fn from_knobs(knobs: &Knobs) -> Result<Self, CycleError> {
        Ok(Self {
            negotiator_name: knobs.text("NEGOTIATOR_NAME")?,
            time: TimeLimits {
                cycle_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_CYCLE")?,
                submitter_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_SUBMITTER")?,
                schedd_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_SCHEDD")?,
                spin_s: knobs.number("NEGOTIATOR_MAX_TIME_PER_PIESPIN")?,
                steps_per_slot: knobs.number("SLOTWISE_NEGOTIATOR_STEPS_PER_SLOT")? as i64,
            },
            preemption: preemption(knobs)?,
            selection: selection(knobs)?,
            partition: partition(knobs)?,
            share: share(knobs)?,
            limits: limits(knobs)?,
            interval_s: knobs.number("NEGOTIATOR_INTERVAL")? as i64,
        })
    }
}

fn preemption(knobs: &Knobs) -> Result<PreemptionPolicy, CycleError> {
    Ok(PreemptionPolicy {
        consider: knobs.boolean("NEGOTIATOR_CONSIDER_PREEMPTION")?,
        consider_early: knobs.boolean("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION")?,
        requirements: knobs.policy_or_off("PREEMPTION_REQUIREMENTS", Value::Bool(true))?,
        requirements_stable: knobs.boolean("PREEMPTION_REQUIREMENTS_STABLE")?,
        rank: if knobs.boolean("NEGOTIATOR_IGNORE_JOB_RANKS")? {
            // Slots are in order before any job is known, and none is preempted then.
            Expr::Lit(Value::Undefined)
        } else {
            knobs.policy_or_off("PREEMPTION_RANK", Value::Undefined)?
        },
        rank_stable: knobs.boolean("PREEMPTION_RANK_STABLE")?,
        partitionable: knobs.boolean("ALLOW_PSLOT_PREEMPTION")?,
    })
}

fn selection(knobs: &Knobs) -> Result<SelectionPolicy, CycleError> {
    let mut match_exprs = Vec::new();
    for name in words(&knobs.text("NEGOTIATOR_MATCH_EXPRS")?) {
        let Some(expr) = knobs.expr(name)? else {
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
    let removed = knobs.text("REMOVE_SIGNIFICANT_ATTRIBUTES")?;
    let maps = knobs.text("NEGOTIATOR_CLASSAD_USER_MAP_NAMES")?;
    let removed_pattern = knobs.text("REMOVE_SIGNIFICANT_ATTRIBUTES_REGEX")?;
    Ok(SelectionPolicy {
        pre_job_rank: knobs.policy_or_off("NEGOTIATOR_PRE_JOB_RANK", Value::Undefined)?,
        post_job_rank: knobs.policy_or_off("NEGOTIATOR_POST_JOB_RANK", Value::Undefined)?,
        ignore_job_ranks: knobs.boolean("NEGOTIATOR_IGNORE_JOB_RANKS")?,
        slot_constraint: knobs.expr("NEGOTIATOR_SLOT_CONSTRAINT")?,
        pool_constraint: match knobs.expr("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT")? {
            Some(expr) => Some(expr),
            None => knobs.expr("GROUP_DYNAMIC_MACH_CONSTRAINT")?,
        },
        job_constraint: knobs.expr("NEGOTIATOR_JOB_CONSTRAINT")?,
        submitter_constraint: knobs.expr("NEGOTIATOR_SUBMITTER_CONSTRAINT")?,
        match_exprs,
        given_to_slots,
        group_prefix: words(&maps).any(|name| name.eq_ignore_ascii_case("GROUP_PREFIX")),
        match_working_cm: knobs.boolean("MATCH_WORKING_CM_SLOTS")?,
        shutdown_threshold_s: knobs.number("NEGOTIATOR_TRIM_SHUTDOWN_THRESHOLD")? as i64,
        cross_slot_prios: knobs.boolean("NEGOTIATOR_CROSS_SLOT_PRIOS")?,
        global_job_prios: knobs.boolean("USE_GLOBAL_JOB_PRIOS")?,
        global_job_prios_max: knobs.number("MAX_GLOBAL_JOB_PRIOS")?.max(1.0) as usize,
        removed_significant: words(&removed).map(str::to_ascii_lowercase).collect(),
        removed_pattern: Some(removed_pattern).filter(|pattern| !pattern.is_empty()),
    })
}

fn partition(knobs: &Knobs) -> Result<PartitionPolicy, CycleError> {
    let mut carve = FxHashMap::default();
    let of_machines = ["CPUS", "MEMORY", "DISK"].map(str::to_owned);
    let custom = knobs.given("MODIFY_REQUEST_EXPR_REQUEST", "");
    for resource in of_machines.into_iter().chain(custom) {
        if let Some(expr) = knobs.expr(&format!("MODIFY_REQUEST_EXPR_REQUEST{resource}"))? {
            carve.insert(resource.to_ascii_lowercase(), expr);
        }
    }
    Ok(PartitionPolicy {
        many_matches: knobs.boolean("NEGOTIATOR_MULTIPLE_MATCHES_PER_PSLOT")?,
        depth_first: knobs.boolean("NEGOTIATOR_DEPTH_FIRST")?,
        carve,
        reserve: knobs.boolean("NEGOTIATOR_RESERVE_FOR_LARGE_JOBS")?,
        reserve_wait_s: knobs.number("NEGOTIATOR_RESERVATION_MAX_WAIT")?.max(0.0),
        reserve_max: Some(knobs.number("NEGOTIATOR_RESERVATION_MAX")?)
            .filter(|most| *most >= 0.0)
            .map(|most| most as usize),
    })
}

fn share(knobs: &Knobs) -> Result<SharePolicy, CycleError> {
    // Names that two knobs had before; they hold where the present ones are not set.
    let rounds = match knobs.optional_number("HFS_MAX_ALLOCATION_ROUNDS")? {
        Some(rounds) if !knobs.is_given("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS") => rounds,
        _ => knobs.number("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS")?,
    };
    let rate = match knobs.optional_number("HFS_ROUND_ROBIN_RATE")? {
        Some(rate) if !knobs.is_given("GROUP_QUOTA_ROUND_ROBIN_RATE") => rate,
        _ => knobs.number("GROUP_QUOTA_ROUND_ROBIN_RATE")?,
    };
    Ok(SharePolicy {
        half_life_s: knobs.number("PRIORITY_HALFLIFE")?,
        factors: FactorPolicy {
            default: knobs.number("DEFAULT_PRIO_FACTOR")?,
            nice_user_group: knobs.text("NICE_USER_ACCOUNTING_GROUP_NAME")?,
            nice_user: knobs.number("NICE_USER_PRIO_FACTOR")?,
            local_domain: knobs.text("ACCOUNTANT_LOCAL_DOMAIN")?,
            remote: knobs.number("REMOTE_PRIO_FACTOR")?,
        },
        weighted: knobs.boolean("NEGOTIATOR_USE_SLOT_WEIGHTS")?,
        slot_weight: knobs.policy("SLOT_WEIGHT")?,
        force_slot_weight: knobs.boolean("FORCE_NEGOTIATOR_SLOT_WEIGHT")?,
        discount_suspended: knobs.boolean("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES")?,
        ignore_priorities: knobs.boolean("NEGOTIATOR_IGNORE_USER_PRIORITIES")?,
        groups: groups(knobs)?,
        surplus_by_default: knobs.boolean("GROUP_ACCEPT_SURPLUS")?,
        regroup_by_default: knobs.boolean("GROUP_AUTOREGROUP")?,
        group_sort: knobs.policy("GROUP_SORT_EXPR")?,
        allocation_rounds: rounds.max(1.0) as u32,
        round_robin_rate: rate.max(1.0),
        oversubscribe: knobs.boolean("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION")?,
        strict_quota: knobs.boolean("NEGOTIATOR_STRICT_ENFORCE_QUOTA")?,
        between_jobs: knobs.boolean("SLOTWISE_CLAIM_FAIR_SHARE")?,
        weighted_demand: knobs.boolean("NEGOTIATOR_USE_WEIGHTED_DEMAND")?,
    })
}

fn groups(knobs: &Knobs) -> Result<Vec<GroupSetting>, CycleError> {
    let surplus = knobs.boolean("GROUP_ACCEPT_SURPLUS")?;
    let regroup = knobs.boolean("GROUP_AUTOREGROUP")?;
    let mut out = Vec::new();
    for name in words(&knobs.text("GROUP_NAMES")?) {
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
            accept_surplus: knobs
                .optional_boolean(&format!("GROUP_ACCEPT_SURPLUS_{name}"))?
                .unwrap_or(surplus),
            autoregroup: knobs
                .optional_boolean(&format!("GROUP_AUTOREGROUP_{name}"))?
                .unwrap_or(regroup),
            prio_factor: knobs.number(&format!("GROUP_PRIO_FACTOR_{name}"))?,
        });
    }
    Ok(out)
}

fn limits(knobs: &Knobs) -> Result<LimitPolicy, CycleError> {
    let mut policy = LimitPolicy {
        default: knobs.number("CONCURRENCY_LIMIT_DEFAULT")?,
        ..LimitPolicy::default()
    };
    for group in knobs.given("CONCURRENCY_LIMIT_DEFAULT_", "") {
        let value = knobs.optional_number(&format!("CONCURRENCY_LIMIT_DEFAULT_{group}"))?;
        let value = value.unwrap_or(policy.default);
        policy
            .group_defaults
            .insert(group.to_ascii_lowercase(), value);
    }
    for limit in knobs.given("", "_LIMIT") {
        // Other daemons have knobs that end alike; only numbers can be limits.
        if let Ok(Some(value)) = knobs.optional_number(&format!("{limit}_LIMIT")) {
            policy.named.insert(limit.to_ascii_lowercase(), value);
        }
    }
    Ok(policy)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
}
