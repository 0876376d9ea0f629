//! What running jobs hold of machines, and when a request would fit on one as they end.

use crate::amounts::amount_expr;
use crate::evaluate::{Evaluation, requirements_hold};
use crate::inputs::Inputs;
use crate::own_values::own_number;
use crate::reservation::DURATIONS;
use crate::slot::{Division, SlotClass};
use classad::Name;
use columns::{CellKind, ColumnId, Row};
use rustc_hash::FxHashMap;

/// What its access point expects of a job that does not say it.
const ESTIMATE: &str = "EstimatedRuntime";
/// How long a job of which nothing is known is expected to run on at the least, seconds.
const UNKNOWN_S: f64 = 300.0;

/// When the job on a slot is expected to have ended, from what its ad says.
fn ends_at(number: impl Fn(Fact) -> Option<f64>, now: i64) -> f64 {
    let started = number(Fact::Started).unwrap_or(now as f64);
    let ran = (now as f64 - started).max(0.0);
    let expected = match (number(Fact::Stated), number(Fact::Estimate)) {
        (Some(stated), Some(estimate)) => Some(stated.min(estimate)),
        (stated, estimate) => stated.or(estimate),
    };
    match expected {
        Some(expected) if ran < expected => started + expected,
        // Longer than was expected: nothing is known of it any more but that it is slow.
        Some(expected) => now as f64 + (ran - expected).max(1.0),
        None => now as f64 + ran.max(UNKNOWN_S),
    }
}

/// What is asked of a running job.
#[derive(Clone, Copy)]
enum Fact {
    Started,
    Stated,
    Estimate,
}

impl Fact {
    /// Attributes that say it; the first that is a number counts.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Started => &["JobStart", "EnteredCurrentActivity", "EnteredCurrentState"],
            Self::Stated => &DURATIONS,
            Self::Estimate => &[ESTIMATE],
        }
    }
}

/// Dynamic slots by the partitionable slot they were carved from, with what is asked of them again and again.
#[derive(Debug)]
pub(super) struct Occupied {
    /// By row of the partitionable slot: its dynamic slots.
    children: FxHashMap<Row, Vec<Child>>,
    /// Partitionable slots that are alike in their class's resources and in the amounts their dynamic slots hold.
    alike: FxHashMap<(Vec<Name>, Vec<u32>), Vec<Row>>,
    /// Resources of partitionable slots.
    resources: Vec<(Name, Option<ColumnId>)>,
    /// Different amounts that dynamic slots hold, in the order of `resources`.
    holdings: Vec<Vec<f64>>,
    /// Columns of each [`Fact`].
    facts: [Vec<ColumnId>; 3],
}

#[derive(Debug, Clone, Copy)]
struct Child {
    row: Row,
    holds: u32,
    /// When its job is expected to have ended; not known before that is asked of its machine.
    ends_at: f64,
}

pub(super) fn by_time_and_key(
    inputs: &Inputs<'_>,
    a: (f64, Row),
    b: (f64, Row),
) -> std::cmp::Ordering {
    let key = |row: Row| inputs.table.key(row);
    a.0.total_cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1)))
}

impl Occupied {
    pub(super) fn new(inputs: &Inputs<'_>) -> Self {
        let table = inputs.table;
        let facts = [Fact::Started, Fact::Stated, Fact::Estimate].map(|fact| {
            let names = fact.names().iter();
            names.filter_map(|name| table.column_named(name)).collect()
        });
        let mut out = Self {
            children: FxHashMap::default(),
            alike: FxHashMap::default(),
            resources: resources(inputs),
            holdings: Vec::new(),
            facts,
        };
        out.find_children(inputs);
        out.tell_apart(inputs);
        out
    }

    fn find_children(&mut self, inputs: &Inputs<'_>) {
        let table = inputs.table;
        let Some(dynamic) = table.column_named("DynamicSlot") else {
            return;
        };
        let mut known: FxHashMap<Box<[u64]>, u32> = FxHashMap::default();
        let mut bits: Vec<u64> = Vec::with_capacity(self.resources.len());
        for row in table.rows() {
            if table.cell(row, dynamic).kind() != CellKind::Bool(true) {
                continue;
            }
            let Some(parent) = inputs.parent_of(row) else {
                continue;
            };
            bits.clear();
            bits.extend(self.resources.iter().map(|(_, id)| {
                let amount = id.and_then(|id| number_at(inputs, row, id));
                amount.unwrap_or(0.0).to_bits()
            }));
            let holds = if let Some(holds) = known.get(bits.as_slice()) {
                *holds
            } else {
                let holds = self.holdings.len() as u32;
                self.holdings
                    .push(bits.iter().map(|bits| f64::from_bits(*bits)).collect());
                known.insert(bits.as_slice().into(), holds);
                holds
            };
            let ends_at = f64::NAN;
            let child = Child {
                row,
                holds,
                ends_at,
            };
            self.children.entry(parent).or_default().push(child);
        }
    }

    fn tell_apart(&mut self, inputs: &Inputs<'_>) {
        for (parent, children) in &self.children {
            let Some(class) = inputs.index.class_of(*parent) else {
                continue;
            };
            let facts = &inputs.index.classes()[class];
            if facts.excluded || facts.division != Division::Carved {
                continue;
            }
            let mut holds: Vec<u32> = children.iter().map(|child| child.holds).collect();
            holds.sort_unstable();
            holds.dedup();
            let names = facts.resources.iter().map(|(name, _)| name.clone());
            let key = (names.collect(), holds);
            self.alike.entry(key).or_default().push(*parent);
        }
    }

    /// Puts the dynamic slots of a partitionable one in front whose jobs are expected to end first.
    fn sort_by_end(&mut self, inputs: &Inputs<'_>, parent: Row) {
        let facts = &self.facts;
        let Some(children) = self.children.get_mut(&parent) else {
            return;
        };
        if children.first().is_none_or(|child| !child.ends_at.is_nan()) {
            return;
        }
        for child in &mut *children {
            let said = |fact: Fact| {
                let mut ids = facts[fact as usize].iter();
                ids.find_map(|id| number_at(inputs, child.row, *id))
            };
            child.ends_at = ends_at(said, inputs.now);
        }
        children.sort_by(|a, b| {
            a.ends_at
                .total_cmp(&b.ends_at)
                .then_with(|| a.row.cmp(&b.row))
        });
    }

    /// Machines for whose room no single claim would do, by what they hold; and whether there are others.
    pub(super) fn large_for<'a>(
        &self,
        inputs: Inputs<'a>,
        evaluation: &Evaluation<'a>,
    ) -> (Vec<Row>, bool) {
        let mut alone: FxHashMap<(&[Name], u32), bool> = FxHashMap::default();
        let mut machines = Vec::new();
        let mut small = false;
        for ((names, holds), rows) in &self.alike {
            let Some(first) = rows.first().and_then(|row| inputs.index.class_of(*row)) else {
                continue;
            };
            let one_would_do = |holds: &u32| {
                *alone.entry((names.as_slice(), *holds)).or_insert_with(|| {
                    let mut slot = SlotClass::clone(&inputs.index.classes()[first]);
                    let mut grown = Grown::empty(inputs, evaluation, &mut slot);
                    grown.add(self, *holds);
                    grown.suffices()
                })
            };
            if holds.iter().any(one_would_do) {
                small = true;
            } else {
                machines.extend_from_slice(rows);
            }
        }
        (machines, small)
    }

    /// Whether the room of one of the machine's claims would do for the request.
    pub(super) fn one_would_do<'a>(
        &self,
        inputs: Inputs<'a>,
        evaluation: &Evaluation<'a>,
        row: Row,
    ) -> bool {
        let Some(class) = inputs.index.class_of(row) else {
            return false;
        };
        let mut holds: Vec<u32> = self.children.get(&row).map_or_else(Vec::new, |children| {
            children.iter().map(|child| child.holds).collect()
        });
        holds.sort_unstable();
        holds.dedup();
        let mut slot = SlotClass::clone(&inputs.index.classes()[class]);
        holds.into_iter().any(|holds| {
            let mut grown = Grown::empty(inputs, evaluation, &mut slot);
            grown.add(self, holds);
            grown.suffices()
        })
    }

    /// Whether a machine has enough of everything but cores, beside what one of its dynamic slots holds, and that one has
    /// cores enough: then a share that is handed over will do.
    pub(super) fn lacks_cores_of_one<'a>(
        &self,
        inputs: Inputs<'a>,
        evaluation: &Evaluation<'a>,
        row: Row,
    ) -> bool {
        let Some(class) = inputs.index.class_of(row) else {
            return false;
        };
        let mut slot = SlotClass::clone(&inputs.index.classes()[class]);
        let mut tried: Vec<u32> = Vec::new();
        let children = self.children.get(&row).map_or(&[][..], Vec::as_slice);
        children.iter().any(|child| {
            if tried.contains(&child.holds) {
                return false;
            }
            tried.push(child.holds);
            let mut grown = Grown::now(inputs, evaluation, &mut slot, row);
            for (name, free) in &mut grown.slot.resources {
                if name.is("Cpus") {
                    *free = 0.0;
                }
            }
            grown.add(self, child.holds);
            grown.suffices()
        })
    }

    /// Machines on which there is enough of everything by a time, and when: soonest first.
    pub(super) fn with_enough<'a>(
        &mut self,
        inputs: Inputs<'a>,
        evaluation: &Evaluation<'a>,
        machines: &[Row],
        latest: f64,
    ) -> Vec<(f64, Row)> {
        let mut classes: FxHashMap<usize, SlotClass> = FxHashMap::default();
        let mut out = Vec::new();
        for row in machines {
            let Some(class) = inputs.index.class_of(*row) else {
                continue;
            };
            self.sort_by_end(&inputs, *row);
            let slot = classes
                .entry(class)
                .or_insert_with(|| SlotClass::clone(&inputs.index.classes()[class]));
            let mut grown = Grown::now(inputs, evaluation, slot, *row);
            for child in self.children.get(row).into_iter().flatten() {
                grown.add(self, child.holds);
                if grown.suffices() {
                    if child.ends_at <= latest {
                        out.push((child.ends_at, *row));
                    }
                    break;
                }
            }
        }
        out.sort_by(|a, b| by_time_and_key(&inputs, *a, *b));
        out
    }

    /// How much of a resource a dynamic slot holds.
    fn held(&self, holds: u32, name: &Name) -> f64 {
        let at = self.resources.iter().position(|(known, _)| known == name);
        at.map_or(0.0, |at| self.holdings[holds as usize][at])
    }
}

/// Resources of partitionable slots, and their columns.
fn resources(inputs: &Inputs<'_>) -> Vec<(Name, Option<ColumnId>)> {
    let mut out: Vec<(Name, Option<ColumnId>)> = Vec::new();
    for class in inputs.index.classes().iter().filter(|c| c.partitionable) {
        for (name, _) in &class.resources {
            if out.iter().all(|(known, _)| known != name) {
                out.push((name.clone(), inputs.table.column_id(name)));
            }
        }
    }
    out
}

/// The number an attribute of a row is, whether written or computed.
fn number_at(inputs: &Inputs<'_>, row: Row, id: ColumnId) -> Option<f64> {
    let cell = inputs.table.cell(row, id);
    match cell.kind() {
        CellKind::Expr(_) => {
            let name = inputs.table.column_name(id).to_text().into_owned();
            own_number(&inputs.table.ad(row), &name, inputs.now)
        }
        _ => inputs.table.cell_value(cell).as_number(),
    }
}

/// A partitionable slot as it would be with more of its resources free.
struct Grown<'e, 'a> {
    evaluation: &'e Evaluation<'a>,
    inputs: Inputs<'a>,
    slot: &'e mut SlotClass,
}

impl<'e, 'a> Grown<'e, 'a> {
    /// A slot of a class with nothing free; the class is written over.
    fn empty(inputs: Inputs<'a>, evaluation: &'e Evaluation<'a>, slot: &'e mut SlotClass) -> Self {
        for (_, free) in &mut slot.resources {
            *free = 0.0;
        }
        Self {
            evaluation,
            inputs,
            slot,
        }
    }

    /// The slot of a row with what is free of it now.
    fn now(
        inputs: Inputs<'a>,
        evaluation: &'e Evaluation<'a>,
        slot: &'e mut SlotClass,
        row: Row,
    ) -> Self {
        for (name, free) in &mut slot.resources {
            let id = inputs.table.column_id(name);
            *free = id.and_then(|id| number_at(&inputs, row, id)).unwrap_or(0.0);
        }
        Self {
            evaluation,
            inputs,
            slot,
        }
    }

    fn add(&mut self, occupied: &Occupied, holds: u32) {
        for (name, free) in &mut self.slot.resources {
            *free += occupied.held(holds, name);
        }
    }

    /// Whether there is enough of everything.
    fn suffices(&self) -> bool {
        self.evaluation.amounts_of(self.slot).is_some()
    }

    /// Whether the request matches it so.
    fn fits(&mut self) -> bool {
        let slot = &mut *self.slot;
        for (name, free) in &slot.resources {
            slot.ad.insert(name.clone(), amount_expr(*free));
        }
        self.suffices() && requirements_hold(&self.inputs, &self.evaluation.job, &self.slot.ad)
    }
}

/// When a partitionable slot is expected to fit the request, and the dynamic slots that have to end for that.
pub(super) fn ready_after_ends<'a>(
    inputs: Inputs<'a>,
    evaluation: &Evaluation<'a>,
    facts: &SlotClass,
    row: Row,
    occupied: &mut Occupied,
) -> Option<(f64, Vec<Row>)> {
    let mut slot = SlotClass::clone(facts);
    let mut grown = Grown::now(inputs, evaluation, &mut slot, row);
    let mut needed = Vec::new();
    occupied.sort_by_end(&inputs, row);
    for child in occupied.children.get(&row)? {
        needed.push(child.row);
        grown.add(occupied, child.holds);
        if grown.suffices() && grown.fits() {
            return Some((child.ends_at, needed));
        }
    }
    None
}
