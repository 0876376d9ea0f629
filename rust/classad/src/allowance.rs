//! How much work evaluations may do. A daemon evaluates what users wrote; none of them may hold it.
//!
//! Work is counted in steps (nodes visited, and what functions do beyond that), so that limits mean the same on every
//! machine. Two limits hold: one of every evaluation of the process, and one of all evaluations of a thread between
//! [`begin`] and [`end`]. An evaluation that reaches one of them is cut short, and counts as error.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// How many nodes one evaluation may visit unless less was said, as in HTCondor.
pub(crate) const MAX_STEPS: i64 = 10_000_000;

static EACH: AtomicI64 = AtomicI64::new(MAX_STEPS);

/// What evaluations of this thread may do, and did.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Steps that are left.
    pub left: i64,
    /// Steps that were done.
    pub used: i64,
    /// Evaluations that were cut short for lack of steps.
    pub broken: u64,
}

const UNLIMITED: Account = Account {
    left: i64::MAX,
    used: 0,
    broken: 0,
};

thread_local! {
    static ACCOUNT: Cell<Account> = const { Cell::new(UNLIMITED) };
}

/// No evaluation of this process does more than so many steps from now on.
pub fn limit_each(steps: i64) {
    EACH.store(steps.clamp(1, MAX_STEPS), Ordering::Relaxed);
}

/// From now on evaluations of this thread share so many steps. Returns what [`end`] needs.
#[must_use]
pub fn begin(steps: i64) -> Account {
    ACCOUNT.with(|account| {
        let former = account.get();
        account.set(Account {
            left: steps.min(former.left),
            ..UNLIMITED
        });
        former
    })
}

/// Ends what began; what was done since then is taken from what was left before. Returns what was done.
pub fn end(former: Account) -> Account {
    ACCOUNT.with(|account| {
        let ended = account.get();
        account.set(Account {
            left: former.left.saturating_sub(ended.used),
            used: former.used.saturating_add(ended.used),
            broken: former.broken + ended.broken,
        });
        ended
    })
}

/// Counts work of this thread beyond evaluations.
pub fn charge(steps: i64) {
    ACCOUNT.with(|account| {
        let mut now = account.get();
        now.used = now.used.saturating_add(steps);
        now.left = now.left.saturating_sub(steps);
        account.set(now);
    });
}

/// Whether nothing is left: what this thread evaluates breaks off, and what it has evaluated may have.
#[must_use]
pub fn exhausted() -> bool {
    ACCOUNT.with(|account| account.get().left <= 0)
}

/// Steps for the next evaluation.
pub(crate) fn grant() -> i64 {
    let left = ACCOUNT.with(|account| account.get().left);
    EACH.load(Ordering::Relaxed).min(left.max(0))
}

/// An evaluation is over that was granted so much and has so much left, less than nothing if it was cut short.
pub(crate) fn settle(granted: i64, left: i64) {
    ACCOUNT.with(|account| {
        let mut now = account.get();
        let used = granted - left.max(0);
        now.used = now.used.saturating_add(used);
        now.left = now.left.saturating_sub(used);
        now.broken += u64::from(left < 0);
        account.set(now);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Evaluator, Syntax, parse_expr};

    fn evaluate(text: &str) -> bool {
        let expr = parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap();
        Evaluator::new(Context::default()).eval(&expr).is_ok()
    }

    #[test]
    fn evaluations_share_what_there_is() {
        let former = begin(30);
        assert!(evaluate("1 + 2 + 3"));
        assert!(evaluate("1 + 2 + 3"));
        let mut whole = 2;
        while evaluate("1 + 2 + 3") {
            whole += 1;
        }
        assert!(!evaluate("1"));
        let ended = end(former);
        assert_eq!((ended.used, ended.left, ended.broken), (30, 0, 2));
        assert!(whole >= 4);
        assert!(evaluate("1 + 2 + 3"));
    }

    #[test]
    fn other_work_counts() {
        let former = begin(30);
        charge(29);
        assert!(!exhausted());
        charge(1);
        assert!(exhausted() && !evaluate("1"));
        assert_eq!(end(former).used, 30);
        assert!(!exhausted());
    }

    #[test]
    fn an_inner_account_counts_for_the_outer() {
        let outer = begin(100);
        let inner = begin(1000);
        while evaluate("1 + 2 + 3 + 4") {}
        assert_eq!(end(inner).used, 100);
        assert!(!evaluate("1"));
        assert_eq!(end(outer).left, 0);
    }
}
