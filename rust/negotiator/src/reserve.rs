//! Machines kept for large requests, and who may run there meanwhile.

use crate::outcome::Reservation;

/// Reservations of a cycle.
#[derive(Debug, Default)]
pub struct Reservations {
    kept: Vec<Reservation>,
}

impl Reservations {
    /// All that were made.
    #[must_use]
    pub fn kept(&self) -> Vec<Reservation> {
        self.kept.clone()
    }
}
