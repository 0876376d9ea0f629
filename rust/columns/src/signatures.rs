//! Rows that do not differ in some attributes, told apart by their unevaluated values.

use classad::Name;
use classad::analysis::Reads;
use rustc_hash::FxHashMap;

use crate::ads::canonical_text;
use crate::cell::Cell;
use crate::table::AdTable;

/// Attributes that every job of a cluster has for itself, or that tell what happened to it. An expression that may read
/// any attribute does not make jobs different by these: one that means them has to name them.
const OF_ONE_JOB: [&str; 36] = [
    "ClusterId",
    "ProcId",
    "GlobalJobId",
    "Args",
    "Arguments",
    "Env",
    "Environment",
    "In",
    "Out",
    "Err",
    "UserLog",
    "TransferInput",
    "TransferOutput",
    "TransferOutputRemaps",
    "Item",
    "Row",
    "Step",
    "QDate",
    "EnteredCurrentStatus",
    "JobStatus",
    "LastJobStatus",
    "JobPrio",
    "LastMatchTime",
    "LastRejMatchTime",
    "LastRejMatchReason",
    "LastRejMatchNegotiator",
    "NumJobMatches",
    "NumJobStarts",
    "NumShadowStarts",
    "NumRestarts",
    "JobRunCount",
    "RemoteWallClockTime",
    "CumulativeSlotTime",
    "AutoClusterId",
    "AutoClusterAttrs",
    "ResourceRequestCount",
];

/// Whether an attribute tells jobs of one cluster apart and nothing else; see [`OF_ONE_JOB`].
#[must_use]
pub fn is_of_one_job(name: &Name) -> bool {
    OF_ONE_JOB.iter().any(|other| name.is(other))
}

/// What [`AdTable::signatures`] finds.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    /// For each key asked for the number of its signature; none for keys without an ad.
    pub of: Vec<Option<u32>>,
    /// The signatures: a line `Name=value` for each attribute in order, unset ones as `undefined`.
    pub texts: Vec<Vec<u8>>,
    /// Attributes of the table that expressions in the signatures may look up in their own ad.
    pub mentioned: Vec<Name>,
}

impl AdTable {
    /// The signatures of the ads of `keys` in `names`.
    pub fn signatures(&self, keys: &[&[u8]], names: &[Name]) -> Signatures {
        let columns: Vec<_> = names.iter().map(|name| self.column_id(name)).collect();
        let mut found = Signatures::default();
        let mut numbers: FxHashMap<Box<[Cell]>, u32> = FxHashMap::default();
        let mut tuple = Vec::with_capacity(names.len());
        for key in keys {
            let Some(row) = self.row_of(key) else {
                found.of.push(None);
                continue;
            };
            tuple.clear();
            tuple.extend(
                columns
                    .iter()
                    .map(|id| id.map_or(Cell::MISSING, |id| self.cell(row, id))),
            );
            let number = match numbers.get(tuple.as_slice()) {
                Some(number) => *number,
                None => {
                    let number = found.texts.len() as u32;
                    numbers.insert(tuple.as_slice().into(), number);
                    let text = self.signature_text(names, &tuple, &mut found);
                    found.texts.push(text);
                    number
                }
            };
            found.of.push(Some(number));
        }
        found.mentioned.sort_unstable_by(|a, b| a.print_cmp(b));
        found.mentioned.dedup();
        found
    }

    fn signature_text(&self, names: &[Name], tuple: &[Cell], found: &mut Signatures) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, cell) in names.iter().zip(tuple) {
            text.extend_from_slice(&name.as_bytes().to_ascii_lowercase());
            text.push(b'=');
            match self.cell_expr(*cell) {
                None => text.extend_from_slice(b"undefined"),
                Some(expr) => {
                    text.extend_from_slice(&canonical_text(&expr));
                    if cell.expr_id().is_some() {
                        let reads = Reads::of(&expr);
                        if reads.unbounded {
                            let all = self.column_ids().map(|column| self.column_name(column));
                            let all = all.filter(|name| !is_of_one_job(name));
                            found.mentioned.extend(all.cloned());
                        }
                        let known = reads.of_my().filter_map(|name| self.column_id(name));
                        let known = known.map(|id| self.column_name(id).clone());
                        found.mentioned.extend(known);
                    }
                }
            }
            text.push(b'\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(ads: &[&str]) -> AdTable {
        let mut table = AdTable::new();
        for (place, text) in ads.iter().enumerate() {
            let (ad, _) = classad::parse_ad(text.as_bytes(), classad::Syntax::NORMAL).unwrap();
            table
                .upsert(place.to_string().as_bytes(), &ad, 0.0)
                .unwrap();
        }
        table
    }

    #[test]
    fn equal_values_have_one_signature() {
        let table = table(&["[A=1;B=2]", "[a=1;B=3]", "[A=2;B=2]", "[B=2]"]);
        let keys: Vec<&[u8]> = vec![b"0", b"1", b"2", b"3", b"nobody"];
        let found = table.signatures(&keys, &[Name::from("A")]);
        assert_eq!(found.of, [Some(0), Some(0), Some(1), Some(2), None]);
        assert_eq!(
            found.texts,
            [
                b"a=1\n".to_vec(),
                b"a=2\n".to_vec(),
                b"a=undefined\n".to_vec()
            ]
        );
        assert!(found.mentioned.is_empty());
    }

    #[test]
    fn an_expression_that_may_read_anything_mentions_all_but_what_is_of_one_job() {
        let table = table(&["[R = eval(strcat(\"S\", Size)); Size = 1; Own = 2; ProcId = 7]"]);
        let found = table.signatures(&[b"0"], &[Name::from("R")]);
        let names: Vec<_> = found.mentioned.iter().map(|name| name.to_text()).collect();
        assert_eq!(names, ["R", "Own", "Size"]);
    }

    #[test]
    fn expressions_mention_attributes_of_their_own_ad() {
        let table =
            table(&["[R = TARGET.Memory > MY.Size && Own < 3; Size = 1; Own = 2; Memory = 7]"]);
        let found = table.signatures(&[b"0"], &[Name::from("R")]);
        let names: Vec<_> = found
            .mentioned
            .iter()
            .map(|name| name.to_text().into_owned())
            .collect();
        assert_eq!(names, ["Own", "Size"]);
    }
}
