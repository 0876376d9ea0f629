//! Slots that others use, where nothing but the policy of preemption decides who may have them.
//!
//! What a request may do to them is a set of rows ([`PreemptionSets`]), worked out by
//! the column engine on a view of the busy slots into which priority and usage
//! of their users were put. Requests of a submitter mostly share one. The slots
//! that may be had are then taken in sorted order, as free ones are.
//!
//! What bounds it: one pass over the busy slots for every submitter whose jobs
//! the policy tells apart, a sort for every way of ranking slots that are
//! really had, a few passes over one bit a slot for every request.

use super::sorted_slots::SortedSlots;
use super::{ClassSummary, Pool, SlotKind};
use crate::config::permits_preemption;
use crate::index::SlotIndex;
use crate::inputs::Inputs;
use crate::slot::SlotClass;
use classad::{Ad, BinaryOp, Expr, Name, Value};
use columns::{AdTable, Bitmap, EvalSettings, Matcher, Numbers, Owner, Row, Truth};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a request may do to busy slots whose users are others: every slot is in one of these sets.
#[derive(Debug)]
pub struct PreemptionSets {
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
pub struct Preemptable {
    pub(super) sorted: SortedSlots,
    facts: Vec<Facts>,
    /// Classes by their user.
    held: FxHashMap<String, Vec<u32>>,
    own: FxHashMap<String, Arc<Bitmap>>,
    /// What is known of users, to be put into their slots.
    users: FxHashMap<String, Ad>,
    view: Option<Arc<View>>,
    preemption: Option<Option<Arc<Numbers>>>,
    sets: FxHashMap<(usize, usize), (Grounds, Arc<PreemptionSets>)>,
    bounds: FxHashMap<usize, (Arc<Numbers>, f64)>,
    /// Counts what was put into slots; what was put into each class.
    stamp: u32,
    inserted: Vec<u32>,
    settled: u32,
}

impl Preemptable {
    pub(super) fn new(
        row_end: usize,
        index: &SlotIndex,
        summaries: &[ClassSummary],
        classes: &[Arc<SlotClass>],
    ) -> Self {
        let mut held: FxHashMap<String, Vec<u32>> = FxHashMap::default();
        let mut facts = Vec::new();
        for (at, class) in classes
            .iter()
            .enumerate()
            .filter(|(at, _)| summaries[*at].kind == SlotKind::Preemptable)
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
            sorted: SortedSlots::new(row_end, index, summaries, SlotKind::Preemptable),
            facts,
            held,
            own: FxHashMap::default(),
            users: FxHashMap::default(),
            view: None,
            preemption: None,
            sets: FxHashMap::default(),
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
    pub fn any_preemptable(&self, rows: &Bitmap) -> bool {
        let pairs = self
            .preemptable
            .sorted
            .left
            .words()
            .iter()
            .zip(rows.words());
        pairs.into_iter().any(|(a, b)| a & b != 0)
    }

    /// Takes note of what is known of the users of slots; it is put into their ads when they are looked at.
    pub fn know_users(&mut self, users: FxHashMap<String, Ad>) {
        let preemptable = &mut self.preemptable;
        preemptable.users = users;
        preemptable.stamp += 1;
        preemptable.view = None;
        preemptable.preemption = None;
        preemptable.sets.clear();
        preemptable.sorted.forget();
    }

    /// All who use slots.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        let others = self.classes[..self.base_classes()]
            .iter()
            .enumerate()
            .filter(|(at, _)| {
                self.summaries[*at].kind != SlotKind::Preemptable && self.left[*at] > 0
            })
            .filter_map(|(_, class)| class.user.clone());
        let mut all: Vec<String> = self
            .preemptable
            .held
            .keys()
            .cloned()
            .chain(others)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Puts what is known of its user into the ad of a class.
    pub fn put_user(&mut self, class: usize) {
        let preemptable = &mut self.preemptable;
        if preemptable.inserted.len() <= class {
            preemptable
                .inserted
                .resize(self.cursor.len().max(class + 1), 0);
        }
        if preemptable.inserted[class] == preemptable.stamp {
            return;
        }
        preemptable.inserted[class] = preemptable.stamp;
        let user = self.classes[class].user.as_ref();
        if let Some(known) = user.and_then(|user| preemptable.users.get(user)) {
            let mut facts = SlotClass::clone(&self.classes[class]);
            for (name, expr) in known {
                facts.ad.insert(name.clone(), expr.clone());
            }
            self.classes[class] = Arc::new(facts);
        }
    }

    /// Puts what is known of users into the ads of all classes, where busy ones are looked at one by one.
    pub fn put_users(&mut self) {
        if self.preemptable.settled == self.preemptable.stamp {
            return;
        }
        self.preemptable.settled = self.preemptable.stamp;
        for class in 0..self.base_classes() {
            if self.left[class] > 0 && self.classes[class].user.is_some() {
                self.put_user(class);
            }
        }
    }

    /// Rows that a user holds.
    pub fn held_by(&mut self, user: &str) -> Arc<Bitmap> {
        if let Some(known) = self.preemptable.own.get(user) {
            return Arc::clone(known);
        }
        let mut rows = Bitmap::empty(self.table.row_end());
        for class in self.preemptable.held.get(user).into_iter().flatten() {
            let members = self.index.members(*class as usize);
            members.iter().for_each(|row| rows.set(*row as usize, true));
        }
        let rows = Arc::new(rows);
        self.preemptable
            .own
            .insert(user.to_owned(), Arc::clone(&rows));
        rows
    }

    /// The greatest pre-job rank of a busy slot.
    pub fn preemptable_bound(&mut self, ranks: &Arc<Numbers>) -> f64 {
        let key = Arc::as_ptr(ranks) as usize;
        if let Some((_, bound)) = self.preemptable.bounds.get(&key) {
            return *bound;
        }
        let facts = self.preemptable.facts.iter();
        let rank = |facts: &Facts| ranks.get(self.summaries[facts.class as usize].representative);
        let bound = facts.filter_map(rank).fold(f64::NEG_INFINITY, f64::max);
        self.preemptable
            .bounds
            .insert(key, (Arc::clone(ranks), bound));
        bound
    }

    fn view(&mut self, inputs: &Inputs<'_>) -> Arc<View> {
        if let Some(known) = &self.preemptable.view {
            return Arc::clone(known);
        }
        let made = Arc::new(self.make_view(inputs));
        self.preemptable.view = Some(Arc::clone(&made));
        made
    }

    fn make_view(&self, inputs: &Inputs<'_>) -> View {
        let no_names = Default::default();
        let names = inputs.dependencies.policy.as_ref().unwrap_or(&no_names);
        let mut live = Bitmap::empty(self.table.row_end());
        for facts in &self.preemptable.facts {
            let members = self.index.members(facts.class as usize);
            members.iter().for_each(|row| live.set(*row as usize, true));
        }
        let mut table = self.table.view(names.iter(), live);
        let members = |class: &u32| self.index.members(*class as usize).iter().copied();
        for (user, known) in &self.preemptable.users {
            let classes = self.preemptable.held.get(user);
            for (name, value) in known.iter().filter(|(name, _)| names.contains(name)) {
                let cell = table.value_cell(value);
                let rows = classes.into_iter().flatten().flat_map(members);
                table.put_values(name, rows.map(|row| (row, cell)));
            }
        }
        // The rank of a claim that waits to preempt stands for that of the running one.
        let current = Name::from("CurrentRank");
        if names.contains(&current) && self.table.column_named("PreemptingRank").is_some() {
            for facts in self
                .preemptable
                .facts
                .iter()
                .filter(|f| !f.current.is_nan())
            {
                let own = self.classes[facts.class as usize].ad.get(&current);
                if let Some(Expr::Lit(Value::Real(rank))) = own {
                    let cell = table.value_cell(&Expr::Lit(Value::Real(*rank)));
                    let rows = members(&facts.class);
                    table.put_values(&current, rows.map(|row| (row, cell)));
                }
            }
        }
        let settings = EvalSettings {
            now: inputs.now,
            ..EvalSettings::default()
        };
        let mut matcher = Matcher::new(settings);
        matcher.refresh(&table, settings);
        let requirements = &inputs.config.preemption.requirements;
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
    pub(super) fn preemption_ranks(&mut self, inputs: &Inputs<'_>) -> Option<Arc<Numbers>> {
        if let Some(known) = &self.preemptable.preemption {
            return known.clone();
        }
        let rank = &inputs.config.preemption.rank;
        let view = self.view(inputs);
        let made = Some(view.matcher.numbers(&view.table, rank, Owner::Slot, None));
        self.preemptable.preemption = Some(made.clone());
        made
    }

    /// What a job may do to busy slots.
    pub fn preemption_sets(&mut self, inputs: &Inputs<'_>, job: &Ad) -> Arc<PreemptionSets> {
        let requirements = &inputs.config.preemption.requirements;
        let fixed = match requirements {
            Expr::Lit(value) if permits_preemption(value) => Some(Truth::Always),
            Expr::Lit(_) => Some(Truth::Never),
            _ => None,
        };
        let truth = fixed.unwrap_or_else(|| {
            let view = self.view(inputs);
            let asked = view.requirements.as_ref().unwrap_or(requirements);
            let matcher = &view.matcher;
            matcher.truth(&view.table, asked, Owner::Slot, Some(job))
        });
        let ranks = (!inputs.dependencies.slot_rank_static).then(|| {
            let view = self.view(inputs);
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
        if let Some((_, known)) = self.preemptable.sets.get(&key) {
            return Arc::clone(known);
        }
        let made = Arc::new(self.sort_out(&truth, ranks.as_deref()));
        let grounds = (truth, ranks);
        let kept = (grounds, Arc::clone(&made));
        self.preemptable.sets.insert(key, kept);
        made
    }

    fn sort_out(&self, truth: &Truth, ranks: Option<&Numbers>) -> PreemptionSets {
        let none = || Bitmap::empty(self.table.row_end());
        let mut out = PreemptionSets {
            rank: none(),
            priority: none(),
            protected: none(),
            prefer_running: none(),
        };
        for facts in &self.preemptable.facts {
            let first: Row = self.summaries[facts.class as usize].representative;
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
