//! Concurrency limits of a request, which may depend on the slot.

use super::Evaluation;
use crate::candidate::Candidate;
use crate::ledger::Ledger;
use crate::request::LimitSpec;
use crate::slot::SlotClass;
use fairshare::{LimitRequest, parse_limits};
use std::borrow::Cow;

impl<'a> Evaluation<'a> {
    /// Limits of the request on a slot, with the string they came from.
    #[must_use]
    pub fn limits_on(&self, facts: &SlotClass) -> (Cow<'a, [LimitRequest]>, Option<String>) {
        match &self.request.limits {
            LimitSpec::None => (Cow::Borrowed(&[]), None),
            LimitSpec::Fixed(limits, text) => (Cow::Borrowed(limits), Some(text.clone())),
            LimitSpec::BySlot(expr) => {
                let value = self.inputs.eval(expr, &self.job, &facts.ad);
                match value.as_str() {
                    None => (Cow::Borrowed(&[]), None),
                    Some(text) => {
                        let text = String::from_utf8_lossy(text).to_ascii_lowercase();
                        (Cow::Owned(parse_limits(&text)), Some(text))
                    }
                }
            }
        }
    }

    /// Limits of the request on a slot it may get.
    #[must_use]
    pub fn limits_of(
        &self,
        candidate: &Candidate,
        facts: &SlotClass,
    ) -> (Cow<'a, [LimitRequest]>, Option<String>) {
        match &candidate.eviction {
            Some(eviction) => {
                let (limits, text) = eviction.limits.clone();
                (Cow::Owned(limits), text)
            }
            None => self.limits_on(facts),
        }
    }

    /// The concurrency limit that keeps the request from every slot.
    #[must_use]
    pub fn fixed_limit_met(&self, ledger: &Ledger) -> Option<String> {
        let LimitSpec::Fixed(limits, _) = &self.request.limits else {
            return None;
        };
        let over = ledger
            .counts
            .first_over(&self.inputs.config.limits, limits)?;
        Some(over.name.clone())
    }

    /// The concurrency limit that keeps the request from this slot.
    #[must_use]
    pub fn limit_met_by(
        &self,
        ledger: &Ledger,
        candidate: &Candidate,
        facts: &SlotClass,
    ) -> Option<String> {
        if !matches!(self.request.limits, LimitSpec::BySlot(_)) {
            return None;
        }
        let (limits, _) = self.limits_of(candidate, facts);
        let over = ledger
            .counts
            .first_over(&self.inputs.config.limits, &limits)?;
        Some(over.name.clone())
    }
}
