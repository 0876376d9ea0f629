//! Answers for requests that are not served yet, worked out by the other cores while one serves.
//!
//! Which slots match a request, and how they rank, depends on nothing that a
//! cycle changes, as long as no condition looks at submitters. So the other
//! cores go ahead of the one that serves; whatever is not there when it is
//! needed is worked out on the spot. Results are the same either way.
//!
//! What bounds it: some ten passes over one bit a slot for every request, and
//! the values that conditions have not met before.

use crate::effort;
use crate::evaluate::Answers;
use crate::inputs::Inputs;
use classad::allowance;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of answers kept at once; beyond that they are asked for again.
const ANSWER_BYTES: usize = 512 << 20;
/// Fewer requests than this are not worth other cores.
const REQUESTS_MIN: usize = 16;
/// Requests x slots from which on the other cores are asked.
const PAIRS_MIN: usize = 1 << 18;

#[derive(Default)]
struct State {
    /// Requests in the order they will be served.
    queue: VecDeque<u32>,
    known: FxHashMap<u128, Answers>,
    bytes: usize,
    ended: bool,
}

/// See the module text.
pub(crate) struct Prefetch<'a> {
    inputs: Inputs<'a>,
    state: Mutex<State>,
    wake: Condvar,
    /// Cores that go ahead.
    pub workers: usize,
}

impl<'a> Prefetch<'a> {
    /// Nothing asked for yet.
    pub fn new(inputs: Inputs<'a>) -> Self {
        let requests = inputs.demand.requests.len();
        let worthwhile = inputs.dependencies.row_matching
            && !inputs.dependencies.conditions_see_submitter
            && requests >= REQUESTS_MIN
            && requests.saturating_mul(inputs.table.row_end()) >= PAIRS_MIN;
        let cores = rayon::current_num_threads();
        Self {
            inputs,
            state: Mutex::default(),
            wake: Condvar::new(),
            workers: if worthwhile { cores - 1 } else { 0 },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock only means that another thread panicked between two whole updates.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which requests will be served, in order.
    pub fn expect(&self, requests: impl Iterator<Item = usize>) {
        if self.workers == 0 {
            return;
        }
        let mut state = self.lock();
        let mut seen = FxHashSet::default();
        let queue = requests
            .filter(|request| {
                let signature = self.inputs.demand.requests[*request].signature;
                !state.known.contains_key(&signature) && seen.insert(signature)
            })
            .map(|request| request as u32)
            .collect();
        state.queue = queue;
        drop(state);
        self.wake.notify_all();
    }

    /// What is known of a request, worked out now if nobody did.
    pub fn answers(&self, request: usize) -> Answers {
        let signature = self.inputs.demand.requests[request].signature;
        let mut state = self.lock();
        if let Some(known) = state.known.get_mut(&signature) {
            let found = known.clone();
            // Answers that were cut short are too much for everybody who asks the same.
            if known.uncharged < effort::of_request(&self.inputs) {
                known.uncharged = 0;
            }
            return found;
        }
        if state.queue.front() == Some(&(request as u32)) {
            state.queue.pop_front();
        }
        drop(state);
        let made = Answers::ask(&self.inputs, &self.inputs.demand.requests[request].ad);
        if allowance::exhausted() {
            // They may be wrong for others who ask the same and have more steps left.
            return made;
        }
        let mut state = self.lock();
        if state.bytes > ANSWER_BYTES {
            state.known.clear();
            state.bytes = 0;
            self.wake.notify_all();
        }
        state.bytes += made.heap_bytes();
        state.known.insert(signature, made.clone());
        made
    }

    /// Goes ahead until the cycle has ended.
    pub fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.ended {
                return;
            }
            let next = if state.bytes > ANSWER_BYTES {
                None
            } else {
                state.queue.pop_front()
            };
            let Some(request) = next else {
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let asked = &self.inputs.demand.requests[request as usize];
            if state.known.contains_key(&asked.signature) {
                continue;
            }
            drop(state);
            let made = Answers::prefetch(&self.inputs, &asked.ad);
            state = self.lock();
            state.bytes += made.heap_bytes();
            state.known.insert(asked.signature, made);
        }
    }
}

/// Sends the other cores home when it goes, however the cycle ends.
pub(crate) struct StopWorkers<'b, 'a>(pub &'b Prefetch<'a>);

impl Drop for StopWorkers<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.wake.notify_all();
    }
}
