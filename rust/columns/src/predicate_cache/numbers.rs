//! Numbers and values that expressions give, by group of rows.

use super::key::result_key;
use super::*;

impl PredicateCache {
    /// The numbers that an expression gives.
    pub fn numbers(
        &self,
        matcher: &Matcher,
        table: &AdTable,
        clause: &Clause,
        owner: Owner,
        job: Option<&Ad>,
        dependencies: &Dependencies,
    ) -> Arc<Numbers> {
        let key = result_key(matcher, clause, owner, job, dependencies);
        let columns = if dependencies.unbounded {
            Vec::new()
        } else {
            dependencies.columns.clone()
        };
        let groups = self.groups(table, &columns);
        let mut by_group = Vec::new();
        if !dependencies.unbounded
            && let Some(entry) = lock(&self.numbers).get_mut(&key)
            && *entry.columns == *columns
        {
            if entry.numbers.groups.stamp == groups.stamp {
                entry.used = self.stamp;
                return entry.numbers.clone();
            }
            if groups.restarted <= entry.numbers.groups.stamp {
                by_group.clone_from(&entry.numbers.by_group);
            }
        }
        let scalar = Scalar::new(matcher, table, clause, owner, job);
        if dependencies.unbounded {
            let rows = self.rows(table);
            let groups = Arc::new(Groups::each_row(&rows));
            let by_row = rows.map(|row| number(&scalar.row(row as Row))).collect();
            return Arc::new(Numbers {
                groups,
                by_group: by_row,
            });
        }
        let known = by_group.len();
        by_group.resize(groups.count(), f64::NAN);
        scalar.tuples(&groups, known, |group, value| {
            by_group[group] = number(value)
        });
        let numbers = Arc::new(Numbers { groups, by_group });
        if allowance::exhausted() {
            return numbers;
        }
        let entry = NumberEntry {
            columns: columns.into(),
            numbers: numbers.clone(),
            used: self.stamp,
        };
        let mut bytes = lock(&self.number_bytes);
        if *bytes < REMEMBER_BYTES {
            *bytes += numbers.by_group.len() * 8;
            drop(bytes);
            lock(&self.numbers).insert(key, entry);
        }
        numbers
    }

    /// The values that an expression gives.
    pub fn values(
        &self,
        matcher: &Matcher,
        ask: Ask<'_>,
        clause: &Clause,
        dependencies: &Dependencies,
    ) -> Values {
        let Ask { table, owner, job } = ask;
        let scalar = Scalar::new(matcher, table, clause, owner, job);
        if dependencies.unbounded {
            let rows = self.rows(table);
            return Values {
                groups: Arc::new(Groups::each_row(&rows)),
                by_group: rows
                    .map(|row| match table.live().get(row) {
                        false => Value::Undefined,
                        true => scalar.row(row as Row),
                    })
                    .collect(),
            };
        }
        let groups = self.groups(table, &dependencies.columns);
        let mut by_group = vec![Value::Undefined; groups.count()];
        scalar.tuples(&groups, 0, |group, value| by_group[group] = value.clone());
        Values { groups, by_group }
    }
}

fn number(value: &Value) -> f64 {
    value.as_number().unwrap_or(f64::NAN)
}
