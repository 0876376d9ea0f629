//! Partitionable slots that fit a request once some of their dynamic slots are evicted.
//!
//! Source: administrators' manual, ALLOW_PSLOT_PREEMPTION. Dynamic slots are
//! given up in ascending order of their CurrentRank until the request fits;
//! the slot must prefer the job, or rank it equal and PREEMPTION_REQUIREMENTS
//! must allow it.

use crate::amounts::amount_expr;
use crate::candidates::{Candidate, Eviction, SlotState};
use crate::evaluate::{Evaluation, insert_remote, requirements_hold};
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::slot::{SlotClass, own_number, own_text, weight};
use classad::{Ad, Expr, Value, evaluate};
use fairshare::GroupTree;

/// One dynamic slot that might be given up.
struct Child {
    name: String,
    user: String,
    rank: f64,
    ad: Ad,
}

/// The partitionable slot as a candidate, if eviction makes the request fit.
pub fn candidate<'a>(
    evaluation: &mut Evaluation<'a>,
    pool: &mut Pool<'a>,
    ledger: &Ledger,
    class: usize,
    rank_only: bool,
) -> Option<Candidate> {
    let shared = evaluation.shared();
    let row = pool.head(class, 0, None)?.place.row;
    let facts = SlotClass::clone(&pool.classes()[class]);
    let new_rank = evaluation.slot_rank(&facts).unwrap_or(0.0);
    let children = children(evaluation, ledger, row, &facts);
    let mut grown = facts;
    let mut eviction = Eviction {
        names: Vec::new(),
        users: Vec::new(),
    };
    let mut state = SlotState::Rank;
    for child in children
        .into_iter()
        .take_while(|child| child.rank <= new_rank)
    {
        if child.rank == new_rank {
            if rank_only || child.user == evaluation.submitter() {
                continue;
            }
            let requirements = &shared.config.preemption.requirements;
            if !shared
                .eval(requirements, &child.ad, &evaluation.job)
                .is_true()
            {
                continue;
            }
            state = SlotState::Priority;
        }
        give(&mut grown, &child.ad, shared.now);
        eviction.names.push(child.name);
        if !eviction.users.contains(&child.user) {
            eviction.users.push(child.user);
        }
        if requirements_hold(&shared, &evaluation.job, &grown.ad) {
            grown
                .ad
                .set("RemoteUser", Expr::Lit(Value::str("various_dSlot_users")));
            grown.weight = weight(&grown.ad, shared.config.share.weighted, shared.now);
            return evaluation.evicting_candidate(pool, &grown, class, state, eviction);
        }
    }
    None
}

/// Adds what a dynamic slot holds to its partitionable slot, in whole units.
fn give(grown: &mut SlotClass, child: &Ad, now: i64) {
    for (name, amount) in &mut grown.resources {
        let more = own_number(child, &name.to_text(), now).unwrap_or(0.0);
        *amount = amount.floor() + more;
        grown.ad.insert(name.clone(), amount_expr(*amount));
    }
}

/// Dynamic slots that may be given up, lowest rank first.
fn children(
    evaluation: &Evaluation<'_>,
    ledger: &Ledger,
    row: u32,
    facts: &SlotClass,
) -> Vec<Child> {
    let shared = evaluation.shared();
    let names = child_names(&facts.ad, shared.now);
    let now = shared.now;
    let mut out: Vec<Child> = names
        .into_iter()
        .filter_map(|name| {
            let child_row = shared
                .index
                .row_named(shared.table, &name)
                .filter(|found| *found != row)?;
            let mut ad = shared.table.ad(child_row);
            let retiring = own_number(&ad, "RetirementTimeRemaining", now).is_some_and(|t| t > 0.0);
            if retiring || own_text(&ad, "State", now).as_deref() == Some("Preempting") {
                return None;
            }
            let users = [
                "PreemptingAccountingGroup",
                "PreemptingUser",
                "AccountingGroup",
                "RemoteUser",
            ];
            let user = users
                .iter()
                .find_map(|attr| own_text(&ad, attr, now))
                .unwrap_or_default();
            let factor = shared.config.share.factors.factor_of(&user, None, 0.0);
            let groups = GroupTree::build(Vec::new()).0;
            insert_remote(
                &mut ad,
                &user,
                ledger.find(&user),
                ledger,
                &groups,
                factor * 0.5,
            );
            let rank = own_number(&ad, "CurrentRank", now).unwrap_or(0.0);
            Some(Child {
                name,
                user,
                rank,
                ad,
            })
        })
        .collect();
    out.sort_by(|a, b| a.rank.total_cmp(&b.rank).then_with(|| a.name.cmp(&b.name)));
    out
}

/// Names in the roll-up the partitionable slot publishes.
fn child_names(ad: &Ad, now: i64) -> Vec<String> {
    let Some(expr) = ad.get_str("ChildName") else {
        return Vec::new();
    };
    let context = classad::Context {
        my: Some(ad),
        now,
        ..classad::Context::default()
    };
    match evaluate(expr, &context) {
        Value::List(list) => list
            .items
            .iter()
            .filter_map(|item| {
                let value = evaluate(item, &context);
                value
                    .as_str()
                    .map(|s| String::from_utf8_lossy(s).into_owned())
            })
            .collect(),
        _ => Vec::new(),
    }
}
