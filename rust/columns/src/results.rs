//! What a matcher answers.

use std::sync::Arc;

use classad::{Expr, Name, Value};

use crate::bitmap::Bitmap;
use crate::groups::Groups;
use crate::table::Row;

/// The rows for which something is true.
#[derive(Clone, Debug)]
pub enum Truth {
    /// No row.
    Never,
    /// Every row.
    Always,
    /// These rows.
    Rows(Arc<Bitmap>),
}

impl Truth {
    /// Keeps in `rows` those for which this is true.
    pub fn narrow(&self, rows: &mut Bitmap) {
        match self {
            Truth::Never => *rows = Bitmap::empty(rows.len()),
            Truth::Always => {}
            Truth::Rows(these) => rows.and(these),
        }
    }

    pub(crate) fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::Never, _) | (_, Truth::Never) => Truth::Never,
            (Truth::Always, truth) | (truth, Truth::Always) => truth,
            (Truth::Rows(mut a), Truth::Rows(b)) => {
                if !Arc::ptr_eq(&a, &b) {
                    Arc::make_mut(&mut a).and(&b);
                }
                Truth::Rows(a)
            }
        }
    }

    pub(crate) fn or(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::Always, _) | (_, Truth::Always) => Truth::Always,
            (Truth::Never, truth) | (truth, Truth::Never) => truth,
            (Truth::Rows(mut a), Truth::Rows(b)) => {
                Arc::make_mut(&mut a).or(&b);
                Truth::Rows(a)
            }
        }
    }

    /// The rows of a table of `rows` that this is not true for.
    pub(crate) fn not(self, rows: usize) -> Truth {
        match self {
            Truth::Never => Truth::Always,
            Truth::Always => Truth::Never,
            Truth::Rows(these) => {
                let mut out = Bitmap::full(rows);
                out.and_not(&these);
                Truth::Rows(Arc::new(out))
            }
        }
    }

    /// How many of `rows` this is true for.
    pub fn count_in(&self, rows: &Bitmap) -> usize {
        match self {
            Truth::Never => 0,
            Truth::Always => rows.count(),
            Truth::Rows(these) => rows.count_and(these),
        }
    }
}

/// Numbers an expression gives, by row.
#[derive(Clone, Debug)]
pub struct Numbers {
    pub(crate) groups: Arc<Groups>,
    /// By group; NaN where the result is not a number.
    pub(crate) by_group: Vec<f64>,
}

impl Numbers {
    /// The number for a row; none if the expression gives none (booleans count as 0 and 1).
    #[inline]
    pub fn get(&self, row: Row) -> Option<f64> {
        let value = self.by_group[self.groups.group(row as usize)];
        (!value.is_nan()).then_some(value)
    }

    /// The group of each row: rows of one group have one number.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// The number of each group, NaN for none.
    pub fn by_group(&self) -> &[f64] {
        &self.by_group
    }
}

/// Values an expression gives, by row.
#[derive(Clone, Debug)]
pub struct Values {
    pub(crate) groups: Arc<Groups>,
    pub(crate) by_group: Vec<Value>,
}

impl Values {
    /// The value for a row.
    #[inline]
    pub fn get(&self, row: Row) -> &Value {
        &self.by_group[self.groups.group(row as usize)]
    }

    /// The group of each row: rows of one group have one value.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }
}

/// One clause of a condition and what it does to the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ClauseCount {
    /// The clause as text.
    pub text: String,
    /// Rows for which it is true.
    pub passes: usize,
    /// Rows for which every clause but this one is true.
    pub without: usize,
    /// What it would have to ask for, of a clause that keeps the job from all rows.
    pub hint: Option<Hint>,
}

/// A value of rows, and how many have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// The value, a literal.
    pub value: Expr,
    /// Rows.
    pub rows: usize,
}

/// In which sense a value comes nearest to what a clause wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The largest there is.
    Largest,
    /// The smallest there is.
    Smallest,
    /// The one that differs least.
    Closest,
}

/// What a clause that compares an attribute of rows with a constant would have to ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// The attribute of rows.
    pub attribute: Name,
    /// What the clause wants of it, a literal.
    pub wanted: Expr,
    /// The job's attribute that says so.
    pub asked: Option<Name>,
    /// In which sense the values below are the nearest.
    pub relation: Relation,
    /// The comparison does not hold for the value itself.
    pub strict: bool,
    /// Some row has the attribute.
    pub known: bool,
    /// It is an attribute of the job, which the job lacks.
    pub of_job: bool,
    /// An attribute that is spelt much like one that is missing.
    pub alike: Option<Name>,
    /// Of all rows, when none satisfies the clause.
    pub nearest: Option<Nearest>,
    /// Of the rows that satisfy all other clauses.
    pub among_rest: Option<Nearest>,
}

/// Why rows do not match a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// Rows that were asked about.
    pub rows: usize,
    /// Rows that the job accepts.
    pub job_accepts: usize,
    /// Rows that accept the job.
    pub slot_accepts: usize,
    /// Rows that match both ways.
    pub matches: usize,
    /// Clauses of the job's Requirements.
    pub job_clauses: Vec<ClauseCount>,
    /// Clauses of rows' Requirements (followed into START and the like) that some of the rows that the
    /// job accepts refuse it by: text and number of such rows, most first.
    pub refused_by: Vec<(String, usize)>,
}
