//! Evaluations of requests: opened with what is known of a request already, and kept for later spins.

use crate::accounting::Accounting;
use crate::cycle_attributes::SUBMITTER_NAMES;
use crate::evaluate::{Answers, Evaluation, insert_submitter, live_signature};
use crate::inputs::Inputs;
use crate::prefetch::Prefetch;
use classad::allowance;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of answers that are kept at once; beyond that requests are evaluated anew.
const ANSWER_BYTES: usize = 512 << 20;

/// See the module text.
pub(crate) struct Evaluations<'a> {
    inputs: Inputs<'a>,
    prefetch: &'a Prefetch<'a>,
    /// Some expression reads attributes of the submitter, which the cycle inserts into jobs.
    names_submitter: bool,
    known: FxHashMap<u128, Answers>,
    bytes: usize,
}

impl<'a> Evaluations<'a> {
    /// Nothing known yet but what is prefetched.
    pub fn new(inputs: Inputs<'a>, prefetch: &'a Prefetch<'a>) -> Self {
        Self {
            inputs,
            prefetch,
            names_submitter: inputs.dependencies.mentions(&SUBMITTER_NAMES),
            known: FxHashMap::default(),
            bytes: 0,
        }
    }

    /// Whether conditions may change their results with what the submitter of a job uses.
    fn conditions_see_submitter(&self) -> bool {
        self.names_submitter && self.inputs.dependencies.conditions_see_submitter
    }

    /// A request served under an entry, with what is known of it.
    pub fn open(
        &mut self,
        accounting: &Accounting,
        entry: usize,
        negotiating: usize,
        request: usize,
    ) -> Evaluation<'a> {
        let demand = self.inputs.demand;
        let asked = &demand.requests[request];
        let mut job = Cow::Borrowed(&asked.ad);
        let mut signature = asked.signature;
        if self.names_submitter {
            let account = accounting.account_of[entry];
            let (ledger, groups) = (&accounting.ledger, &accounting.groups);
            insert_submitter(job.to_mut(), account, negotiating, ledger, groups);
        }
        let live = self.conditions_see_submitter();
        if live {
            signature = live_signature(asked, &job, &SUBMITTER_NAMES);
        }
        let mut answers = match self.known.remove(&signature) {
            Some(known) => known,
            None if live => Answers::ask(&self.inputs, &job),
            None => self.prefetch.answers(request),
        };
        allowance::charge(std::mem::take(&mut answers.uncharged));
        let submitter = &demand.submitters[entry];
        let mut evaluation = Evaluation::new(self.inputs, asked, submitter, job, answers);
        evaluation.signature = signature;
        if self.inputs.config.preemption.partitionable {
            evaluation.groups = Some(Arc::new(accounting.groups.clone()));
        }
        evaluation
    }

    /// A request for whoever looks at it outside a negotiation: under its own submitter and group.
    pub fn of_request(&mut self, accounting: &Accounting, request: usize) -> Evaluation<'a> {
        let entry = self.inputs.demand.requests[request].submitter;
        self.open(accounting, entry, accounting.group_of(entry), request)
    }

    /// Keeps answers for later spins, as long as they do not fill the memory.
    pub fn keep(&mut self, evaluation: Evaluation<'a>) {
        let bytes = evaluation.answers.own_bytes();
        if bytes == 0 && !self.conditions_see_submitter() {
            return;
        }
        self.bytes += bytes + evaluation.answers.heap_bytes();
        if self.bytes > ANSWER_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        self.known.insert(evaluation.signature, evaluation.answers);
    }

    /// Brings what a job says of its submitter up to date, after a match.
    pub fn refresh(
        &mut self,
        accounting: &Accounting,
        negotiating: usize,
        request: usize,
        evaluation: &mut Evaluation<'a>,
    ) {
        if !self.names_submitter {
            return;
        }
        let entry = self.inputs.demand.requests[request].submitter;
        if self.inputs.dependencies.conditions_see_submitter {
            let fresh = self.open(accounting, entry, negotiating, request);
            self.keep(std::mem::replace(evaluation, fresh));
        } else {
            let account = accounting.account_of[entry];
            let (ledger, groups) = (&accounting.ledger, &accounting.groups);
            let job = evaluation.job.to_mut();
            insert_submitter(job, account, negotiating, ledger, groups);
        }
    }

    /// Lets the other cores work on requests that will be served, in this order.
    pub fn announce(&self, requests: impl Iterator<Item = usize>) {
        self.prefetch.expect(requests);
    }
}
