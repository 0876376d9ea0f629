//! What slots see of the users of their neighbours (`NEGOTIATOR_CROSS_SLOT_PRIOS`).
//!
//! A startd that publishes attributes of its slots into each other
//! (STARTD_SLOT_ATTRS) names them `slot<N>_...`. For every such user the cycle
//! adds priority, usage and group under the same prefix.

use crate::evaluate::{REMOTE_NAMES, insert_remote};
use crate::ledger::Ledger;
use crate::slot::{USERS, own_number, own_text};
use classad::{Ad, Name};
use fairshare::GroupTree;
use rustc_hash::FxHashSet;

/// Numbers of the slots whose users' attributes are among `names`.
#[must_use]
pub fn mentioned<'n>(names: impl Iterator<Item = &'n Name>) -> Vec<u32> {
    let mut found: Vec<u32> = names.filter_map(number_of).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The slot whose user an attribute is about: 3 for `slot3_RemoteUserPrio`.
#[must_use]
pub fn number_of(name: &Name) -> Option<u32> {
    let text = name.to_text().to_ascii_lowercase();
    let (number, rest) = text.strip_prefix("slot")?.split_once('_')?;
    let known = REMOTE_NAMES.iter().any(|n| n.eq_ignore_ascii_case(rest));
    known.then(|| number.parse().ok())?
}

/// Names of the attributes that have to be known of slots for these numbers.
#[must_use]
pub fn needed(numbers: &[u32]) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    for number in numbers {
        for user in USERS {
            out.insert(Name::from(format!("slot{number}_{user}").as_str()));
        }
        out.insert(Name::from("TotalSlots"));
    }
    out
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_cycle_inserts_is_meant() {
        let number = |name: &str| number_of(&Name::from(name));
        assert_eq!(number("Slot12_RemoteUserPrio"), Some(12));
        assert_eq!(number("slot2_State"), None);
        assert_eq!(number("RemoteUserPrio"), None);
    }
}
