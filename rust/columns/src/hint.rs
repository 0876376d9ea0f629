//! What a condition of a job that keeps it from all rows would have to ask for instead.
//!
//! Of conditions that compare an attribute of the row with a constant, which the job's own attributes may give; and of
//! any other condition, which attribute it reads that is missing.

use classad::analysis::{Reads, reads_in};
use classad::fold::residual;
use classad::spelling::distance;
use classad::{Ad, BinaryOp, Context, Expr, Name, Side, Value, evaluate};
use rustc_hash::FxHashMap;

use crate::bitmap::Bitmap;
use crate::clause::Clause;
use crate::matcher::{Matcher, Owner};
use crate::results::{Hint, Nearest, Relation, Values};
use crate::table::{AdTable, Row};

/// A condition of the form `attribute op constant`.
struct Comparison {
    attribute: Name,
    op: BinaryOp,
    wanted: Value,
    asked: Option<Name>,
}

impl Comparison {
    /// What a clause of `job` compares, if it is of that form.
    fn of(clause: &Expr, job: &Ad, table: &AdTable) -> Option<Self> {
        let known = residual(clause, job);
        let known = known.unparen();
        if let Some(attribute) = of_row(known) {
            return Some(Self {
                attribute,
                op: BinaryOp::Eq,
                wanted: Value::Bool(true),
                asked: None,
            });
        }
        let (Expr::Binary(known), Expr::Binary(written)) = (known, clause.unparen()) else {
            return None;
        };
        if !known.op.is_comparison() {
            return None;
        }
        let (left, right) = (known.left.unparen(), known.right.unparen());
        let (attribute, op, wanted, side) = match (of_row(left), of_row(right)) {
            (Some(name), None) => (name, known.op, right, &written.right),
            (None, Some(name)) => (name, mirrored(known.op), left, &written.left),
            _ => return None,
        };
        let wanted = settled(wanted, job, table)?;
        let asked = match side.unparen().as_reference() {
            Some((Side::My | Side::Bare, name)) if job.get(name).is_some() => Some(name.clone()),
            _ => None,
        };
        Some(Self {
            attribute,
            op,
            wanted,
            asked,
        })
    }

    /// Of the values of `rows`, the one that comes nearest to what is wanted, and how many rows have it.
    fn nearest(&self, values: &Values, rows: &Bitmap) -> Option<Nearest> {
        let counts = counted(values, rows);
        let of_wanted = match self.wanted {
            Value::Bool(_) => None,
            _ => number(&self.wanted),
        };
        let found = match (self.op, of_wanted, &self.wanted) {
            (BinaryOp::Ge | BinaryOp::Gt, Some(_), _) => best(&counts, number, |&found| -found),
            (BinaryOp::Le | BinaryOp::Lt, Some(_), _) => best(&counts, number, |&found| found),
            (BinaryOp::Eq | BinaryOp::Is, Some(wanted), _) => {
                best(&counts, number, |found| (found - wanted).abs())
            }
            (BinaryOp::Eq | BinaryOp::Is, None, Value::Str(wanted)) => {
                let wanted = wanted.as_bytes().to_ascii_lowercase();
                nearest_text(&counts, &wanted)
            }
            (BinaryOp::Eq | BinaryOp::Is, None, Value::Bool(_)) => best(&counts, truth, |_| 0.0),
            _ => None,
        };
        let value = Expr::Lit(found?);
        Some(Nearest {
            rows: self.satisfied(&counts, &value),
            value,
        })
    }

    /// How many rows a job gets that wants `value` (or, of a strict comparison, a little less or more).
    fn satisfied(&self, counts: &[(&Value, usize)], value: &Expr) -> usize {
        let op = match self.op {
            BinaryOp::Gt => BinaryOp::Ge,
            BinaryOp::Lt => BinaryOp::Le,
            other => other,
        };
        let holds = |own: &Value| {
            let comparison = Expr::binary(op, Expr::Lit(own.clone()), value.clone());
            evaluate(&comparison, &Context::default()).is_true()
        };
        let those = counts.iter().filter(|(own, _)| holds(own));
        those.map(|(_, count)| count).sum()
    }

    fn relation(&self) -> Relation {
        match self.op {
            BinaryOp::Ge | BinaryOp::Gt => Relation::Largest,
            BinaryOp::Le | BinaryOp::Lt => Relation::Smallest,
            _ => Relation::Closest,
        }
    }
}

/// The value of an expression of `job` without attributes of rows. What the job lacks might be the row's (a request
/// that grows with MemoryUsage, which a job has once it has run): where no row has it, it is undefined.
fn settled(expr: &Expr, job: &Ad, table: &AdTable) -> Option<Value> {
    if let Expr::Lit(value) = expr {
        return Some(value.clone());
    }
    let reads = reads_in(expr, job);
    let lacking = reads.either.iter().filter(|name| !job.contains(name));
    let mut of_rows = reads.target.iter().chain(lacking);
    let special = reads.names().any(|name| name.special().is_some());
    if reads.unbounded || reads.volatile || special || of_rows.any(|name| has_any(table, name)) {
        return None;
    }
    let nothing = Ad::new();
    let context = Context {
        my: Some(job),
        target: Some(&nothing),
        ..Context::default()
    };
    let value = evaluate(expr, &context);
    (!value.is_exceptional()).then_some(value)
}

/// Whether some row has an attribute.
fn has_any(table: &AdTable, name: &Name) -> bool {
    table.column_id(name).is_some_and(|id| {
        let there = |row: Row| !table.cell(row, id).is_missing();
        table.rows().any(there)
    })
}

/// An attribute that a clause reads and that is missing.
struct Missing {
    attribute: Name,
    of_job: bool,
    alike: Option<Name>,
}

impl Missing {
    /// The first that neither any row nor the job has, or that the job lacks though it is asked of the job.
    fn of(clause: &Expr, job: &Ad, table: &AdTable) -> Option<Self> {
        let reads = Reads::of(clause);
        let usual = |name: &&Name| name.special().is_none() && !job.contains(name);
        let of_rows = reads.target.iter().chain(reads.either.iter().filter(usual));
        let of_rows = of_rows.filter(|name| name.special().is_none());
        if let Some(name) = { of_rows }.find(|name| !has_any(table, name)) {
            let there = table.column_ids().map(|id| table.column_name(id));
            return Some(Missing {
                attribute: name.clone(),
                of_job: false,
                alike: nearest_name(there.filter(|name| has_any(table, name)), name),
            });
        }
        let name = reads.my.iter().find(usual)?;
        Some(Missing {
            attribute: name.clone(),
            of_job: true,
            alike: nearest_name(job.iter().map(|(name, _)| name), name),
        })
    }

    fn hint(self) -> Hint {
        Hint {
            attribute: self.attribute,
            wanted: Expr::Lit(Value::Undefined),
            asked: None,
            relation: Relation::Closest,
            strict: false,
            known: false,
            of_job: self.of_job,
            alike: self.alike,
            nearest: None,
            among_rest: None,
        }
    }
}

/// The name that is spelt most like another, if one is spelt much like it.
fn nearest_name<'n>(names: impl Iterator<Item = &'n Name>, wanted: &Name) -> Option<Name> {
    let lower = |name: &Name| name.as_bytes().to_ascii_lowercase();
    let word = lower(wanted);
    let most = (word.len() / 4).max(1);
    let far = |name: &Name| {
        let other = lower(name);
        let like = other.len().abs_diff(word.len()) <= most;
        like.then(|| distance(&word, &other, most)).flatten()
    };
    let found = names
        .take(MOST_WORDS)
        .filter_map(|name| Some((far(name)?, name)));
    let least = found.min_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.print_cmp(b.1)))?;
    Some(least.1.clone())
}

/// The attribute of the row that an expression is, if it is nothing else. Names that the job lacks are the row's.
fn of_row(expr: &Expr) -> Option<Name> {
    match expr.as_reference() {
        Some((Side::Target, name)) => Some(name.clone()),
        _ => None,
    }
}

/// The comparison with its sides exchanged.
fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "what is shown is the value itself"
)]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Real(number) if number.is_finite() => Some(*number),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    }
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        _ => None,
    }
}

fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Str(text) => Some(text.as_bytes().to_ascii_lowercase()),
        _ => None,
    }
}

/// Values with the number of `rows` that have each.
fn counted<'v>(values: &'v Values, rows: &Bitmap) -> Vec<(&'v Value, usize)> {
    let mut counts = vec![0usize; values.by_group.len()];
    for row in rows.iter() {
        counts[values.groups().group(row)] += 1;
    }
    let all = values.by_group.iter().zip(counts);
    all.filter(|(_, count)| *count > 0).collect()
}

/// The value of the least distance among those that `kind` knows; a number rather than a truth value.
fn best<T>(
    counts: &[(&Value, usize)],
    kind: impl Fn(&Value) -> Option<T>,
    far: impl Fn(&T) -> f64,
) -> Option<Value> {
    let known = counts.iter().filter_map(|(value, _)| {
        let far = far(&kind(value)?);
        Some((far, matches!(value, Value::Bool(_)), *value))
    });
    let least = known.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    Some(least.2.clone())
}

/// The word that is spelt most like `wanted`; the most common one when none is.
fn nearest_text(counts: &[(&Value, usize)], wanted: &[u8]) -> Option<Value> {
    let mut words: FxHashMap<Vec<u8>, (&Value, usize)> = FxHashMap::default();
    for (value, count) in counts {
        if let Some(word) = text(value) {
            words.entry(word).or_insert((value, 0)).1 += count;
        }
    }
    let most = (wanted.len() / 3).max(1);
    let mut left = MOST_WORDS;
    let mut far = |word: &[u8]| {
        let like = word.len().abs_diff(wanted.len()) <= most && left > 0;
        left -= usize::from(like);
        let found = like.then(|| distance(wanted, word, most));
        found.flatten().unwrap_or(most + 1)
    };
    let (_, (value, _)) = words
        .into_iter()
        .min_by_key(|(word, (_, rows))| (far(word), usize::MAX - rows, word.clone()))?;
    Some(value.clone())
}

/// Words that are compared letter by letter: an attribute that tells all rows apart has too many.
const MOST_WORDS: usize = 2000;

impl Matcher {
    /// What `clause`, by which no row of `live` (or none of `rest`, which satisfy all other clauses) suits the job,
    /// would have to ask for, or which attribute is missing. None for clauses of another form.
    pub(crate) fn hint(
        &self,
        table: &AdTable,
        clause: &Clause,
        job: &Ad,
        live: Option<&Bitmap>,
        rest: &Bitmap,
    ) -> Option<Hint> {
        let missing = || {
            let none = live.and_then(|_| Missing::of(&clause.expr, job, table));
            none.map(Missing::hint)
        };
        let Some(found) = Comparison::of(&clause.expr, job, table) else {
            return missing();
        };
        let expr = Expr::select(Expr::attr("MY"), found.attribute.clone());
        let values = self.values(table, &expr, Owner::Slot, Some(job));
        let nearest = live.map(|rows| found.nearest(&values, rows));
        let among_rest = found.nearest(&values, rest);
        let there = |row: usize| !matches!(values.get(row as Row), Value::Undefined);
        let known = nearest.is_none() || live.is_some_and(|rows| rows.iter().any(there));
        let nearest = nearest.flatten();
        if known && nearest.is_none() && among_rest.is_none() {
            return missing(); // it is not a matter of more or less
        }
        Some(Hint {
            relation: found.relation(),
            strict: matches!(found.op, BinaryOp::Lt | BinaryOp::Gt),
            of_job: false,
            alike: if known {
                None
            } else {
                missing().and_then(|hint| hint.alike)
            },
            wanted: Expr::Lit(found.wanted),
            asked: found.asked,
            attribute: found.attribute,
            known,
            nearest,
            among_rest,
        })
    }
}
