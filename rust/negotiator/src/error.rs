//! What is wrong with the input of a cycle.

use thiserror::Error;

/// Input that no cycle can be run on.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum CycleError {
    /// A knob whose value cannot be used.
    #[error("{knob} = {value}: {problem}")]
    BadKnob {
        /// Knob name.
        knob: String,
        /// Its value as given.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A knob that cannot be read: its macros go round in circles, or it is not of its type.
    #[error("{problem}")]
    UnreadableKnob {
        /// Knob name.
        knob: String,
        /// What is wrong with it, with its name.
        problem: String,
    },
    /// A request or submitter that lacks what it needs.
    #[error("{what} {name}: {problem}")]
    BadInput {
        /// `job`, `request`, `submitter`.
        what: &'static str,
        /// Which one.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}
