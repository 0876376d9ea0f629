//! A slot's place among the slots of its class.

use columns::Row;
use std::cmp::Ordering;

/// Order among slots of one class: the greater is taken first.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Post-job rank.
    pub post_rank: f64,
    /// Preemption rank; -inf for free slots.
    pub preemption_rank: f64,
    /// Times it was put back behind the others.
    pub turns: u32,
    /// Its number in the order of all slots, which goes by post-job rank, then by name: settles what is left.
    pub number: u32,
    /// Its row.
    pub row: Row,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Place {}
impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .turns
            .cmp(&self.turns)
            .then_with(|| self.post_rank.total_cmp(&other.post_rank))
            .then_with(|| self.preemption_rank.total_cmp(&other.preemption_rank))
            .then_with(|| other.number.cmp(&self.number))
    }
}
impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How a slot is found again where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRef {
    /// At this place in the list of its class.
    Listed(u32),
    /// Among those put into the class during the cycle.
    Added,
    /// Found by a cursor ([`super::sorted_slots`]).
    Sorted,
}

/// A slot of a class and where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// The slot.
    pub place: Place,
    /// How it is found again.
    pub slot_ref: SlotRef,
}

impl Head {
    /// Where it stands in the list of the class, to look for another from there.
    #[must_use]
    pub fn start(&self) -> u32 {
        match self.slot_ref {
            SlotRef::Listed(at) => at,
            SlotRef::Added | SlotRef::Sorted => 0,
        }
    }

    /// Where the list of the class goes on after it.
    #[must_use]
    pub fn next(&self) -> u32 {
        match self.slot_ref {
            SlotRef::Listed(at) => at + 1,
            SlotRef::Added | SlotRef::Sorted => 0,
        }
    }
}
