//! What one request and one class of slots think of each other.

use crate::amounts::{amounts, asked_amounts, carve_amounts, with_consumption};
use crate::candidates::{Candidate, SlotState};
use crate::config::CycleConfig;
use crate::cycle::PlainWay;
use crate::evict;
use crate::index::{SlotIndex, hash_bytes};
use crate::ledger::Ledger;
use crate::outcome::SlotCounts;
use crate::plan::Plan;
use crate::pool::lanes::{Kind, Ranking};
use crate::pool::{Head, Pool};
use crate::request::{LimitSpec, Request, Submitter};
use crate::reserve::may_use;
use crate::slot::{Division, SlotClass};
use classad::{Ad, Context, Expr, Name, Value, evaluate};
use columns::{AdTable, Bitmap, Matcher, Numbers, Owner, Row};
use fairshare::{GroupTree, LimitRequest, parse_limits};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

/// What stays the same for a whole cycle.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    /// Slot ads.
    pub table: &'a AdTable,
    /// The engine that asks conditions of whole columns.
    pub matcher: &'a Matcher,
    /// Slots by class.
    pub index: &'a SlotIndex,
    /// What is looked at.
    pub plan: &'a Plan,
    /// Knobs.
    pub config: &'a CycleConfig,
    /// Epoch seconds.
    pub now: i64,
    /// How plain slots are gone through.
    pub plain_way: PlainWay,
}

impl<'a> Shared<'a> {
    /// Evaluates `expr` of `my` against `target`.
    #[must_use]
    pub fn eval(&self, expr: &Expr, my: &Ad, target: &Ad) -> Value {
        let context = Context {
            my: Some(my),
            target: Some(target),
            now: self.now,
            ..Context::default()
        };
        evaluate(expr, &context)
    }
}

/// What is known of a request before it is served.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Slots that match, as the column engine sees them.
    pub rows: Option<Arc<Bitmap>>,
    /// The job's Rank of each slot, when it depends on the slot.
    pub job_rank: Option<Arc<Numbers>>,
    /// NEGOTIATOR_PRE_JOB_RANK of each slot.
    pub pre_rank: Option<Arc<Numbers>>,
    /// Class by class: what the plain evaluator said so far.
    known: Vec<u8>,
    ranks: Vec<f64>,
    generations: Vec<u32>,
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

impl Answers {
    /// Asks the column engine; without row matching nothing is known beforehand.
    #[must_use]
    pub fn ask(shared: &Shared<'_>, job: &Ad) -> Self {
        if !shared.plan.row_matching {
            return Self::default();
        }
        let (table, matcher) = (shared.table, shared.matcher);
        let selection = &shared.config.selection;
        let rank_varies = !selection.ignore_job_ranks
            && job
                .get_str("Rank")
                .is_some_and(|rank| !matches!(rank, Expr::Lit(_)));
        Self {
            rows: Some(Arc::new(matcher.matches(table, job))),
            job_rank: rank_varies.then(|| matcher.job_rank(table, job)),
            pre_rank: Some(matcher.numbers(
                table,
                &selection.pre_job_rank,
                Owner::Slot,
                (!shared.plan.pre_rank_static).then_some(job),
            )),
            known: Vec::new(),
            ranks: Vec::new(),
            generations: Vec::new(),
        }
    }

    /// Makes room for a class, and forgets what was known of it before it changed.
    fn ready(&mut self, class: usize, generation: u32) {
        if self.known.len() <= class {
            self.known.resize(class + 1, UNKNOWN);
            self.ranks.resize(class + 1, f64::NAN);
            self.generations.resize(class + 1, 0);
        }
        if self.generations[class] != generation {
            self.generations[class] = generation;
            self.known[class] = UNKNOWN;
            self.ranks[class] = f64::NAN;
        }
    }

    /// Bytes held of what the column engine said.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, |rows| rows.heap_bytes())
    }

    /// Bytes held of what the plain evaluator said.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        self.known.capacity() * 13
    }
}

/// One request being negotiated for.
pub struct Evaluation<'a> {
    shared: Shared<'a>,
    /// The job with the attributes the cycle inserts.
    pub job: Cow<'a, Ad>,
    request: &'a Request,
    submitter: &'a Submitter,
    families: u8,
    /// What the job asks of each resource and what that is rounded up to, where no slot is needed to know.
    asked: OnceCell<Option<Vec<(Name, f64, f64)>>>,
    constant_rank: Option<f64>,
    /// Answers so far.
    pub answers: Answers,
    /// What the answers are kept under.
    pub signature: u128,
    /// Busy classes that nothing but a look at their match would tell apart.
    pub deferred: Vec<u32>,
    /// Groups as they stand, for slots that are looked at besides those of the pool.
    pub groups: Option<Arc<GroupTree>>,
}

/// Names of the attributes of a submitter that the cycle inserts into its jobs.
pub const SUBMITTER_NAMES: [&str; 8] = [
    "SubmittorPrio",
    "SubmitterUserPrio",
    "SubmitterUserResourcesInUse",
    "SubmitterGroup",
    "SubmitterGroupResourcesInUse",
    "SubmitterGroupQuota",
    "SubmitterNegotiatingGroup",
    "SubmitterAutoregroup",
];

/// Inserts the attributes of the submitter into a job.
pub fn insert_submitter(
    job: &mut Ad,
    account: usize,
    negotiating_group: usize,
    ledger: &Ledger,
    groups: &GroupTree,
) {
    let real = |x: f64| Expr::Lit(Value::Real(x));
    let text = |s: &str| Expr::Lit(Value::str(s));
    let priority = ledger.effective_priority(account);
    job.set("SubmittorPrio", real(priority));
    job.set("SubmitterUserPrio", real(priority));
    job.set("SubmitterUserResourcesInUse", real(ledger.usage(account)));
    let under = &groups[negotiating_group].setting.name;
    job.set("SubmitterNegotiatingGroup", text(under));
    let regrouped = groups.autoregroup() && negotiating_group == 0;
    job.set("SubmitterAutoregroup", Expr::Lit(Value::Bool(regrouped)));
    if groups.is_active() {
        let group = ledger.get(account).group;
        job.set("SubmitterGroup", text(&groups[group].setting.name));
        job.set(
            "SubmitterGroupResourcesInUse",
            real(ledger.group_usage(group)),
        );
        job.set("SubmitterGroupQuota", real(groups[group].quota));
    }
}

/// Names of the attributes of a slot's user that the cycle inserts into the slot.
pub const REMOTE_NAMES: [&str; 6] = [
    "RemoteUserPrio",
    "RemoteUserFloor",
    "RemoteUserResourcesInUse",
    "RemoteGroup",
    "RemoteGroupResourcesInUse",
    "RemoteGroupQuota",
];

/// Inserts the attributes of a slot's user into its ad.
pub fn insert_remote(slot: &mut Ad, user: &str, ledger: &Ledger, groups: &GroupTree) {
    let real = |x: f64| Expr::Lit(Value::Real(x));
    let account = ledger.find(user);
    let priority = ledger.priority_of(user);
    slot.set("RemoteUserPrio", real(priority));
    let floor = account.map_or(0, |a| ledger.get(a).record.floor);
    slot.set("RemoteUserFloor", Expr::Lit(Value::Int(floor)));
    slot.set(
        "RemoteUserResourcesInUse",
        real(account.map_or(0.0, |a| ledger.usage(a))),
    );
    if groups.is_active() {
        let group = groups.group_of(user);
        slot.set(
            "RemoteGroup",
            Expr::Lit(Value::str(groups[group].setting.name.as_str())),
        );
        slot.set("RemoteGroupResourcesInUse", real(ledger.group_usage(group)));
        slot.set("RemoteGroupQuota", real(groups[group].quota));
    }
}

impl<'a> Evaluation<'a> {
    /// Prepares a request; `answers` hold what is known of it already.
    #[must_use]
    pub fn new(
        shared: Shared<'a>,
        request: &'a Request,
        submitter: &'a Submitter,
        job: Cow<'a, Ad>,
        answers: Answers,
    ) -> Self {
        let constant_rank = if shared.config.selection.ignore_job_ranks {
            Some(0.0)
        } else {
            match job.get_str("Rank") {
                None => Some(0.0),
                Some(Expr::Lit(value)) => Some(value.as_number().unwrap_or(0.0)),
                Some(_) => None,
            }
        };
        Self {
            shared,
            job,
            request,
            submitter,
            families: crate::slot::address_families(&submitter.address),
            asked: OnceCell::new(),
            constant_rank,
            answers,
            signature: request.signature,
            deferred: Vec::new(),
            groups: None,
        }
    }

    /// Inserts what is known of a slot's user into an ad that is not one of the pool.
    pub fn insert_remote_user(&self, slot: &mut Ad, user: &str, ledger: &Ledger) {
        let none = || Arc::new(GroupTree::build(Vec::new()).0);
        let groups = self.groups.clone().unwrap_or_else(none);
        insert_remote(slot, user, ledger, &groups);
    }

    /// Everything that stays the same for the cycle.
    #[must_use]
    pub fn shared(&self) -> Shared<'a> {
        self.shared
    }

    /// Name of the submitter.
    #[must_use]
    pub fn submitter(&self) -> &str {
        &self.submitter.name
    }

    /// Whether the request may be looked at on this class at all.
    fn may_meet(&self, facts: &SlotClass) -> bool {
        if self.shared.config.preemption.partitionable && facts.rolled_up {
            return false;
        }
        if facts
            .held_by_schedd
            .as_ref()
            .is_some_and(|holder| *holder != self.submitter.schedd)
        {
            return false;
        }
        if let Some(reserved) = &facts.reserved
            && !may_use(
                reserved,
                &self.submitter.name,
                &self.request.first_job.to_string(),
                &self.job,
                self.shared.now,
            )
        {
            return false;
        }
        self.families == 0 || facts.families == 0 || self.families & facts.families != 0
    }

    /// Rows among which slots of a class match: none when all slots of the class are alike in that.
    fn rows_of(&self, pool: &Pool<'a>, class: usize) -> Option<&Bitmap> {
        if pool.representative(class).is_none() || pool.classes()[class].partitionable {
            return None;
        }
        self.answers.rows.as_deref()
    }

    /// Whether both Requirements hold for a row as it stands in the table.
    #[must_use]
    pub fn accepts_row(&self, row: Row) -> bool {
        match &self.answers.rows {
            Some(rows) => rows.get(row as usize),
            None => requirements_hold(&self.shared, &self.job, &self.shared.table.ad(row)),
        }
    }

    /// What a match would take of a slot that is divided, or nothing when it is not.
    #[must_use]
    pub fn amounts_of(&self, facts: &SlotClass) -> Option<Vec<f64>> {
        match facts.division {
            Division::Whole => Some(Vec::new()),
            _ => self.amounts(facts),
        }
    }

    /// The best slot of a class that matches, at or after place `from`.
    #[must_use]
    pub fn head(&self, pool: &Pool<'a>, class: usize, from: u32) -> Option<Head> {
        pool.head(class, from, self.rows_of(pool, class))
    }

    /// Slots of a class that match and are left.
    #[must_use]
    pub fn count(&self, pool: &Pool<'a>, class: usize) -> u64 {
        pool.count(class, self.rows_of(pool, class))
    }

    /// Both Requirements hold, and the resources suffice; slots of undivided
    /// classes are looked at one by one when the best is sought.
    pub fn matches(&mut self, pool: &Pool<'a>, facts: &SlotClass, class: usize) -> bool {
        if self.rows_of(pool, class).is_some() {
            return true;
        }
        self.answers.ready(class, pool.generation(class));
        match self.answers.known[class] {
            YES => return true,
            NO => return false,
            _ => {}
        }
        let whole = !matches!(facts.division, Division::ConsumptionPolicy { .. });
        let yes = match (&self.answers.rows, pool.representative(class)) {
            (Some(rows), Some(row)) if whole => {
                rows.get(row as usize)
                    && (facts.division == Division::Whole || self.amounts(facts).is_some())
            }
            _ if facts.division == Division::Carved => {
                self.amounts(facts).is_some()
                    && requirements_hold(&self.shared, &self.job, &facts.ad)
            }
            _ => matches(&self.shared, &self.job, facts),
        };
        self.answers.known[class] = if yes { YES } else { NO };
        yes
    }

    /// What a match would take of a divided slot.
    #[must_use]
    pub fn amounts(&self, facts: &SlotClass) -> Option<Vec<f64>> {
        let asked = self
            .asked
            .get_or_init(|| asked_amounts(&self.job, self.shared.config, self.shared.now));
        match (asked, &facts.division) {
            (Some(asked), Division::Carved) => carve_amounts(asked, facts),
            _ => amounts(&self.job, facts, self.shared.config, self.shared.now),
        }
    }

    fn job_rank(&mut self, pool: &Pool<'a>, facts: &SlotClass, class: usize) -> f64 {
        if let Some(rank) = self.constant_rank {
            return rank;
        }
        if let (Some(numbers), Some(row)) = (&self.answers.job_rank, pool.representative(class)) {
            return numbers.get(row).unwrap_or(0.0);
        }
        self.answers.ready(class, pool.generation(class));
        if self.answers.ranks[class].is_nan() {
            let rank = self.job.get_str("Rank").map_or(0.0, |expr| {
                self.shared
                    .eval(expr, &self.job, &facts.ad)
                    .as_number()
                    .unwrap_or(0.0)
            });
            self.answers.ranks[class] = if rank.is_nan() { 0.0 } else { rank };
        }
        self.answers.ranks[class]
    }

    fn pre_rank(&self, pool: &mut Pool<'a>, facts: &SlotClass, class: usize) -> f64 {
        if let (Some(numbers), Some(row)) = (&self.answers.pre_rank, pool.representative(class)) {
            return numbers.get(row).unwrap_or(f64::NEG_INFINITY);
        }
        if let Some(known) = pool.pre_rank(class) {
            return known;
        }
        let rank = self.negotiator_rank(&self.shared.config.selection.pre_job_rank, facts);
        if self.shared.plan.pre_rank_static {
            pool.note_pre_rank(class, rank);
        }
        rank
    }

    /// Rank the slot gives the job.
    #[must_use]
    pub fn slot_rank(&self, facts: &SlotClass) -> Option<f64> {
        if self.shared.plan.slot_rank_static {
            return facts.static_rank;
        }
        let expr = facts.ad.get_str("Rank")?;
        self.shared.eval(expr, &facts.ad, &self.job).as_number()
    }

    fn negotiator_rank(&self, expr: &Expr, facts: &SlotClass) -> f64 {
        let value = self.shared.eval(expr, &facts.ad, &self.job);
        value
            .as_number()
            .filter(|n| !n.is_nan())
            .unwrap_or(f64::NEG_INFINITY)
    }

    /// A plain class as a candidate, if one of its slots matches: the common case of [`Evaluation::candidate`].
    pub fn plain_candidate(&self, pool: &Pool<'a>, class: usize) -> Option<Candidate> {
        let lean = pool.lean()[class];
        if self.families != 0 && lean.families != 0 && self.families & lean.families == 0 {
            return None;
        }
        let head = pool.head(class, 0, self.answers.rows.as_deref())?;
        self.plain_at(pool, class, head)
    }

    /// A slot of a lane that matches as a candidate, unless there is less than is asked for.
    pub fn on_lane(&self, pool: &Pool<'_>, head: Head, state: SlotState) -> Option<Candidate> {
        let class = self.shared.index.class_of(head.place.row)?;
        let mut found = self.plain_at(pool, class, head)?;
        if pool.lean()[class].kind == Kind::Uncut {
            let amounts = self.amounts(&pool.classes()[class])?;
            found.cost = pool.cut(class, amounts).cost;
        }
        found.state = state;
        Some(found)
    }

    fn plain_at(&self, pool: &Pool<'_>, class: usize, head: Head) -> Option<Candidate> {
        let row = head.place.row;
        let pre_rank = self
            .answers
            .pre_rank
            .as_ref()?
            .get(row)
            .unwrap_or(f64::NEG_INFINITY);
        let job_rank = match (&self.answers.job_rank, self.constant_rank) {
            (_, Some(rank)) => rank,
            (Some(numbers), None) => numbers.get(row).unwrap_or(0.0),
            (None, None) => return None,
        };
        Some(Candidate {
            pre_rank,
            job_rank,
            post_rank: None,
            preemption_rank: None,
            state: SlotState::Free,
            head,
            class: class as u32,
            generation: pool.generation(class),
            cost: pool.lean()[class].weight,
            eviction: None,
        })
    }

    /// Whether plain classes can be looked at the short way.
    #[must_use]
    pub fn has_short_way(&self) -> bool {
        self.answers.rows.is_some() && self.shared.plan.post_rank_static
    }

    /// The slots that match, where free ones of a kind can be gone through one by one: nothing but ranks, weights and
    /// what there is to cut tells them apart.
    #[must_use]
    pub fn walks(&self, pool: &Pool<'_>, kind: Kind) -> Option<&Arc<Bitmap>> {
        self.rows_by_rank()
            .filter(|_| pool.lanes(kind).all_reachable(self.families))
    }

    /// The slots that match, where busy ones can be gone through one by one.
    #[must_use]
    pub fn asks_policy(&self, pool: &Pool<'_>) -> Option<&Arc<Bitmap>> {
        let known = self.shared.plan.policy.is_some();
        let asked = known && self.shared.plain_way != PlainWay::Classes;
        self.rows_by_rank()
            .filter(|_| asked && pool.lanes(Kind::Busy).all_reachable(self.families))
    }

    /// The slots that match, when ranks are known of all and limits are the same on all.
    fn rows_by_rank(&self) -> Option<&Arc<Bitmap>> {
        let ranked = self.constant_rank.is_some() || self.answers.job_rank.is_some();
        let by_slot = matches!(self.request.limits, LimitSpec::BySlot(_));
        let rows = self.answers.rows.as_ref();
        rows.filter(|_| ranked && !by_slot)
    }

    /// How the request ranks slots.
    #[must_use]
    pub fn ranking(&self, pre_rank: &Arc<Numbers>) -> Ranking {
        Ranking {
            pre_rank: Arc::clone(pre_rank),
            job_rank: self.varying_rank(),
        }
    }

    /// The job's Rank of each slot, unless it is the same for all.
    #[must_use]
    pub fn varying_rank(&self) -> Option<Arc<Numbers>> {
        match self.constant_rank {
            Some(_) => None,
            None => self.answers.job_rank.clone(),
        }
    }

    /// The class as a candidate, or nothing; `refused` counts slots by cause.
    pub fn candidate(
        &mut self,
        pool: &mut Pool<'a>,
        ledger: &Ledger,
        class: usize,
        rank_only: bool,
        refused: &mut SlotCounts,
    ) -> Option<Candidate> {
        let facts = Arc::clone(&pool.classes()[class]);
        let policy = &self.shared.config.preemption;
        let busy = policy.consider && facts.user.is_some();
        let evicts = policy.consider && policy.partitionable && facts.partitionable;
        if rank_only && !busy && !evicts || !self.may_meet(&facts) {
            return None;
        }
        if busy && self.can_only_be_protected(&facts) {
            if !rank_only && facts.user.as_deref() != Some(self.submitter()) {
                self.deferred.push(class as u32);
            }
            return None;
        }
        if !self.matches(pool, &facts, class) {
            return if evicts {
                evict::candidate(self, pool, ledger, class, rank_only)
            } else {
                None
            };
        }
        if !evicts && self.head(pool, class, 0).is_none() {
            return None;
        }
        let state = if busy {
            self.state_of_busy(pool, &facts, rank_only, class, refused)?
        } else if rank_only {
            return None;
        } else {
            SlotState::Free
        };
        self.with_keys(pool, ledger, &facts, class, state)
    }

    /// Nobody's claim on it can be preempted, whatever the job: a static test.
    fn can_only_be_protected(&self, facts: &SlotClass) -> bool {
        let plan = self.shared.plan;
        let requirements = &self.shared.config.preemption.requirements;
        let never = matches!(requirements, Expr::Lit(v) if !allows(v));
        never && plan.slot_rank_static && !exceeds(facts.static_rank, facts.current_rank)
    }

    fn state_of_busy(
        &self,
        pool: &Pool<'a>,
        facts: &SlotClass,
        rank_only: bool,
        class: usize,
        refused: &mut SlotCounts,
    ) -> Option<SlotState> {
        let rank = self.slot_rank(facts);
        if exceeds(rank, facts.current_rank) {
            return Some(SlotState::Rank);
        }
        if rank_only || facts.user.as_deref() == Some(self.submitter()) {
            return None;
        }
        let requirements = &self.shared.config.preemption.requirements;
        if !allows(&self.shared.eval(requirements, &facts.ad, &self.job)) {
            refused.protected += self.count(pool, class);
            return None;
        }
        match (rank, facts.current_rank) {
            (Some(rank), Some(current)) if rank >= current => Some(SlotState::Priority),
            _ => {
                refused.prefer_running += self.count(pool, class);
                None
            }
        }
    }

    fn with_keys(
        &mut self,
        pool: &mut Pool<'a>,
        ledger: &Ledger,
        facts: &Arc<SlotClass>,
        class: usize,
        state: SlotState,
    ) -> Option<Candidate> {
        let (plan, config) = (self.shared.plan, self.shared.config);
        let mut preemption_rank = None;
        if state != SlotState::Free {
            if plan.preemption_rank_static {
                self.order_members(pool, ledger, facts, class);
            } else {
                preemption_rank = Some(self.negotiator_rank(&config.preemption.rank, facts));
            }
        }
        let cost = match facts.division {
            Division::Whole => facts.weight,
            _ => {
                let amounts = self.amounts(facts)?;
                pool.cut(class, amounts).cost
            }
        };
        let pre_rank = self.pre_rank(pool, facts, class);
        let post_rank = (!plan.post_rank_static)
            .then(|| self.negotiator_rank(&config.selection.post_job_rank, facts));
        Some(Candidate {
            pre_rank,
            job_rank: self.job_rank(pool, facts, class),
            post_rank,
            preemption_rank,
            state,
            head: self.head(pool, class, 0)?,
            class: class as u32,
            generation: pool.generation(class),
            cost,
            eviction: None,
        })
    }

    /// A partitionable slot that fits after eviction, with the keys of its enlarged ad.
    pub(crate) fn evicting_candidate(
        &mut self,
        pool: &Pool<'a>,
        facts: &SlotClass,
        class: usize,
        state: SlotState,
        eviction: crate::candidates::Eviction,
    ) -> Option<Candidate> {
        let config = self.shared.config;
        let rank = self.job.get_str("Rank").map_or(0.0, |expr| {
            self.shared
                .eval(expr, &self.job, &facts.ad)
                .as_number()
                .unwrap_or(0.0)
        });
        Some(Candidate {
            pre_rank: self.negotiator_rank(&config.selection.pre_job_rank, facts),
            job_rank: self.constant_rank.unwrap_or(rank),
            post_rank: Some(self.negotiator_rank(&config.selection.post_job_rank, facts)),
            preemption_rank: Some(self.negotiator_rank(&config.preemption.rank, facts)),
            state,
            head: pool.head(class, 0, None)?,
            class: class as u32,
            generation: pool.generation(class),
            cost: facts.weight,
            eviction: Some(Box::new(eviction)),
        })
    }

    fn order_members(&self, pool: &mut Pool<'a>, ledger: &Ledger, facts: &SlotClass, class: usize) {
        let shared = self.shared;
        let user = facts.user.as_deref().unwrap_or("");
        let priority = ledger.priority_of(user);
        let names: Vec<(Name, u32)> = shared
            .plan
            .row_names
            .iter()
            .filter_map(|name| Some((name.clone(), shared.table.column_id(name)?)))
            .collect();
        let mut rank_of = |row: Row| {
            let mut ad = facts.ad.clone();
            for (name, column) in &names {
                if let Some(expr) = shared.table.expr_at(row, *column) {
                    ad.insert(name.clone(), expr);
                }
            }
            ad.set("RemoteUserPrio", Expr::Lit(Value::Real(priority)));
            let value = shared.eval(&shared.config.preemption.rank, &ad, &self.job);
            value
                .as_number()
                .filter(|n| !n.is_nan())
                .unwrap_or(f64::NEG_INFINITY)
        };
        pool.order_by_preemption_rank(class, &mut rank_of);
    }

    /// Limits of the request on a slot, with the string they came from.
    #[must_use]
    pub fn limits_on(&self, facts: &SlotClass) -> (Cow<'a, [LimitRequest]>, Option<String>) {
        match &self.request.limits {
            LimitSpec::None => (Cow::Borrowed(&[]), None),
            LimitSpec::Fixed(limits, text) => (Cow::Borrowed(limits), Some(text.clone())),
            LimitSpec::BySlot(expr) => {
                let value = self.shared.eval(expr, &self.job, &facts.ad);
                match value.as_str() {
                    None => (Cow::Borrowed(&[]), None),
                    Some(text) => {
                        let text = String::from_utf8_lossy(text).to_ascii_lowercase();
                        (Cow::Owned(parse_limits(&text)), Some(text))
                    }
                }
            }
        }
    }

    /// Limits of the request on a slot it may get.
    #[must_use]
    pub fn limits_of(
        &self,
        candidate: &Candidate,
        facts: &SlotClass,
    ) -> (Cow<'a, [LimitRequest]>, Option<String>) {
        match &candidate.eviction {
            Some(eviction) => {
                let (limits, text) = eviction.limits.clone();
                (Cow::Owned(limits), text)
            }
            None => self.limits_on(facts),
        }
    }

    /// The concurrency limit that keeps the request from every slot.
    #[must_use]
    pub fn fixed_limit_met(&self, ledger: &Ledger) -> Option<String> {
        let LimitSpec::Fixed(limits, _) = &self.request.limits else {
            return None;
        };
        let over = ledger
            .counts
            .first_over(&self.shared.config.limits, limits)?;
        Some(over.name.clone())
    }

    /// The concurrency limit that keeps the request from this slot.
    #[must_use]
    pub fn limit_met_by(
        &self,
        ledger: &Ledger,
        candidate: &Candidate,
        facts: &SlotClass,
    ) -> Option<String> {
        if !matches!(self.request.limits, LimitSpec::BySlot(_)) {
            return None;
        }
        let (limits, _) = self.limits_of(candidate, facts);
        let over = ledger
            .counts
            .first_over(&self.shared.config.limits, &limits)?;
        Some(over.name.clone())
    }

    /// Looks at the classes that were put off: how many slots would match but are protected.
    pub fn count_protected(&mut self, pool: &Pool<'a>) -> u64 {
        let mut slots = 0;
        for class in std::mem::take(&mut self.deferred) {
            let class = class as usize;
            let facts = Arc::clone(&pool.classes()[class]);
            if pool.left(class) > 0 && self.matches(pool, &facts, class) {
                slots += self.count(pool, class);
            }
        }
        slots
    }
}

/// Whether the value of PREEMPTION_REQUIREMENTS permits preemption: true itself, no number.
#[must_use]
pub fn allows(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

/// Whether both are numbers and the first is greater.
#[must_use]
pub fn exceeds(rank: Option<f64>, current: Option<f64>) -> bool {
    matches!((rank, current), (Some(rank), Some(current)) if rank > current)
}

/// Whether a job and a class match: resources suffice and both Requirements are true.
#[must_use]
pub fn matches(shared: &Shared<'_>, job: &Ad, facts: &SlotClass) -> bool {
    let taken = match facts.division {
        Division::Whole => None,
        _ => match amounts(job, facts, shared.config, shared.now) {
            None => return false,
            Some(amounts) => Some(amounts),
        },
    };
    let replaced;
    let job = match (&facts.division, taken) {
        (Division::ConsumptionPolicy { .. }, Some(amounts)) => {
            replaced = with_consumption(job, facts, &amounts);
            &replaced
        }
        _ => job,
    };
    requirements_hold(shared, job, &facts.ad)
}

/// Whether both Requirements are true.
#[must_use]
pub fn requirements_hold(shared: &Shared<'_>, job: &Ad, slot: &Ad) -> bool {
    let holds = |my: &Ad, target: &Ad| {
        my.get_str("Requirements")
            .is_some_and(|expr| shared.eval(expr, my, target).is_true())
    };
    holds(job, slot) && holds(slot, job)
}

/// Signature of a request with the attributes inserted for its submitter.
#[must_use]
pub fn live_signature(request: &Request, job: &Ad, names: &[&str]) -> u128 {
    let mut text = format!("{:x}", request.signature);
    for name in names {
        text.push_str(&format!("{:?}", job.get_str(name)));
    }
    hash_bytes(text.as_bytes())
}
