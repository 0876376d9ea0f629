//! Attributes that exist while a cycle runs: of submitters in their jobs, of users in their slots.

use crate::hash::hash_bytes;
use crate::ledger::Ledger;
use crate::request::Request;
use classad::{Ad, Expr, Value};
use fairshare::GroupTree;

/// Inserts the attributes of the submitter into a job.
pub fn insert_submitter(
    job: &mut Ad,
    account: usize,
    negotiating_group: usize,
    ledger: &Ledger,
    groups: &GroupTree,
) {
    let real = |x: f64| Expr::Lit(Value::Real(x));
    let text = |s: &str| Expr::Lit(Value::str(s));
    let priority = ledger.effective_priority(account);
    job.set("SubmittorPrio", real(priority));
    job.set("SubmitterUserPrio", real(priority));
    job.set("SubmitterUserResourcesInUse", real(ledger.usage(account)));
    let under = &groups[negotiating_group].setting.name;
    job.set("SubmitterNegotiatingGroup", text(under));
    let regrouped = groups.autoregroup() && negotiating_group == 0;
    job.set("SubmitterAutoregroup", Expr::Lit(Value::Bool(regrouped)));
    if groups.is_active() {
        let group = ledger.get(account).group;
        job.set("SubmitterGroup", text(&groups[group].setting.name));
        job.set(
            "SubmitterGroupResourcesInUse",
            real(ledger.group_usage(group)),
        );
        job.set("SubmitterGroupQuota", real(groups[group].quota));
    }
}

/// Inserts the attributes of a slot's user into its ad.
pub fn insert_remote(slot: &mut Ad, user: &str, ledger: &Ledger, groups: &GroupTree) {
    let real = |x: f64| Expr::Lit(Value::Real(x));
    let account = ledger.find(user);
    let priority = ledger.priority_of(user);
    slot.set("RemoteUserPrio", real(priority));
    let floor = account.map_or(0, |a| ledger.get(a).record.floor);
    slot.set("RemoteUserFloor", Expr::Lit(Value::Int(floor)));
    slot.set(
        "RemoteUserResourcesInUse",
        real(account.map_or(0.0, |a| ledger.usage(a))),
    );
    if groups.is_active() {
        let group = groups.group_of(user);
        slot.set(
            "RemoteGroup",
            Expr::Lit(Value::str(groups[group].setting.name.as_str())),
        );
        slot.set("RemoteGroupResourcesInUse", real(ledger.group_usage(group)));
        slot.set("RemoteGroupQuota", real(groups[group].quota));
    }
}

/// Signature of a request with the attributes inserted for its submitter.
#[must_use]
pub fn live_signature(request: &Request, job: &Ad, names: &[&str]) -> u128 {
    let mut text = format!("{:x}", request.signature);
    for name in names {
        text.push_str(&format!("{:?}", job.get_str(name)));
    }
    hash_bytes(text.as_bytes())
}
