//! What decides how the slots of a class are gone through: a few facts of each class, close together.

use crate::config::CycleConfig;
use crate::slot::{Division, SlotClass};
use columns::Row;

/// What has to be known of a slot to match it, besides ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// Free and undivided: nothing.
    Free,
    /// Used by others, and undivided: what the policy of preemption says.
    Preemptable,
    /// Partitionable and free, nothing carved from it yet: whether there is as much as the request asks for.
    WholePslot,
    /// Anything else: its class is looked at by itself.
    Other,
}

/// The few facts that decide most classes.
#[derive(Debug, Clone, Copy)]
pub struct ClassSummary {
    /// What has to be known to match it.
    pub kind: SlotKind,
    /// Address families.
    pub families: u8,
    /// First row of the class.
    pub representative: Row,
    /// Weight charged.
    pub weight: f64,
}

impl ClassSummary {
    pub(super) fn of(class: &SlotClass, members: &[Row], config: &CycleConfig) -> Self {
        Self {
            kind: kind_of(class, config),
            families: class.families,
            representative: members.first().copied().unwrap_or(0),
            weight: class.weight,
        }
    }
}

fn kind_of(class: &SlotClass, config: &CycleConfig) -> SlotKind {
    let free = class.user.is_none() || !config.preemption.consider;
    let evicts = config.preemption.partitionable;
    let hidden = class.rolled_up && evicts;
    let simple = !hidden && !class.reevaluate && class.is_candidate();
    let cut = free && !(config.preemption.consider && evicts) && class.held_by_schedd.is_none();
    match &class.division {
        _ if !simple => SlotKind::Other,
        Division::Whole if class.partitionable => SlotKind::Other,
        Division::Whole if free => SlotKind::Free,
        Division::Whole => SlotKind::Preemptable,
        Division::Carved if cut => SlotKind::WholePslot,
        Division::Carved | Division::ConsumptionPolicy { .. } => SlotKind::Other,
    }
}
