//! What slots see of users: of their own (`RemoteUserPrio` and the like), and of those of their neighbours.

use crate::accounting::Accounting;
use crate::cross_slots;
use crate::cycle_attributes::REMOTE_NAMES;
use crate::evaluate::insert_remote;
use crate::inputs::Inputs;
use crate::pool::{Pool, SlotKind};
use crate::slot::SlotClass;
use classad::{Ad, Name};

/// Inserts what is known of users into the slots they use, where an expression reads it.
pub(crate) fn insert(inputs: &Inputs<'_>, accounting: &Accounting, pool: &mut Pool<'_>) {
    let dependencies = inputs.dependencies;
    if !inputs.config.preemption.consider {
        return;
    }
    insert_neighbours(inputs, accounting, pool);
    let read = |name: &str| {
        let policy = dependencies.policy.as_ref();
        policy.is_some_and(|names| names.contains(&Name::from(name)))
    };
    if !dependencies.mentions(&REMOTE_NAMES) && !REMOTE_NAMES.iter().any(|name| read(name)) {
        return;
    }
    let known = |user: String| {
        let mut ad = Ad::new();
        insert_remote(&mut ad, &user, &accounting.ledger, &accounting.groups);
        (user, ad)
    };
    let users = pool.users().into_iter().map(known).collect();
    pool.know_users(users);
    for class in 0..pool.base_classes() {
        let by_class = pool.summaries()[class].kind != SlotKind::Preemptable
            && pool.classes()[class].user.is_some();
        if by_class && pool.left(class) > 0 {
            pool.put_user(class);
        }
    }
    if dependencies.policy.is_none() {
        pool.put_users();
    }
}

/// Inserts what is known of the users of a slot's neighbours, where an expression reads it.
fn insert_neighbours(inputs: &Inputs<'_>, accounting: &Accounting, pool: &mut Pool<'_>) {
    let numbers = &inputs.dependencies.cross_slots;
    if numbers.is_empty() {
        return;
    }
    for class in 0..pool.base_classes() {
        let mut facts = SlotClass::clone(&pool.classes()[class]);
        let (ledger, groups) = (&accounting.ledger, &accounting.groups);
        if cross_slots::insert(&mut facts.ad, numbers, ledger, groups, inputs.now) {
            pool.replace_class(class, facts);
        }
    }
}
