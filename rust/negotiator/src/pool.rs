//! The slots of a cycle: which are left, and what became of carved ones.

use crate::config::{CycleConfig, SharePolicy};
use crate::index::{SlotIndex, hash_words};
use crate::mentions::Mentions;
use crate::plan::{Grain, Plan};
use crate::reserve::ReservedFor;
use crate::slot::{Division, SlotClass, weight};
use classad::{Ad, Context, Expr, Name, Value, evaluate};
use columns::{AdTable, Bitmap, Groups, Row};
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Order among slots of one class: the greater is taken first.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Post-job rank.
    pub post_rank: f64,
    /// Preemption rank; -inf for free slots.
    pub preemption_rank: f64,
    /// Times it was put back behind the others.
    pub turns: u32,
    /// Where its name is, which settles what is left.
    pub table: &'a AdTable,
    /// Its row.
    pub row: Row,
}

impl PartialEq for Place<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Place<'_> {}
impl std::fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {}", self.row)
    }
}
impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .turns
            .cmp(&self.turns)
            .then_with(|| self.post_rank.total_cmp(&other.post_rank))
            .then_with(|| self.preemption_rank.total_cmp(&other.preemption_rank))
            .then_with(|| {
                if self.row == other.row {
                    return Ordering::Equal;
                }
                let name = |place: &Self| place.table.key(place.row);
                name(other)
                    .cmp(name(self))
                    .then_with(|| other.row.cmp(&self.row))
            })
    }
}
impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Classes of at least so many slots keep a class for every state they are carved to; the slots of smaller
/// ones have one each, which changes with them.
const SHARED_FROM: usize = 16;

/// A slot of a class and where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head<'a> {
    /// The slot.
    pub place: Place<'a>,
    /// Its place in the list of its class; none for slots that came during the cycle.
    pub at: Option<u32>,
}

/// A carved slot's own state.
#[derive(Debug, Clone)]
struct Carved {
    /// What is really free, in the order of the class's resources.
    free: Vec<f64>,
    /// Claims that are left, for consumption policies.
    claims: u32,
}

/// What a match takes of a divided slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Weight charged.
    pub cost: f64,
    /// Amounts by resource, in the order of the class's resources.
    pub amounts: Vec<f64>,
}

/// Plain classes by group of rows.
pub struct Tiers {
    /// Group and its classes.
    pub tiers: Vec<(u32, Arc<[u32]>)>,
    _groups: Arc<Groups>,
}

/// The few facts that decide most classes, close together.
#[derive(Debug, Clone, Copy)]
pub struct Lean {
    /// Free, undivided and open to everybody: nothing but a match is needed.
    pub plain: bool,
    /// Address families.
    pub families: u8,
    /// First row of the class.
    pub representative: Row,
    /// Weight charged.
    pub weight: f64,
}

/// Slots that are left in this cycle, by class.
pub struct Pool<'a> {
    table: &'a AdTable,
    index: &'a SlotIndex,
    share: &'a SharePolicy,
    now: i64,
    classes: Vec<Arc<SlotClass>>,
    /// Rows that nobody has taken out of its base class.
    untaken: Bitmap,
    /// Base classes: members before the cursor are gone.
    cursor: Vec<u32>,
    /// Busy base classes whose members were put in order of preemption rank.
    ordered: FxHashMap<u32, Vec<Place<'a>>>,
    /// Slots put into a class during the cycle.
    extra: Vec<BinaryHeap<Place<'a>>>,
    left: Vec<u32>,
    lean: Vec<Lean>,
    carved: FxHashMap<Row, Carved>,
    own_class: FxHashMap<Row, u32>,
    /// Base classes that are not plain.
    special: Vec<u32>,
    /// Plain classes by the group of rows they belong to, for each grouping met.
    tiers: FxHashMap<usize, Arc<Tiers>>,
    generations: Vec<u32>,
    by_state: FxHashMap<(u32, u128), u32>,
    base_of: Vec<u32>,
    /// Numbers that Disk is compared with, when slots are told apart by these only.
    disk_intervals: Option<Vec<f64>>,
    pre_ranks: Vec<f64>,
    /// Slots that are left and could be matched.
    pub remaining: u64,
}

impl<'a> Pool<'a> {
    /// All candidates of an index.
    #[must_use]
    pub fn new(
        table: &'a AdTable,
        index: &'a SlotIndex,
        plan: &Plan,
        config: &'a CycleConfig,
        now: i64,
    ) -> Self {
        let classes = index.classes().to_vec();
        let count = |i: usize| {
            if classes[i].is_candidate() {
                index.members(i).len() as u32
            } else {
                0
            }
        };
        let left: Vec<u32> = (0..classes.len()).map(count).collect();
        let lean = (0..classes.len()).map(|at| lean(&classes[at], index.members(at), config));
        Self {
            table,
            index,
            lean: lean.collect(),
            share: &config.share,
            now,
            untaken: table.live().clone(),
            cursor: vec![0; classes.len()],
            ordered: FxHashMap::default(),
            extra: Vec::new(),
            remaining: left.iter().map(|n| u64::from(*n)).sum(),
            left,
            carved: FxHashMap::default(),
            own_class: FxHashMap::default(),
            special: Vec::new(),
            tiers: FxHashMap::default(),
            generations: Vec::new(),
            by_state: FxHashMap::default(),
            base_of: (0..classes.len() as u32).collect(),
            disk_intervals: disk_intervals(table, plan),
            pre_ranks: Vec::new(),
            classes,
        }
    }

    /// Classes, those of the index first, then those made by carving.
    #[must_use]
    pub fn classes(&self) -> &[Arc<SlotClass>] {
        &self.classes
    }

    /// Replaces the facts of a class (attributes inserted for the cycle).
    pub fn replace_class(&mut self, class: usize, facts: SlotClass) {
        self.classes[class] = Arc::new(facts);
    }

    /// How many classes came from the index.
    #[must_use]
    pub fn base_classes(&self) -> usize {
        self.cursor.len()
    }

    /// The few facts of the base classes.
    #[must_use]
    pub fn lean(&self) -> &[Lean] {
        &self.lean
    }

    /// Classes that have to be looked at one by one: those that are not plain, and carved ones.
    pub fn special(&mut self) -> Vec<u32> {
        if self.special.is_empty() {
            let plain = |at: &u32| !self.lean[*at as usize].plain;
            self.special = (0..self.lean.len() as u32).filter(plain).collect();
        }
        let carved = self.lean.len() as u32..self.classes.len() as u32;
        self.special.iter().copied().chain(carved).collect()
    }

    /// Plain classes by the group of rows they belong to.
    pub fn tiers(&mut self, groups: &Arc<Groups>) -> Arc<Tiers> {
        let key = Arc::as_ptr(groups) as usize;
        let lean = &self.lean;
        let made = self.tiers.entry(key).or_insert_with(|| {
            let mut by_group: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
            for (class, facts) in lean.iter().enumerate().filter(|(_, facts)| facts.plain) {
                let group = groups.group_of()[facts.representative as usize];
                by_group.entry(group).or_default().push(class as u32);
            }
            let mut tiers: Vec<(u32, Arc<[u32]>)> =
                by_group.into_iter().map(|(g, c)| (g, c.into())).collect();
            tiers.sort_unstable_by_key(|(group, _)| *group);
            // The grouping is kept, so that no other takes its address.
            Arc::new(Tiers {
                tiers,
                _groups: Arc::clone(groups),
            })
        });
        Arc::clone(made)
    }

    /// Slots left in a class.
    #[must_use]
    pub fn left(&self, class: usize) -> u32 {
        self.left[class]
    }

    /// Static pre-job rank of a class, once known.
    #[must_use]
    pub fn pre_rank(&self, class: usize) -> Option<f64> {
        self.pre_ranks
            .get(class)
            .copied()
            .filter(|rank| !rank.is_nan())
    }

    /// Notes the static pre-job rank of a class.
    pub fn note_pre_rank(&mut self, class: usize, rank: f64) {
        if self.pre_ranks.len() <= class {
            self.pre_ranks.resize(self.classes.len(), f64::NAN);
        }
        self.pre_ranks[class] = rank;
    }

    fn place(&self, row: Row) -> Place<'a> {
        Place {
            post_rank: self.index.post_rank(row),
            preemption_rank: f64::NEG_INFINITY,
            turns: 0,
            table: self.table,
            row,
        }
    }

    /// Puts the members of a busy class in order of their preemption rank.
    pub fn order_by_preemption_rank(&mut self, class: usize, rank_of: &mut dyn FnMut(Row) -> f64) {
        if class >= self.cursor.len() || self.ordered.contains_key(&(class as u32)) {
            return;
        }
        let members = self.index.members(class);
        let mut places: Vec<Place<'a>> = members
            .iter()
            .map(|row| Place {
                preemption_rank: rank_of(*row),
                ..self.place(*row)
            })
            .collect();
        places.sort_unstable_by(|a, b| b.cmp(a));
        self.ordered.insert(class as u32, places);
    }

    /// The best slot left in a class, at or after place `from` of its list, among `rows` if given.
    #[must_use]
    pub fn head(&self, class: usize, from: u32, rows: Option<&Bitmap>) -> Option<Head<'a>> {
        let extra = self.extra.get(class).and_then(|heap| heap.peek().copied());
        let extra = extra.map(|place| Head { place, at: None });
        let Some(cursor) = self.cursor.get(class) else {
            return extra;
        };
        let wanted =
            |row: Row| self.untaken.get(row as usize) && rows.is_none_or(|r| r.get(row as usize));
        let start = from.max(*cursor) as usize;
        let own = match self.ordered.get(&(class as u32)) {
            Some(places) => {
                let found = places[start.min(places.len())..]
                    .iter()
                    .position(|p| wanted(p.row));
                found.map(|skip| (start + skip, places[start + skip]))
            }
            None => {
                let members = self.index.members(class);
                let found = members[start.min(members.len())..]
                    .iter()
                    .position(|row| wanted(*row));
                found.map(|skip| (start + skip, self.place(members[start + skip])))
            }
        };
        let own = own.map(|(at, place)| Head {
            place,
            at: Some(at as u32),
        });
        match (own, extra) {
            (Some(own), Some(extra)) if extra.place > own.place => Some(extra),
            (own, extra) => own.or(extra),
        }
    }

    /// Takes the slot found by [`Pool::head`] out.
    pub fn take(&mut self, class: usize, head: &Head<'a>) -> Row {
        match head.at {
            None => {
                self.extra[class].pop();
            }
            Some(at) => {
                self.untaken.set(head.place.row as usize, false);
                if at == self.cursor[class] {
                    self.cursor[class] += 1;
                }
            }
        }
        self.left[class] -= 1;
        self.remaining -= 1;
        head.place.row
    }

    /// Whether the head is still the best of its class that it stood for.
    #[must_use]
    pub fn is_there(&self, class: usize, head: &Head<'a>) -> bool {
        match head.at {
            Some(_) => self.untaken.get(head.place.row as usize),
            None => self.extra[class].peek() == Some(&head.place),
        }
    }

    /// How many slots of a class are left among `rows`.
    #[must_use]
    pub fn count(&self, class: usize, rows: Option<&Bitmap>) -> u64 {
        match rows {
            Some(rows) if class < self.cursor.len() => {
                let members = self.index.members(class).iter();
                members
                    .filter(|row| self.untaken.get(**row as usize) && rows.get(**row as usize))
                    .count() as u64
            }
            _ => u64::from(self.left[class]),
        }
    }

    /// First member of a base class: its attributes are those of the class.
    #[must_use]
    pub fn representative(&self, class: usize) -> Option<Row> {
        if class >= self.cursor.len() {
            return None;
        }
        self.index.members(class).first().copied()
    }

    /// Takes a slot out of its class and gives it one of its own that is reserved.
    pub fn isolate(&mut self, row: Row, reserved: ReservedFor) {
        let Some(class) = self.class_now(row) else {
            return;
        };
        let mut facts = SlotClass::clone(&self.classes[class]);
        facts.reserved = Some(reserved);
        let number = self.classes.len() as u32;
        self.classes.push(Arc::new(facts));
        self.base_of.push(number);
        self.left.push(0);
        let place = self.place(row);
        if self.untaken.get(row as usize) {
            self.untaken.set(row as usize, false);
        } else if let Some(heap) = self.extra.get_mut(class) {
            heap.retain(|known| known.row != row);
        }
        if self.left[class] > 0 {
            self.left[class] -= 1;
            self.remaining -= 1;
            self.put(number, place);
        }
    }

    /// The class a row stands in now, if it is left.
    fn class_now(&self, row: Row) -> Option<usize> {
        if self.untaken.get(row as usize) {
            return self.index.class_of(row);
        }
        self.extra
            .iter()
            .position(|heap| heap.iter().any(|place| place.row == row))
    }

    /// Puts a slot into a class.
    fn put(&mut self, class: u32, place: Place<'a>) {
        let at = class as usize;
        if self.extra.len() <= at {
            self.extra.resize_with(at + 1, BinaryHeap::new);
        }
        self.extra[at].push(place);
        self.left[at] += 1;
        self.remaining += 1;
    }

    /// Puts a slot that was taken back behind the others of its class.
    pub fn put_last(&mut self, class: usize, row: Row, turns: u32) {
        let place = Place {
            turns,
            ..self.place(row)
        };
        self.put(class as u32, place);
    }

    /// What a match with `amounts` would cost.
    #[must_use]
    pub fn cut(&self, class: usize, amounts: Vec<f64>) -> Cut {
        let facts = &self.classes[class];
        let cost = if self.share.weighted {
            let free: Vec<f64> = facts
                .resources
                .iter()
                .zip(&amounts)
                .map(|((_, f), a)| f - a)
                .collect();
            facts.weight - self.rest_weight(facts, &free)
        } else {
            let cpus = facts.resources.iter().position(|(name, _)| name.is("Cpus"));
            cpus.map_or(1.0, |at| amounts[at])
        };
        Cut { cost, amounts }
    }

    /// Weight of a slot of which `free` is left.
    fn rest_weight(&self, facts: &SlotClass, free: &[f64]) -> f64 {
        // The usual SlotWeight is the name of a resource.
        if let Some(Expr::Attr(name)) = facts.ad.get_str("SlotWeight")
            && let Some(at) = facts.resources.iter().position(|(n, _)| n == name)
        {
            return free[at];
        }
        let mut rest = facts.ad.clone();
        for ((name, _), free) in facts.resources.iter().zip(free) {
            rest.insert(name.clone(), amount_expr(*free));
        }
        weight(&rest, self.share.weighted, self.now)
    }

    /// Counts changes of a class that is one slot's own: what was known of it before is stale.
    #[must_use]
    pub fn generation(&self, class: usize) -> u32 {
        self.generations.get(class).copied().unwrap_or(0)
    }

    /// The class of one slot that shares with few others, brought to what is free of it.
    fn own_state(&mut self, row: Row, class: usize, free: &[f64]) -> u32 {
        let number = match self.own_class.get(&row) {
            Some(number) => *number,
            None => {
                let number = self.classes.len() as u32;
                self.classes.push(Arc::clone(&self.classes[class]));
                self.base_of.push(self.base_of[class]);
                self.left.push(0);
                self.own_class.insert(row, number);
                number
            }
        };
        let at = number as usize;
        if self.generations.len() <= at {
            self.generations.resize(at + 1, 0);
        }
        self.generations[at] += 1;
        if let Some(rank) = self.pre_ranks.get_mut(at) {
            *rank = f64::NAN;
        }
        let (share, now) = (self.share, self.now);
        let facts = Arc::make_mut(&mut self.classes[at]);
        for ((name, amount), free) in facts.resources.iter_mut().zip(free) {
            *amount = *free;
            facts.ad.insert(name.clone(), amount_expr(*free));
        }
        facts.weight = weight(&facts.ad, share.weighted, now);
        number
    }

    fn shares_states(&self, class: usize) -> bool {
        let base = self.base_of[class] as usize;
        base < self.cursor.len() && self.index.members(base).len() >= SHARED_FROM
    }

    /// The class of slots that began like `class` and have `free` left.
    fn state(&mut self, class: usize, free: Vec<f64>) -> u32 {
        let before = &self.classes[class];
        let base = self.base_of[class];
        let words = before.resources.iter().zip(&free).map(|((name, _), free)| {
            match &self.disk_intervals {
                Some(numbers) if name.is("Disk") => {
                    let below = numbers.partition_point(|n| n < free);
                    let equal = numbers.get(below) == Some(free);
                    2 * below as u64 + u64::from(equal)
                }
                _ => free.to_bits(),
            }
        });
        let key = (base, hash_words(words));
        if let Some(known) = self.by_state.get(&key) {
            return *known;
        }
        let mut facts = SlotClass::clone(before);
        for ((name, amount), free) in facts.resources.iter_mut().zip(&free) {
            *amount = *free;
            facts.ad.insert(name.clone(), amount_expr(*free));
        }
        facts.weight = weight(&facts.ad, self.share.weighted, self.now);
        let number = self.classes.len() as u32;
        self.classes.push(Arc::new(facts));
        self.base_of.push(base);
        self.left.push(0);
        self.by_state.insert(key, number);
        number
    }

    /// Takes the best slot of a class, cuts it and puts back what is left.
    ///
    /// Returns the row and the class it is in now, if it can be matched again.
    pub fn take_cut(&mut self, class: usize, head: &Head<'a>, cut: &Cut) -> (Row, Option<u32>) {
        let row = self.take(class, head);
        let mut own = match self.carved.remove(&row) {
            Some(own) => own,
            None => self.uncarved(class, row),
        };
        own.claims = own.claims.saturating_sub(1);
        own.free
            .iter_mut()
            .zip(&cut.amounts)
            .for_each(|(f, a)| *f = (*f - a).max(0.0));
        let again = (own.claims > 0).then(|| {
            let rest = if self.shares_states(class) {
                self.state(class, own.free.clone())
            } else {
                self.own_state(row, class, &own.free)
            };
            let place = self.place(row);
            self.put(rest, place);
            rest
        });
        self.carved.insert(row, own);
        (row, again)
    }

    fn uncarved(&self, class: usize, row: Row) -> Carved {
        let facts = &self.classes[class];
        let mut free: Vec<f64> = facts.resources.iter().map(|(_, f)| *f).collect();
        if self.disk_intervals.is_some()
            && let Some(at) = facts.resources.iter().position(|(name, _)| name.is("Disk"))
            && let Some(column) = self.table.column_id(&facts.resources[at].0)
            && let Some(disk) = self
                .table
                .cell_value(self.table.cell(row, column))
                .as_number()
        {
            free[at] = disk;
        }
        let claims = match facts.division {
            Division::ConsumptionPolicy { claims } => claims,
            _ => u32::MAX,
        };
        Carved { free, claims }
    }
}

fn lean(class: &SlotClass, members: &[Row], config: &CycleConfig) -> Lean {
    let free = class.user.is_none() || !config.preemption.consider;
    let hidden = class.rolled_up && config.preemption.partitionable;
    Lean {
        plain: free && !class.partitionable && !hidden && class.is_candidate(),
        families: class.families,
        representative: members.first().copied().unwrap_or(0),
        weight: class.weight,
    }
}

fn disk_intervals(table: &AdTable, plan: &Plan) -> Option<Vec<f64>> {
    let column = table.column_named("Disk")?;
    let known = plan.key.iter().find(|known| known.column == column)?;
    match &known.grain {
        Grain::Intervals(numbers) => Some(numbers.clone()),
        _ => None,
    }
}

/// A whole amount as an integer, as the reference keeps it.
#[must_use]
pub fn amount_expr(amount: f64) -> Expr {
    if amount.fract() == 0.0 && amount.abs() < 9e15 {
        Expr::Lit(Value::Int(amount as i64))
    } else {
        Expr::Lit(Value::Real(amount))
    }
}

/// What a request would take of a class that is divided; `None` when it does not fit.
#[must_use]
pub fn amounts(job: &Ad, class: &SlotClass, config: &CycleConfig, now: i64) -> Option<Vec<f64>> {
    match class.division {
        Division::Whole => None,
        Division::ConsumptionPolicy { .. } => consumption(job, class, now),
        Division::Carved => carving(job, class, config, now),
    }
}

/// Amounts of a consumption policy: every one at hand and not negative, one at least positive.
fn consumption(job: &Ad, class: &SlotClass, now: i64) -> Option<Vec<f64>> {
    let mut complete = job.clone();
    for (name, _) in &class.resources {
        let wanted = format!("Request{}", name.to_text());
        if complete.get_str(&wanted).is_none() {
            complete.set(&wanted, Expr::Lit(Value::Int(0)));
        }
        // A schedd may say what it has set aside for the startd that owns this slot.
        if let Some(set_aside) = job.get_str(&format!("_condor_{wanted}")) {
            complete.set(&wanted, set_aside.clone());
        }
    }
    let context = Context {
        my: Some(&class.ad),
        target: Some(&complete),
        now,
        ..Context::default()
    };
    let mut out = Vec::with_capacity(class.resources.len());
    for (name, free) in &class.resources {
        let expr = class
            .ad
            .get_str(&format!("Consumption{}", name.to_text()))?;
        let amount = evaluate(expr, &context).as_number().filter(|a| *a >= 0.0)?;
        if amount > *free {
            return None;
        }
        out.push(amount);
    }
    out.iter().any(|a| *a > 0.0).then_some(out)
}

/// Amounts the cycle carves: what the request asks for, rounded up as an execution point does.
fn carving(job: &Ad, class: &SlotClass, config: &CycleConfig, now: i64) -> Option<Vec<f64>> {
    let context = Context {
        my: Some(job),
        target: Some(&class.ad),
        now,
        ..Context::default()
    };
    let mut out = Vec::with_capacity(class.resources.len());
    for (name, free) in &class.resources {
        let resource = name.to_text();
        let wanted = job.get_str(&format!("Request{resource}"));
        let asked = wanted.and_then(|e| evaluate(e, &context).as_number());
        let asked = asked.unwrap_or(if name.is("Cpus") { 1.0 } else { 0.0 });
        if asked < 0.0 || asked > *free {
            return None;
        }
        let rounded = config.partition.carve.get(&resource.to_ascii_lowercase());
        let rounded = rounded.and_then(|e| evaluate(e, &context).as_number());
        out.push(rounded.unwrap_or(asked).max(asked).min(*free));
    }
    out.iter().any(|a| *a > 0.0).then_some(out)
}

/// What a job asks of each resource and what that is rounded up to, by resource; `None` when that depends on the slot.
#[must_use]
pub fn asked_amounts(job: &Ad, config: &CycleConfig, now: i64) -> Option<Vec<(Name, f64, f64)>> {
    let own = |expr: &Expr| {
        let found = Mentions::of(expr);
        found.target.is_empty()
            && !found.unbounded
            && found.bare.iter().all(|name| job.contains(name))
    };
    let context = Context {
        my: Some(job),
        now,
        ..Context::default()
    };
    let mut out = vec![(Name::from("Cpus"), 1.0, 1.0)];
    for (name, expr) in job {
        let text = name.to_text();
        let Some(resource) = text
            .get(..7)
            .filter(|p| p.eq_ignore_ascii_case("request"))
            .map(|_| &text[7..])
        else {
            continue;
        };
        let rounding = config.partition.carve.get(&resource.to_ascii_lowercase());
        if !own(expr) || rounding.is_some_and(|e| !own(e)) {
            return None;
        }
        let Some(asked) = evaluate(expr, &context).as_number() else {
            continue;
        };
        let rounded = rounding
            .and_then(|e| evaluate(e, &context).as_number())
            .unwrap_or(asked);
        let resource = Name::from(resource);
        out.retain(|(known, _, _)| *known != resource);
        out.push((resource, asked, rounded.max(asked)));
    }
    Some(out)
}

/// What a job takes of a slot, from what it asks for; `None` when that is not there.
#[must_use]
pub fn carve_amounts(asked: &[(Name, f64, f64)], class: &SlotClass) -> Option<Vec<f64>> {
    let mut out = Vec::with_capacity(class.resources.len());
    for (name, free) in &class.resources {
        let (wanted, rounded) = asked
            .iter()
            .find(|(known, _, _)| known == name)
            .map_or((0.0, 0.0), |(_, wanted, rounded)| (*wanted, *rounded));
        if wanted < 0.0 || wanted > *free {
            return None;
        }
        out.push(rounded.min(*free));
    }
    out.iter().any(|a| *a > 0.0).then_some(out)
}

/// The job as a consumption policy sees it: what it asks for replaced by what it would take.
#[must_use]
pub fn with_consumption(job: &Ad, class: &SlotClass, amounts: &[f64]) -> Ad {
    let mut out = job.clone();
    for ((name, _), amount) in class.resources.iter().zip(amounts) {
        let wanted = format!("Request{}", name.to_text());
        if out.get_str(&wanted).is_some() {
            out.set(&wanted, amount_expr(*amount));
        }
    }
    out
}
