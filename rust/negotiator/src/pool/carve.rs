//! Slots that a match divides: what is taken, what is left, and the class of the rest.

use super::{Head, Pool};
use crate::amounts::amount_expr;
use crate::dependencies::{Dependencies, Granularity};
use crate::hash::hash_words;
use crate::slot::{Division, SlotClass, weight};
use classad::Expr;
use columns::{AdTable, Row};
use std::sync::Arc;

/// Classes of at least so many slots keep a class for every state they are carved to; the slots of smaller
/// ones have one each, which changes with them.
const SHARED_FROM: usize = 16;

/// A carved slot's own state.
#[derive(Debug, Clone)]
pub(super) struct Carved {
    /// What is really free, in the order of the class's resources.
    free: Vec<f64>,
    /// Claims that are left, for consumption policies.
    claims: u32,
}

/// What a match takes of a divided slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Weight charged.
    pub cost: f64,
    /// Amounts by resource, in the order of the class's resources.
    pub amounts: Vec<f64>,
}

impl<'a> Pool<'a> {
    /// What a match with `amounts` would cost.
    #[must_use]
    pub fn cut(&self, class: usize, amounts: Vec<f64>) -> Cut {
        let facts = &self.classes[class];
        // A consumption policy is charged what it takes off the weight, also in an unweighted pool.
        let policy = matches!(facts.division, Division::ConsumptionPolicy { .. });
        let cost = if self.share.weighted || policy {
            let free: Vec<f64> = facts
                .resources
                .iter()
                .zip(&amounts)
                .map(|((_, f), a)| f - a)
                .collect();
            let whole = if policy {
                weight(&facts.ad, true, self.now)
            } else {
                facts.weight
            };
            whole - self.rest_weight(facts, &free)
        } else {
            let cpus = facts.resources.iter().position(|(name, _)| name.is("Cpus"));
            cpus.map_or(1.0, |at| amounts[at])
        };
        Cut { cost, amounts }
    }

    /// Weight of a slot of which `free` is left.
    fn rest_weight(&self, facts: &SlotClass, free: &[f64]) -> f64 {
        // The usual SlotWeight is the name of a resource.
        if let Some(Expr::Attr(name)) = facts.ad.get_str("SlotWeight")
            && let Some(at) = facts.resources.iter().position(|(n, _)| n == name)
        {
            return free[at];
        }
        let mut rest = facts.ad.clone();
        for ((name, _), free) in facts.resources.iter().zip(free) {
            rest.insert(name.clone(), amount_expr(*free));
        }
        weight(&rest, true, self.now)
    }

    /// What is left of a slot that was cut in this cycle, in the order of its resources.
    #[must_use]
    pub fn free_of(&self, row: Row) -> Option<&[f64]> {
        self.carved.get(&row).map(|carved| carved.free.as_slice())
    }

    /// Counts changes of a class that is one slot's own: what was known of it before is stale.
    #[must_use]
    pub fn generation(&self, class: usize) -> u32 {
        self.generations.get(class).copied().unwrap_or(0)
    }

    /// The class of one slot that shares with few others, brought to what is free of it.
    fn own_state(&mut self, row: Row, class: usize, free: &[f64]) -> u32 {
        let number = match self.own_class.get(&row) {
            Some(number) => *number,
            None => {
                let number = self.classes.len() as u32;
                self.classes.push(Arc::clone(&self.classes[class]));
                self.base_of.push(self.base_of[class]);
                self.left.push(0);
                self.own_class.insert(row, number);
                number
            }
        };
        let at = number as usize;
        if self.generations.len() <= at {
            self.generations.resize(at + 1, 0);
        }
        self.generations[at] += 1;
        if let Some(rank) = self.pre_ranks.get_mut(at) {
            *rank = f64::NAN;
        }
        let (share, now) = (self.share, self.now);
        let facts = Arc::make_mut(&mut self.classes[at]);
        for ((name, amount), free) in facts.resources.iter_mut().zip(free) {
            *amount = *free;
            facts.ad.insert(name.clone(), amount_expr(*free));
        }
        facts.weight = weight(&facts.ad, share.weighted, now);
        number
    }

    fn shares_states(&self, class: usize) -> bool {
        let base = self.base_of[class] as usize;
        base < self.cursor.len() && self.index.members(base).len() >= SHARED_FROM
    }

    /// The class of slots that began like `class` and have `free` left.
    fn state(&mut self, class: usize, free: Vec<f64>) -> u32 {
        let before = &self.classes[class];
        let base = self.base_of[class];
        let words = before.resources.iter().zip(&free).map(|((name, _), free)| {
            match &self.disk_intervals {
                Some(numbers) if name.is("Disk") => {
                    let below = numbers.partition_point(|n| n < free);
                    let equal = numbers.get(below) == Some(free);
                    2 * below as u64 + u64::from(equal)
                }
                _ => free.to_bits(),
            }
        });
        let key = (base, hash_words(words));
        if let Some(known) = self.by_state.get(&key) {
            return *known;
        }
        let mut facts = SlotClass::clone(before);
        for ((name, amount), free) in facts.resources.iter_mut().zip(&free) {
            *amount = *free;
            facts.ad.insert(name.clone(), amount_expr(*free));
        }
        facts.weight = weight(&facts.ad, self.share.weighted, self.now);
        let number = self.classes.len() as u32;
        self.classes.push(Arc::new(facts));
        self.base_of.push(base);
        self.left.push(0);
        self.by_state.insert(key, number);
        number
    }

    /// Takes the best slot of a class, cuts it and puts back what is left.
    ///
    /// Returns the row and the class it is in now, if it can be matched again.
    pub fn take_cut(&mut self, class: usize, head: &Head, cut: &Cut) -> (Row, Option<u32>) {
        let row = self.take(class, head);
        let mut own = match self.carved.remove(&row) {
            Some(own) => own,
            None => self.uncarved(class, row),
        };
        own.claims = own.claims.saturating_sub(1);
        own.free
            .iter_mut()
            .zip(&cut.amounts)
            .for_each(|(f, a)| *f = (*f - a).max(0.0));
        let again = (own.claims > 0).then(|| {
            let rest = if self.shares_states(class) {
                self.state(class, own.free.clone())
            } else {
                self.own_state(row, class, &own.free)
            };
            let place = self.place(row);
            self.put(rest, place);
            rest
        });
        if again.is_none() {
            // Without claims it cannot be matched, but a pool that has it is not used up: others are asked and told.
            self.remaining += 1;
        }
        self.carved.insert(row, own);
        (row, again)
    }

    fn uncarved(&self, class: usize, row: Row) -> Carved {
        let facts = &self.classes[class];
        let mut free: Vec<f64> = facts.resources.iter().map(|(_, f)| *f).collect();
        if self.disk_intervals.is_some()
            && let Some(at) = facts.resources.iter().position(|(name, _)| name.is("Disk"))
            && let Some(column) = self.table.column_id(&facts.resources[at].0)
            && let Some(disk) = self
                .table
                .cell_value(self.table.cell(row, column))
                .as_number()
        {
            free[at] = disk;
        }
        let claims = match facts.division {
            Division::ConsumptionPolicy { claims } => claims,
            _ => u32::MAX,
        };
        Carved { free, claims }
    }
}

pub(super) fn disk_intervals(table: &AdTable, dependencies: &Dependencies) -> Option<Vec<f64>> {
    let column = table.column_named("Disk")?;
    let known = dependencies
        .key
        .iter()
        .find(|known| known.column == column)?;
    match &known.granularity {
        Granularity::Intervals(numbers) => Some(numbers.clone()),
        _ => None,
    }
}
