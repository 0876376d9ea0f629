//! Which attributes of ads are shown, and in what order.
//!
//! An attribute that is an expression means nothing without those that it reads: whoever gets a projection could only
//! evaluate `SlotWeight = Cpus` to undefined. So what projected expressions read comes along, ad by ad and to any depth,
//! as in HTCondor, whose servers widen projections so (`putClassAd`).

use std::cell::RefCell;
use std::rc::Rc;

use classad::Name;
use classad::analysis::Reads;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cell::{Cell, ExprId};
use crate::table::{AdTable, ColumnId, Row};

/// Attributes to be shown of every row that has them: some columns, and of each row further ones.
#[derive(Clone, Debug)]
pub struct Shown {
    columns: Vec<ColumnId>,
    further: Further,
    /// In the order of names, else in that of columns.
    by_name: bool,
}

/// What is shown of a row besides the columns that are shown of all.
#[derive(Clone, Debug)]
enum Further {
    Nothing,
    /// Its rare attributes: whole ads are wanted.
    Rare,
    /// What the expressions shown read, each expression looked into once.
    Read(RefCell<FxHashMap<ExprId, ReadColumns>>),
}

/// The columns that an expression reads; None: it may read any.
type ReadColumns = Option<Rc<[ColumnId]>>;

impl Shown {
    /// The columns that are shown of every row.
    pub(crate) fn columns(&self) -> &[ColumnId] {
        &self.columns
    }
}

impl AdTable {
    /// The attributes of a projection in the order of names, and what they read unless `alone`; whole ads without one.
    pub fn projected(&self, projection: Option<&[Name]>, alone: bool) -> Shown {
        let (mut columns, further) = match projection {
            Some(names) if alone => (self.columns_named(names), Further::Nothing),
            Some(names) => (self.columns_named(names), Further::Read(RefCell::default())),
            None => (self.common.clone(), Further::Rare),
        };
        self.sort_by_name(&mut columns);
        Shown {
            columns,
            further,
            by_name: true,
        }
    }

    /// The columns of a projection in the order of names, rare ones among them; all columns without one.
    pub(crate) fn shown_columns(&self, projection: Option<&[Name]>) -> Vec<ColumnId> {
        let mut columns = match projection {
            Some(names) => self.columns_named(names),
            None => self.column_ids().collect(),
        };
        self.sort_by_name(&mut columns);
        columns
    }

    fn columns_named(&self, names: &[Name]) -> Vec<ColumnId> {
        let known = |name| self.column_id(name);
        names.iter().filter_map(known).collect()
    }

    fn sort_by_name(&self, columns: &mut Vec<ColumnId>) {
        columns.sort_by_cached_key(|id| self.column_name(*id).as_bytes().to_ascii_lowercase());
        columns.dedup();
    }

    /// Whole ads in the order of columns.
    pub(crate) fn all_attributes(&self) -> Shown {
        Shown {
            columns: self.common.clone(),
            further: Further::Rare,
            by_name: false,
        }
    }

    /// Calls `give` for each attribute of a row that is shown, with its place among the columns if it is one of those.
    #[inline]
    pub(crate) fn each_shown(
        &self,
        row: Row,
        shown: &Shown,
        mut give: impl FnMut(Option<usize>, ColumnId, Cell),
    ) {
        let further = match &shown.further {
            Further::Nothing => Vec::new(),
            Further::Rare => self.rare_columns(row).to_vec(),
            Further::Read(known) => self.read_columns(row, shown, &mut known.borrow_mut()),
        };
        let between = if further.is_empty() {
            Vec::new()
        } else {
            self.places(further, shown)
        };
        let mut between = between.into_iter().peekable();
        for (place, id) in shown.columns.iter().enumerate() {
            while let Some((_, id)) = between.next_if(|entry| entry.0 <= place) {
                give(None, id, self.cell(row, id));
            }
            let cell = self.cell(row, *id);
            if !cell.is_missing() {
                give(Some(place), *id, cell);
            }
        }
        for (_, id) in between {
            give(None, id, self.cell(row, id));
        }
    }

    /// The further columns that the expressions among the attributes shown of a row read, those that they are
    /// defined by followed.
    fn read_columns(
        &self,
        row: Row,
        shown: &Shown,
        known: &mut FxHashMap<ExprId, ReadColumns>,
    ) -> Vec<ColumnId> {
        let expression = |id: &ColumnId| self.cell(row, *id).expr_id();
        let mut open: Vec<ExprId> = shown.columns.iter().filter_map(expression).collect();
        if open.is_empty() {
            return Vec::new();
        }
        let mut seen: FxHashSet<ColumnId> = shown.columns.iter().copied().collect();
        let mut found: Vec<ColumnId> = Vec::new();
        while let Some(expr) = open.pop() {
            let read = known
                .entry(expr)
                .or_insert_with(|| self.columns_read(expr))
                .clone();
            let Some(read) = read else {
                let all = self.common.iter().chain(self.rare_columns(row));
                let more = |id: &&ColumnId| !self.cell(row, **id).is_missing() && seen.insert(**id);
                found.extend(all.filter(more));
                return found;
            };
            for id in read.iter() {
                let cell = self.cell(row, *id);
                if !cell.is_missing() && seen.insert(*id) {
                    found.push(*id);
                    open.extend(cell.expr_id());
                }
            }
        }
        found
    }

    fn columns_read(&self, expr: ExprId) -> ReadColumns {
        let reads = Reads::of(self.exprs().get(expr));
        if reads.unbounded {
            return None;
        }
        let names = reads.of_my().chain(&reads.scope_words);
        Some(names.filter_map(|name| self.column_id(name)).collect())
    }

    /// Before which place among the columns each further attribute of a row comes, in order.
    fn places(&self, mut further: Vec<ColumnId>, shown: &Shown) -> Vec<(usize, ColumnId)> {
        if !shown.by_name {
            let place = |id: &ColumnId| shown.columns.partition_point(|other| other < id);
            return further.iter().map(|id| (place(id), *id)).collect();
        }
        let lower = |id: ColumnId| {
            let name = self.column_name(id).as_bytes();
            name.iter().map(u8::to_ascii_lowercase)
        };
        further.sort_by(|a, b| lower(*a).cmp(lower(*b)));
        let before = |id: ColumnId| {
            let less = |other: &ColumnId| lower(*other).lt(lower(id));
            shown.columns.partition_point(less)
        };
        further.into_iter().map(|id| (before(id), id)).collect()
    }
}
