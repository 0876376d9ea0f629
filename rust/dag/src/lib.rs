//! DAGs of jobs: HTCondor's DAG language and the graph that its files describe.
//!
//! Pure: files are asked for through [`Files`], nothing else is read or written, and there is no clock.
//!
//! - [`lines`] and [`words`]: a file's logical lines, and the words of one.
//! - [`command`]: one command of the language, from its words.
//! - [`read`]: files, in HTCondor's two passes, into a [`Graph`]; every error on the way is kept, the first as HTCondor
//!   words it.
//! - [`graph`]: nodes and dependencies, in a few bytes each.
//! - [`run`]: what becomes of the nodes: events in, submissions and scripts out.
//! - [`files`]: how sources are asked for; [`limits`]: what a hostile one may cost.

pub mod command;
pub mod files;
pub mod graph;
pub mod limits;
pub mod lines;
pub mod names;
pub mod read;
pub mod run;
pub mod words;

pub use files::{Fault, Files};
pub use graph::{Graph, Kind, NodeId};
pub use read::{Options, Outcome, Problem, Severity, read, read_header, read_rescue};
