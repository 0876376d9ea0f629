//! Slots in the order in which requests take them.
//!
//! Most slots need nothing but a match: they are free, undivided and open to
//! everybody ([`super::Lean`]). Requests whose ranks put such slots in the same
//! order walk one list of them, a lane. What was taken is stepped over in (nearly)
//! constant time, so a match costs the same however many slots are gone.
//!
//! What bounds it: a lane is made in one pass over the plain slots; walking it
//! costs a step for every slot that is left and does not match the request. A
//! request that matches few slots does not walk: it sorts those.

use super::{Head, Lean, Pool, Seat};
use crate::cycle::PlainWay;
use crate::evaluate::Shared;
use crate::index::SlotIndex;
use columns::{Bitmap, Numbers, Row};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::sync::Arc;

/// A request that matches one slot in so many, or fewer, sorts its slots instead of walking a lane.
const SPARSE: usize = 256;
/// Lanes for ranks asked for once are made where there are at most so many slots a class.
const SLOTS_PER_CLASS: usize = 8;

/// What orders plain slots for a request: ranks by row, or none when all slots rank the same.
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

/// Which slots: what has to be known of them to match them, besides ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free and undivided: nothing.
    Plain,
    /// Used by others, and undivided: what the policy of preemption says.
    Busy,
    /// Partitionable and free, nothing cut of it yet: whether there is as much as is asked for.
    Uncut,
    /// Anything else: its class is looked at by itself.
    Alone,
}

/// How a request goes through slots.
pub enum Walk {
    /// None of them matches.
    Nothing,
    /// These rows, best last.
    Sorted(Kind, Vec<Row>),
    /// Along a lane, from a place on.
    Lane {
        /// Of these slots.
        kind: Kind,
        /// Its number.
        lane: usize,
        /// Where to go on.
        at: u32,
    },
}

/// One list of plain slots.
struct Lane {
    rows: Vec<Row>,
    /// For a place whose slot is gone: how far ahead the next that may be left is; 0 where the slot may be left.
    skip: Vec<u32>,
    /// Kept so that no other ranking takes its address.
    _ranking: Ranking,
}

impl Lane {
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

/// The slots of a kind that are left, and their lanes.
pub struct Lanes {
    pub(super) left: Bitmap,
    /// Least weight of such a slot.
    least_weight: f64,
    /// Address families of these slots, each combination met as a bit.
    families: u8,
    /// How often a ranking was asked for, and its lane once made.
    known: FxHashMap<(usize, usize), (Ranking, u32, Option<usize>)>,
    lanes: Vec<Lane>,
    slots_per_class: usize,
    way: PlainWay,
}

impl Lanes {
    pub(super) fn new(row_end: usize, index: &SlotIndex, lean: &[Lean], kind: Kind) -> Self {
        let mut out = Self {
            left: Bitmap::empty(row_end),
            least_weight: f64::INFINITY,
            families: 0,
            known: FxHashMap::default(),
            lanes: Vec::new(),
            slots_per_class: 0,
            way: PlainWay::Cheapest,
        };
        let (mut slots, mut classes) = (0, 0);
        for (class, facts) in lean
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

    /// Forgets the lanes: ranks have changed.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.lanes.clear();
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

    /// The next slot of a lane that is left and among `rows`.
    fn step(&mut self, lane: usize, at: &mut u32, rows: &Bitmap) -> Option<Row> {
        let lane = &mut self.lanes[lane];
        loop {
            *at = lane.find(*at);
            let row = lane.rows.get(*at as usize).copied()?;
            *at += 1;
            if !self.left.get(row as usize) {
                lane.skip[*at as usize - 1] = 1;
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
    pub fn go_through_plain(&mut self, way: PlainWay) {
        self.lanes.way = way;
    }

    fn lanes_of(&mut self, kind: Kind) -> &mut Lanes {
        match kind {
            Kind::Busy => &mut self.busy.lanes,
            Kind::Uncut => &mut self.uncut,
            Kind::Plain | Kind::Alone => &mut self.lanes,
        }
    }

    /// The slots of a kind that are left.
    #[must_use]
    pub fn lanes(&self, kind: Kind) -> &Lanes {
        match kind {
            Kind::Busy => &self.busy.lanes,
            Kind::Uncut => &self.uncut,
            Kind::Plain | Kind::Alone => &self.lanes,
        }
    }

    /// Classes of a kind.
    pub fn classes_of(&self, kind: Kind) -> impl Iterator<Item = u32> + '_ {
        let known = self.lean.iter().zip(0..);
        known
            .filter(move |(lean, _)| lean.kind == kind)
            .map(|(_, class)| class)
    }

    /// How a request that matches `rows` best goes through slots of a kind; nothing when class by class is better.
    pub fn walk(
        &mut self,
        shared: &Shared<'_>,
        kind: Kind,
        rows: &Bitmap,
        ranking: &Ranking,
    ) -> Option<Walk> {
        let way = self.lanes.way;
        if way == PlainWay::Classes {
            return None;
        }
        let matching = self.lanes_of(kind).left_among(rows);
        if matching == 0 {
            return Some(Walk::Nothing);
        }
        let preemption = match kind {
            Kind::Busy => self.preemption_ranks(shared),
            _ => None,
        };
        if matching * SPARSE <= rows.len() && way == PlainWay::Cheapest {
            let mut both = self.lanes_of(kind).left.clone();
            both.and(rows);
            let mut sorted = self.sorted(&both, ranking, preemption.as_deref());
            sorted.reverse();
            return Some(Walk::Sorted(kind, sorted));
        }
        let lane = self.lane(kind, ranking, preemption.as_deref())?;
        Some(Walk::Lane { kind, lane, at: 0 })
    }

    /// Rows, best first.
    fn sorted(&self, rows: &Bitmap, ranking: &Ranking, preemption: Option<&Numbers>) -> Vec<Row> {
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

    fn lane(
        &mut self,
        kind: Kind,
        ranking: &Ranking,
        preemption: Option<&Numbers>,
    ) -> Option<usize> {
        let sparing = kind != Kind::Busy && self.lanes.way == PlainWay::Cheapest;
        let lanes = self.lanes_of(kind);
        let many = lanes.slots_per_class > SLOTS_PER_CLASS && sparing;
        let known = lanes.known.entry(ranking.key());
        let (_, asked, lane) = known.or_insert_with(|| (ranking.clone(), 0, None));
        *asked += 1;
        if lane.is_some() || many && *asked == 1 {
            return *lane;
        }
        let rows = match kind {
            Kind::Busy => self.sorted(&self.busy.lanes.left, ranking, preemption),
            _ => self.ordered_rows(kind, ranking),
        };
        let lanes = self.lanes_of(kind);
        let number = lanes.lanes.len();
        lanes.lanes.push(Lane {
            skip: vec![0; rows.len()],
            rows,
            _ranking: ranking.clone(),
        });
        lanes.known.entry(ranking.key()).and_modify(|known| {
            known.2 = Some(number);
        });
        Some(number)
    }

    /// All slots of a kind that are left, best first.
    fn ordered_rows(&self, kind: Kind, ranking: &Ranking) -> Vec<Row> {
        let wanted = |class: &usize| self.lean[*class].kind == kind && self.left[*class] > 0;
        let mut classes: Vec<((f64, f64), usize)> = (0..self.lean.len())
            .filter(wanted)
            .map(|class| (ranking.of(self.lean[class].representative), class))
            .collect();
        classes.sort_unstable_by(|a, b| b.0.0.total_cmp(&a.0.0).then(b.0.1.total_cmp(&a.0.1)));
        let left = &self.lanes(kind).left;
        let in_order = self.index.order().iter().copied();
        let in_order = in_order.filter(|row| left.get(*row as usize));
        let mut starts = Vec::new();
        let mut tier_of = vec![0_u32; self.lean.len()];
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

    /// The next slot of a walk among `rows`, which it passes.
    pub fn next_on(&mut self, walk: &mut Walk, rows: &Bitmap) -> Option<Head> {
        let (kind, row) = match walk {
            Walk::Nothing => return None,
            Walk::Sorted(kind, sorted) => (*kind, sorted.pop()),
            Walk::Lane { kind, lane, at } => (*kind, self.lanes_of(*kind).step(*lane, at, rows)),
        };
        let row = row?;
        let mut place = self.place(row);
        if kind == Kind::Busy {
            place.preemption_rank = self.busy.preemption_rank(row);
        }
        Some(Head {
            place,
            seat: Seat::Lane,
        })
    }
}
