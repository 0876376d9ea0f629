//! What a cycle has to know of each slot: which attributes, and how finely.
//!
//! Slots that agree in everything any expression of the cycle can see are one
//! class and are evaluated once. An attribute that is only ever compared with
//! numbers of the jobs (`Disk >= RequestDisk`) is known by the interval
//! between those numbers, so slots that differ in it still share a class.

mod granularity;
mod resolve;
mod roots;

use roots::{Roots, condition_roots, fact_roots, ordering_roots};

pub use granularity::Granularity;
pub(crate) use resolve::expressions;
pub use resolve::{Resolver, each_distinct};

use crate::config::CycleConfig;
use crate::cycle_attributes::{
    REMOTE_NAMES, STEADY_REMOTE_NAMES, SUBMITTER_NAMES, needed_of_neighbours, neighbour_of,
    neighbours_in,
};
use crate::slot::USERS;
use classad::analysis::Reads;
use classad::{Expr, Name};
use columns::{AdTable, ColumnId, is_of_one_job};
use rustc_hash::FxHashSet;

/// Attributes that decide by themselves how a slot is treated.
const FACTS: [&str; 26] = [
    "Rank",
    "CurrentRank",
    "SlotWeight",
    "State",
    "Activity",
    "RemoteUser",
    "RemoteOwner",
    "AccountingGroup",
    "PreemptingUser",
    "PreemptingAccountingGroup",
    "PreemptingRank",
    "RetirementTimeRemaining",
    "PartitionableSlot",
    "DynamicSlot",
    "PslotRollupInformation",
    "Offline",
    "WantClaiming",
    "WantMatching",
    "WorkingCM",
    "RemoteScheddName",
    "ConcurrencyLimits",
    "PreemptingConcurrencyLimits",
    "MatchedConcurrencyLimits",
    "WantAdRevaluate",
    "GhostMultiplier",
    "MachineResources",
];
/// What decides whether a slot takes a job.
const CONDITIONS: [&str; 2] = ["Requirements", "NegotiatorRequirements"];
/// Facts needed of partitionable slots.
const PARTITION_FACTS: [&str; 3] = ["Cpus", "Memory", "Disk"];
/// Job attributes that matter in every cycle.
pub const JOB_FACTS: [&str; 4] = ["Requirements", "Rank", "ConcurrencyLimits", "JobUniverse"];

/// A column of the class key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyColumn {
    /// The column.
    pub column: ColumnId,
    /// How finely it tells slots apart.
    pub granularity: Granularity,
    /// Tells all slots apart, not only those that are divided (whose rest has to be evaluated anew).
    pub always: bool,
}

/// What has to be put into slot ads, because conditions look at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverlayParts {
    /// NegotiatorRequirements in place of Requirements.
    pub requirements: bool,
    /// What every slot is given: the attributes of NEGOTIATOR_MATCH_EXPRS, and counts that begin anew.
    pub given: bool,
    /// What is known of users of slots.
    pub users: bool,
}

impl OverlayParts {
    pub(crate) fn anything(self) -> bool {
        self != Self::default()
    }
}

/// The attributes a cycle looks at.
#[derive(Debug, Clone)]
pub struct Dependencies {
    /// All names that any expression of the cycle may read.
    pub names: FxHashSet<Name>,
    /// Job attributes that slots or the policy refer to anywhere: jobs that differ in one are not alike.
    pub job_names: FxHashSet<Name>,
    /// Those that order slots or decide how a slot is treated; the others only decide whether it matches.
    pub order_names: FxHashSet<Name>,
    /// Columns of the slot table that tell classes apart.
    pub key: Vec<KeyColumn>,
    /// Whether a slot matches is asked row by row of the column engine; else class by class of the plain evaluator,
    /// because conditions read attributes that only exist during the cycle.
    pub row_matching: bool,
    /// Whether a slot matches may depend on the submitter's priority or usage.
    pub conditions_see_submitter: bool,
    /// Some expression may read any attribute of slots and jobs; `names` has them all then.
    pub unbounded: bool,
    /// Facts of slots may change though no attribute does.
    pub volatile: bool,
    /// Conditions look at usage, which changes with every match.
    pub conditions_see_usage: bool,
    /// What is put into slot ads before they are asked.
    pub overlay: OverlayParts,
    /// What the policy of preemption reads of busy slots, when they can be asked about all at once: nothing in it
    /// changes while the cycle runs.
    pub policy: Option<FxHashSet<Name>>,
    /// The value of NEGOTIATOR_PRE_JOB_RANK is the same for all jobs.
    pub pre_rank_static: bool,
    /// NEGOTIATOR_POST_JOB_RANK is the same for all jobs and does not change by carving.
    pub post_rank_static: bool,
    /// PREEMPTION_RANK is the same for all jobs and does not change in a cycle.
    pub preemption_rank_static: bool,
    /// Names that PREEMPTION_RANK and NEGOTIATOR_POST_JOB_RANK need when static (row by row).
    pub row_names: FxHashSet<Name>,
    /// Slot Rank does not depend on the job.
    pub slot_rank_static: bool,
    /// Numbers of slots whose users their neighbours look at.
    pub cross_slots: Vec<u32>,
}

fn is_submitter_attribute(name: &Name) -> bool {
    let text = name.as_bytes();
    text.len() >= 9 && text[..7].eq_ignore_ascii_case(b"submitt")
}

/// Names whose values the cycle itself inserts and changes.
fn is_live_attribute(name: &Name) -> bool {
    name.is("RemoteUserResourcesInUse") || name.is("RemoteGroupResourcesInUse")
}

impl Dependencies {
    /// Looks at every expression the cycle can evaluate.
    #[must_use]
    pub fn of(slots: &AdTable, jobs: &AdTable, config: &CycleConfig) -> Self {
        let mut resolver = Resolver::new(slots, jobs, &config.selection.given_to_slots);
        let resources = resource_names(slots);
        let sees = |s: &mut Resolver<'_>, e: &Expr| s.sees_job(e);
        let selection = &config.selection;
        let rank = Expr::select(Expr::attr("MY"), "Rank".into());
        let slot_rank_static = !sees(&mut resolver, &rank) && {
            // What the cycle knows of a slot's user is not in its ad.
            let reached = resolver.reach(&Reads::of(&rank));
            let inserted = |name: &Name| REMOTE_NAMES.iter().any(|n| name.is(n));
            !reached
                .names()
                .any(|name| inserted(name) || neighbour_of(name).is_some())
        };
        let pre_rank_static = !sees(&mut resolver, &selection.pre_job_rank);

        let post = resolver.reach(&Reads::of(&selection.post_job_rank));
        let carved = |m: &Reads| m.names().any(|n| resources.contains(n));
        let partitioned = slots.column_named("PartitionableSlot").is_some();
        let post_rank_static = !(sees(&mut resolver, &selection.post_job_rank)
            || partitioned && carved(&post)
            || post.names().any(is_live_attribute));
        let preempt = resolver.reach(&Reads::of(&config.preemption.rank));
        let preemption_rank_static = !(sees(&mut resolver, &config.preemption.rank)
            || preempt.names().any(is_live_attribute));

        let mut roots = ordering_roots(config, post_rank_static, preemption_rank_static);
        let ordering = resolver.reach(roots.reads());
        let mut order_names = names_of(&ordering);
        condition_roots(config, &resources, jobs, &mut roots);
        let reached = resolver.reach(roots.reads());
        let mut names = names_of(&reached);
        let mut job_names = names.clone();
        resolver.add_job_names(&mut job_names);
        if reached.unbounded {
            job_names.extend(
                column_names(jobs)
                    .filter(|name| !is_of_one_job(name))
                    .cloned(),
            );
            let all = all_names(slots, jobs, config);
            if ordering.unbounded {
                order_names.extend(all.iter().cloned());
            }
            names.extend(all);
        }
        let crossed = selection.cross_slot_prios && config.preemption.consider;
        let cross_slots = match crossed {
            true => neighbours_in(names.iter()),
            false => Vec::new(),
        };
        names.extend(needed_of_neighbours(&cross_slots));
        order_names.extend(needed_of_neighbours(&cross_slots));
        let consider = config.preemption.consider;
        let of_user = |name: &Name| consider && REMOTE_NAMES.iter().any(|n| name.is(n));
        let steady = |name: &Name| STEADY_REMOTE_NAMES.iter().any(|n| name.is(n));
        let changing =
            |name: &Name| of_user(name) && !steady(name) || crossed && neighbour_of(name).is_some();
        let by_config = |name: &Name| selection.given_to_slots.iter().any(|(n, _)| name.is(n));
        let mut asked = Roots::default();
        condition_roots(config, &resources, jobs, &mut asked);
        asked.name(Name::from("Rank"));
        asked.add(&selection.pre_job_rank);
        let asked = resolver.reach(asked.reads());
        let in_use = USERS.iter().any(|name| slots.column_named(name).is_some());
        let conditions_see_usage =
            asked.names().any(changing) || asked.unbounded && consider && in_use;
        let row_matching = !conditions_see_usage;
        let overlay = OverlayParts {
            requirements: slots.column_named("NegotiatorRequirements").is_some(),
            given: asked.unbounded || asked.names().any(by_config),
            users: asked.names().any(of_user),
        };
        let conditions_see_submitter = asked.unbounded || asked.names().any(is_submitter_attribute);
        if !row_matching {
            order_names.clone_from(&names);
        }
        let mut row_names = FxHashSet::default();
        if post_rank_static {
            row_names.extend(post.names().cloned());
        }
        if preemption_rank_static {
            row_names.extend(preempt.names().cloned());
        }
        let row_matching_all = row_matching && post_rank_static && preemption_rank_static;
        let policy = if row_matching_all && cross_slots.is_empty() {
            policy_names(&mut resolver, config)
        } else {
            None
        };
        let mut facts = fact_roots(config, &resources);
        if post_rank_static {
            facts.add(&selection.post_job_rank);
        }
        let volatile = resolver.reach(facts.reads()).volatile;
        let key = key_columns(&mut resolver, &names, &order_names, &reached, config);
        Self {
            names,
            job_names,
            order_names,
            key,
            row_matching,
            conditions_see_usage,
            overlay: if row_matching {
                overlay
            } else {
                OverlayParts::default()
            },
            volatile,
            policy,
            unbounded: reached.unbounded,
            conditions_see_submitter,
            pre_rank_static,
            post_rank_static,
            preemption_rank_static,
            row_names,
            slot_rank_static,
            cross_slots,
        }
    }

    /// Whether any of `names` is looked at.
    #[must_use]
    pub fn mentions(&self, names: &[&str]) -> bool {
        names
            .iter()
            .any(|name| self.names.contains(&Name::from(*name)))
    }
}

/// What an analysis names, attributes that would take the place of a scope word included.
fn names_of(reads: &Reads) -> FxHashSet<Name> {
    reads.names().chain(&reads.scope_words).cloned().collect()
}

fn column_names(table: &AdTable) -> impl Iterator<Item = &Name> {
    table.column_ids().map(|column| table.column_name(column))
}

/// All that an unbounded expression may read: attributes of slots, of jobs, and of the cycle's own.
fn all_names(slots: &AdTable, jobs: &AdTable, config: &CycleConfig) -> FxHashSet<Name> {
    let ads = column_names(slots).chain(column_names(jobs)).cloned();
    let own = SUBMITTER_NAMES.iter().chain(&REMOTE_NAMES);
    let given = config.selection.given_to_slots.iter();
    ads.chain(own.map(|name| Name::from(*name)))
        .chain(given.map(|(name, _)| Name::from(name.as_str())))
        .collect()
}

/// Names of the resources that machines can be divided into.
pub fn resource_names(slots: &AdTable) -> FxHashSet<Name> {
    let mut out: FxHashSet<Name> = PARTITION_FACTS.iter().map(|n| Name::from(*n)).collect();
    let Some(column) = slots.column_named("MachineResources") else {
        return out;
    };
    each_distinct(slots, column, |cell| {
        if let Some(id) = cell.str_id() {
            let text = slots.strings().get(id);
            let words = text.split(|b| b.is_ascii_whitespace() || *b == b',');
            out.extend(words.filter(|w| !w.is_empty()).map(Name::new));
        }
    });
    out
}

/// What PREEMPTION_REQUIREMENTS, PREEMPTION_RANK and the Rank of slots read, unless some of it exists only in the
/// cycle and changes with every match.
fn policy_names(resolver: &mut Resolver<'_>, config: &CycleConfig) -> Option<FxHashSet<Name>> {
    let policy = &config.preemption;
    let mut roots = Roots::default();
    roots.add(&policy.requirements);
    roots.add(&policy.rank);
    roots.name(Name::from("Rank"));
    let reached = resolver.reach(roots.reads());
    let changes = |name: &Name| {
        is_live_attribute(name)
            || name.is("SlotWeight")
            || name.is("Requirements")
            || config
                .selection
                .given_to_slots
                .iter()
                .any(|(n, _)| name.is(n))
    };
    let stable = policy.requirements_stable && policy.rank_stable && !reached.unbounded;
    (stable && !reached.names().any(changes)).then(|| reached.names().cloned().collect())
}

fn key_columns(
    resolver: &mut Resolver<'_>,
    names: &FxHashSet<Name>,
    order_names: &FxHashSet<Name>,
    reached: &Reads,
    config: &CycleConfig,
) -> Vec<KeyColumn> {
    let slots = resolver.slots;
    if reached.unbounded {
        // What any attribute is compared with is not known.
        let all = slots.column_ids();
        let value = |column| KeyColumn {
            column,
            granularity: Granularity::Value,
            always: order_names.contains(slots.column_name(column)),
        };
        return all.map(value).collect();
    }
    let granularities = granularity::granularities(resolver, names, config);
    let mut key: Vec<KeyColumn> = names
        .iter()
        .filter_map(|name| Some((slots.column_id(name)?, name)))
        .map(|(column, name)| KeyColumn {
            column,
            granularity: granularities
                .get(name)
                .cloned()
                .unwrap_or(Granularity::Value),
            always: order_names.contains(name),
        })
        .collect();
    for name in ["Name", "MyAddress"] {
        if let Some(column) = slots.column_named(name)
            && !key.iter().any(|known| known.column == column)
        {
            key.push(KeyColumn {
                column,
                granularity: Granularity::Presence,
                always: true,
            });
        }
    }
    key.sort_unstable_by_key(|known| known.column);
    key
}
