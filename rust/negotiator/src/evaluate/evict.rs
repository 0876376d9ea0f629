//! Partitionable slots that fit a request once some of their dynamic slots are evicted.
//!
//! Source: administrators' manual, ALLOW_PSLOT_PREEMPTION. Dynamic slots are
//! given up in ascending order of their CurrentRank until the request fits;
//! the slot must prefer the job, or rank it equal and PREEMPTION_REQUIREMENTS
//! must allow it.

use super::{Evaluation, requirements_hold};
use crate::amounts::amount_expr;
use crate::candidate::{Candidate, Eviction, SlotState};
use crate::config::permits_preemption;
use crate::ledger::Ledger;
use crate::own_values::{own_text, own_value};
use crate::pool::Pool;
use crate::slot::{SlotClass, USERS, weight};
use classad::{Ad, Context, Expr, Name, Value, evaluate};

/// One dynamic slot that might be given up.
struct Child {
    name: String,
    user: String,
    rank: f64,
    /// What it holds, by resource.
    amounts: Vec<(Name, f64)>,
    /// Its own ad, if there is one.
    ad: Option<Ad>,
}

/// The partitionable slot as a candidate, if eviction makes the request fit.
pub fn candidate<'a>(
    evaluation: &mut Evaluation<'a>,
    pool: &mut Pool<'a>,
    ledger: &Ledger,
    class: usize,
    rank_only: bool,
) -> Option<Candidate> {
    let inputs = evaluation.inputs();
    let row = pool.head(class, 0, None)?.place.row;
    let facts = SlotClass::clone(&pool.classes()[class]);
    let new_rank = evaluation.slot_rank(&facts).unwrap_or(0.0);
    let children = children(evaluation, ledger, row, &facts);
    let mut grown = facts;
    let mut eviction = Eviction {
        names: Vec::new(),
        users: Vec::new(),
        limits: (Vec::new(), None),
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
            let requirements = &inputs.config.preemption.requirements;
            let Some(ad) = &child.ad else { continue };
            if !permits_preemption(&inputs.eval(requirements, ad, &evaluation.job)) {
                continue;
            }
            state = SlotState::Priority;
        }
        give(&mut grown, &child);
        eviction.names.push(child.name);
        if !eviction.users.contains(&child.user) {
            eviction.users.push(child.user);
        }
        if requirements_hold(&inputs, &evaluation.job, &grown.ad) {
            grown
                .ad
                .set("RemoteUser", Expr::Lit(Value::str("various_dSlot_users")));
            grown.weight = weight(&grown.ad, inputs.config.share.weighted, inputs.now);
            // Ranks may read what classes do not tell apart.
            let mut whole = inputs.table.ad(row);
            whole.update(&grown.ad);
            grown.ad = whole;
            let (limits, text) = evaluation.limits_on(&grown);
            eviction.limits = (limits.into_owned(), text);
            return evaluation.evicting_candidate(pool, &grown, class, state, eviction);
        }
    }
    None
}

/// Adds what a dynamic slot holds to its partitionable slot, in whole units.
fn give(grown: &mut SlotClass, child: &Child) {
    for (name, amount) in &mut grown.resources {
        let held = child.amounts.iter().find(|(held, _)| held == name);
        *amount = amount.floor() + held.map_or(0.0, |(_, more)| *more);
        grown.ad.insert(name.clone(), amount_expr(*amount));
    }
}

/// Dynamic slots that may be given up, lowest rank first, equals in the order of the roll-up.
fn children(
    evaluation: &Evaluation<'_>,
    ledger: &Ledger,
    row: u32,
    facts: &SlotClass,
) -> Vec<Child> {
    let inputs = evaluation.inputs();
    let rolled = RollUp {
        ad: inputs.table.ad(row),
        now: inputs.now,
    };
    let mut out: Vec<Child> = rolled
        .list("Name")
        .iter()
        .enumerate()
        .filter_map(|(at, name)| {
            let name = String::from_utf8_lossy(name.as_str()?).into_owned();
            let found = inputs.index.row_named(inputs.table, &name);
            let ad = found
                .filter(|child| *child != row)
                .map(|child| inputs.table.ad(child));
            child(evaluation, ledger, &rolled, at, name, ad, facts)
        })
        .collect();
    out.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    out
}

/// The lists in which a partitionable slot publishes attributes of its dynamic slots.
struct RollUp {
    ad: Ad,
    now: i64,
}

impl RollUp {
    fn list(&self, name: &str) -> Vec<Value> {
        let Some(expr) = self.ad.get_str(&format!("Child{name}")) else {
            return Vec::new();
        };
        let context = Context {
            my: Some(&self.ad),
            now: self.now,
            ..Context::default()
        };
        match evaluate(expr, &context) {
            Value::List(list) => list.items.iter().map(|i| evaluate(i, &context)).collect(),
            _ => Vec::new(),
        }
    }

    /// An attribute of the dynamic slot at a place of the lists; its own ad tells what the lists do not.
    fn value(&self, name: &str, at: usize, ad: Option<&Ad>) -> Value {
        let listed = self.list(name).into_iter().nth(at);
        listed
            .filter(|value| !value.is_exceptional())
            .or_else(|| ad.map(|ad| own_value(ad, name, self.now)))
            .unwrap_or(Value::Undefined)
    }
}

/// One dynamic slot, if it may be given up.
fn child(
    evaluation: &Evaluation<'_>,
    ledger: &Ledger,
    rolled: &RollUp,
    at: usize,
    name: String,
    ad: Option<Ad>,
    facts: &SlotClass,
) -> Option<Child> {
    let inputs = evaluation.inputs();
    let value = |attribute: &str| rolled.value(attribute, at, ad.as_ref());
    let number = |attribute: &str| value(attribute).as_number();
    let preempting = value("State").as_str() == Some(b"Preempting");
    if preempting || number("RetirementTimeRemaining").is_some_and(|t| t > 0.0) {
        return None;
    }
    let rank = number("CurrentRank").unwrap_or(0.0);
    let amounts = facts.resources.iter();
    let amounts = amounts
        .map(|(name, _)| (name.clone(), number(&name.to_text()).unwrap_or(0.0)))
        .collect();
    let of_ad = |ad: &Ad| USERS.iter().find_map(|u| own_text(ad, u, inputs.now));
    let user = ad.as_ref().and_then(of_ad).unwrap_or_default();
    let ad = ad.map(|mut ad| {
        evaluation.insert_remote_user(&mut ad, &user, ledger);
        ad
    });
    Some(Child {
        name,
        user,
        rank,
        amounts,
        ad,
    })
}
