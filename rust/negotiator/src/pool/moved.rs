//! Slots that leave their class while a cycle runs: kept for somebody, or taken and put back.

use super::{Place, Pool};
use crate::reservation::ReservedFor;
use crate::slot::SlotClass;
use classad::{Expr, Value};
use columns::Row;
use std::collections::BinaryHeap;
use std::sync::Arc;

impl Pool<'_> {
    /// Takes a slot out of its class and gives it one of its own that is reserved.
    pub fn isolate(&mut self, row: Row, reserved: ReservedFor) {
        let Some(class) = self.class_now(row) else {
            return;
        };
        self.put_user(class);
        let mut facts = self.facts_of(class, row);
        facts.reserved = Some(reserved);
        let number = self.add_class(facts);
        let place = self.place(row);
        if self.untaken.get(row as usize) {
            self.untake(row);
        } else if let Some(heap) = self.extra.get_mut(class) {
            heap.retain(|known| known.row != row);
        }
        if self.left[class] > 0 {
            self.left[class] -= 1;
            self.remaining -= 1;
            self.put(number, place);
        }
    }

    /// The class a row stands in now, if it is left.
    fn class_now(&self, row: Row) -> Option<usize> {
        if self.untaken.get(row as usize) {
            return self.index.class_of(row);
        }
        self.extra
            .iter()
            .position(|heap| heap.iter().any(|place| place.row == row))
    }

    /// Puts a slot into a class.
    pub(super) fn put(&mut self, class: u32, place: Place) {
        let at = class as usize;
        if self.extra.len() <= at {
            self.extra.resize_with(at + 1, BinaryHeap::new);
        }
        self.extra[at].push(place);
        self.left[at] += 1;
        self.remaining += 1;
    }

    /// Puts a slot that was taken back, behind its equals; it knows how often it was matched.
    ///
    /// It has a class of its own from now on, so that it is looked at by itself.
    pub fn put_last(&mut self, class: usize, row: Row, turns: u32, matches: i64) {
        let mut facts = self.facts_of(class, row);
        facts.ad.set("CurMatches", Expr::Lit(Value::Int(matches)));
        let number = self.add_class(facts);
        let place = Place {
            turns,
            ..self.place(row)
        };
        self.put(number, place);
    }

    /// What is known of one slot of a class.
    ///
    /// The facts of a class have the ad of one of its slots: its slots may differ in what only the column engine looks at.
    fn facts_of(&self, class: usize, row: Row) -> SlotClass {
        let mut facts = SlotClass::clone(&self.classes[class]);
        if class >= self.base_classes() {
            return facts;
        }
        let of_class = self.representative(class).map(|first| self.table.ad(first));
        let mut ad = self.table.ad(row);
        for (name, expr) in &facts.ad {
            let unchanged = of_class
                .as_ref()
                .is_some_and(|of| of.get(name) == Some(expr));
            if !unchanged {
                ad.insert(name.clone(), expr.clone());
            }
        }
        facts.ad = ad;
        facts
    }

    fn add_class(&mut self, facts: SlotClass) -> u32 {
        let number = self.classes.len() as u32;
        self.classes.push(Arc::new(facts));
        self.base_of.push(number);
        self.left.push(0);
        number
    }
}
