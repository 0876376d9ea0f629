//! A table beside a table: the same rows, some of the columns, and values put in for a while.
//!
//! Questions about attributes that exist only for a time (what a negotiation
//! knows of the users of slots) are asked of a view: rows and ids are those of
//! the table, so answers fit. What bounds it: copying the columns and the texts.

use classad::{Expr, Name};

use crate::bitmap::Bitmap;
use crate::cell::Cell;
use crate::table::{AdTable, Row};

impl AdTable {
    /// The table with these attributes only, and with ads only in the rows of `live`. Rows keep their
    /// numbers; ads are not found by key.
    #[must_use]
    pub fn view<'n>(&self, names: impl Iterator<Item = &'n Name>, live: Bitmap) -> AdTable {
        let mut out = AdTable::new();
        out.rows.clone_from(&self.rows);
        out.strings.clone_from(&self.strings);
        out.exprs.clone_from(&self.exprs);
        out.bigs.clone_from(&self.bigs);
        out.live_in_chunk.clone_from(&self.live_in_chunk);
        out.live = live;
        out.version = 1;
        out.collect_later = true;
        for name in names {
            let Some(id) = self.column_id(name) else {
                continue;
            };
            if out.by_name.contains_key(name) {
                continue;
            }
            let name = self.names[id as usize].clone();
            out.by_name.insert(name.clone(), out.names.len() as u32);
            out.add_common(out.names.len() as u32);
            out.names.push(name);
            let mut column = self.columns[id as usize].clone();
            column.make_common();
            out.columns.push(column);
        }
        out
    }

    /// The whole table again, to put values into. Rows and ids are the same, whatever was made of the table is not.
    #[must_use]
    pub fn copy(&self) -> AdTable {
        let mut out = self.clone();
        out.take_new_epoch();
        out.log.reset(out.version);
        out.collect_later = true;
        out
    }

    /// Puts values into a column of a view, made if there is none; rows without a value stay as they are.
    pub fn put_values(&mut self, name: &Name, values: impl Iterator<Item = (Row, Cell)>) {
        let id = match self.by_name.get(name) {
            Some(id) => *id as usize,
            None => {
                let id = self.names.len();
                self.by_name.insert(name.clone(), id as u32);
                self.add_common(id as u32);
                self.names.push(name.clone());
                self.columns.push(crate::column::Column::new());
                id
            }
        };
        self.make_common(id as u32);
        let column = &mut self.columns[id];
        for (row, cell) in values {
            column.set(row as usize, cell, true);
        }
    }

    /// The cell of a value that is put into a view.
    pub fn value_cell(&mut self, value: &Expr) -> Cell {
        self.expr_cell(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use classad::{Ad, Value};

    #[test]
    fn a_copy_is_another_table() {
        let mut table = AdTable::new();
        let mut ad = Ad::new();
        ad.set("Memory", Expr::Lit(Value::Int(1)));
        let _ = table.upsert(b"slot1", &ad, 0.0);
        let mut copy = table.copy();
        assert_ne!(copy.epoch(), table.epoch());
        let cell = copy.value_cell(&Expr::Lit(Value::Int(7)));
        copy.put_values(&Name::from("Memory"), std::iter::once((0, cell)));
        assert_eq!(
            copy.ad(0).get_str("Memory"),
            Some(&Expr::Lit(Value::Int(7)))
        );
        assert_eq!(table.ad(0), ad);
        assert_eq!(copy.row_of(b"slot1"), Some(0));
    }

    #[test]
    fn a_view_has_the_rows_of_its_table() {
        let mut table = AdTable::new();
        for at in 0..3 {
            let mut ad = Ad::new();
            ad.set("Memory", Expr::Lit(Value::Int(at)));
            ad.set("Owner", Expr::Lit(Value::str("ann")));
            let key = format!("slot{at}");
            table.upsert(key.as_bytes(), &ad, 0.0).expect("a good ad");
        }
        let mut live = table.live().clone();
        live.set(0, false);
        let memory = Name::from("memory");
        let mut view = table.view([&memory].into_iter(), live);
        let cell = view.value_cell(&Expr::Lit(Value::str("bob")));
        view.put_values(&Name::from("RemoteUser"), [(2, cell)].into_iter());
        assert_eq!(view.rows().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(view.key(2), b"slot2");
        let text = |row| classad::print::unparse(&Expr::Ad(view.ad(row).into()));
        assert_eq!(String::from_utf8_lossy(&text(1)), "[ Memory = 1 ]");
        assert!(String::from_utf8_lossy(&text(2)).contains("RemoteUser = \"bob\""));
    }
}
