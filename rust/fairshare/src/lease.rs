//! Ceilings, floors and factors set by an administrator, optionally for a time.

use thiserror::Error;

/// Why a change of a submitter's policy is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// A lease on the same item is still running.
    #[error("a leased value is in force until {until}; cancel the lease first")]
    LeaseRunning {
        /// Epoch second at which the running lease ends.
        until: i64,
    },
    /// The duration is zero or negative.
    #[error("duration must be greater than 0 seconds")]
    BadDuration,
    /// The value lies outside its range.
    #[error("{item} must be at least {least}")]
    OutOfRange {
        /// What was being set.
        item: &'static str,
        /// The smallest value allowed.
        least: i64,
    },
}

/// A value that may be in force for a limited time only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leased<T> {
    /// The value in force.
    pub value: T,
    /// The value to return to, and when, while a lease runs.
    pub restore: Option<(T, i64)>,
}

impl<T: Copy> Leased<T> {
    /// A value in force until changed.
    pub fn new(value: T) -> Self {
        Self {
            value,
            restore: None,
        }
    }

    /// Sets `value`, for `duration_s` seconds when given.
    ///
    /// # Errors
    /// [`PolicyError::BadDuration`] and, for a lease on top of a running one,
    /// [`PolicyError::LeaseRunning`].
    pub fn set(&mut self, value: T, now: i64, duration_s: Option<i64>) -> Result<(), PolicyError> {
        self.expire(now);
        match duration_s {
            None => *self = Self::new(value),
            Some(duration) if duration <= 0 => return Err(PolicyError::BadDuration),
            Some(duration) => {
                if let Some((_, until)) = self.restore {
                    return Err(PolicyError::LeaseRunning { until });
                }
                self.restore = Some((self.value, now + duration));
                self.value = value;
            }
        }
        Ok(())
    }

    /// Ends a running lease now; does nothing when none runs.
    pub fn cancel(&mut self) {
        if let Some((saved, _)) = self.restore.take() {
            self.value = saved;
        }
    }

    /// Restores the saved value when the lease is over at `now`.
    pub fn expire(&mut self, now: i64) {
        if self.restore.is_some_and(|(_, until)| now >= until) {
            self.cancel();
        }
    }
}

/// Checks a ceiling: -1 (unlimited) or more.
///
/// # Errors
/// [`PolicyError::OutOfRange`].
pub fn check_ceiling(value: i64) -> Result<i64, PolicyError> {
    check(value, "ceiling", -1)
}

/// Checks a floor: 0 or more.
///
/// # Errors
/// [`PolicyError::OutOfRange`].
pub fn check_floor(value: i64) -> Result<i64, PolicyError> {
    check(value, "floor", 0)
}

/// Checks a factor: 1 or more.
///
/// # Errors
/// [`PolicyError::OutOfRange`].
pub fn check_factor(value: f64) -> Result<f64, PolicyError> {
    if value >= 1.0 {
        Ok(value)
    } else {
        Err(PolicyError::OutOfRange {
            item: "factor",
            least: 1,
        })
    }
}

fn check(value: i64, item: &'static str, least: i64) -> Result<i64, PolicyError> {
    if value >= least {
        Ok(value)
    } else {
        Err(PolicyError::OutOfRange { item, least })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_restores_the_saved_value() {
        let mut ceiling = Leased::new(-1);
        ceiling.set(10, 100, Some(50)).unwrap();
        ceiling.expire(149);
        assert_eq!(ceiling.value, 10);
        ceiling.expire(150);
        assert_eq!(ceiling, Leased::new(-1));
    }

    #[test]
    fn a_second_lease_is_refused_until_the_first_ends() {
        let mut floor = Leased::new(0);
        floor.set(5, 0, Some(10)).unwrap();
        assert_eq!(
            floor.set(6, 5, Some(10)),
            Err(PolicyError::LeaseRunning { until: 10 })
        );
        floor.set(6, 10, Some(10)).unwrap();
        floor.cancel();
        assert_eq!(floor.value, 0);
        assert_eq!(floor.set(1, 0, Some(0)), Err(PolicyError::BadDuration));
    }

    #[test]
    fn ranges_are_checked() {
        assert!(check_ceiling(-1).is_ok() && check_ceiling(-2).is_err());
        assert!(check_floor(0).is_ok() && check_floor(-1).is_err());
        assert!(check_factor(1.0).is_ok() && check_factor(0.9).is_err());
        assert!(check_factor(f64::NAN).is_err());
    }
}
