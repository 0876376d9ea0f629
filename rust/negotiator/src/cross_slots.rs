//! What slots see of the users of their neighbours (`NEGOTIATOR_CROSS_SLOT_PRIOS`).
//!
//! A startd that publishes attributes of its slots into each other
//! (STARTD_SLOT_ATTRS) names them `slot<N>_...`. For every such user the cycle
//! adds priority, usage and group under the same prefix.

use crate::evaluate::insert_remote;
use crate::ledger::Ledger;
use crate::own_values::{own_number, own_text};
use crate::slot::USERS;
use classad::Ad;
use fairshare::GroupTree;

/// Inserts what is known of the users of a slot's neighbours; whether there was any.
pub fn insert(
    slot: &mut Ad,
    numbers: &[u32],
    ledger: &Ledger,
    groups: &GroupTree,
    now: i64,
) -> bool {
    let total = own_number(slot, "TotalSlots", now).unwrap_or(0.0);
    let mut any = false;
    for number in numbers.iter().filter(|n| f64::from(**n) <= total) {
        let named = |user: &&str| own_text(slot, &format!("slot{number}_{user}"), now);
        let Some(user) = USERS.iter().find_map(named) else {
            continue;
        };
        any = true;
        let mut known = Ad::new();
        insert_remote(&mut known, &user, ledger, groups);
        for (name, expr) in &known {
            slot.set(&format!("slot{number}_{}", name.to_text()), expr.clone());
        }
    }
    any
}
