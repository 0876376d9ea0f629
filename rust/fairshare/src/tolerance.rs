//! Comparing weights that came out of divisions.
//!
//! A slice is a quotient, so a limit that should be a whole number arrives a
//! few units in the last place off. Every comparison of a weight with a limit
//! goes through here, so that noise never decides who gets a slot.

/// Relative size of the noise that is ignored.
const RELATIVE: f64 = 1e-9;

/// The least amount that is not noise.
pub const LEAST: f64 = 2.0 * RELATIVE;

fn slack(left: f64, right: f64) -> f64 {
    let size = left.abs().max(right.abs());
    if size.is_finite() {
        RELATIVE * size.max(1.0)
    } else {
        0.0
    }
}

/// Whether `amount` is at most `limit`, ignoring rounding noise.
#[must_use]
pub fn at_most(amount: f64, limit: f64) -> bool {
    amount <= limit + slack(amount, limit)
}

/// Whether `amount` has reached `limit`, ignoring rounding noise.
#[must_use]
pub fn reached(amount: f64, limit: f64) -> bool {
    amount + slack(amount, limit) >= limit
}

/// Whether `amount` is below `limit` by more than rounding noise.
#[must_use]
pub fn below(amount: f64, limit: f64) -> bool {
    !reached(amount, limit)
}

/// Whole part of a weight, where 17.999999999 counts as 18.
#[must_use]
pub fn whole_part(amount: f64) -> f64 {
    let rounded = amount.round();
    if (amount - rounded).abs() <= slack(amount, rounded) {
        rounded
    } else {
        amount.floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_does_not_decide() {
        let limit = 0.1 + 0.2;
        assert!(at_most(0.3, limit) && at_most(limit, 0.3));
        assert!(reached(0.3, limit) && reached(limit, 0.3));
        assert!(!below(29.999_999_999_9, 30.0));
        assert!(below(29.99, 30.0));
        assert!(!at_most(30.001, 30.0));
    }

    #[test]
    fn infinite_limits_are_never_reached() {
        assert!(at_most(1e300, f64::INFINITY));
        assert!(!reached(1e300, f64::INFINITY));
    }

    #[test]
    fn whole_part_forgives_noise() {
        assert_eq!(whole_part(17.999_999_999_99), 18.0);
        assert_eq!(whole_part(17.9), 17.0);
        assert_eq!(whole_part(f64::INFINITY), f64::INFINITY);
    }
}
