//! Why a job does not run: which slots match, and what keeps them from it.

use crate::config::{CycleConfig, permits_preemption};
use crate::dependencies::Dependencies;
use crate::evaluate::{exceeds, insert_remote, insert_submitter};
use crate::index::SlotIndex;
use crate::ledger::{Accounts, Ledger};
use crate::request::submitter_of;
use crate::run::Memory;
use crate::slot::{SlotClass, Trimmed};
use classad::{Ad, Context, evaluate};
use columns::{AdTable, EvalSettings, Explanation};
use fairshare::GroupTree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a job and the slots of a pool.
#[derive(Debug, Clone, Default)]
pub struct JobView {
    /// Accounting name of the job; empty when it has no owner.
    pub submitter: String,
    /// Clause by clause: who accepts whom.
    pub explanation: Explanation,
    /// Slots that are not this negotiator's.
    pub excluded: usize,
    /// Of the slots that match: free ones that would be given.
    pub free: usize,
    /// Held by the submitter itself.
    pub held_by_submitter: usize,
    /// Held by others, and may be preempted: the slot ranks the job higher, or PREEMPTION_REQUIREMENTS is true.
    pub preemptable: usize,
    /// Held by others and protected by PREEMPTION_REQUIREMENTS.
    pub protected: usize,
    /// Held by others, whose jobs the slot ranks higher.
    pub prefer_running: usize,
    /// Asleep: a match wakes them.
    pub offline: usize,
    /// No candidates in this cycle, by cause.
    pub trimmed: BTreeMap<&'static str, usize>,
}

/// The cause in words.
#[must_use]
pub fn trimmed_text(cause: Trimmed) -> &'static str {
    match cause {
        Trimmed::Retiring => "the running job still has retirement time",
        Trimmed::Claimed => "claimed, and preemption is not considered",
        Trimmed::ShuttingDown => "the machine is about to shut down",
        Trimmed::UnwillingPartitionable => {
            "a claimed partitionable slot that does not want matches"
        }
    }
}

/// Looks at every slot on behalf of one job.
pub fn explain(
    snapshot: &Asked<'_>,
    config: &CycleConfig,
    accounts: &Accounts,
    memory: &mut Memory,
    now: i64,
) -> JobView {
    let dependencies = Dependencies::of(snapshot.slots, snapshot.jobs, config);
    let overlay = memory
        .overlay
        .refresh(snapshot.slots, &dependencies, config, accounts, now);
    let slots = overlay.unwrap_or(snapshot.slots);
    let settings = EvalSettings {
        now,
        ..EvalSettings::default()
    };
    memory.matcher.refresh(slots, settings);
    memory
        .index
        .refresh(slots, &dependencies, config, &memory.matcher, now);
    let submitter = submitter_of(snapshot.job, now).unwrap_or_default();
    let books = Books::open(config, accounts, &memory.index, &submitter, now);
    let job = &books.job_as_seen(snapshot.job);
    let matcher = &memory.matcher;
    let rows = matcher.matches(slots, job);
    let mut view = JobView {
        submitter,
        explanation: matcher.explain(slots, job),
        ..JobView::default()
    };
    let fixed = dependencies.slot_rank_static;
    let claims = Claims::new(config, &books, &memory.index, job, fixed, now);
    for row in slots.rows() {
        let Some(class) = memory.index.class_of(row) else {
            continue;
        };
        let facts = &memory.index.classes()[class];
        if facts.excluded {
            view.excluded += 1;
            continue;
        }
        if !rows.get(row as usize) {
            continue;
        }
        let user = facts.user.as_deref().filter(|_| config.preemption.consider);
        let place = match (facts.trimmed, user) {
            (Some(cause), _) => view.trimmed.entry(trimmed_text(cause)).or_default(),
            (None, None) if facts.offline => &mut view.offline,
            (None, None) => &mut view.free,
            (None, Some(user)) => match claims.of(class) {
                Claim::Outranked => &mut view.preemptable,
                _ if user == view.submitter => &mut view.held_by_submitter,
                Claim::Preemptable => &mut view.preemptable,
                Claim::Protected => &mut view.protected,
                Claim::Preferred => &mut view.prefer_running,
            },
        };
        *place += 1;
    }
    view
}

/// The tables and the job that a question is about.
pub struct Asked<'a> {
    /// Slot ads.
    pub slots: &'a AdTable,
    /// Jobs or requests of the cycle.
    pub jobs: &'a AdTable,
    /// The job.
    pub job: &'a Ad,
}

/// Accounts as they stand, and that of the job's submitter.
struct Books {
    groups: GroupTree,
    ledger: Ledger,
    account: usize,
}

impl Books {
    fn open(
        config: &CycleConfig,
        accounts: &Accounts,
        index: &SlotIndex,
        submitter: &str,
        now: i64,
    ) -> Self {
        let (groups, _) = GroupTree::build(config.share.groups.clone());
        let mut ledger = Ledger::open(accounts, &groups, &config.share, now);
        ledger.count_slots(index, &groups, config);
        let account = ledger.account(submitter, &groups, &config.share);
        Self {
            groups,
            ledger,
            account,
        }
    }

    /// The job with what slots may ask about its submitter.
    fn job_as_seen(&self, job: &Ad) -> Ad {
        let mut job = job.clone();
        let (ledger, groups) = (&self.ledger, &self.groups);
        let group = ledger.get(self.account).group;
        insert_submitter(&mut job, self.account, group, ledger, groups);
        job
    }
}

/// What a job may do to the claim of a busy slot.
#[derive(Clone, Copy)]
enum Claim {
    /// Preempt it: the slot ranks the job higher. PREEMPTION_REQUIREMENTS is not asked.
    Outranked,
    /// Preempt it by its submitter's priority.
    Preemptable,
    /// Nothing: PREEMPTION_REQUIREMENTS is not true.
    Protected,
    /// Nothing: the slot ranks the running job higher.
    Preferred,
}

/// What a job may do to the claims of each class.
struct Claims {
    by_class: Vec<Claim>,
}

impl Claims {
    /// `fixed`: no slot's Rank asks about jobs.
    fn new(
        config: &CycleConfig,
        books: &Books,
        index: &SlotIndex,
        job: &Ad,
        fixed: bool,
        now: i64,
    ) -> Self {
        let (ledger, groups) = (&books.ledger, &books.groups);
        let of = |facts: &Arc<SlotClass>| {
            let Some(user) = &facts.user else {
                return Claim::Preemptable;
            };
            let mut slot = facts.ad.clone();
            insert_remote(&mut slot, user, ledger, groups);
            let context = Context {
                my: Some(&slot),
                target: Some(job),
                now,
                ..Context::default()
            };
            let rank = match slot.get_str("Rank") {
                _ if fixed => facts.static_rank,
                Some(expr) => evaluate(expr, &context).as_number(),
                None => None,
            };
            if exceeds(rank, facts.current_rank) {
                return Claim::Outranked;
            }
            if !permits_preemption(&evaluate(&config.preemption.requirements, &context)) {
                return Claim::Protected;
            }
            match (rank, facts.current_rank) {
                (Some(rank), Some(current)) if rank >= current => Claim::Preemptable,
                _ => Claim::Preferred,
            }
        };
        Self {
            by_class: index.classes().iter().map(of).collect(),
        }
    }

    fn of(&self, class: usize) -> Claim {
        self.by_class[class]
    }
}
