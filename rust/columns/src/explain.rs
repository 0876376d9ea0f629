//! Why rows do not match a job.

use std::sync::Arc;

use classad::Ad;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bitmap::Bitmap;
use crate::cell::CellKind;
use crate::clause::Clause;
use crate::logic::{Ask, Way};
use crate::matcher::{Matcher, Owner};
use crate::results::{ClauseCount, Explanation, Truth};
use crate::table::AdTable;

impl Matcher {
    /// Why rows do not match a job: each clause with its counts.
    pub fn explain(&self, table: &AdTable, job: &Ad) -> Explanation {
        let live = table.live();
        let mut accepted = live.clone();
        self.job_accepts(table, job).narrow(&mut accepted);
        let slot_accepts = self.slot_accepts(table, job);
        let mut refused = FxHashMap::default();
        self.tally(
            table,
            &[self.requirements()],
            job,
            &accepted,
            &mut refused,
            &mut Way::default(),
        );
        let mut refused_by: Vec<(String, usize)> = refused.into_iter().collect();
        refused_by.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Explanation {
            rows: live.count(),
            job_accepts: accepted.count(),
            slot_accepts: slot_accepts.count_in(live),
            matches: slot_accepts.count_in(&accepted),
            job_clauses: self.clause_counts(table, job),
            refused_by,
        }
    }

    /// The clauses of a job's Requirements with their counts.
    pub fn clause_counts(&self, table: &AdTable, job: &Ad) -> Vec<ClauseCount> {
        let Some(expr) = job.get_str("Requirements") else {
            return Vec::new();
        };
        let split = self.clauses.conjuncts(&self.clauses.whole(expr));
        // A condition that is written twice is one: without it means without both.
        let mut seen = FxHashSet::default();
        let clauses: Vec<&Arc<Clause>> = split
            .iter()
            .filter(|clause| seen.insert(&clause.text))
            .collect();
        let truths: Vec<Truth> = clauses
            .iter()
            .map(|clause| {
                let ask = Ask {
                    table,
                    owner: Owner::Job,
                    job: Some(job),
                };
                self.clause_truth(ask, clause, &mut Way::default())
            })
            .collect();
        let live = table.live();
        let count = |(at, clause): (usize, &&Arc<Clause>)| {
            let mut rest = live.clone();
            for (other, truth) in truths.iter().enumerate() {
                if other != at {
                    truth.narrow(&mut rest);
                }
            }
            let (passes, without) = (truths[at].count_in(live), rest.count());
            let accepted = truths[at].count_in(&rest);
            let hint = match (passes, accepted, without) {
                (0, ..) => self.hint(table, clause, job, Some(live), &rest),
                (_, 0, 1..) => self.hint(table, clause, job, None, &rest),
                _ => None,
            };
            ClauseCount {
                text: clause.shown(),
                passes,
                without,
                hint,
            }
        };
        clauses.iter().enumerate().map(count).collect()
    }

    /// Counts, clause by clause, the rows of `rows` that refuse the job.
    fn tally(
        &self,
        table: &AdTable,
        clauses: &[Arc<Clause>],
        job: &Ad,
        rows: &Bitmap,
        refused: &mut FxHashMap<String, usize>,
        way: &mut Way,
    ) {
        for clause in clauses {
            let ask = Ask {
                table,
                owner: Owner::Slot,
                job: Some(job),
            };
            if let Some(split) = self.followed(ask, clause, &way.path) {
                let column = split.groups.columns()[0];
                for (group, group_rows) in split.rows.iter().enumerate() {
                    let mut these = rows.clone();
                    these.and(group_rows);
                    let cell = split.groups.tuple(group)[0];
                    let (CellKind::Expr(id), false) = (cell.kind(), these.is_clear()) else {
                        if !table.cell_value(cell).is_true() && !these.is_clear() {
                            *refused.entry(clause.shown()).or_default() += these.count();
                        }
                        continue;
                    };
                    way.path.push(column);
                    let inner = self.clauses.conjuncts(&self.clauses.pooled(table, id));
                    self.tally(table, &inner, job, &these, refused, way);
                    way.path.pop();
                }
                continue;
            }
            let truth = self.clause_truth(ask, clause, way);
            let fails = rows.count() - truth.count_in(rows);
            if fails > 0 {
                *refused.entry(clause.shown()).or_default() += fails;
            }
        }
    }
}
