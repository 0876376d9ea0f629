//! Conditions taken apart: each condition that has no conditions in it is asked of its own columns, and what they say
//! is put together row by row, 64 rows at a time.
//!
//! So `versionGE(Version, "25.12") || Disk >= RequestDisk` is not asked once for each pair of a version and a size of a
//! disk, and the second half not at all where the first is true everywhere. A condition is asked only of the rows that
//! the others leave (`within`), if that saves anything; what is said of other rows then means nothing.
//!
//! The rules are those of [`classad::ops`]: an error on the left decides, so does false (`&&`) or true (`||`), and of
//! the rest an error on the right. An evaluation that breaks off counts as an error; as no operator turns an error into
//! anything else, that comes to the same.

use std::sync::Arc;

use classad::{Ad, Side};

use crate::bitmap::Bitmap;
use crate::cell::CellKind;
use crate::clause::{Clause, Parts};
use crate::dependencies::Dependencies;
use crate::matcher::{DEPTH_MAX, Matcher, Owner, SplitRows};
use crate::results::Truth;
use crate::table::{AdTable, ColumnId};
use crate::verdicts::Verdict;

/// Conditions that are taken apart for one question; what is left then is asked as a whole. Definitions that use each
/// other several times would make more of them than anybody can wait for.
const VISITS_MAX: u32 = 4096;

/// Who is asked, and about which job.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub table: &'a AdTable,
    pub owner: Owner,
    pub job: Option<&'a Ad>,
}

/// The rows that a caller wants to know about, all without any, and the way to the condition.
pub(crate) struct Scope<'a> {
    pub within: Option<&'a Bitmap>,
    way: &'a mut Way,
}

/// How a condition was come to.
#[derive(Default)]
pub(crate) struct Way {
    /// The columns whose definitions are being followed.
    pub path: Vec<ColumnId>,
    visits: u32,
}

impl<'a> Scope<'a> {
    pub fn new(within: Option<&'a Bitmap>, way: &'a mut Way) -> Self {
        Scope { within, way }
    }

    /// Whether another condition may be taken apart; counts it.
    pub fn may_go_on(&mut self) -> bool {
        self.way.visits += 1;
        self.way.visits <= VISITS_MAX
    }

    pub fn narrowed<'s>(&'s mut self, within: Option<&'s Bitmap>) -> Scope<'s> {
        Scope {
            within: within.or(self.within),
            way: self.way,
        }
    }

    /// Those of the rows for which something holds, if these are not simply all of them.
    fn left(&self, truth: &Truth) -> Option<Bitmap> {
        let Truth::Rows(rows) = truth else {
            return None;
        };
        let mut left = (**rows).clone();
        if let Some(within) = self.within {
            left.and(within);
        }
        Some(left)
    }
}

/// What a condition says of each row; undefined where it says nothing else.
#[derive(Clone)]
struct Sides {
    yes: Truth,
    no: Truth,
    error: Truth,
}

impl Sides {
    fn undefined(&self, rows: usize) -> Truth {
        let said = self.yes.clone().or(self.no.clone());
        said.or(self.error.clone()).not(rows)
    }

    fn each(mut of: impl FnMut(Verdict) -> Truth) -> Self {
        Sides {
            yes: of(Verdict::True),
            no: of(Verdict::False),
            error: of(Verdict::Error),
        }
    }
}

impl Matcher {
    /// The rows for which a definition, or a whole expression, is true.
    pub(crate) fn true_rows(
        &self,
        ask: Ask<'_>,
        clause: &Arc<Clause>,
        scope: &mut Scope<'_>,
    ) -> Truth {
        if self.in_one_piece(ask, clause) {
            let dependencies = self.dependencies(ask.table, clause, ask.owner, ask.job);
            return self.leaf(ask, clause, &dependencies, Verdict::True, scope);
        }
        self.part_true(ask, clause, scope)
    }

    /// Whether a definition must not be taken apart: it would draw other numbers, look names up elsewhere, or go deeper
    /// than the whole could.
    fn in_one_piece(&self, ask: Ask<'_>, clause: &Arc<Clause>) -> bool {
        let dependencies = self.dependencies(ask.table, clause, ask.owner, ask.job);
        dependencies.random || dependencies.depth > DEPTH_MAX || self.moves(ask, clause)
    }

    fn leaf(
        &self,
        ask: Ask<'_>,
        clause: &Arc<Clause>,
        dependencies: &Dependencies,
        want: Verdict,
        scope: &mut Scope<'_>,
    ) -> Truth {
        if dependencies.unbounded
            && !clause.root
            && let Some(truth) = self.by_texts(ask, clause, want, scope)
        {
            return truth;
        }
        self.predicates
            .verdict(self, ask, clause, dependencies, want, scope.within)
    }

    /// What a condition is made of, if asking its parts is better than asking it.
    fn parts(
        &self,
        ask: Ask<'_>,
        clause: &Arc<Clause>,
        dependencies: &Dependencies,
        scope: &mut Scope<'_>,
    ) -> Arc<Parts> {
        scope.way.visits += 1;
        let parts = self.clauses.parts(clause);
        if matches!(&*parts, Parts::Leaf) {
            return parts;
        }
        let small = !dependencies.unbounded
            && self.combinations(ask.table, dependencies) <= self.tuning.whole_max;
        let conjunction = matches!(&*parts, Parts::All(_));
        if scope.way.visits > VISITS_MAX || small && !conjunction {
            return Arc::new(Parts::Leaf);
        }
        parts
    }

    /// At most so many combinations of values there are in the columns that are read.
    fn combinations(&self, table: &AdTable, dependencies: &Dependencies) -> usize {
        let values = |column: &ColumnId| self.predicates.distinct(table, *column);
        let columns = dependencies.columns.iter();
        columns.map(values).fold(1, usize::saturating_mul)
    }

    /// The rows for which a condition in a definition is true.
    pub(crate) fn part_true(
        &self,
        ask: Ask<'_>,
        clause: &Arc<Clause>,
        scope: &mut Scope<'_>,
    ) -> Truth {
        if let Some(split) = self.followed(ask, clause, &scope.way.path) {
            let [yes] = self.follow(ask, &split, scope, |clause, scope| {
                [self.true_rows(ask, clause, scope)]
            });
            return yes;
        }
        if let Some(definition) = self.own_definition(ask, clause) {
            return self.true_rows(ask, &definition, scope);
        }
        let dependencies = self.dependencies(ask.table, clause, ask.owner, ask.job);
        match &*self.parts(ask, clause, &dependencies, scope) {
            Parts::Leaf => self.leaf(ask, clause, &dependencies, Verdict::True, scope),
            Parts::All(clauses) => self.conjunction(ask, clauses, scope),
            Parts::Choice([cond, then, other]) => {
                let cond = self.sides(ask, cond, scope);
                let then = self.where_true(ask, cond.yes, then, scope);
                then.or(self.where_true(ask, cond.no, other, scope))
            }
            Parts::Else([first, second]) => {
                let first = self.sides(ask, first, scope);
                let open = first.undefined(ask.table.row_end());
                first.yes.or(self.where_true(ask, open, second, scope))
            }
            Parts::Not(_) | Parts::Any(_) => self.sides(ask, clause, scope).yes,
        }
    }

    /// Where `first` holds and a condition is true.
    fn where_true(
        &self,
        ask: Ask<'_>,
        first: Truth,
        clause: &Arc<Clause>,
        scope: &mut Scope<'_>,
    ) -> Truth {
        let left = scope.left(&first);
        if matches!(first, Truth::Never) || left.as_ref().is_some_and(Bitmap::is_clear) {
            return Truth::Never;
        }
        first.and(self.part_true(ask, clause, &mut scope.narrowed(left.as_ref())))
    }

    /// What a condition says where `first` holds.
    fn where_sides(
        &self,
        ask: Ask<'_>,
        first: &Truth,
        clause: &Arc<Clause>,
        scope: &mut Scope<'_>,
    ) -> Sides {
        let left = scope.left(first);
        if matches!(first, Truth::Never) || left.as_ref().is_some_and(Bitmap::is_clear) {
            return Sides::each(|_| Truth::Never);
        }
        let said = self.sides(ask, clause, &mut scope.narrowed(left.as_ref()));
        Sides {
            yes: said.yes.and(first.clone()),
            no: said.no.and(first.clone()),
            error: said.error.and(first.clone()),
        }
    }

    /// What a definition says of each row.
    fn definition_sides(&self, ask: Ask<'_>, clause: &Arc<Clause>, scope: &mut Scope<'_>) -> Sides {
        if self.in_one_piece(ask, clause) {
            let dependencies = self.dependencies(ask.table, clause, ask.owner, ask.job);
            return Sides::each(|want| self.leaf(ask, clause, &dependencies, want, scope));
        }
        self.sides(ask, clause, scope)
    }

    /// The rows of which a definition says this: true, false or error.
    pub(crate) fn definition_verdict(
        &self,
        ask: Ask<'_>,
        clause: &Arc<Clause>,
        want: Verdict,
        scope: &mut Scope<'_>,
    ) -> Truth {
        if want == Verdict::True {
            return self.true_rows(ask, clause, scope);
        }
        let said = self.definition_sides(ask, clause, scope);
        match want {
            Verdict::False => said.no,
            _ => said.error,
        }
    }

    /// What a condition in a definition says of each row.
    fn sides(&self, ask: Ask<'_>, clause: &Arc<Clause>, scope: &mut Scope<'_>) -> Sides {
        if let Some(split) = self.followed(ask, clause, &scope.way.path) {
            let [yes, no, error] = self.follow(ask, &split, scope, |clause, scope| {
                let said = self.definition_sides(ask, clause, scope);
                [said.yes, said.no, said.error]
            });
            return Sides { yes, no, error };
        }
        if let Some(definition) = self.own_definition(ask, clause) {
            return self.definition_sides(ask, &definition, scope);
        }
        let dependencies = self.dependencies(ask.table, clause, ask.owner, ask.job);
        match &*self.parts(ask, clause, &dependencies, scope) {
            Parts::Leaf => Sides::each(|want| self.leaf(ask, clause, &dependencies, want, scope)),
            Parts::Not(inner) => {
                let said = self.sides(ask, inner, scope);
                Sides {
                    yes: said.no,
                    no: said.yes,
                    ..said
                }
            }
            Parts::All(clauses) => self.chain(ask, clauses, Verdict::False, scope),
            Parts::Any(clauses) => self.chain(ask, clauses, Verdict::True, scope),
            Parts::Choice([cond, then, other]) => {
                let cond = self.sides(ask, cond, scope);
                let then = self.where_sides(ask, &cond.yes, then, scope);
                let other = self.where_sides(ask, &cond.no, other, scope);
                Sides {
                    yes: then.yes.or(other.yes),
                    no: then.no.or(other.no),
                    error: cond.error.or(then.error).or(other.error),
                }
            }
            Parts::Else([first, second]) => {
                let first = self.sides(ask, first, scope);
                let open = first.undefined(ask.table.row_end());
                let second = self.where_sides(ask, &open, second, scope);
                Sides {
                    yes: first.yes.or(second.yes),
                    no: first.no.or(second.no),
                    error: first.error.or(second.error),
                }
            }
        }
    }

    /// A chain of `&&` (decided by false) or `||` (decided by true).
    fn chain(
        &self,
        ask: Ask<'_>,
        clauses: &[Arc<Clause>],
        stop: Verdict,
        scope: &mut Scope<'_>,
    ) -> Sides {
        let (mut stopped, mut wrong) = (Truth::Never, Truth::Never);
        let mut passed = Truth::Always;
        for clause in clauses {
            let open = stopped.clone().or(wrong.clone()).not(ask.table.row_end());
            let said = self.where_sides(ask, &open, clause, scope);
            let (stops, passes) = match stop {
                Verdict::True => (said.yes, said.no),
                _ => (said.no, said.yes),
            };
            stopped = stopped.or(stops);
            wrong = wrong.or(said.error);
            passed = passed.and(passes);
        }
        match stop {
            Verdict::True => Sides {
                yes: stopped,
                no: passed,
                error: wrong,
            },
            _ => Sides {
                yes: passed,
                no: stopped,
                error: wrong,
            },
        }
    }

    /// The rows for which every condition is true; those that take long are asked last, of what the others left.
    fn conjunction(&self, ask: Ask<'_>, clauses: &[Arc<Clause>], scope: &mut Scope<'_>) -> Truth {
        let mut out = Truth::Always;
        for heavy in [false, true] {
            for clause in clauses.iter().filter(|clause| clause.heavy == heavy) {
                let left = if heavy { scope.left(&out) } else { None };
                if left.as_ref().is_some_and(Bitmap::is_clear) {
                    return Truth::Never;
                }
                out = out.and(self.part_true(ask, clause, &mut scope.narrowed(left.as_ref())));
                if matches!(out, Truth::Never) {
                    return out;
                }
            }
        }
        out
    }

    /// The definition in the job that a clause names, if the clause means nothing else.
    fn own_definition(&self, ask: Ask<'_>, clause: &Clause) -> Option<Arc<Clause>> {
        let (side, name) = clause.reference.as_ref()?;
        let job = ask.job.filter(|_| ask.owner == Owner::Job)?;
        let definition = job.get(name)?;
        let shadowed = *side == Side::My && job.get_str("MY").is_some();
        if *side == Side::Target || shadowed || matches!(definition, classad::Expr::Lit(_)) {
            return None;
        }
        let definition = self.clauses.whole(definition);
        // A definition that leads back to its own name means something else when it is followed.
        let dependencies = self.dependencies(ask.table, &definition, Owner::Job, ask.job);
        (!dependencies.unbounded && !dependencies.job_names.contains(name)).then_some(definition)
    }

    /// Row by row what the definition says that the row has: the rows where it is true, those where it is false, and
    /// those where it is an error, or the first of these. `asked` answers for a definition.
    fn follow<const N: usize>(
        &self,
        ask: Ask<'_>,
        split: &SplitRows,
        scope: &mut Scope<'_>,
        asked: impl Fn(&Arc<Clause>, &mut Scope<'_>) -> [Truth; N],
    ) -> [Truth; N] {
        let questions = [Verdict::True, Verdict::False, Verdict::Error];
        let column = split.groups.columns()[0];
        scope.way.path.push(column);
        let mut answers: Vec<[Truth; N]> = Vec::with_capacity(split.rows.len());
        for (group, rows) in split.rows.iter().enumerate() {
            let cell = split.groups.tuple(group)[0];
            let CellKind::Expr(id) = cell.kind() else {
                let said = Verdict::of(&ask.table.cell_value(cell));
                answers.push(std::array::from_fn(|at| {
                    if questions[at] == said {
                        Truth::Always
                    } else {
                        Truth::Never
                    }
                }));
                continue;
            };
            let clause = self.clauses.pooled(ask.table, id);
            let here = (split.rows.len() > 1).then(|| {
                let mut here = rows.clone();
                if let Some(within) = scope.within {
                    here.and(within);
                }
                here
            });
            answers.push(if here.as_ref().is_some_and(Bitmap::is_clear) {
                std::array::from_fn(|_| Truth::Never)
            } else {
                asked(&clause, &mut scope.narrowed(here.as_ref()))
            });
        }
        scope.way.path.pop();
        if answers.len() == 1 {
            return answers.swap_remove(0);
        }
        std::array::from_fn(|at| {
            if answers
                .iter()
                .all(|answer| matches!(answer[at], Truth::Never))
            {
                return Truth::Never;
            }
            let mut out = Bitmap::empty(ask.table.row_end());
            for (answer, rows) in answers.iter().zip(&split.rows) {
                match &answer[at] {
                    Truth::Never => {}
                    Truth::Always => out.or(rows),
                    Truth::Rows(these) => out.or_and(rows, these),
                }
            }
            Truth::Rows(Arc::new(out))
        })
    }
}
