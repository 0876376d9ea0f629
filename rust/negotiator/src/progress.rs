//! How far the cycle is with each request.

use crate::request::Demand;
use rustc_hash::FxHashMap;

/// A slot that was matched and may be matched again (WantAdRevaluate).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reevaluated {
    pub class: usize,
    pub row: u32,
}

/// See the module text.
pub(crate) struct Progress {
    /// Requests of each submitter entry, in the order they are served.
    pub requests_of: Vec<Vec<usize>>,
    /// Jobs left of each request.
    pub remaining: Vec<u32>,
    /// Matches of each request in this spin with slots that cannot be claimed; its jobs wait on when the spin ends.
    pub unclaimable: Vec<u32>,
    /// With NEGOTIATOR_DEPTH_FIRST: jobs of each request expected to run along with those matched in this turn, asked
    /// for again in the next.
    pub coscheduled: Vec<u32>,
    /// Slots matched by the request being served that may be matched again.
    pub reevaluated: Vec<Reevaluated>,
    /// How often such a slot was matched, by row.
    pub times_matched: FxHashMap<u32, u32>,
}

impl Progress {
    /// Nothing served yet.
    pub fn begin(demand: &Demand) -> Self {
        let requests = demand.requests.len();
        Self {
            requests_of: demand
                .submitters
                .iter()
                .map(|submitter| submitter.requests.clone())
                .collect(),
            remaining: demand.requests.iter().map(|r| r.count).collect(),
            unclaimable: vec![0; requests],
            coscheduled: vec![0; requests],
            reevaluated: Vec::new(),
            times_matched: FxHashMap::default(),
        }
    }

    /// Jobs left of all requests that are served under an entry.
    pub fn remaining_of(&self, entry: usize) -> u32 {
        self.requests_of[entry]
            .iter()
            .map(|request| self.remaining[*request])
            .sum()
    }

    /// Counts jobs of a request that are expected to start on the machine just matched, as far as there are so many.
    pub fn run_along(&mut self, request: usize, along: u32) {
        let along = along.min(self.remaining[request]);
        self.remaining[request] -= along;
        self.coscheduled[request] += along;
    }

    /// The turn of a request is over: jobs expected to run along are asked for again.
    pub fn end_request(&mut self, request: usize) {
        self.remaining[request] += std::mem::take(&mut self.coscheduled[request]);
    }

    /// The spin is over: jobs that were matched with slots that cannot be claimed are idle again.
    pub fn end_spin(&mut self) {
        for (left, back) in self.remaining.iter_mut().zip(&mut self.unclaimable) {
            *left += std::mem::take(back);
        }
    }
}
