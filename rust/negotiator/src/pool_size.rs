//! Sizes of the pool, claimed slots included: what is divided among groups and submitters.

use crate::evaluate::exceeds;
use crate::inputs::Inputs;
use crate::outcome::Statistics;
use crate::slot::Division;

/// See the module text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSize {
    /// Weight of all slots.
    pub weight: f64,
    /// Number of slots; a partitionable one counts as what it can be carved into.
    pub slots: f64,
    /// Weight of the lightest slot that a match can take.
    pub least_weight: f64,
    /// Some slot may prefer a job to what it runs.
    pub rank_preemption_possible: bool,
}

impl PoolSize {
    /// Measures the pool, and notes its sizes in the statistics.
    pub fn measure(inputs: &Inputs<'_>, statistics: &mut Statistics) -> Self {
        let config = inputs.config;
        let mut size = Self {
            weight: 0.0,
            slots: 0.0,
            least_weight: f64::INFINITY,
            rank_preemption_possible: false,
        };
        for (at, class) in inputs.index.classes().iter().enumerate() {
            let slots = inputs.index.members(at).len() as f64;
            if slots == 0.0 || class.excluded {
                continue;
            }
            size.weight += class.pool_weight * slots;
            size.slots += class.pool_slots * slots;
            let divided = class.division == Division::Carved;
            // A slot that the cycle carves can be taken in small pieces.
            let least = if divided {
                class.weight.min(1.0)
            } else {
                class.weight
            };
            size.least_weight = size.least_weight.min(least);
            statistics.total_slots += slots as u64;
            if class.is_candidate() {
                statistics.candidate_slots += slots as u64;
                statistics.slot_classes += 1;
            } else {
                statistics.trimmed_slots += slots as u64;
            }
            let busy = config.preemption.consider && class.user.is_some() && class.is_candidate();
            let fixed = inputs.dependencies.slot_rank_static;
            let prefers = !fixed || exceeds(class.static_rank, class.current_rank);
            let evicts = config.preemption.consider
                && config.preemption.partitionable
                && class.partitionable;
            size.rank_preemption_possible |= busy && prefers || evicts;
        }
        if !config.share.weighted {
            // Slots that the cycle carves count as what they can be carved into.
            if config.partition.many_matches {
                size.weight = size.slots;
            }
            size.least_weight = 1.0;
        }
        statistics.pool_weight = size.weight;
        size
    }

    /// What groups divide: weight, or slots in an unweighted pool.
    pub fn for_groups(&self, weighted: bool) -> f64 {
        if weighted { self.weight } else { self.slots }
    }
}
