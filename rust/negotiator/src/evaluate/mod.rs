//! What one request and one class of slots think of each other.

mod answers;
mod candidate;
mod evict;
mod inserted;
mod limits;
mod ranks;
mod sorted;

pub use answers::Answers;
pub use inserted::{insert_remote, insert_submitter, live_signature};

use crate::amounts::{amounts, asked_amounts, carve_amounts, with_consumption};
use crate::inputs::Inputs;
use crate::ledger::Ledger;
use crate::pool::{Head, Pool};
use crate::request::{Request, Submitter};
use crate::reservation::may_use;
use crate::slot::{Division, SlotClass};
use answers::{NO, YES};
use classad::{Ad, Expr, Name};
use columns::Bitmap;
use fairshare::GroupTree;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

/// One request being negotiated for.
pub struct Evaluation<'a> {
    inputs: Inputs<'a>,
    /// The job with the attributes the cycle inserts.
    pub job: Cow<'a, Ad>,
    request: &'a Request,
    submitter: &'a Submitter,
    families: u8,
    /// What the job asks of each resource and what that is rounded up to, where no slot is needed to know.
    asked: OnceCell<Option<Vec<(Name, f64, f64)>>>,
    constant_rank: Option<f64>,
    /// Answers so far.
    pub answers: Answers,
    /// What the answers are kept under.
    pub signature: u128,
    /// Busy classes that nothing but a look at their match would tell apart.
    pub deferred: Vec<u32>,
    /// Groups as they stand, for slots that are looked at besides those of the pool.
    pub groups: Option<Arc<GroupTree>>,
}

impl<'a> Evaluation<'a> {
    /// Prepares a request; `answers` hold what is known of it already.
    #[must_use]
    pub fn new(
        inputs: Inputs<'a>,
        request: &'a Request,
        submitter: &'a Submitter,
        job: Cow<'a, Ad>,
        answers: Answers,
    ) -> Self {
        let constant_rank = if inputs.config.selection.ignore_job_ranks {
            Some(0.0)
        } else {
            match job.get_str("Rank") {
                None => Some(0.0),
                Some(Expr::Lit(value)) => Some(value.as_number().unwrap_or(0.0)),
                Some(_) => None,
            }
        };
        Self {
            inputs,
            job,
            request,
            submitter,
            families: crate::slot::address_families(&submitter.address),
            asked: OnceCell::new(),
            constant_rank,
            answers,
            signature: request.signature,
            deferred: Vec::new(),
            groups: None,
        }
    }

    /// Inserts what is known of a slot's user into an ad that is not one of the pool.
    pub fn insert_remote_user(&self, slot: &mut Ad, user: &str, ledger: &Ledger) {
        let none = || Arc::new(GroupTree::build(Vec::new()).0);
        let groups = self.groups.clone().unwrap_or_else(none);
        insert_remote(slot, user, ledger, &groups);
    }

    /// Everything that stays the same for the cycle.
    #[must_use]
    pub fn inputs(&self) -> Inputs<'a> {
        self.inputs
    }

    /// Name of the submitter.
    #[must_use]
    pub fn submitter(&self) -> &str {
        &self.submitter.name
    }

    /// Whether the request may be looked at on this class at all.
    pub(crate) fn may_meet(&self, facts: &SlotClass) -> bool {
        if self.inputs.config.preemption.partitionable && facts.rolled_up {
            return false;
        }
        if facts
            .held_by_schedd
            .as_ref()
            .is_some_and(|holder| *holder != self.submitter.schedd)
        {
            return false;
        }
        if let Some(reserved) = &facts.reserved
            && !may_use(
                reserved,
                &self.submitter.name,
                &self.request.first_job.to_string(),
                &self.job,
                self.inputs.now,
            )
        {
            return false;
        }
        self.families == 0 || facts.families == 0 || self.families & facts.families != 0
    }

    /// Rows among which slots of a class match: none when all slots of the class are alike in that.
    fn rows_of(&self, pool: &Pool<'a>, class: usize) -> Option<&Bitmap> {
        if pool.representative(class).is_none() || pool.classes()[class].partitionable {
            return None;
        }
        self.answers.rows.as_deref()
    }

    /// What a match would take of a slot that is divided, or nothing when it is not.
    #[must_use]
    pub fn amounts_of(&self, facts: &SlotClass) -> Option<Vec<f64>> {
        match facts.division {
            Division::Whole => Some(Vec::new()),
            _ => self.amounts(facts),
        }
    }

    /// The best slot of a class that matches, at or after place `from`.
    #[must_use]
    pub fn head(&self, pool: &Pool<'a>, class: usize, from: u32) -> Option<Head> {
        pool.head(class, from, self.rows_of(pool, class))
    }

    /// Slots of a class that match and are left.
    #[must_use]
    pub fn count(&self, pool: &Pool<'a>, class: usize) -> u64 {
        pool.count(class, self.rows_of(pool, class))
    }

    /// Both Requirements hold, and the resources suffice; slots of undivided
    /// classes are looked at one by one when the best is sought.
    pub fn matches(&mut self, pool: &Pool<'a>, facts: &SlotClass, class: usize) -> bool {
        if self.rows_of(pool, class).is_some() {
            return true;
        }
        self.answers.ready(class, pool.generation(class));
        match self.answers.known[class] {
            YES => return true,
            NO => return false,
            _ => {}
        }
        let whole = !matches!(facts.division, Division::ConsumptionPolicy { .. });
        let yes = match (&self.answers.rows, pool.representative(class)) {
            (Some(rows), Some(row)) if whole => {
                rows.get(row as usize)
                    && (facts.division == Division::Whole || self.amounts(facts).is_some())
            }
            _ if facts.division == Division::Carved => {
                self.amounts(facts).is_some()
                    && requirements_hold(&self.inputs, &self.job, &facts.ad)
            }
            _ => matches(&self.inputs, &self.job, facts),
        };
        self.answers.known[class] = if yes { YES } else { NO };
        yes
    }

    /// What a match would take of a divided slot.
    #[must_use]
    pub fn amounts(&self, facts: &SlotClass) -> Option<Vec<f64>> {
        let asked = self
            .asked
            .get_or_init(|| asked_amounts(&self.job, self.inputs.config, self.inputs.now));
        match (asked, &facts.division) {
            (Some(asked), Division::Carved) => carve_amounts(asked, facts),
            _ => amounts(&self.job, facts, self.inputs.config, self.inputs.now),
        }
    }
}

/// Whether both are numbers and the first is greater.
#[must_use]
pub fn exceeds(rank: Option<f64>, current: Option<f64>) -> bool {
    matches!((rank, current), (Some(rank), Some(current)) if rank > current)
}

/// Whether a job and a class match: resources suffice and both Requirements are true.
#[must_use]
pub fn matches(inputs: &Inputs<'_>, job: &Ad, facts: &SlotClass) -> bool {
    let taken = match facts.division {
        Division::Whole => None,
        _ => match amounts(job, facts, inputs.config, inputs.now) {
            None => return false,
            Some(amounts) => Some(amounts),
        },
    };
    let replaced;
    let job = match (&facts.division, taken) {
        (Division::ConsumptionPolicy { .. }, Some(amounts)) => {
            replaced = with_consumption(job, facts, &amounts);
            &replaced
        }
        _ => job,
    };
    requirements_hold(inputs, job, &facts.ad)
}

/// Whether both Requirements are true.
#[must_use]
pub fn requirements_hold(inputs: &Inputs<'_>, job: &Ad, slot: &Ad) -> bool {
    let holds = |my: &Ad, target: &Ad| {
        my.get_str("Requirements")
            .is_some_and(|expr| inputs.eval(expr, my, target).is_true())
    };
    holds(job, slot) && holds(slot, job)
}
