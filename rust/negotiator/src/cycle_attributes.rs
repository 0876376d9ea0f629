//! Names of attributes that exist only while a cycle runs: of submitters in their jobs, of users in their slots and in
//! the slots beside those (`NEGOTIATOR_CROSS_SLOT_PRIOS`).

use crate::slot::USERS;
use classad::Name;
use rustc_hash::FxHashSet;

/// Names of the attributes of a submitter that the cycle inserts into its jobs.
pub const SUBMITTER_NAMES: [&str; 8] = [
    "SubmittorPrio",
    "SubmitterUserPrio",
    "SubmitterUserResourcesInUse",
    "SubmitterGroup",
    "SubmitterGroupResourcesInUse",
    "SubmitterGroupQuota",
    "SubmitterNegotiatingGroup",
    "SubmitterAutoregroup",
];

/// Names of the attributes of a slot's user that the cycle inserts into the slot.
pub const REMOTE_NAMES: [&str; 6] = [
    "RemoteUserPrio",
    "RemoteUserFloor",
    "RemoteUserResourcesInUse",
    "RemoteGroup",
    "RemoteGroupResourcesInUse",
    "RemoteGroupQuota",
];

/// Attributes of a slot's user that stay as they are for a whole cycle.
pub const STEADY_REMOTE_NAMES: [&str; 3] = ["RemoteUserPrio", "RemoteUserFloor", "RemoteGroup"];

/// Numbers of the slots whose users' attributes are among `names`.
#[must_use]
pub fn neighbours_in<'n>(names: impl Iterator<Item = &'n Name>) -> Vec<u32> {
    let mut found: Vec<u32> = names.filter_map(neighbour_of).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The slot whose user an attribute is about: 3 for `slot3_RemoteUserPrio`.
#[must_use]
pub fn neighbour_of(name: &Name) -> Option<u32> {
    let text = name.to_text().to_ascii_lowercase();
    let (number, rest) = text.strip_prefix("slot")?.split_once('_')?;
    let known = REMOTE_NAMES.iter().any(|n| n.eq_ignore_ascii_case(rest));
    known.then(|| number.parse().ok())?
}

/// Names of the attributes that have to be known of slots for these numbers.
#[must_use]
pub fn needed_of_neighbours(numbers: &[u32]) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    for number in numbers {
        for user in USERS {
            out.insert(Name::from(format!("slot{number}_{user}").as_str()));
        }
        out.insert(Name::from("TotalSlots"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_cycle_inserts_is_meant() {
        let number = |name: &str| neighbour_of(&Name::from(name));
        assert_eq!(number("Slot12_RemoteUserPrio"), Some(12));
        assert_eq!(number("slot2_State"), None);
        assert_eq!(number("RemoteUserPrio"), None);
    }
}
