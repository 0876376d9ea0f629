//! Slots that others use, where nothing but the policy of preemption decides who may have them.
//!
//! What a request may do to them is a set of rows ([`Verdict`]), worked out by
//! the column engine on a view of the busy slots into which priority and usage
//! of their users were put. Requests of a submitter mostly share one. The slots
//! that may be had are then gone through along lanes, as the plain ones are.
//!
//! What bounds it: one pass over the busy slots for every submitter whose jobs
//! the policy tells apart, a sort for every way of ranking slots that are
//! really had, a few passes over one bit a slot for every request.

use super::lanes::{Kind, Lanes};
use super::{Lean, Pool};
use crate::evaluate::{Shared, allows};
use crate::index::SlotIndex;
use crate::slot::SlotClass;
use classad::{Ad, BinaryOp, Expr, Name, Value};
use columns::{AdTable, Bitmap, EvalSettings, Matcher, Numbers, Owner, Row, Truth};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a request may do to busy slots whose users are others: every slot is in one of these sets.
#[derive(Debug)]
pub struct Verdict {
    /// They prefer the job to what they run.
    pub rank: Bitmap,
    /// The policy lets the job's user have them.
    pub priority: Bitmap,
    /// The policy protects them.
    pub protected: Bitmap,
    /// They prefer what they run.
    pub prefer_running: Bitmap,
}

/// The busy slots as the column engine sees them.
struct View {
    table: AdTable,
    matcher: Matcher,
    /// PREEMPTION_REQUIREMENTS, true or not; none when it is a constant.
    requirements: Option<Expr>,
    rank: Expr,
}

/// Truth and ranks a verdict was made from, by address; kept so that nothing else takes their addresses.
type Grounds = (Truth, Option<Arc<Numbers>>);

/// A busy class in a few numbers.
#[derive(Clone, Copy)]
struct Facts {
    class: u32,
    /// Rank of the slot when it does not depend on the job; NaN for none.
    rank: f64,
    /// Rank that has to be beaten; NaN for none.
    current: f64,
}

/// Busy slots that are left. See the module text.
pub struct Busy {
    pub(super) lanes: Lanes,
    facts: Vec<Facts>,
    /// Classes by their user.
    held: FxHashMap<String, Vec<u32>>,
    own: FxHashMap<String, Arc<Bitmap>>,
    /// What is known of users, to be put into their slots.
    users: FxHashMap<String, Ad>,
    view: Option<Arc<View>>,
    preemption: Option<Option<Arc<Numbers>>>,
    verdicts: FxHashMap<(usize, usize), (Grounds, Arc<Verdict>)>,
    bounds: FxHashMap<usize, (Arc<Numbers>, f64)>,
    /// Counts what was put into slots; what was put into each class.
    stamp: u32,
    inserted: Vec<u32>,
    settled: u32,
}

impl Busy {
    pub(super) fn new(
        row_end: usize,
        index: &SlotIndex,
        lean: &[Lean],
        classes: &[Arc<SlotClass>],
    ) -> Self {
        let mut held: FxHashMap<String, Vec<u32>> = FxHashMap::default();
        let mut facts = Vec::new();
        for (at, class) in classes
            .iter()
            .enumerate()
            .filter(|(at, _)| lean[*at].kind == Kind::Busy)
        {
            if index.members(at).is_empty() {
                continue;
            }
            facts.push(Facts {
                class: at as u32,
                rank: class.static_rank.unwrap_or(f64::NAN),
                current: class.current_rank.unwrap_or(f64::NAN),
            });
            let user = class.user.as_deref().unwrap_or_default();
            match held.get_mut(user) {
                Some(classes) => classes.push(at as u32),
                None => {
                    held.insert(user.to_owned(), vec![at as u32]);
                }
            }
        }
        Self {
            lanes: Lanes::new(row_end, index, lean, Kind::Busy),
            facts,
            held,
            own: FxHashMap::default(),
            users: FxHashMap::default(),
            view: None,
            preemption: None,
            verdicts: FxHashMap::default(),
            bounds: FxHashMap::default(),
            stamp: 0,
            inserted: Vec::new(),
            settled: 0,
        }
    }

    /// PREEMPTION_RANK of a row.
    pub(super) fn preemption_rank(&self, row: Row) -> f64 {
        let known = self.preemption.as_ref().and_then(Option::as_ref);
        known
            .and_then(|ranks| ranks.get(row))
            .unwrap_or(f64::NEG_INFINITY)
    }
}

impl Pool<'_> {
    /// Whether busy slots are left among `rows`.
    #[must_use]
    pub fn any_busy(&self, rows: &Bitmap) -> bool {
        let pairs = self.busy.lanes.left.words().iter().zip(rows.words());
        pairs.into_iter().any(|(a, b)| a & b != 0)
    }

    /// Takes note of what is known of the users of slots; it is put into their ads when they are looked at.
    pub fn know_users(&mut self, users: FxHashMap<String, Ad>) {
        let busy = &mut self.busy;
        busy.users = users;
        busy.stamp += 1;
        busy.view = None;
        busy.preemption = None;
        busy.verdicts.clear();
        busy.lanes.forget();
    }

    /// All who use slots.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        let others = self.classes[..self.base_classes()]
            .iter()
            .enumerate()
            .filter(|(at, _)| self.lean[*at].kind != Kind::Busy && self.left[*at] > 0)
            .filter_map(|(_, class)| class.user.clone());
        let mut all: Vec<String> = self.busy.held.keys().cloned().chain(others).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Puts what is known of its user into the ad of a class.
    pub fn put_user(&mut self, class: usize) {
        let busy = &mut self.busy;
        if busy.inserted.len() <= class {
            busy.inserted.resize(self.cursor.len().max(class + 1), 0);
        }
        if busy.inserted[class] == busy.stamp {
            return;
        }
        busy.inserted[class] = busy.stamp;
        let user = self.classes[class].user.as_ref();
        if let Some(known) = user.and_then(|user| busy.users.get(user)) {
            let mut facts = SlotClass::clone(&self.classes[class]);
            for (name, expr) in known {
                facts.ad.insert(name.clone(), expr.clone());
            }
            self.classes[class] = Arc::new(facts);
        }
    }

    /// Puts what is known of users into the ads of all classes, where busy ones are looked at one by one.
    pub fn put_users(&mut self) {
        if self.busy.settled == self.busy.stamp {
            return;
        }
        self.busy.settled = self.busy.stamp;
        for class in 0..self.base_classes() {
            if self.left[class] > 0 && self.classes[class].user.is_some() {
                self.put_user(class);
            }
        }
    }

    /// Rows that a user holds.
    pub fn held_by(&mut self, user: &str) -> Arc<Bitmap> {
        if let Some(known) = self.busy.own.get(user) {
            return Arc::clone(known);
        }
        let mut rows = Bitmap::empty(self.table.row_end());
        for class in self.busy.held.get(user).into_iter().flatten() {
            let members = self.index.members(*class as usize);
            members.iter().for_each(|row| rows.set(*row as usize, true));
        }
        let rows = Arc::new(rows);
        self.busy.own.insert(user.to_owned(), Arc::clone(&rows));
        rows
    }

    /// The greatest pre-job rank of a busy slot.
    pub fn busy_bound(&mut self, ranks: &Arc<Numbers>) -> f64 {
        let key = Arc::as_ptr(ranks) as usize;
        if let Some((_, bound)) = self.busy.bounds.get(&key) {
            return *bound;
        }
        let facts = self.busy.facts.iter();
        let rank = |facts: &Facts| ranks.get(self.lean[facts.class as usize].representative);
        let bound = facts.filter_map(rank).fold(f64::NEG_INFINITY, f64::max);
        self.busy.bounds.insert(key, (Arc::clone(ranks), bound));
        bound
    }

    fn view(&mut self, shared: &Shared<'_>) -> Arc<View> {
        if let Some(known) = &self.busy.view {
            return Arc::clone(known);
        }
        let made = Arc::new(self.make_view(shared));
        self.busy.view = Some(Arc::clone(&made));
        made
    }

    fn make_view(&self, shared: &Shared<'_>) -> View {
        let no_names = Default::default();
        let names = shared.plan.policy.as_ref().unwrap_or(&no_names);
        let mut live = Bitmap::empty(self.table.row_end());
        for facts in &self.busy.facts {
            let members = self.index.members(facts.class as usize);
            members.iter().for_each(|row| live.set(*row as usize, true));
        }
        let mut table = self.table.view(names.iter(), live);
        let members = |class: &u32| self.index.members(*class as usize).iter().copied();
        for (user, known) in &self.busy.users {
            let classes = self.busy.held.get(user);
            for (name, value) in known.iter().filter(|(name, _)| names.contains(name)) {
                let cell = table.value_cell(value);
                let rows = classes.into_iter().flatten().flat_map(members);
                table.put_values(name, rows.map(|row| (row, cell)));
            }
        }
        // The rank of a claim that waits to preempt stands for that of the running one.
        let current = Name::from("CurrentRank");
        if names.contains(&current) && self.table.column_named("PreemptingRank").is_some() {
            for facts in self.busy.facts.iter().filter(|f| !f.current.is_nan()) {
                let own = self.classes[facts.class as usize].ad.get(&current);
                if let Some(Expr::Lit(Value::Real(rank))) = own {
                    let cell = table.value_cell(&Expr::Lit(Value::Real(*rank)));
                    let rows = members(&facts.class);
                    table.put_values(&current, rows.map(|row| (row, cell)));
                }
            }
        }
        let settings = EvalSettings {
            now: shared.now,
            ..EvalSettings::default()
        };
        let mut matcher = Matcher::new(settings);
        matcher.refresh(&table, settings);
        let requirements = &shared.config.preemption.requirements;
        let truly = |e: &Expr| {
            let yes = Expr::Lit(Value::Bool(true));
            Expr::binary(BinaryOp::Is, Expr::paren(e.clone()), yes)
        };
        View {
            table,
            matcher,
            requirements: (!matches!(requirements, Expr::Lit(_))).then(|| truly(requirements)),
            rank: Expr::select(Expr::attr("MY"), Name::from("Rank")),
        }
    }

    /// PREEMPTION_RANK of the busy slots.
    pub(super) fn preemption_ranks(&mut self, shared: &Shared<'_>) -> Option<Arc<Numbers>> {
        if let Some(known) = &self.busy.preemption {
            return known.clone();
        }
        let rank = &shared.config.preemption.rank;
        let view = self.view(shared);
        let made = Some(view.matcher.numbers(&view.table, rank, Owner::Slot, None));
        self.busy.preemption = Some(made.clone());
        made
    }

    /// What a job may do to busy slots.
    pub fn verdict(&mut self, shared: &Shared<'_>, job: &Ad) -> Arc<Verdict> {
        let requirements = &shared.config.preemption.requirements;
        let fixed = match requirements {
            Expr::Lit(value) if allows(value) => Some(Truth::Always),
            Expr::Lit(_) => Some(Truth::Never),
            _ => None,
        };
        let truth = fixed.unwrap_or_else(|| {
            let view = self.view(shared);
            let asked = view.requirements.as_ref().unwrap_or(requirements);
            let matcher = &view.matcher;
            matcher.truth(&view.table, asked, Owner::Slot, Some(job))
        });
        let ranks = (!shared.plan.slot_rank_static).then(|| {
            let view = self.view(shared);
            let matcher = &view.matcher;
            matcher.numbers(&view.table, &view.rank, Owner::Slot, Some(job))
        });
        let key = (
            match &truth {
                Truth::Never => 0,
                Truth::Always => 1,
                Truth::Rows(rows) => Arc::as_ptr(rows) as usize,
            },
            ranks.as_ref().map_or(0, |r| Arc::as_ptr(r) as usize),
        );
        if let Some((_, known)) = self.busy.verdicts.get(&key) {
            return Arc::clone(known);
        }
        let made = Arc::new(self.judge(&truth, ranks.as_deref()));
        let grounds = (truth, ranks);
        let kept = (grounds, Arc::clone(&made));
        self.busy.verdicts.insert(key, kept);
        made
    }

    fn judge(&self, truth: &Truth, ranks: Option<&Numbers>) -> Verdict {
        let none = || Bitmap::empty(self.table.row_end());
        let mut out = Verdict {
            rank: none(),
            priority: none(),
            protected: none(),
            prefer_running: none(),
        };
        for facts in &self.busy.facts {
            let first: Row = self.lean[facts.class as usize].representative;
            let rank = ranks.map_or(facts.rank, |r| r.get(first).unwrap_or(f64::NAN));
            let allowed = match truth {
                Truth::Never => false,
                Truth::Always => true,
                Truth::Rows(rows) => rows.get(first as usize),
            };
            let set = if rank > facts.current {
                &mut out.rank
            } else if !allowed {
                &mut out.protected
            } else if rank >= facts.current {
                &mut out.priority
            } else {
                &mut out.prefer_running
            };
            let members = self.index.members(facts.class as usize);
            members.iter().for_each(|row| set.set(*row as usize, true));
        }
        out
    }
}
