//! Rows that do not differ in some attributes, told apart by their unevaluated values.

use std::rc::Rc;

use classad::Name;
use classad::analysis::Reads;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ads::canonical_text;
use crate::cell::Cell;
use crate::table::AdTable;

/// Attributes that every job of a cluster has for itself, or that tell what happened to it. An expression that may read
/// any attribute does not make jobs different by these: one that means them has to name them.
const OF_ONE_JOB: [&str; 41] = [
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
    "LastFailedStartTime",
    "LastFailedStartSlot",
    "LastFailedStartReason",
    "NumFailedStarts",
    "KeptBackReason",
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
    /// The signatures: a line `Name=value` for each attribute in order, unset ones as `undefined`; then those that
    /// expressions read.
    pub texts: Vec<Vec<u8>>,
    /// Attributes of the table that expressions in the signatures may look up in their own ad.
    pub mentioned: Vec<Name>,
}

/// What rows with the same cells in the asked attributes have in common.
struct Shared {
    text: Vec<u8>,
    /// Attributes that the expressions in these cells read of their own ad, besides those asked for.
    read: Vec<Name>,
    /// Those, and those asked for.
    known: FxHashSet<Name>,
    /// Their signature, when nothing else is read.
    number: Option<u32>,
}

/// What the expressions that were met read of their own ad.
struct Met<'a> {
    table: &'a AdTable,
    reads: FxHashMap<Cell, Rc<[Name]>>,
    mentioned: FxHashSet<Name>,
}

impl AdTable {
    /// The signatures of the ads of `keys` in `names`, and in what the expressions there read of the ad itself.
    #[must_use]
    pub fn signatures(&self, keys: &[&[u8]], names: &[Name]) -> Signatures {
        let columns: Vec<_> = names.iter().map(|name| self.column_id(name)).collect();
        let asked: FxHashSet<Name> = names.iter().cloned().collect();
        let mut met = Met {
            table: self,
            reads: FxHashMap::default(),
            mentioned: FxHashSet::default(),
        };
        let mut found = Signatures::default();
        let mut shared: FxHashMap<Box<[Cell]>, Shared> = FxHashMap::default();
        let mut numbers: FxHashMap<Vec<u8>, u32> = FxHashMap::default();
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
            if !shared.contains_key(tuple.as_slice()) {
                let mut new = self.shared(names, &asked, &tuple, &mut met);
                if new.read.is_empty() {
                    new.number = Some(numbered(new.text.clone(), &mut numbers, &mut found.texts));
                }
                shared.insert(tuple.as_slice().into(), new);
            }
            let of_all = &shared[tuple.as_slice()];
            let number = of_all.number.unwrap_or_else(|| {
                let text = self.with_reads(row, of_all, &mut met);
                numbered(text, &mut numbers, &mut found.texts)
            });
            found.of.push(Some(number));
        }
        found.mentioned = met.mentioned.into_iter().collect();
        found.mentioned.sort_unstable_by(|a, b| a.print_cmp(b));
        found
    }

    /// What rows with the cells of `tuple` in `names` have in common; `asked` are the names as a set.
    fn shared(
        &self,
        names: &[Name],
        asked: &FxHashSet<Name>,
        tuple: &[Cell],
        met: &mut Met<'_>,
    ) -> Shared {
        let mut text = Vec::new();
        let mut read = Vec::new();
        let mut known = asked.clone();
        for (name, cell) in names.iter().zip(tuple) {
            self.line(&mut text, name, *cell);
            for other in met.reads_of(*cell).iter() {
                if known.insert(other.clone()) {
                    read.push(other.clone());
                }
            }
        }
        Shared {
            text,
            read,
            known,
            number: None,
        }
    }

    /// The signature of a row, with what its expressions read of the ad itself, to any depth.
    fn with_reads(&self, row: u32, shared: &Shared, met: &mut Met<'_>) -> Vec<u8> {
        let mut text = shared.text.clone();
        let mut read = shared.read.clone();
        let mut more: FxHashSet<Name> = FxHashSet::default();
        let mut next = 0;
        while let Some(name) = read.get(next).cloned() {
            next += 1;
            let column = self.column_id(&name);
            let cell = column.map_or(Cell::MISSING, |id| self.cell(row, id));
            self.line(&mut text, &name, cell);
            for other in met.reads_of(cell).iter() {
                if !shared.known.contains(other) && more.insert(other.clone()) {
                    read.push(other.clone());
                }
            }
        }
        text
    }

    fn line(&self, text: &mut Vec<u8>, name: &Name, cell: Cell) {
        text.extend_from_slice(&name.as_bytes().to_ascii_lowercase());
        text.push(b'=');
        match self.cell_expr(cell) {
            None => text.extend_from_slice(b"undefined"),
            Some(expr) => text.extend_from_slice(&canonical_text(&expr)),
        }
        text.push(b'\n');
    }
}

impl Met<'_> {
    /// The attributes of the table that the expression in a cell names in its own ad. What it may read without naming
    /// it is mentioned, too.
    fn reads_of(&mut self, cell: Cell) -> Rc<[Name]> {
        if let Some(known) = self.reads.get(&cell) {
            return known.clone();
        }
        let table = self.table;
        let Some(expr) = cell.expr_id().and_then(|_| table.cell_expr(cell)) else {
            return Rc::default();
        };
        let reads = Reads::of(&expr);
        if reads.unbounded {
            let all = table.column_ids().map(|column| table.column_name(column));
            let others = all.filter(|name| !is_of_one_job(name));
            self.mentioned.extend(others.cloned());
        }
        let known = reads.of_my().filter_map(|name| table.column_id(name));
        let named: Rc<[Name]> = known.map(|id| table.column_name(id).clone()).collect();
        self.mentioned.extend(named.iter().cloned());
        self.reads.insert(cell, named.clone());
        named
    }
}

fn numbered(text: Vec<u8>, numbers: &mut FxHashMap<Vec<u8>, u32>, texts: &mut Vec<Vec<u8>>) -> u32 {
    let next = texts.len() as u32;
    *numbers.entry(text).or_insert_with_key(|text| {
        texts.push(text.clone());
        next
    })
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
    fn what_an_expression_reads_of_its_own_ad_tells_ads_apart_to_any_depth() {
        let table = table(&[
            "[R = MY.Used * 2; Used = Kib / 1024; Kib = 1; Free = 1]",
            "[R = MY.Used * 2; Used = Kib / 1024; Kib = 2; Free = 1]",
            "[R = MY.Used * 2; Used = Kib / 1024; Kib = 1; Free = 2]",
            "[R = 3; Used = Kib / 1024; Kib = 1]",
            "[R = 3; Used = Kib / 1024; Kib = 2]",
        ]);
        let keys: Vec<&[u8]> = vec![b"0", b"1", b"2", b"3", b"4"];
        let found = table.signatures(&keys, &[Name::from("R")]);
        assert_eq!(found.of, [Some(0), Some(1), Some(0), Some(2), Some(2)]);
        assert!(found.texts[0].ends_with(b"used=Kib / 1024\nkib=1\n"));
    }

    #[test]
    fn an_expression_that_may_read_anything_mentions_all_but_what_is_of_one_job() {
        let text = "[R = eval(strcat(\"S\", Size)); Size = 1; Own = 2; ProcId = 7; KeptBackReason = \"x\"]";
        let table = table(&[text]);
        let found = table.signatures(&[b"0"], &[Name::from("R")]);
        let names: Vec<_> = found.mentioned.iter().map(|name| name.to_text()).collect();
        assert_eq!(names, ["R", "Own", "Size"]);
    }

    #[test]
    fn ads_of_thousands_of_attributes_that_lead_to_one_another_have_signatures() {
        let many = 20_000;
        let mut text = format!("[R = A0 + B{many}");
        for number in 0..many {
            text.push_str(&format!("; A{number} = A{}", number + 1));
        }
        text.push(']');
        let found = table(&[&text, &text]).signatures(&[b"0", b"1"], &[Name::from("R")]);
        assert_eq!(found.of, [Some(0), Some(0)]);
        let lines = found.texts[0].split(|byte| *byte == b'\n').count();
        assert_eq!(lines, many + 2);
        assert_eq!(found.mentioned.len(), many);
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
