//! Computing an expression for rows and for groups of rows: by programs where it lowers, by the plain
//! evaluator where it does not.

use classad::{Ad, Name, Side, Value};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::cell::{Cell, CellKind, ExprId};
use crate::clause::Clause;
use crate::exec::{Machine, compare_integers};
use crate::groups::Groups;
use crate::lower::{Lowering, Program};
use crate::matcher::{Matcher, Owner};
use crate::table::{AdTable, ColumnId, Row};

/// Groups from `first` on, by the definitions among their values.
fn by_definitions(groups: &Groups, first: usize) -> Vec<(Vec<Option<ExprId>>, Vec<u32>)> {
    let mut places: FxHashMap<Vec<Option<ExprId>>, usize> = FxHashMap::default();
    let mut out: Vec<(Vec<Option<ExprId>>, Vec<u32>)> = Vec::new();
    let mut definitions = Vec::new();
    for group in first..groups.count() {
        definitions.clear();
        definitions.extend(groups.tuple(group).iter().map(|cell| cell.expr_id()));
        // Neighbours mostly have the same definitions.
        if let Some(last) = out.last_mut()
            && last.0 == definitions
        {
            last.1.push(group as u32);
            continue;
        }
        let at = *places.entry(definitions.clone()).or_insert_with(|| {
            out.push((definitions.clone(), Vec::new()));
            out.len() - 1
        });
        out[at].1.push(group as u32);
    }
    out
}

/// An expression on rows and on tuples of values.
pub(crate) struct Scalar<'a> {
    matcher: &'a Matcher,
    table: &'a AdTable,
    clause: &'a Clause,
    owner: Owner,
    job: Option<&'a Ad>,
}

impl<'a> Scalar<'a> {
    pub fn new(
        matcher: &'a Matcher,
        table: &'a AdTable,
        clause: &'a Clause,
        owner: Owner,
        job: Option<&'a Ad>,
    ) -> Self {
        Scalar {
            matcher,
            table,
            clause,
            owner,
            job,
        }
    }

    fn with(&self, slot: &Ad) -> Value {
        let context = match self.owner {
            Owner::Job => self.matcher.settings().context(self.job, Some(slot)),
            Owner::Slot => self.matcher.settings().context(Some(slot), self.job),
        };
        if self.clause.root {
            let definition = self
                .clause
                .reference
                .as_ref()
                .and_then(|(_, name)| slot.get(name));
            return definition.map_or(Value::Undefined, |expr| classad::evaluate(expr, &context));
        }
        classad::evaluate(&self.clause.expr, &context)
    }

    /// With the whole ad of a row.
    pub fn row(&self, row: Row) -> Value {
        self.with(&self.table.ad(row))
    }

    /// With an ad of these values alone. `slot` is scratch.
    pub fn tuple(&self, slot: &mut Ad, columns: &[ColumnId], tuple: &[Cell]) -> Value {
        slot.clear();
        for (column, cell) in columns.iter().zip(tuple) {
            if cell.kind() != CellKind::Missing
                && let Some(expr) = self.table.cell_expr(*cell)
            {
                slot.insert(self.table.column_name(*column).clone(), expr);
            }
        }
        self.with(slot)
    }

    /// Sets the bits of the groups from `first` on for which this is true.
    pub fn truths(&self, groups: &Groups, first: usize, out: &mut Bitmap) {
        let mut slot = Ad::new();
        let mut slow = |group: usize| {
            self.tuple(&mut slot, groups.columns(), groups.tuple(group))
                .is_true()
        };
        match self.plain_program(groups, first) {
            None => self.tuples(groups, first, |group, value| {
                if value.is_true() {
                    out.set(group, true);
                }
            }),
            Some(program) => {
                if let Some((op, number)) = program.column_against_integer()
                    && let Some(integers) = groups.integers()
                {
                    compare_integers(op, integers, number, first, out);
                    return;
                }
                Machine::new(self.table, &program).run_truths(groups, first, |group, truth| {
                    if truth.unwrap_or_else(|| slow(group)) {
                        out.set(group, true);
                    }
                });
            }
        }
    }

    /// The one program for all groups from `first` on, if none of their values is an expression.
    fn plain_program(&self, groups: &Groups, first: usize) -> Option<Program> {
        let few = groups.count() - first < self.matcher.lower_from;
        let leaves = &self.matcher.leaves;
        let defined = |id: &ColumnId| !leaves.column_exprs(self.table, *id).is_empty();
        if few || self.clause.mentions.volatile || groups.columns().iter().any(defined) {
            return None;
        }
        let lowering = Lowering {
            table: self.table,
            job: self.job,
            strict: self.matcher.settings().strict,
            columns: groups.columns(),
            definitions: &vec![None; groups.columns().len()],
        };
        lowering.lower(&self.clause.expr, self.owner)
    }

    /// With each group from `first` on: by programs where the expression lowers, by the plain evaluator
    /// where it does not.
    pub fn tuples(&self, groups: &Groups, first: usize, mut give: impl FnMut(usize, &Value)) {
        if let Some((side, name)) = &self.clause.reference
            && self.owner == Owner::Slot
            && *side != Side::Target
            && let Some(column) = self.table.column_id(name)
            && *groups.columns() == [column]
            && !self.clause.root
        {
            self.plain_tuples(groups, first, *side, name, give);
            return;
        }
        let mut slot = Ad::new();
        let mut slow = |group: usize| self.tuple(&mut slot, groups.columns(), groups.tuple(group));
        if self.clause.mentions.volatile || groups.count() - first < self.matcher.lower_from {
            (first..groups.count()).for_each(|group| give(group, &slow(group)));
            return;
        }
        for (definitions, wanted) in by_definitions(groups, first) {
            let lowering = Lowering {
                table: self.table,
                job: self.job,
                strict: self.matcher.settings().strict,
                columns: groups.columns(),
                definitions: &definitions,
            };
            let program = if wanted.len() < self.matcher.lower_from {
                None
            } else {
                lowering.lower(&self.clause.expr, self.owner)
            };
            match program {
                None => wanted
                    .iter()
                    .for_each(|group| give(*group as usize, &slow(*group as usize))),
                Some(program) => {
                    Machine::new(self.table, &program).run(groups, &wanted, |group, value| {
                        let value = value.unwrap_or_else(|| slow(group));
                        give(group, &value);
                    })
                }
            }
        }
    }

    /// As `tuples`, for an expression that is only the name of the one column: most values are
    /// literals and need no evaluation.
    fn plain_tuples(
        &self,
        groups: &Groups,
        first: usize,
        side: Side,
        name: &Name,
        mut give: impl FnMut(usize, &Value),
    ) {
        let elsewhere = side == Side::Bare && self.job.is_some_and(|job| job.contains(name));
        let unsteady = self.clause.mentions.volatile;
        let mut slot = Ad::new();
        for group in first..groups.count() {
            let cell = groups.tuple(group)[0];
            let literal =
                cell.expr_id().is_none() && !(cell.is_missing() && elsewhere) && !unsteady;
            if literal {
                give(group, &self.table.cell_value(cell));
            } else {
                give(
                    group,
                    &self.tuple(&mut slot, groups.columns(), groups.tuple(group)),
                );
            }
        }
    }
}
