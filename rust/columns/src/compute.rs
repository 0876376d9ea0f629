//! Computing an expression for rows and for groups of rows: by programs where it lowers, by the plain evaluator
//! where it does not.

use classad::{Ad, Evaluator, Expr, Name, Side, Value, allowance};

use crate::bitmap::Bitmap;
use crate::cell::{Cell, CellKind};
use crate::clause::Clause;
use crate::exec::{Machine, compare_integers};
use crate::groups::Groups;
use crate::lists::FIRST_DERIVED;
use crate::lower::{Lowering, Program};
use crate::matcher::{Matcher, Owner};
use crate::register::Val;
use crate::table::{AdTable, ColumnId, Row};
use crate::verdicts::Verdicts;

/// The part of an evaluation's steps that a part of an expression may use up: more, and the plain evaluator is
/// asked about the whole, which might break off.
const PART: u32 = 256;

/// The plain evaluator on ads made of a few values.
pub(crate) struct Plain<'a> {
    matcher: &'a Matcher,
    table: &'a AdTable,
    owner: Owner,
    job: Option<&'a Ad>,
    /// Scratch.
    slot: Ad,
}

impl<'a> Plain<'a> {
    pub fn new(
        matcher: &'a Matcher,
        table: &'a AdTable,
        owner: Owner,
        job: Option<&'a Ad>,
    ) -> Self {
        Plain {
            matcher,
            table,
            owner,
            job,
            slot: Ad::new(),
        }
    }

    fn fill(&mut self, columns: &[ColumnId], tuple: &[Cell]) {
        self.slot.clear();
        for (column, cell) in columns.iter().zip(tuple) {
            if *column >= FIRST_DERIVED {
                if let Some(derived) = self.matcher.predicates.derived(self.table, *column) {
                    for (name, expr) in derived.content(*cell) {
                        self.slot.insert(name.clone(), expr.clone());
                    }
                }
                continue;
            }
            if cell.kind() != CellKind::Missing
                && let Some(expr) = self.table.cell_expr(*cell)
            {
                self.slot
                    .insert(self.table.column_name(*column).clone(), expr);
            }
        }
    }

    /// The value of a part of an expression, where a row has these values; none if the evaluation of the whole has
    /// to break off, or might have.
    pub fn part(&mut self, expr: &Expr, columns: &[ColumnId], tuple: &[Cell]) -> Option<Value> {
        self.fill(columns, tuple);
        let settings = self.matcher.settings();
        let context = match self.owner {
            Owner::Job => settings.context(self.job, Some(&self.slot)),
            Owner::Slot => settings.context(Some(&self.slot), self.job),
        };
        Evaluator::new(context).with_share(PART).eval(expr).ok()
    }

    /// The value of a clause, where a row has these values.
    pub fn whole(&mut self, clause: &Clause, columns: &[ColumnId], tuple: &[Cell]) -> Value {
        if allowance::exhausted() {
            return Value::Error;
        }
        self.fill(columns, tuple);
        self.of(clause, &self.slot)
    }

    /// The value of a clause for a slot ad.
    pub fn of(&self, clause: &Clause, slot: &Ad) -> Value {
        let context = match self.owner {
            Owner::Job => self.matcher.settings().context(self.job, Some(slot)),
            Owner::Slot => self.matcher.settings().context(Some(slot), self.job),
        };
        if clause.root {
            let definition = clause
                .reference
                .as_ref()
                .and_then(|(_, name)| slot.get(name));
            return definition.map_or(Value::Undefined, |expr| classad::evaluate(expr, &context));
        }
        classad::evaluate(&clause.expr, &context)
    }
}

/// Which groups are asked for.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// Those from a number on.
    From(usize),
    /// Those whose bit is set.
    These(&'a Bitmap),
}

impl Wanted<'_> {
    /// Those among `members`, in order, and the place of the first if they are consecutive there.
    fn among<'m>(self, members: &'m [u32], chosen: &'m mut Vec<u32>) -> (&'m [u32], Option<usize>) {
        match self {
            Wanted::From(first) => {
                let start = members.partition_point(|group| (*group as usize) < first);
                (&members[start..], Some(start))
            }
            Wanted::These(bits) => {
                chosen.clear();
                chosen.extend(members.iter().filter(|group| bits.get(**group as usize)));
                (chosen, None)
            }
        }
    }
}

/// An expression on rows and on groups of rows.
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

    /// The plain evaluator for its rows.
    pub fn plain(&self) -> Plain<'a> {
        Plain::new(self.matcher, self.table, self.owner, self.job)
    }

    /// With the whole ad of a row.
    pub fn row(&self, row: Row) -> Value {
        self.plain().of(self.clause, &self.table.ad(row))
    }

    /// In the only group there is.
    pub fn only(&self, groups: &Groups) -> Value {
        let mut plain = self.plain();
        plain.whole(self.clause, groups.columns(), groups.tuple(0))
    }

    /// Adds the verdicts of the groups wanted.
    pub fn verdicts(&self, groups: &Groups, wanted: Wanted<'_>, out: &mut Verdicts) {
        let mut plain = self.plain();
        let mut slow = |group: usize, out: &mut Verdicts| {
            let value = plain.whole(self.clause, groups.columns(), groups.tuple(group));
            out.set_value(group, &value);
        };
        let mut chosen = Vec::new();
        for bucket in groups.buckets(&self.matcher.tuning).list() {
            let (members, start) = wanted.among(&bucket.members, &mut chosen);
            match self.program(groups, members.len(), &bucket.fixed) {
                None => members.iter().for_each(|group| slow(*group as usize, out)),
                Some(program) => {
                    if let (Some(start), Some((column, op, number))) =
                        (start, program.column_against_integer())
                        && let Some(integers) =
                            bucket.integers(column, |group| groups.tuple(group as usize)[column])
                    {
                        let integers = &integers[start..];
                        out.set_comparison(members, |yes| {
                            compare_integers(op, integers, number, members, yes);
                        });
                        continue;
                    }
                    let mut machine =
                        Machine::new(self.matcher, self.table, self.job, &program, groups);
                    machine.run_words(members, |group, word| match word {
                        Val::Unknown => slow(group, out),
                        word => out.set_word(group, word),
                    });
                }
            }
        }
    }

    /// The program for groups with these values in common, if there is one and it is worth the while.
    fn program(&self, groups: &Groups, members: usize, fixed: &[Option<Cell>]) -> Option<Program> {
        if members < self.matcher.tuning.program_from {
            return None;
        }
        let lowering = Lowering {
            matcher: self.matcher,
            table: self.table,
            job: self.job,
            groups,
            members,
            fixed,
        };
        if !self.clause.root {
            return lowering.lower(&self.clause.expr, self.owner);
        }
        let (_, name) = self.clause.reference.as_ref()?;
        let column = self.table.column_id(name)?;
        let place = groups.columns().iter().position(|id| *id == column)?;
        match fixed[place]?.kind() {
            CellKind::Expr(id) => lowering.lower(self.table.exprs().get(id), self.owner),
            _ => None,
        }
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
        let mut plain = self.plain();
        let mut slow =
            |group: usize| plain.whole(self.clause, groups.columns(), groups.tuple(group));
        for bucket in groups.buckets(&self.matcher.tuning).list() {
            let members = bucket.from(first);
            match self.program(groups, members.len(), &bucket.fixed) {
                None => members
                    .iter()
                    .for_each(|group| give(*group as usize, &slow(*group as usize))),
                Some(program) => {
                    Machine::new(self.matcher, self.table, self.job, &program, groups).run(
                        members,
                        |group, value| {
                            let value = value.unwrap_or_else(|| slow(group));
                            give(group, &value);
                        },
                    );
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
        let volatile = self.clause.reads.volatile;
        let mut plain = self.plain();
        for group in first..groups.count() {
            let cell = groups.tuple(group)[0];
            let literal =
                cell.expr_id().is_none() && !(cell.is_missing() && elsewhere) && !volatile;
            if literal {
                give(group, &self.table.cell_value(cell));
            } else {
                let value = plain.whole(self.clause, groups.columns(), groups.tuple(group));
                give(group, &value);
            }
        }
    }
}
