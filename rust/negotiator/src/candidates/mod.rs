//! Slots for one request, best first.

mod stream;

use crate::candidate::{Candidate, SlotState};
use crate::evaluate::Evaluation;
use crate::ledger::Ledger;
use crate::outcome::{Reason, SlotCounts};
use crate::pool::{Pool, SlotKind, SlotRef};
use columns::{Bitmap, Numbers};
use fairshare::{Limits, permits};
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use stream::{Claims, Stream, among};

/// What a submitter has taken in one negotiation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Cost of all matches.
    pub total: f64,
    /// Cost of matches with free slots.
    pub unclaimed: f64,
}

/// The candidates of one request, and why others are none.
pub struct Candidates {
    heap: BinaryHeap<Candidate>,
    /// Classes of free slots not looked at yet, by pre-job rank, best last.
    pending: Vec<(f64, Arc<[u32]>)>,
    /// Slots that are gone through one by one.
    streams: Vec<Stream>,
    /// Busy slots.
    claims: Claims,
    /// With NEGOTIATOR_DEPTH_FIRST: the rest of the machine carved last.
    pinned: Option<Candidate>,
    /// Only slots that prefer the job to what they run.
    pub rank_only: bool,
    /// Slots that could not be taken, by cause.
    pub refused: SlotCounts,
    /// The concurrency limits that were met.
    pub limits_met: BTreeSet<String>,
    /// Live usage the preemption expressions were evaluated with.
    pub generation: u64,
}

impl Candidates {
    /// Evaluates every class that has slots left.
    pub fn gather<'a>(
        evaluation: &mut Evaluation<'a>,
        pool: &mut Pool<'a>,
        ledger: &Ledger,
        rank_only: bool,
    ) -> Self {
        let mut out = Self {
            heap: BinaryHeap::new(),
            pinned: None,
            pending: Vec::new(),
            streams: Vec::new(),
            claims: Claims::Apart,
            rank_only,
            refused: SlotCounts::default(),
            limits_met: BTreeSet::new(),
            generation: ledger.generation,
        };
        let mut found = Vec::new();
        let ranks = evaluation
            .answers
            .pre_rank
            .clone()
            .filter(|_| evaluation.knows_rows());
        let classes = match ranks {
            None => {
                pool.put_users();
                (0..pool.classes().len() as u32).collect()
            }
            Some(ranks) => {
                let mut classes = pool.special();
                if !rank_only {
                    if !out.open_stream(evaluation, &ranks, pool, SlotKind::Free) {
                        out.put_off(&ranks, pool);
                    }
                    if !out.open_stream(evaluation, &ranks, pool, SlotKind::WholePslot) {
                        classes.extend(pool.classes_of(SlotKind::WholePslot));
                    }
                }
                match evaluation.preemptable_rows(pool) {
                    Some(rows) if pool.any_preemptable(rows) => {
                        out.claims = Claims::Pending(pool.preemptable_bound(&ranks));
                    }
                    Some(_) => {}
                    None => {
                        pool.put_users();
                        classes.extend(pool.classes_of(SlotKind::Preemptable));
                    }
                }
                classes
            }
        };
        for class in classes.into_iter().map(|class| class as usize) {
            if pool.left(class) > 0 {
                found.extend(evaluation.candidate(
                    pool,
                    ledger,
                    class,
                    rank_only,
                    &mut out.refused,
                ));
            }
        }
        out.heap = found.into();
        out
    }

    /// Goes through free slots of a kind one by one, if that is possible and cheap.
    fn open_stream(
        &mut self,
        evaluation: &Evaluation<'_>,
        ranks: &Arc<Numbers>,
        pool: &mut Pool<'_>,
        kind: SlotKind,
    ) -> bool {
        let Some(rows) = evaluation.sorted_rows(pool, kind).cloned() else {
            return false;
        };
        let ranking = evaluation.ranking(ranks);
        let stream = Stream::open(evaluation, pool, (kind, SlotState::Free), rows, &ranking);
        let opened = stream.is_some();
        self.streams.extend(stream);
        opened
    }

    /// Asks about busy slots once one could be the best.
    fn reach_claims(&mut self, evaluation: &Evaluation<'_>, pool: &mut Pool<'_>) {
        let Claims::Pending(bound) = self.claims else {
            return;
        };
        let next = self.streams.iter().filter_map(|s| s.next.as_ref());
        let best = next.chain(self.heap.peek()).map(|c| c.pre_rank);
        if best.reduce(f64::max).is_some_and(|best| best > bound) {
            return;
        }
        self.claims = Claims::Apart;
        let answers = &evaluation.answers;
        let (Some(rows), Some(ranks)) = (&answers.rows, &answers.pre_rank) else {
            return;
        };
        let sets = pool.preemption_sets(&evaluation.inputs(), &evaluation.job);
        let own = pool.held_by(evaluation.submitter());
        let ranking = evaluation.ranking(ranks);
        let mut open = |state, set: Bitmap| {
            let stream = Stream::open(
                evaluation,
                pool,
                (SlotKind::Preemptable, state),
                Arc::new(set),
                &ranking,
            );
            self.streams.extend(stream);
        };
        open(SlotState::Rank, among(rows, &sets.rank, None));
        if !self.rank_only {
            let others = among(rows, &sets.priority, Some(&own));
            open(SlotState::Priority, others);
        }
        self.claims = Claims::Judged(sets, own);
        for stream in &mut self.streams {
            stream.look_further(evaluation, pool);
        }
    }

    /// Counts the busy slots that match and are not to be had.
    pub fn count_refused(&mut self, evaluation: &Evaluation<'_>, pool: &Pool<'_>) {
        if let (Claims::Judged(sets, own), Some(rows)) = (&self.claims, &evaluation.answers.rows) {
            let count = |set| {
                pool.sorted(SlotKind::Preemptable)
                    .left_among(&among(rows, set, Some(own))) as u64
            };
            self.refused.protected += count(&sets.protected);
            self.refused.prefer_running += count(&sets.prefer_running);
        }
    }

    /// The best of what is there, taken out.
    fn pop(&mut self) -> Option<Candidate> {
        if let Some(rest) = self.pinned.take() {
            return Some(rest);
        }
        let streams = self.streams.iter_mut().filter(|s| s.next.is_some());
        let best = streams.max_by(|a, b| a.next.cmp(&b.next));
        match best {
            Some(stream) if self.heap.peek() < stream.next.as_ref() => stream.next.take(),
            _ => self.heap.pop(),
        }
    }

    /// Notes a slot, and those like it, that the limits do not permit.
    fn pass_by(&mut self, top: &Candidate, evaluation: &Evaluation<'_>, pool: &Pool<'_>) {
        let class = top.class as usize;
        let mut own = None;
        if top.head.slot_ref == SlotRef::Sorted {
            let kind = pool.summaries()[class].kind;
            let mut streams = self.streams.iter_mut();
            own = streams.find(|stream| stream.kind == kind && stream.state == top.state);
        }
        self.refused.too_heavy += match own {
            Some(stream) => stream.pass_by(top.cost, pool),
            None => evaluation.count(pool, class),
        };
    }

    /// Keeps classes of free slots for later, by their pre-job rank: most are never reached.
    fn put_off(&mut self, ranks: &Numbers, pool: &mut Pool<'_>) {
        let tiers = pool.tiers(ranks.groups());
        let rank = |group: u32| {
            let rank = ranks.by_group()[group as usize];
            if rank.is_nan() {
                f64::NEG_INFINITY
            } else {
                rank
            }
        };
        self.pending = tiers
            .tiers
            .iter()
            .map(|(group, classes)| (rank(*group), Arc::clone(classes)))
            .collect();
        self.pending.sort_by(|a, b| a.0.total_cmp(&b.0));
    }

    /// Looks at the classes put off whose rank is not below that of the best so far.
    fn catch_up(&mut self, evaluation: &Evaluation<'_>, pool: &Pool<'_>) {
        while let Some((rank, _)) = self.pending.last() {
            if self.heap.peek().is_some_and(|top| top.pre_rank > *rank) {
                return;
            }
            let Some((_, classes)) = self.pending.pop() else {
                return;
            };
            let left = classes
                .iter()
                .map(|class| *class as usize)
                .filter(|class| pool.left(*class) > 0);
            let found: Vec<Candidate> = left
                .filter_map(|class| evaluation.plain_candidate(pool, class))
                .collect();
            self.heap.append(&mut found.into());
        }
    }

    /// The best candidate that the limits and concurrency limits permit, left in the pool.
    pub fn best(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        pool: &mut Pool<'_>,
        ledger: &Ledger,
        taken: Taken,
        limits: Limits,
    ) -> Option<Candidate> {
        loop {
            self.catch_up(evaluation, pool);
            for stream in &mut self.streams {
                stream.look_further(evaluation, pool);
            }
            if self.pinned.is_none() {
                self.reach_claims(evaluation, pool);
            }
            let mut top = self.pop()?;
            let class = top.class as usize;
            if top.generation != pool.generation(class) {
                // The class is one slot's own and was carved; what is left was put in anew.
                continue;
            }
            if !pool.is_there(class, &top.head) {
                if let Some(head) = evaluation.head(pool, class, top.head.start()) {
                    top.head = head;
                    self.heap.push(top);
                }
                continue;
            }
            let permitted = match top.state {
                SlotState::Rank => true,
                SlotState::Priority => permits(taken.total, top.cost, limits.total),
                SlotState::Free => permits(taken.unclaimed, top.cost, limits.unclaimed),
            };
            if !permitted {
                self.pass_by(&top, evaluation, pool);
                continue;
            }
            if let Some(limit) = evaluation.limit_met_by(ledger, &top, &pool.classes()[class]) {
                self.refused.limited += evaluation.count(pool, class);
                self.limits_met.insert(limit);
                continue;
            }
            return Some(top);
        }
    }

    /// Puts a class back after one of its slots was taken.
    pub fn again(&mut self, candidate: Candidate, evaluation: &Evaluation<'_>, pool: &Pool<'_>) {
        let class = candidate.class as usize;
        let from = candidate.head.next();
        if candidate.head.slot_ref != SlotRef::Sorted
            && candidate.eviction.is_none()
            && candidate.generation == pool.generation(class)
            && let Some(head) = evaluation.head(pool, class, from)
        {
            self.heap.push(Candidate { head, ..candidate });
        }
    }

    /// Adds a class that a carved slot came to.
    ///
    /// A class may be in the heap twice: an entry whose slot is no longer the
    /// best of its class is looked at again when it comes up.
    pub fn add<'a>(
        &mut self,
        evaluation: &mut Evaluation<'a>,
        pool: &mut Pool<'a>,
        ledger: &Ledger,
        class: usize,
    ) {
        let candidate =
            evaluation.candidate(pool, ledger, class, self.rank_only, &mut self.refused);
        if evaluation.inputs().config.partition.depth_first {
            self.pinned.clone_from(&candidate);
        }
        self.heap.extend(candidate);
    }

    /// Why there is no candidate: the first cause in the order of the tests.
    #[must_use]
    pub fn reason(&self) -> Reason {
        if !self.limits_met.is_empty() {
            Reason::limits(&self.limits_met)
        } else if self.refused.protected > 0 {
            Reason::PreemptionRequirements
        } else if self.refused.too_heavy > 0 {
            Reason::SubmitterLimit
        } else {
            Reason::NoMatch
        }
    }
}
