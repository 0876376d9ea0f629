//! The slots of a cycle: which are left, and in what order they go.
//!
//! Slots stand in classes ([`crate::index`]). Those that need nothing but a
//! match are found through [`free`]; those that are divided change their class
//! with every piece that is taken ([`carve`]).
//!
//! What bounds it: a match costs a constant number of steps here, whatever the
//! number of slots, except that lists of a class are searched past slots that
//! were taken out of order.

mod carve;
mod moved;
mod place;
pub mod preemptable;
pub mod sorted_slots;
mod summary;

pub use carve::Cut;
pub use place::{Head, Place, SlotRef};
pub use summary::{ClassSummary, SlotKind};

use crate::config::{CycleConfig, SharePolicy};
use crate::dependencies::Dependencies;
use crate::index::SlotIndex;
use crate::slot::SlotClass;
use carve::{Carved, disk_intervals};
use columns::{AdTable, Bitmap, Groups, Row};
use preemptable::Preemptable;
use rustc_hash::FxHashMap;
use sorted_slots::SortedSlots;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Classes of free slots by group of rows.
pub struct Tiers {
    /// Group and its classes.
    pub tiers: Vec<(u32, Arc<[u32]>)>,
    _groups: Arc<Groups>,
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
    /// Those of them that are free and undivided, and lists of them by rank.
    free: SortedSlots,
    /// Those of them that are partitionable and that nobody has carved yet.
    whole_pslots: SortedSlots,
    /// Those of them that are used by others.
    preemptable: Preemptable,
    /// Base classes: members before the cursor are gone.
    cursor: Vec<u32>,
    /// Busy base classes whose members were put in order of preemption rank.
    ordered: FxHashMap<u32, Vec<Place>>,
    /// Slots put into a class during the cycle.
    extra: Vec<BinaryHeap<Place>>,
    left: Vec<u32>,
    summaries: Vec<ClassSummary>,
    carved: FxHashMap<Row, Carved>,
    own_class: FxHashMap<Row, u32>,
    /// Base classes of kind [`SlotKind::Other`], once asked for.
    special: Vec<u32>,
    /// Classes of free slots by the group of rows they belong to, for each grouping met.
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
        dependencies: &Dependencies,
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
        let summaries: Vec<ClassSummary> = (0..classes.len())
            .map(|at| ClassSummary::of(&classes[at], index.members(at), config))
            .collect();
        Self {
            table,
            index,
            free: SortedSlots::new(table.row_end(), index, &summaries, SlotKind::Free),
            whole_pslots: SortedSlots::new(
                table.row_end(),
                index,
                &summaries,
                SlotKind::WholePslot,
            ),
            preemptable: Preemptable::new(table.row_end(), index, &summaries, &classes),
            summaries,
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
            disk_intervals: disk_intervals(table, dependencies),
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
    pub fn summaries(&self) -> &[ClassSummary] {
        &self.summaries
    }

    /// Classes that have to be looked at one by one: those of no kind of its own, and carved ones.
    pub fn special(&mut self) -> Vec<u32> {
        if self.special.is_empty() {
            let alone = |at: &u32| self.summaries[*at as usize].kind == SlotKind::Other;
            self.special = (0..self.summaries.len() as u32).filter(alone).collect();
        }
        let carved = self.summaries.len() as u32..self.classes.len() as u32;
        self.special.iter().copied().chain(carved).collect()
    }

    /// Classes of free slots by the group of rows they belong to.
    pub fn tiers(&mut self, groups: &Arc<Groups>) -> Arc<Tiers> {
        let key = Arc::as_ptr(groups) as usize;
        let summaries = &self.summaries;
        let made = self.tiers.entry(key).or_insert_with(|| {
            let mut by_group: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
            for (class, facts) in summaries
                .iter()
                .enumerate()
                .filter(|(_, facts)| facts.kind == SlotKind::Free)
            {
                let group = groups.group(facts.representative as usize) as u32;
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

    /// Whether a slot is left that nobody uses and that has something to give.
    #[must_use]
    pub fn any_free(&self) -> bool {
        self.classes
            .iter()
            .zip(&self.left)
            .any(|(class, left)| *left > 0 && class.user.is_none() && class.weight > 0.0)
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

    fn place(&self, row: Row) -> Place {
        Place {
            post_rank: self.index.post_rank(row),
            preemption_rank: f64::NEG_INFINITY,
            turns: 0,
            number: self.index.order_number(row),
            row,
        }
    }

    /// Puts the members of a busy class in order of their preemption rank.
    pub fn order_by_preemption_rank(&mut self, class: usize, rank_of: &mut dyn FnMut(Row) -> f64) {
        if class >= self.cursor.len() || self.ordered.contains_key(&(class as u32)) {
            return;
        }
        let members = self.index.members(class);
        let mut places: Vec<Place> = members
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
    pub fn head(&self, class: usize, from: u32, rows: Option<&Bitmap>) -> Option<Head> {
        let extra = self.extra.get(class).and_then(|heap| heap.peek().copied());
        let extra = extra.map(|place| Head {
            place,
            slot_ref: SlotRef::Added,
        });
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
            slot_ref: SlotRef::Listed(at as u32),
        });
        match (own, extra) {
            (Some(own), Some(extra)) if extra.place > own.place => Some(extra),
            (own, extra) => own.or(extra),
        }
    }

    /// Takes the slot found by [`Pool::head`] or by a cursor out.
    pub fn take(&mut self, class: usize, head: &Head) -> Row {
        let row = head.place.row;
        match head.slot_ref {
            SlotRef::Added => {
                self.extra[class].pop();
            }
            SlotRef::Listed(at) => {
                self.untake(row);
                if at == self.cursor[class] {
                    self.cursor[class] += 1;
                }
            }
            SlotRef::Sorted => self.untake(row),
        }
        self.left[class] -= 1;
        self.remaining -= 1;
        row
    }

    /// Takes a row out of its base class.
    fn untake(&mut self, row: Row) {
        self.untaken.set(row as usize, false);
        self.free.remove(row);
        self.whole_pslots.remove(row);
        self.preemptable.sorted.remove(row);
    }

    /// Whether the head is still the best of its class that it stood for.
    #[must_use]
    pub fn is_there(&self, class: usize, head: &Head) -> bool {
        match head.slot_ref {
            SlotRef::Listed(_) | SlotRef::Sorted => self.untaken.get(head.place.row as usize),
            SlotRef::Added => self.extra[class].peek() == Some(&head.place),
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
}
