//! Synthetic pools for tests and benches: machine ads of 150 and more attributes in a few classes, with
//! START expressions that read the job, and job ads with Requirements as submit tools write them.
//!
//! Everything follows from the numbers given: the same pool every time.

pub mod jobs;
pub mod machines;

pub use jobs::{JobSpec, job_ad, job_text};
pub use machines::{MachineSpec, slot_ad, slot_name, slot_text};

/// A number that looks random, the same for the same inputs.
#[must_use]
pub fn mix(seed: u64, index: u64) -> u64 {
    let mut x =
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for _ in 0..2 {
        x ^= x >> 29;
        x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    x ^ (x >> 32)
}

/// Parses `Name = expression` lines; panics on a line that does not parse, as the texts are ours.
#[must_use]
pub fn parse_long(text: &str) -> classad::Ad {
    let mut ad = classad::Ad::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, expr) = line
            .split_once(" = ")
            .unwrap_or_else(|| panic!("no attribute: {line}"));
        let expr = classad::parse_expr(expr.as_bytes(), classad::Syntax::OLD)
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        ad.insert(classad::Name::from(name), expr);
    }
    ad
}
