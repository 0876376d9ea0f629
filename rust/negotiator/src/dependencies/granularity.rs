//! How finely an attribute has to be known: an attribute that is only ever compared with numbers is known by intervals.

use super::resolve::{Resolver, each_distinct};
use super::{CONDITIONS, FACTS, is_submitter_attribute, resource_names};
use crate::config::CycleConfig;
use classad::analysis::Reads;
use classad::{Ad, BinaryOp, Context, Expr, Name, Value, evaluate};
use rustc_hash::{FxHashMap, FxHashSet};

/// How finely an attribute tells slots apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Granularity {
    /// By its value.
    Value,
    /// By its place among these numbers (sorted, distinct); other kinds of value by themselves.
    Intervals(Vec<f64>),
    /// By whether it is there at all.
    Presence,
}

/// Attributes that are only ever compared with numbers known before the cycle.
pub(super) fn granularities(
    resolver: &mut Resolver<'_>,
    names: &FxHashSet<Name>,
    config: &CycleConfig,
) -> FxHashMap<Name, Granularity> {
    let mut uses = Uses::default();
    uses.numbers(&"RetirementTimeRemaining".into(), 0.0);
    for raw in FACTS
        .iter()
        .chain(&CONDITIONS)
        .filter(|n| **n != "RetirementTimeRemaining")
    {
        uses.spoil(&Name::from(*raw));
    }
    let consuming = resolver.slots.column_named("ConsumptionDisk").is_some();
    for name in resource_names(resolver.slots) {
        // What is carved has to be known exactly; disk sizes differ on every
        // machine, so they are kept per row unless a consumption policy asks.
        if consuming || !name.is("Disk") {
            uses.spoil(&name);
        }
    }
    let mut exprs: Vec<Expr> = vec![
        config.selection.pre_job_rank.clone(),
        config.preemption.requirements.clone(),
        config.share.slot_weight.clone(),
        config.selection.post_job_rank.clone(),
        config.preemption.rank.clone(),
    ];
    let selection = &config.selection;
    let optional = [&selection.slot_constraint, &selection.pool_constraint];
    exprs.extend(optional.into_iter().flatten().cloned());
    exprs.extend(selection.given_to_slots.iter().map(|(_, e)| e.clone()));
    exprs.extend(config.partition.carve.values().cloned());
    for name in names {
        for id in resolver.slot_exprs(name) {
            exprs.push(resolver.slots.exprs().get(id).clone());
        }
        for id in resolver.job_exprs(name) {
            exprs.push(resolver.jobs.exprs().get(id).clone());
        }
    }
    for expr in &exprs {
        uses.walk(expr, resolver);
    }
    uses.finish()
}

/// How attributes are used in all expressions.
#[derive(Default)]
struct Uses {
    numbers: FxHashMap<Name, Vec<f64>>,
    spoiled: FxHashSet<Name>,
    job_numbers: FxHashMap<Name, Option<Vec<f64>>>,
}

impl Uses {
    fn spoil(&mut self, name: &Name) {
        self.spoiled.insert(name.clone());
    }

    fn numbers(&mut self, name: &Name, number: f64) {
        self.numbers.entry(name.clone()).or_default().push(number);
    }

    fn walk(&mut self, expr: &Expr, resolver: &mut Resolver<'_>) {
        match expr {
            Expr::Binary(b) if b.op.is_comparison() => {
                self.compare(b.op, &b.left, &b.right, resolver);
            }
            Expr::Paren(inner) => self.walk(inner, resolver),
            Expr::Unary(inner) => self.walk(&inner.arg, resolver),
            Expr::Binary(inner) => {
                self.walk(&inner.left, resolver);
                self.walk(&inner.right, resolver);
            }
            Expr::Ternary(inner) => {
                self.walk(&inner.cond, resolver);
                self.walk(&inner.then, resolver);
                self.walk(&inner.other, resolver);
            }
            other => Reads::of(other).names().for_each(|name| self.spoil(name)),
        }
    }

    fn compare(&mut self, op: BinaryOp, left: &Expr, right: &Expr, resolver: &mut Resolver<'_>) {
        for (one, two) in [(left, right), (right, left)] {
            let Some((_, name)) = one.unparen().as_reference() else {
                continue;
            };
            let known = match two.unparen() {
                Expr::Lit(value) => match (value, op) {
                    (Value::Undefined, _) => Some(Vec::new()),
                    (value, BinaryOp::Is | BinaryOp::Isnt) if value.as_number().is_some() => None,
                    (value, _) => value.as_number().map(|n| vec![n]),
                },
                Expr::Unary(inner) => inner.arg.as_reference().is_none().then(|| {
                    let value = evaluate(two, &Context::default());
                    value.as_number().into_iter().collect()
                }),
                other => match other.as_reference() {
                    Some((_, job_name)) if !matches!(op, BinaryOp::Is | BinaryOp::Isnt) => {
                        self.numbers_of_jobs(job_name, resolver)
                    }
                    _ => None,
                },
            };
            if let Some(numbers) = known {
                numbers.iter().for_each(|n| self.numbers(name, *n));
                // The other side is a constant or a job attribute that no slot has.
                return;
            }
        }
        for side in [left, right] {
            Reads::of(side).names().for_each(|name| self.spoil(name));
        }
    }

    /// All numbers jobs have for an attribute that no slot has and that needs no slot.
    fn numbers_of_jobs(&mut self, name: &Name, resolver: &mut Resolver<'_>) -> Option<Vec<f64>> {
        if let Some(known) = self.job_numbers.get(name) {
            return known.clone();
        }
        let found = job_numbers(name, resolver);
        self.job_numbers.insert(name.clone(), found.clone());
        found
    }

    fn finish(self) -> FxHashMap<Name, Granularity> {
        let mut out = FxHashMap::default();
        for (name, mut numbers) in self.numbers {
            if !self.spoiled.contains(&name) {
                numbers.sort_unstable_by(f64::total_cmp);
                numbers.dedup();
                out.insert(name, Granularity::Intervals(numbers));
            }
        }
        out
    }
}

fn job_numbers(name: &Name, resolver: &mut Resolver<'_>) -> Option<Vec<f64>> {
    if resolver.slots.column_id(name).is_some() || is_submitter_attribute(name) {
        return None;
    }
    let mut reach = Reads::default();
    for id in resolver.job_exprs(name) {
        reach.add(&resolver.job_reads(id));
    }
    let reach = resolver.reach(&reach);
    let needs_slot = reach.names().any(|n| resolver.slots.column_id(n).is_some());
    if needs_slot || reach.unbounded || reach.volatile {
        return None;
    }
    let Some(column) = resolver.jobs.column_id(name) else {
        return Some(Vec::new());
    };
    let mut out = Vec::new();
    if resolver.job_exprs(name).is_empty() {
        each_distinct(resolver.jobs, column, |cell| {
            out.extend(resolver.jobs.cell_value(cell).as_number());
        });
        return Some(out);
    }
    for row in resolver.jobs.rows() {
        let value = match resolver.jobs.expr_at(row, column) {
            Some(Expr::Lit(value)) => value,
            Some(expr) => {
                let ad: Ad = resolver.jobs.ad(row);
                let context = Context {
                    my: Some(&ad),
                    ..Context::default()
                };
                evaluate(&expr, &context)
            }
            None => continue,
        };
        out.extend(value.as_number());
    }
    Some(out)
}
