//! Slots in the order in which requests take them.
//!
//! Most slots need nothing but a match: they are free, undivided and open to
//! everybody ([`SlotKind::Free`]). Requests whose ranks put such slots in the same order
//! share one sorted list of them, each with a cursor of its own. Slots that are gone are
//! skipped in (nearly) constant time, so a match costs the same however many there are.
//!
//! What bounds it: a list is made in one pass over the free slots; a cursor takes a
//! step for every slot that is left and does not match the request. A request that
//! matches few slots sorts those instead.

use super::{ClassSummary, Head, Pool, SlotKind, SlotRef};
use crate::index::SlotIndex;
use crate::inputs::{Inputs, Traversal};
use columns::{Bitmap, Numbers, Row};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::sync::Arc;

/// A request that matches one slot in so many, or fewer, sorts its own slots and makes no list of all.
const SPARSE: usize = 256;
/// Lists for ranks that are asked for once are made where there are at most so many slots a class.
const SLOTS_PER_CLASS: usize = 8;

/// What orders slots for a request: ranks by row, or none when all slots rank the same.
#[derive(Clone)]
pub struct Ranking {
    /// NEGOTIATOR_PRE_JOB_RANK.
    pub pre_rank: Arc<Numbers>,
    /// The job's Rank; none when it is the same for all slots.
    pub job_rank: Option<Arc<Numbers>>,
}

impl Ranking {
    /// Both ranks of a row, as they are compared.
    #[must_use]
    pub fn of(&self, row: Row) -> (f64, f64) {
        let pre = self.pre_rank.get(row).unwrap_or(f64::NEG_INFINITY);
        let job = self.job_rank.as_ref().and_then(|ranks| ranks.get(row));
        // Adding 0 makes one zero of both.
        (pre + 0.0, job.unwrap_or(0.0) + 0.0)
    }

    fn key(&self) -> (usize, usize) {
        let job = self
            .job_rank
            .as_ref()
            .map_or(0, |job| Arc::as_ptr(job) as usize);
        (Arc::as_ptr(&self.pre_rank) as usize, job)
    }
}

/// How a request goes through slots.
pub enum Cursor {
    /// None of them matches.
    Nothing,
    /// These rows, best last.
    Sorted(SlotKind, Vec<Row>),
    /// Along a sorted list, from a place on.
    List {
        /// Of these slots.
        kind: SlotKind,
        /// Its number.
        list: usize,
        /// Where to go on.
        at: u32,
    },
}

/// All slots of a kind that were left when it was made, best first.
struct SortedList {
    rows: Vec<Row>,
    /// For a place whose slot is gone: how far on the next that may be left is; 0 where the slot may be left.
    skip: Vec<u32>,
    /// Kept so that no other ranking takes its address.
    _ranking: Ranking,
}

impl SortedList {
    /// The first place at or after `at` whose slot may be left.
    fn find(&mut self, at: u32) -> u32 {
        let mut end = at as usize;
        while let Some(skip) = self.skip.get(end)
            && *skip > 0
        {
            end += *skip as usize;
        }
        let mut place = at as usize;
        while place < end {
            let step = self.skip[place] as usize;
            self.skip[place] = (end - place) as u32;
            place += step;
        }
        end as u32
    }
}

/// The slots of a kind that are left, and sorted lists of them.
pub struct SortedSlots {
    pub(super) left: Bitmap,
    /// Least weight of such a slot.
    least_weight: f64,
    /// Address families of these slots, each combination met as a bit.
    families: u8,
    /// How often a ranking was asked for, and its list once made.
    known: FxHashMap<(usize, usize), (Ranking, u32, Option<usize>)>,
    lists: Vec<SortedList>,
    slots_per_class: usize,
    traversal: Traversal,
}

impl SortedSlots {
    pub(super) fn new(
        row_end: usize,
        index: &SlotIndex,
        summaries: &[ClassSummary],
        kind: SlotKind,
    ) -> Self {
        let mut out = Self {
            left: Bitmap::empty(row_end),
            least_weight: f64::INFINITY,
            families: 0,
            known: FxHashMap::default(),
            lists: Vec::new(),
            slots_per_class: 0,
            traversal: Traversal::Cheapest,
        };
        let (mut slots, mut classes) = (0, 0);
        for (class, facts) in summaries
            .iter()
            .enumerate()
            .filter(|(_, facts)| facts.kind == kind)
        {
            let members = index.members(class);
            if members.is_empty() {
                continue;
            }
            members
                .iter()
                .for_each(|row| out.left.set(*row as usize, true));
            out.least_weight = out.least_weight.min(facts.weight);
            out.families |= 1 << (facts.families & 3);
            slots += members.len();
            classes += 1;
        }
        out.slots_per_class = slots / classes.max(1);
        out
    }

    pub(super) fn remove(&mut self, row: Row) {
        self.left.set(row as usize, false);
    }

    /// Forgets the lists: ranks have changed.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.lists.clear();
    }

    /// Least weight of a slot.
    #[must_use]
    pub fn least_weight(&self) -> f64 {
        self.least_weight
    }

    /// How many slots are left among `rows`.
    #[must_use]
    pub fn left_among(&self, rows: &Bitmap) -> usize {
        self.left.count_and(rows)
    }

    /// The next slot of a list that is left and among `rows`.
    fn step(&mut self, list: usize, at: &mut u32, rows: &Bitmap) -> Option<Row> {
        let list = &mut self.lists[list];
        loop {
            *at = list.find(*at);
            let row = list.rows.get(*at as usize).copied()?;
            *at += 1;
            if !self.left.get(row as usize) {
                list.skip[*at as usize - 1] = 1;
            } else if rows.get(row as usize) {
                return Some(row);
            }
        }
    }

    /// Whether every slot can be reached by one of these address families.
    #[must_use]
    pub fn all_reachable(&self, families: u8) -> bool {
        let misses = |met: u8| met != 0 && met & families == 0;
        families == 0 || (0..4).all(|met| self.families >> met & 1 == 0 || !misses(met))
    }
}

impl Pool<'_> {
    /// Chooses how requests go through them.
    pub fn set_traversal(&mut self, traversal: Traversal) {
        self.free.traversal = traversal;
    }

    fn sorted_mut(&mut self, kind: SlotKind) -> &mut SortedSlots {
        match kind {
            SlotKind::Preemptable => &mut self.preemptable.sorted,
            SlotKind::WholePslot => &mut self.whole_pslots,
            SlotKind::Free | SlotKind::Other => &mut self.free,
        }
    }

    /// The slots of a kind that are left.
    #[must_use]
    pub fn sorted(&self, kind: SlotKind) -> &SortedSlots {
        match kind {
            SlotKind::Preemptable => &self.preemptable.sorted,
            SlotKind::WholePslot => &self.whole_pslots,
            SlotKind::Free | SlotKind::Other => &self.free,
        }
    }

    /// Classes of a kind.
    pub fn classes_of(&self, kind: SlotKind) -> impl Iterator<Item = u32> + '_ {
        let known = self.summaries.iter().zip(0..);
        known
            .filter(move |(summary, _)| summary.kind == kind)
            .map(|(_, class)| class)
    }

    /// How a request that matches `rows` best goes through slots of a kind; nothing when class by class is better.
    pub fn cursor(
        &mut self,
        inputs: &Inputs<'_>,
        kind: SlotKind,
        rows: &Bitmap,
        ranking: &Ranking,
    ) -> Option<Cursor> {
        let traversal = self.free.traversal;
        if traversal == Traversal::ByClass {
            return None;
        }
        let matching = self.sorted_mut(kind).left_among(rows);
        if matching == 0 {
            return Some(Cursor::Nothing);
        }
        let preemption = match kind {
            SlotKind::Preemptable => self.preemption_ranks(inputs),
            _ => None,
        };
        if matching * SPARSE <= rows.len() && traversal == Traversal::Cheapest {
            let mut both = self.sorted_mut(kind).left.clone();
            both.and(rows);
            let mut rows = self.sort(&both, ranking, preemption.as_deref());
            rows.reverse();
            return Some(Cursor::Sorted(kind, rows));
        }
        let list = self.list_of(kind, ranking, preemption.as_deref())?;
        Some(Cursor::List { kind, list, at: 0 })
    }

    /// Rows, best first.
    fn sort(&self, rows: &Bitmap, ranking: &Ranking, preemption: Option<&Numbers>) -> Vec<Row> {
        let second = |row: Row| {
            let rank = preemption.and_then(|ranks| ranks.get(row));
            (
                self.index.post_rank(row) + 0.0,
                rank.unwrap_or(f64::NEG_INFINITY) + 0.0,
            )
        };
        let mut keyed: Vec<([f64; 4], u32, Row)> = rows
            .iter()
            .map(|row| row as Row)
            .map(|row| {
                let ((pre, job), (post, preemption)) = (ranking.of(row), second(row));
                let keys = [pre, job, post, preemption];
                (keys, self.index.order_number(row), row)
            })
            .collect();
        keyed.par_sort_unstable_by(|a, b| {
            let keys = b.0.iter().zip(&a.0).map(|(b, a)| b.total_cmp(a));
            let by_keys = keys.fold(Ordering::Equal, Ordering::then);
            by_keys.then(a.1.cmp(&b.1))
        });
        keyed.into_iter().map(|(_, _, row)| row).collect()
    }

    fn list_of(
        &mut self,
        kind: SlotKind,
        ranking: &Ranking,
        preemption: Option<&Numbers>,
    ) -> Option<usize> {
        let sparing = kind != SlotKind::Preemptable && self.free.traversal == Traversal::Cheapest;
        let slots = self.sorted_mut(kind);
        let many = slots.slots_per_class > SLOTS_PER_CLASS && sparing;
        let known = slots.known.entry(ranking.key());
        let (_, asked, list) = known.or_insert_with(|| (ranking.clone(), 0, None));
        *asked += 1;
        if list.is_some() || many && *asked == 1 {
            return *list;
        }
        let rows = match kind {
            SlotKind::Preemptable => self.sort(&self.preemptable.sorted.left, ranking, preemption),
            _ => self.rows_by_tier(kind, ranking),
        };
        let slots = self.sorted_mut(kind);
        let number = slots.lists.len();
        slots.lists.push(SortedList {
            skip: vec![0; rows.len()],
            rows,
            _ranking: ranking.clone(),
        });
        slots.known.entry(ranking.key()).and_modify(|known| {
            known.2 = Some(number);
        });
        Some(number)
    }

    /// All slots of a kind that are left, best first.
    fn rows_by_tier(&self, kind: SlotKind, ranking: &Ranking) -> Vec<Row> {
        let wanted = |class: &usize| self.summaries[*class].kind == kind && self.left[*class] > 0;
        let mut classes: Vec<((f64, f64), usize)> = (0..self.summaries.len())
            .filter(wanted)
            .map(|class| (ranking.of(self.summaries[class].representative), class))
            .collect();
        classes.sort_unstable_by(|a, b| b.0.0.total_cmp(&a.0.0).then(b.0.1.total_cmp(&a.0.1)));
        let left = &self.sorted(kind).left;
        let in_order = self.index.order().iter().copied();
        let in_order = in_order.filter(|row| left.get(*row as usize));
        let mut starts = Vec::new();
        let mut tier_of = vec![0_u32; self.summaries.len()];
        let mut at = 0;
        for tier in classes.chunk_by(|a, b| a.0 == b.0) {
            for (_, class) in tier {
                tier_of[*class] = starts.len() as u32;
            }
            starts.push(at);
            at += tier
                .iter()
                .map(|(_, c)| self.left[*c] as usize)
                .sum::<usize>();
        }
        if starts.len() <= 1 {
            return in_order.collect();
        }
        let mut out = vec![0; at];
        for row in in_order {
            let class = self.index.class_of(row).unwrap_or_default();
            let place = &mut starts[tier_of[class] as usize];
            out[*place] = row;
            *place += 1;
        }
        out
    }

    /// The next slot of a cursor among `rows`; the cursor moves past it.
    pub fn next_at(&mut self, cursor: &mut Cursor, rows: &Bitmap) -> Option<Head> {
        let (kind, row) = match cursor {
            Cursor::Nothing => return None,
            Cursor::Sorted(kind, rows) => (*kind, rows.pop()),
            Cursor::List { kind, list, at } => {
                (*kind, self.sorted_mut(*kind).step(*list, at, rows))
            }
        };
        let row = row?;
        let mut place = self.place(row);
        if kind == SlotKind::Preemptable {
            place.preemption_rank = self.preemptable.preemption_rank(row);
        }
        Some(Head {
            place,
            slot_ref: SlotRef::Sorted,
        })
    }
}
