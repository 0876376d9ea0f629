//! Which attributes of ads are shown, and in what order.

use classad::Name;

use crate::cell::Cell;
use crate::table::{AdTable, ColumnId, Row};

/// Attributes to be shown of every row that has them: some columns, and the row's rare attributes where whole ads are
/// wanted.
#[derive(Clone, Debug)]
pub struct Shown {
    columns: Vec<ColumnId>,
    /// The row's rare attributes as well.
    rare: bool,
    /// In the order of names, else in that of columns.
    by_name: bool,
}

impl Shown {
    /// The columns that are shown of every row.
    pub(crate) fn columns(&self) -> &[ColumnId] {
        &self.columns
    }
}

impl AdTable {
    /// The attributes of a projection in the order of names; whole ads without one.
    pub fn projected(&self, projection: Option<&[Name]>) -> Shown {
        let mut columns = match projection {
            Some(names) => self.columns_named(names),
            None => self.common.clone(),
        };
        self.sort_by_name(&mut columns);
        Shown {
            columns,
            rare: projection.is_none(),
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
            rare: true,
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
        let rare = self.rare_columns(row);
        let between = if shown.rare && !rare.is_empty() {
            self.places(rare, shown)
        } else {
            Vec::new()
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

    /// Before which place among the columns each rare attribute of a row comes, in order.
    fn places(&self, rare: &[ColumnId], shown: &Shown) -> Vec<(usize, ColumnId)> {
        if !shown.by_name {
            let place = |id: &ColumnId| shown.columns.partition_point(|other| other < id);
            return rare.iter().map(|id| (place(id), *id)).collect();
        }
        let lower = |id: ColumnId| {
            let name = self.column_name(id).as_bytes();
            name.iter().map(u8::to_ascii_lowercase)
        };
        let mut rare = rare.to_vec();
        rare.sort_by(|a, b| lower(*a).cmp(lower(*b)));
        let before = |id: ColumnId| {
            let less = |other: &ColumnId| lower(*other).lt(lower(id));
            shown.columns.partition_point(less)
        };
        rare.into_iter().map(|id| (before(id), id)).collect()
    }
}
