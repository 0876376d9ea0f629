//! Slot ads as a cycle sees them.
//!
//! A slot may say that other Requirements hold for the negotiator, the
//! configuration adds attributes to every slot (`NEGOTIATOR_MATCH_EXPRS`), counts
//! of matches begin anew, and a
//! slot in use gets what is known of its user. Where conditions look at any of
//! that, they are asked of a copy of the table that has it.
//!
//! What bounds it: copying the columns whenever an ad or a value has changed.

use crate::config::CycleConfig;
use crate::dependencies::{Dependencies, OverlayParts};
use crate::ledger::{Accounts, Ledger};
use crate::own_values::own_text;
use crate::slot::USERS;
use classad::{Expr, Name, Value};
use columns::{AdTable, ColumnId, Row};
use fairshare::GroupTree;
use rustc_hash::FxHashMap;

/// A copy of the slot table with what was put in, kept until something of it changes.
#[derive(Default)]
pub struct SlotOverlay {
    made: Option<(Stamp, AdTable)>,
}

/// Everything a copy was made from.
#[derive(PartialEq)]
struct Stamp {
    epoch: u64,
    version: u64,
    now: i64,
    wanted: OverlayParts,
    given: Vec<(String, Expr)>,
    users: Vec<Known>,
}

/// One user of slots, with what is known of it and the slots it has.
#[derive(PartialEq)]
struct Known {
    values: Vec<(&'static str, Expr)>,
    rows: Vec<Row>,
}

impl SlotOverlay {
    /// The table that conditions are asked of; none when it is that of the ads themselves.
    pub fn refresh(
        &mut self,
        slots: &AdTable,
        dependencies: &Dependencies,
        config: &CycleConfig,
        accounts: &Accounts,
        now: i64,
    ) -> Option<&AdTable> {
        let wanted = dependencies.overlay;
        if !wanted.anything() {
            self.made = None;
            return None;
        }
        let users = match wanted.users {
            true => known_users(slots, config, accounts, now),
            false => Vec::new(),
        };
        let given = match wanted.given {
            true => config.selection.given_to_slots.clone(),
            false => Vec::new(),
        };
        let stamp = Stamp {
            epoch: slots.epoch(),
            version: slots.version(),
            now: if wanted.users { now } else { 0 },
            wanted,
            given,
            users,
        };
        if self.made.as_ref().is_none_or(|(old, _)| *old != stamp) {
            let table = overlaid(slots, &stamp);
            self.made = Some((stamp, table));
        }
        self.made.as_ref().map(|(_, table)| table)
    }
}

fn overlaid(slots: &AdTable, stamp: &Stamp) -> AdTable {
    let mut table = slots.copy();
    if stamp.wanted.requirements
        && let Some(column) = slots.column_named("NegotiatorRequirements")
    {
        let cells = slots.rows().map(|row| (row, slots.cell(row, column)));
        let own = cells.filter(|(_, cell)| !cell.is_missing());
        table.put_values(&Name::from("Requirements"), own);
    }
    for (name, expr) in &stamp.given {
        let cell = table.value_cell(expr);
        let rows = slots.rows().map(|row| (row, cell));
        table.put_values(&Name::from(name.as_str()), rows);
    }
    for user in &stamp.users {
        for (name, value) in &user.values {
            let cell = table.value_cell(value);
            let rows = user.rows.iter().map(|row| (*row, cell));
            table.put_values(&Name::from(*name), rows);
        }
    }
    table
}

fn known_users(slots: &AdTable, config: &CycleConfig, accounts: &Accounts, now: i64) -> Vec<Known> {
    let (groups, _) = GroupTree::build(config.share.groups.clone());
    let ledger = Ledger::open(accounts, &groups, &config.share, now);
    let mut held: Vec<(String, Vec<Row>)> = rows_by_user(slots, now).into_iter().collect();
    held.sort_unstable();
    held.into_iter()
        .map(|(user, rows)| {
            let floor = ledger
                .find(&user)
                .map_or(0, |account| ledger.get(account).record.floor);
            let mut values = vec![
                (
                    "RemoteUserPrio",
                    Expr::Lit(Value::Real(ledger.priority_of(&user))),
                ),
                ("RemoteUserFloor", Expr::Lit(Value::Int(floor))),
            ];
            if groups.is_active() {
                let group = &groups[groups.group_of(&user)].setting.name;
                values.push(("RemoteGroup", Expr::Lit(Value::str(group.as_str()))));
            }
            Known { values, rows }
        })
        .collect()
}

/// Slots in use, by user.
fn rows_by_user(slots: &AdTable, now: i64) -> FxHashMap<String, Vec<Row>> {
    let columns: Vec<(&str, ColumnId)> = USERS
        .iter()
        .filter_map(|name| Some((*name, slots.column_named(name)?)))
        .collect();
    let mut by_text: FxHashMap<u32, Vec<Row>> = FxHashMap::default();
    let mut out: FxHashMap<String, Vec<Row>> = FxHashMap::default();
    for row in slots.rows() {
        for (name, column) in &columns {
            let cell = slots.cell(row, *column);
            if let Some(id) = cell.str_id() {
                by_text.entry(id).or_default().push(row);
                break;
            }
            if cell.expr_id().is_some()
                && let Some(user) = own_text(&slots.ad(row), name, now)
            {
                out.entry(user).or_default().push(row);
                break;
            }
        }
    }
    for (id, rows) in by_text {
        let user = String::from_utf8_lossy(slots.strings().get(id)).into_owned();
        out.entry(user).or_default().extend(rows);
    }
    out
}
